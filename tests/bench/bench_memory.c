// 20,000 batches of 1 MiB through a consumer that is ten times slower than their maker: what the run holds, private and
// shared, stays where it was after the first thousand.
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/bench/bench.h"

#define FILES_MOST 256

static const char s_topology[] =
    "[run]\nname = \"memory\"\nsteps = 20000\n"
    "[stage.source]\nkind = \"synthetic\"\nbytes = 1048576\n"
    "[stage.sink]\nkind = \"synthetic\"\nbusy_ms = 2\nbytes = 8\n"
    "as = { payload = \"other\" }\ndepends_on = [\"source\"]\n";

// Private memory of a process, MiB.
static double
s_private_mib(int pid)
{
    char path[64], line[256];
    double kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "RssAnon:", 8) == 0)
            kib = strtod(line + 8, NULL);
    if (file)
        fclose(file);
    return kib / 1024;
}

// Shared memory that a process keeps open, MiB; files that were counted already are left out.
static double
s_shared_mib(int pid, ino_t *seen, int *seen_count)
{
    char path[300], name[64];
    double mib = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *files = opendir(path);
    for (struct dirent *entry; files && (entry = readdir(files));) {
        struct stat info;
        snprintf(path, sizeof path, "/proc/%d/fd/%.20s", pid, entry->d_name);
        ssize_t length = readlink(path, name, sizeof name - 1);
        if (length < 7 || strncmp(name, "/memfd:", 7) != 0 || stat(path, &info))
            continue;
        int i = 0;
        while (i < *seen_count && seen[i] != info.st_ino)
            i++;
        if (i < *seen_count || i == FILES_MOST)
            continue;
        seen[(*seen_count)++] = info.st_ino;
        mib += (double) info.st_blocks * 512 / 1048576;
    }
    if (files)
        closedir(files);
    return mib;
}

static double
s_held_mib(const verl_bench_child_t *child)
{
    int pids[16], count = verl_bench_processes(child, pids, 16), seen_count = 0;
    ino_t seen[FILES_MOST];
    double mib = 0;
    for (int i = 0; i < count; i++)
        mib += s_private_mib(pids[i]) + s_shared_mib(pids[i], seen, &seen_count);
    return mib;
}

static int
s_memory(verl_bench_run_t *run, verl_error_t *error)
{
    verl_bench_child_t child;
    double early = 0, late = 0;
    if (verl_bench_start(&child, s_topology, NULL, error))
        return -1;
    double began = verl_bench_now();
    siginfo_t info = { 0 };
    while (waitid(P_PID, (id_t) child.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0 &&
           verl_bench_now() - began < 250) {
        double held = s_held_mib(&child);
        if (verl_bench_now() - began < 4)   // at 2 ms a batch: the first thousand or two
            early = fmax(early, held);
        else
            late = fmax(late, held);
        usleep(100000);
    }
    json_t *end = verl_bench_finish(&child, error);
    if (!end)
        return -1;
    json_decref(end);
    verl_bench_report(run, "", late, "MiB at most", "the same run in its first 4 s", early);
    return 0;
}

VERL_BENCH(memory, "a slow consumer does not make a run grow", s_memory)
