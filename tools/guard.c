// guard.c: see guard.h. The program dies with its guard too (a kernel signal), so nothing is left whichever is killed:
// the node kills the group of a guard that ended.
#include "tools/guard.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define NODE_FD 3

static void
s_run(char *const *words, pid_t guard)
{
    char parent[24];
    sigset_t none;
    sigemptyset(&none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != guard)
        _exit(1);
    snprintf(parent, sizeof parent, "%d", (int) guard);
    setenv("VERL_PARENT", parent, 1);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(words[0], words);
    fprintf(stderr, "%s cannot be started: %s\n", words[0], strerror(errno));
    _exit(127);
}

// As the program ended. A second image of its memory would say nothing.
static void
s_end(int status)
{
    if (!WIFSIGNALED(status))
        _exit(WEXITSTATUS(status));
    sigset_t its;
    sigemptyset(&its);
    sigaddset(&its, WTERMSIG(status));
    setrlimit(RLIMIT_CORE, &(struct rlimit) { 0, 0 });
    signal(WTERMSIG(status), SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &its, NULL);
    kill(getpid(), WTERMSIG(status));
    _exit(128 + WTERMSIG(status));
}

void
verl_guard(char *const *words)
{
    sigset_t watched;
    int signal_number, status;
    const char *parent = getenv("VERL_PARENT");
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGTERM);
    sigprocmask(SIG_BLOCK, &watched, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (!words[0] || !parent || getppid() != (pid_t) strtol(parent, NULL, 10))
        _exit(1);
    pid_t guard = getpid(), program = fork();
    if (program == 0)
        s_run(words, guard);
    if (program < 0) {
        fprintf(stderr, "%s cannot be started: %s\n", words[0], strerror(errno));
        _exit(127);
    }
    close(NODE_FD);                         // the connection is the program's alone
    while (sigwait(&watched, &signal_number) == 0) {
        if (signal_number == SIGTERM)
            kill(0, SIGKILL);               // the group, this process too
        if (waitpid(program, &status, WNOHANG) == program)
            s_end(status);
    }
    _exit(1);
}
