// guard.c: see guard.h. The program dies with its guard too (a kernel signal), so nothing is left whichever is killed:
// the node kills the group of a guard that ended. Who left the group is the guard's own child once its parent is gone.
#include "tools/guard.h"
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define NODE_FD   3
#define FAMILY_MS 500

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

// Sends SIGKILL to each child of this process, as far as the system lists them.
static void
s_kill_children(void)
{
    char path[64];
    int child;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int) getpid());
    FILE *children = fopen(path, "re");
    while (children && fscanf(children, "%d", &child) == 1)
        kill((pid_t) child, SIGKILL);
    if (children)
        fclose(children);
}

// Takes leave of all that have ended, orphans that this process adopted among them; where the program was one, *over is
// set, and *status is its. Are there others?
static bool
s_reap(pid_t program, int *status, bool *over)
{
    int its;
    pid_t ended;
    while ((ended = waitpid(-1, &its, WNOHANG)) > 0)
        if (ended == program) {
            *status = its;
            *over = true;
        }
    return ended == 0;
}

// Ends all that came of the program: the children of a child that dies are children of this process. *status: of the
// program, where that was still running. Whoever cannot die is not waited for longer than FAMILY_MS.
static void
s_end_family(pid_t program, int *status)
{
    bool over;
    for (int waited = 0; waited < FAMILY_MS; waited++) {
        s_kill_children();
        if (!s_reap(program, status, &over))
            return;
        usleep(1000);
    }
}

void
verl_guard(char *const *words)
{
    sigset_t watched;
    int signal_number, status;
    bool over = false;
    const char *parent = getenv("VERL_PARENT");
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGTERM);
    sigprocmask(SIG_BLOCK, &watched, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
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
        if (signal_number == SIGTERM) {
            s_end_family(program, &status);
            kill(0, SIGKILL);               // the group, this process too
        }
        s_reap(program, &status, &over);
        if (over) {
            s_end_family(program, &status);
            s_end(status);
        }
    }
    _exit(1);
}
