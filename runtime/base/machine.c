// machine.c: see machine.h.
#include "runtime/base/machine.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

static int64_t
s_read(const char *mounts, const char *group, const char *file)
{
    char path[4352];
    int64_t bytes = INT64_MAX;
    snprintf(path, sizeof path, "%s%s/%s", mounts, group, file);
    FILE *in = fopen(path, "re");
    if (in && (fscanf(in, "%" SCNd64, &bytes) != 1 || bytes <= 0))
        bytes = INT64_MAX;                  // "max"
    if (in)
        fclose(in);
    return bytes;
}

// A group's limit and those of all that it is in. Where a container sees itself as the root, the path leads nowhere and
// its last end is the right one. group is used up.
static int64_t
s_lowest(const char *mounts, char *group, const char *file)
{
    int64_t lowest = INT64_MAX;
    for (char *slash = group; slash;) {
        int64_t bytes = s_read(mounts, group, file);
        lowest = bytes < lowest ? bytes : lowest;
        slash = strrchr(group, '/');
        if (slash)
            *slash = 0;
    }
    return lowest;
}

int64_t
verl_machine_group_limit(const char *list, const char *mounts)
{
    char line[4096], folder[4096];
    int64_t lowest = INT64_MAX;
    FILE *in = fopen(list, "re");
    while (in && fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = 0;
        char *systems = strchr(line, ':'), *group = systems ? strchr(systems + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        bool old = strcmp(systems, ":memory") == 0;
        if (!old && systems[1])
            continue;
        snprintf(folder, sizeof folder, "%.4000s%s", mounts, old ? "/memory" : "");
        int64_t bytes = s_lowest(folder, group, old ? "memory.limit_in_bytes" : "memory.max");
        lowest = bytes < lowest ? bytes : lowest;
    }
    if (in)
        fclose(in);
    return lowest;
}

static int64_t
s_memory(bool swap)
{
    struct sysinfo info;
    int64_t bytes = verl_machine_group_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    if (sysinfo(&info))
        return bytes;
    int64_t ram = (int64_t) info.totalram * (int64_t) info.mem_unit;
    int64_t more = swap ? (int64_t) info.totalswap * (int64_t) info.mem_unit : 0;
    bytes = bytes < ram ? bytes : ram;
    return bytes + more;
}

int64_t
verl_machine_memory(void)
{
    return s_memory(false);
}

int64_t
verl_machine_memory_swap(void)
{
    return s_memory(true);
}
