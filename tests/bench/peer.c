// peer.c: see peer.h.
#include "tests/bench/peer.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/bench/bench.h"

#define READY_SECONDS  60
#define ANSWER_SECONDS 120
#define WORDS_MOST     24

// In the child: a library that chooses its code by the processor is left to do so.
static void
s_exec(const char *python, const char *script, const char *const *words, int in, int out)
{
    char path[4096];
    const char *line[WORDS_MOST + 3] = { python, path };
    int count = 2;
    snprintf(path, sizeof path, "%s/tests/bench/%s", VERL_SOURCE_DIR, script);
    for (; *words && count < WORDS_MOST + 2; words++)
        line[count++] = *words;
    unsetenv("OPENBLAS_CORETYPE");
    unsetenv("OPENBLAS_L2_SIZE");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(in, 0) == 0 && dup2(out, 1) == 1)
        execvp(python, (char **) (uintptr_t) line);
    _exit(127);
}

static int
s_read_line(const verl_bench_peer_t *self, double seconds, char *line, size_t size)
{
    double until = verl_bench_now() + seconds;
    for (size_t length = 0; length + 1 < size; length++) {
        struct pollfd poller = { .fd = self->out, .events = POLLIN };
        double left = until - verl_bench_now();
        if (left <= 0 || poll(&poller, 1, (int) (left * 1000)) != 1 || read(self->out, line + length, 1) != 1)
            return -1;
        line[length + 1] = 0;
        if (line[length] == '\n')
            return 0;
    }
    return -1;
}

static bool
s_start(verl_bench_peer_t *self, const char *python, const char *script, const char *const *words)
{
    int in[2], out[2];
    char line[64] = "";
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in))
        return false;
    if (pipe2(out, O_CLOEXEC)) {
        close(in[0]);
        close(in[1]);
        return false;
    }
    int pid = fork();
    if (pid == 0)
        s_exec(python, script, words, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    *self = (verl_bench_peer_t) { .pid = pid > 0 ? pid : 0, .in = in[1], .out = out[0] };
    if (pid > 0 && s_read_line(self, READY_SECONDS, line, sizeof line) == 0 && strcmp(line, "ready\n") == 0)
        return true;
    verl_bench_peer_end(self);
    return false;
}

bool
verl_bench_peer_start(verl_bench_peer_t *self, const char *script, const char *const *words, const char *left_out)
{
    static const char *const pythons[] = { "python3", "/usr/bin/python3" };
    *self = (verl_bench_peer_t) { 0 };
    for (size_t i = 0; i < sizeof pythons / sizeof pythons[0]; i++)
        if (s_start(self, pythons[i], script, words))
            return true;
    fprintf(stderr, "verl-bench: %s is left out: no python3 here has what tests/bench/%s imports\n", left_out, script);
    return false;
}

int
verl_bench_peer_ask(verl_bench_peer_t *self, const char *what, double *ret_value, verl_error_t *error)
{
    char line[64] = "", *end = line;
    size_t length = (size_t) snprintf(line, sizeof line, "%s\n", what);
    if (send(self->in, line, length, MSG_NOSIGNAL) != (ssize_t) length ||
        s_read_line(self, ANSWER_SECONDS, line, sizeof line))
        return verl_error_set(error, "the process that measures the reference gave no answer to `%s`", what);
    *ret_value = strtod(line, &end);
    if (end == line || *end != '\n')
        return verl_error_set(error, "the process that measures the reference answered `%s` with no number", what);
    return 0;
}

void
verl_bench_peer_end(verl_bench_peer_t *self)
{
    if (self->pid > 0) {
        kill(self->pid, SIGKILL);
        waitpid(self->pid, NULL, 0);
    }
    if (self->pid > 0 || self->in > 0) {
        close(self->in);
        close(self->out);
    }
    *self = (verl_bench_peer_t) { 0 };
}
