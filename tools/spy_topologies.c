// spy_topologies.c: see spy_topologies.h.
#include "tools/spy_topologies.h"
#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOST (64 << 20)                     // bytes of a topology file that is kept
#define MARK "# revision "

int64_t
verl_spy_topology_revision(const char *text)
{
    char *end;
    if (strncmp(text, MARK, strlen(MARK)) != 0)
        return 1;
    long long revision = strtoll(text + strlen(MARK), &end, 10);
    return *end == '\n' && revision > 0 ? revision : 1;
}

// The revision of a file of the run directory: topology.toml is the first, topology-N.toml another. 0: it is neither.
static int64_t
s_revision(const char *name)
{
    long long revision = 0;
    int end = 0;
    if (strcmp(name, "topology.toml") == 0)
        return 1;
    bool named = sscanf(name, "topology-%lld.toml%n", &revision, &end) == 1 && end && !name[end];
    return named && revision > 1 ? revision : 0;
}

static int
s_write(verl_recording_t *recording, const char *directory, const char *name, verl_error_t *error)
{
    char path[4400], mark[64] = "";
    struct stat status;
    int64_t revision = s_revision(name);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    bool known = fstat(fileno(file), &status) == 0 && status.st_size > 0 && status.st_size <= MOST;
    size_t size = known ? (size_t) status.st_size : 0;
    size_t head = revision > 1 ? (size_t) snprintf(mark, sizeof mark, MARK "%" PRId64 "\n", revision) : 0;
    char *text = malloc(head + size + 1);
    int failed = 0;
    if (text && size) {
        memcpy(text, mark, head);
        if (fread(text + head, size, 1, file) == 1)
            failed = verl_recording_write(recording, VERL_RECORDING_TOPOLOGY, text, head + size, error);
    }
    free(text);
    fclose(file);
    return failed;
}

int
verl_spy_topologies_write(verl_recording_t *recording, const char *directory, int64_t *newest, verl_error_t *error)
{
    DIR *files = opendir(directory);
    int64_t after = *newest;
    int failed = 0;
    for (struct dirent *entry; files && !failed && (entry = readdir(files));) {
        int64_t revision = s_revision(entry->d_name);
        if (revision > after)
            failed = s_write(recording, directory, entry->d_name, error);
        if (revision > *newest)
            *newest = revision;
    }
    if (files)
        closedir(files);
    return failed;
}
