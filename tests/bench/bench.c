// bench.c: see bench.h.
#include "tests/bench/bench.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUN_SECONDS 300                     // a run that takes longer is ended

double
verl_bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static int
s_compare(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

double
verl_bench_median(double *values, int count)
{
    qsort(values, (size_t) count, sizeof *values, s_compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

// --- two processes ------------------------------------------------------------------------------------------------

// Runs one end in a child, which writes its result to a pipe. Returns its pid.
static int
s_fork_end(verl_bench_end_t end, const char *address, void *argument, int fd)
{
    int pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    double result = end(address, argument);
    _exit(write(fd, &result, sizeof result) == (ssize_t) sizeof result ? 0 : 1);
}

static int
s_read_result(int fd, double seconds, double *ret_result)
{
    struct pollfd poller = { .fd = fd, .events = POLLIN };
    return poll(&poller, 1, (int) (seconds * 1000)) == 1 &&
           read(fd, ret_result, sizeof *ret_result) == (ssize_t) sizeof *ret_result ? 0 : -1;
}

int
verl_bench_pair(verl_bench_end_t first, verl_bench_end_t second, void *argument, double seconds, double *ret_result,
                verl_error_t *error)
{
    static int number;
    char address[64];
    int pipes[2][2];
    if (pipe2(pipes[0], O_CLOEXEC))
        return verl_error_errno(error, "cannot make a pipe");
    if (pipe2(pipes[1], O_CLOEXEC)) {
        close(pipes[0][0]);
        close(pipes[0][1]);
        return verl_error_errno(error, "cannot make a pipe");
    }
    snprintf(address, sizeof address, "ipc://@verl-bench-%d-%d", getpid(), number++);
    int pids[2] = { s_fork_end(first, address, argument, pipes[0][1]),
                    s_fork_end(second, address, argument, pipes[1][1]) };
    double other;
    int failed = s_read_result(pipes[0][0], seconds, ret_result) || s_read_result(pipes[1][0], 10, &other);
    for (int i = 0; i < 2; i++) {
        if (failed && pids[i] > 0)
            kill(pids[i], SIGKILL);
        if (pids[i] > 0)
            waitpid(pids[i], NULL, 0);
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
    return failed ? verl_error_set(error, "an end of the link died or took over %.0f s", seconds) : 0;
}

// --- whole runs ---------------------------------------------------------------------------------------------------

static int
s_remove(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void) info;
    (void) type;
    (void) walk;
    return remove(path);
}

static int
s_write_topology(const char *folder, const char *topology, verl_error_t *error)
{
    char path[128];
    snprintf(path, sizeof path, "%s/topology.toml", folder);
    FILE *file = fopen(path, "we");
    if (!file)
        return verl_error_errno(error, "cannot write %s", path);
    fputs(topology, file);
    return fclose(file) ? verl_error_errno(error, "cannot write %s", path) : 0;
}

// In the child: what it says goes to files of its folder.
static void
s_exec(const verl_bench_child_t *child, const char *const *settings)
{
    char self[PATH_MAX], program[PATH_MAX + 16], paths[3][128];
    const char *words[64] = { program, "--json", "--run-dir", paths[0] };
    int count = 4;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = 0;
    snprintf(program, sizeof program, "%s/verl-run", dirname(self));
    snprintf(paths[0], sizeof paths[0], "%s/run", child->folder);
    snprintf(paths[1], sizeof paths[1], "%s/topology.toml", child->folder);
    snprintf(paths[2], sizeof paths[2], "%s/said", child->folder);
    for (; settings && *settings && count < 60; settings++) {
        words[count++] = "--set";
        words[count++] = *settings;
    }
    words[count] = paths[1];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (freopen(paths[2], "w", stdout) && dup2(1, 2) == 2)
        execv(program, (char **) (uintptr_t) words);
    _exit(127);
}

int
verl_bench_start(verl_bench_child_t *child, const char *topology, const char *const *settings, verl_error_t *error)
{
    *child = (verl_bench_child_t) { .folder = "/tmp/verl-bench-XXXXXX" };
    if (!mkdtemp(child->folder))
        return verl_error_errno(error, "cannot make a folder in /tmp");
    if (s_write_topology(child->folder, topology, error))
        return -1;
    child->pid = fork();
    if (child->pid == 0)
        s_exec(child, settings);
    return child->pid < 0 ? verl_error_errno(error, "cannot start a process") : 0;
}

// The last line that was said.
static json_t *
s_last_line(const verl_bench_child_t *child, verl_error_t *error)
{
    char path[128], *line = NULL, *last = NULL;
    size_t room = 0;
    snprintf(path, sizeof path, "%s/said", child->folder);
    FILE *file = fopen(path, "re");
    while (file && getline(&line, &room, file) > 0) {
        free(last);
        last = line;
        line = NULL;
        room = 0;
    }
    free(line);
    if (file)
        fclose(file);
    json_t *object = last ? json_loads(last, 0, NULL) : NULL;
    const char *outcome = object ? json_string_value(json_object_get(object, "outcome")) : NULL;
    if (!outcome || strcmp(outcome, "done") != 0) {
        verl_error_set(error, "verl-run failed: %s", last ? last : "it said nothing");
        json_decref(object);
        object = NULL;
    }
    free(last);
    return object;
}

json_t *
verl_bench_finish(verl_bench_child_t *child, verl_error_t *error)
{
    double until = verl_bench_now() + RUN_SECONDS;
    int status;
    while (waitpid(child->pid, &status, WNOHANG) == 0) {
        if (verl_bench_now() > until)
            kill(child->pid, SIGKILL);
        usleep(2000);
    }
    json_t *end = s_last_line(child, error);
    nftw(child->folder, s_remove, 16, FTW_DEPTH | FTW_PHYS);
    return end;
}

json_t *
verl_bench_topology(const char *topology, const char *const *settings, verl_error_t *error)
{
    verl_bench_child_t child;
    return verl_bench_start(&child, topology, settings, error) ? NULL : verl_bench_finish(&child, error);
}

double
verl_bench_stage(const json_t *end, const char *stage, const char *figure)
{
    const json_t *stages = json_object_get(end, "stages");
    for (size_t i = 0; i < json_array_size(stages); i++) {
        const json_t *item = json_array_get(stages, i);
        const char *name = json_string_value(json_object_get(item, "stage"));
        if (name && strcmp(name, stage) == 0 && json_is_number(json_object_get(item, figure)))
            return json_number_value(json_object_get(item, figure));
    }
    return (double) NAN;
}

static int
s_parent(int pid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    int parent = 0;
    if (file && fgets(line, sizeof line, file)) {
        const char *end = strrchr(line, ')');       // the name before may hold anything
        if (end)
            parent = (int) strtol(end + 4, NULL, 10);
    }
    if (file)
        fclose(file);
    return parent;
}

int
verl_bench_processes(const verl_bench_child_t *child, int *pids, int room)
{
    int count = 0;
    pids[count++] = child->pid;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && count < room && (entry = readdir(proc));) {
        int pid = (int) strtol(entry->d_name, NULL, 10);
        if (pid > 0 && s_parent(pid) == child->pid)
            pids[count++] = pid;
    }
    if (proc)
        closedir(proc);
    return count;
}
