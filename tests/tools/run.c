// run.c: see run.h.
#include "tools/run.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/base/clock.h"

static void
s_write(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    cr_assert(file);
    fputs(text, file);
    fclose(file);
}

static char *
s_read(const char *path)
{
    char *text = calloc(1, 1);
    size_t size = 0, got;
    char buffer[65536];
    FILE *file = fopen(path, "re");
    while (file && (got = fread(buffer, 1, sizeof buffer, file)) > 0) {
        text = realloc(text, size + got + 1);
        memcpy(text + size, buffer, got);
        size += got;
        text[size] = 0;
    }
    if (file)
        fclose(file);
    return text;
}

static void
s_shell(run_t *run, const char *command)
{
    run->seconds = (double) verl_now() / 1e9;
    run->pid = fork();
    if (run->pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);   // a test that fails leaves no run behind
        putenv(run->mark);
        int nothing = open("/dev/null", O_RDONLY);
        dup2(nothing, 0);
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(127);
    }
}

void
run_start(run_t *run, const char *topology, const char *arguments)
{
    run_start_after(run, "", topology, arguments);
}

void
run_start_after(run_t *run, const char *setup, const char *topology, const char *arguments)
{
    char command[8000];
    *run = (run_t) { .folder = "/tmp/verl-test-XXXXXX" };
    cr_assert(mkdtemp(run->folder));
    snprintf(run->mark, sizeof run->mark, "VERL_TEST_MARK=%s", run->folder);
    s_write(run->folder, "topology.toml", topology);
    int length = snprintf(command, sizeof command,
                          "cd %s || exit 99\n%s\nexec %s/bin/verl-run --quiet --run-dir %s/run %s %s/topology.toml "
                          ">%s/said 2>&1", run->folder, setup, VERL_BINARY_DIR, run->folder, arguments, run->folder,
                          run->folder);
    cr_assert(length < (int) sizeof command, "the command is too long");
    s_shell(run, command);
}

void
run_resume(run_t *run)
{
    char command[400];
    free(run->said);
    run->said = NULL;
    snprintf(command, sizeof command, "cd %s && exec %s/bin/verl-run --quiet --resume run >said 2>&1", run->folder,
             VERL_BINARY_DIR);
    s_shell(run, command);
}

void
run_wait(run_t *run, double seconds)
{
    char path[128];
    int status = 0;
    int64_t limit = verl_now() + (int64_t) (seconds * SLOWER * 1e9);
    pid_t ended;
    while ((ended = waitpid(run->pid, &status, WNOHANG)) == 0 && verl_now() < limit)
        usleep(2000);
    run->seconds = (double) verl_now() / 1e9 - run->seconds;
    snprintf(path, sizeof path, "%s/said", run->folder);
    run->said = s_read(path);
    if (ended == 0) {
        kill(run->pid, SIGKILL);
        waitpid(run->pid, &status, 0);
        cr_assert_fail("the run did not end within %.0f s; it said: %s", seconds * SLOWER, run->said);
    }
    run->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void
run_whole(run_t *run, const char *topology, const char *arguments)
{
    run_start(run, topology, arguments);
    run_wait(run, 60);
}

char *
run_file(const run_t *run, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/run/%s", run->folder, name);
    return s_read(path);
}

int
run_lines(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

void
run_until_steps(const run_t *run, int steps)
{
    int64_t limit = verl_now() + 30 * SLOWER * VERL_S;
    for (int have = 0; have < steps;) {
        char *metrics = run_file(run, "metrics.jsonl");
        have = run_lines(metrics);
        free(metrics);
        cr_assert(verl_now() < limit, "the run does not come to step %d", steps);
        usleep(2000);
    }
}

static bool
s_carries(const char *pid, const char *mark)
{
    char path[300], buffer[65536];
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    FILE *file = fopen(path, "re");
    size_t got = file ? fread(buffer, 1, sizeof buffer, file) : 0;
    if (file)
        fclose(file);
    return got && memmem(buffer, got, mark, strlen(mark));
}

int
run_processes(const run_t *run, pid_t *ret, int room)
{
    int count = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; (entry = readdir(proc));) {
        pid_t pid = atoi(entry->d_name);
        if (pid > 0 && pid != run->pid && pid != getpid() && s_carries(entry->d_name, run->mark)) {
            if (count < room)
                ret[count] = pid;
            count++;
        }
    }
    closedir(proc);
    return count;
}

bool
run_said(const run_t *run, const char *words)
{
    return strstr(run->said, words) != NULL;
}

static int
s_remove(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void) info;
    (void) type;
    (void) walk;
    return remove(path);
}

void
run_done(run_t *run)
{
    int64_t limit = verl_now() + 3 * SLOWER * VERL_S;
    int left;
    while ((left = run_processes(run, NULL, 0)) > 0 && verl_now() < limit)
        usleep(5000);
    cr_assert_eq(left, 0, "%d processes are left", left);
    nftw(run->folder, s_remove, 16, FTW_DEPTH | FTW_PHYS);
    free(run->said);
    run->said = NULL;
}

char *
run_timeless_metrics(const run_t *run)
{
    char *text = run_file(run, "metrics.jsonl"), *result = calloc(1, strlen(text) + 2);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *object = json_loads(line, 0, NULL);
        cr_assert(object, "a line of metrics.jsonl is no JSON: %s", line);
        void *next;
        const char *key;
        json_t *value;
        json_object_foreach_safe(object, next, key, value)
            if (strncmp(key, "timing", 6) == 0 || strncmp(key, "perf", 4) == 0)
                json_object_del(object, key);
        char *kept = json_dumps(object, JSON_COMPACT);
        strcat(strcat(result, kept), "\n");
        free(kept);
        json_decref(object);
    }
    free(text);
    return result;
}
