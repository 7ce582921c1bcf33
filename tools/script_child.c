// script_child.c: the script of a run's own, as a process beside it. See script.h.
//
// Invariant: a run never waits for a script that is gone: a thread of ours waits for its process, and tells the run of
// its end, whether or not it had said that it is ready.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/base/clock.h"
#include "runtime/control/names.h"
#include "tools/client.h"
#include "tools/script.h"

#define S_PROGRAM    "verl-inject: "
#define S_LAST_WORDS 800          // of a script's log, bytes
#define S_PATIENCE   (2 * VERL_S) // for a script whose run is over
#define S_ASK_MS     5000

struct verl_script_child {
    char directory[4096];
    char log[4200];
    pid_t pid;
    pthread_t thread;
    int over_fd;      // an eventfd: the run is over, what its script is still told is of no use
    atomic_bool over; // … the same, to be looked at
    atomic_bool gone; // the process is
    int status;       // of it, once it is gone
};

// The last line that it said, without the name of its program; empty: none.
static void
s_last_line(const verl_script_child_t *self, char *text, size_t size)
{
    char end[S_LAST_WORDS + 1];
    int fd = open(self->log, O_RDONLY | O_CLOEXEC);
    off_t length = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0, from = length > S_LAST_WORDS ? length - S_LAST_WORDS : 0;
    ssize_t got = fd >= 0 ? pread(fd, end, S_LAST_WORDS, from) : 0;
    if (fd >= 0)
        close(fd);
    while (got > 0 && end[got - 1] == '\n')
        got--;
    end[got > 0 ? got : 0] = '\0';
    const char *newline = strrchr(end, '\n'), *line = newline ? newline + 1 : end;
    snprintf(text, size, "%s", line + (strncmp(line, S_PROGRAM, strlen(S_PROGRAM)) == 0 ? strlen(S_PROGRAM) : 0));
}

static void
s_how(const verl_script_child_t *self, char *text, size_t size)
{
    if (WIFSIGNALED(self->status))
        snprintf(text, size, "the script was killed by signal %d (%s)", WTERMSIG(self->status),
                 strsignal(WTERMSIG(self->status)));
    else if (WEXITSTATUS(self->status) != 0)
        s_last_line(self, text, size);
    else
        snprintf(text, size, "the script has ended");
}

// Has the run sockets? Who opens a client where it has none yet, or none any more, waits for them.
static bool
s_can_be_told(const verl_script_child_t *self)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/" VERL_CONTROL_FILE, self->directory);
    return access(path, F_OK) == 0;
}

static bool
s_tell_once(const verl_script_child_t *self)
{
    verl_error_t error = { "" };
    char how[S_LAST_WORDS + 100];
    if (!s_can_be_told(self))
        return false;
    s_how(self, how, sizeof how);
    json_t *request =
        json_pack("{s:s, s:s, s:s, s:b}", "do", "script", "state", "ended", "text", how, "failed", self->status != 0);
    verl_client_t *client = verl_client_open(self->directory, true, &error);
    if (client)
        verl_client_interrupt_by(client, self->over_fd);
    json_t *answer = client && request ? verl_client_ask(client, json_incref(request), S_ASK_MS, &error) : NULL;
    bool told = answer && !verl_client_refusal(answer);
    json_decref(answer);
    json_decref(request);
    verl_client_close(&client);
    return told;
}

// So that no permit waits for it. A run that goes back to a checkpoint cannot be told for a moment.
static void
s_tell(const verl_script_child_t *self)
{
    struct pollfd over = { .fd = self->over_fd, .events = POLLIN };
    while (!atomic_load(&self->over) && !s_tell_once(self))
        poll(&over, 1, 100);
}

static void *
s_wait(void *argument)
{
    verl_script_child_t *self = argument;
    siginfo_t info; // its number stays its own until everybody knows that it is gone
    while (waitid(P_PID, (id_t) self->pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    atomic_store(&self->gone, true);
    while (waitpid(self->pid, &self->status, 0) < 0 && errno == EINTR)
        ;
    if (!atomic_load(&self->over))
        s_tell(self);
    return NULL;
}

// In the child: nothing that is unsafe after a fork of a program with threads.
static void
s_become(int log_fd, pid_t parent, char *const *words)
{
    sigset_t none;
    sigemptyset(&none);
    prctl(PR_SET_PDEATHSIG, SIGUSR1);
    setsid(); // Ctrl-C is the run's
    dup2(log_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0)
        dup2(nothing, STDIN_FILENO);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (getppid() == parent)
        execv(words[0], words);
    _exit(127);
}

static int
s_spawn(verl_script_child_t *self, const char *program, const char *file, verl_error_t *error)
{
    char folder[4150];
    pid_t parent = getpid();
    char *const words[] = {
        (char *) program, (char *) "--run", self->directory, (char *) "script", (char *) file, NULL
    };
    snprintf(folder, sizeof folder, "%s/logs", self->directory);
    snprintf(self->log, sizeof self->log, "%s/script.log", folder);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return verl_error_errno(error, "cannot make '%s'", folder);
    int fd = open(self->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return verl_error_errno(error, "cannot write '%s'", self->log);
    if (access(program, X_OK) != 0) {
        verl_error_errno(error, "cannot run '%s'", program);
        close(fd);
        return -1;
    }
    setenv("VERL_SCRIPT_OF_RUN", "1", 1);
    self->pid = fork();
    if (self->pid == 0)
        s_become(fd, parent, words);
    int reason = errno;
    unsetenv("VERL_SCRIPT_OF_RUN");
    close(fd);
    errno = reason;
    return self->pid < 0 ? verl_error_errno(error, "cannot start '%s'", program) : 0;
}

static void
s_free(verl_script_child_t *self)
{
    if (self->over_fd >= 0)
        close(self->over_fd);
    free(self);
}

verl_script_child_t *
verl_script_start(const char *run_directory, const char *program, const char *file, verl_error_t *error)
{
    verl_script_child_t *self = calloc(1, sizeof *self);
    if (!self) {
        verl_error_set(error, "no memory for a script");
        return NULL;
    }
    snprintf(self->directory, sizeof self->directory, "%s", run_directory);
    self->over_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->over_fd < 0)
        verl_error_errno(error, "no descriptor for a script");
    else if (s_spawn(self, program, file, error) == 0) {
        if (pthread_create(&self->thread, NULL, s_wait, self) == 0)
            return self;
        kill(self->pid, SIGKILL);
        waitpid(self->pid, NULL, 0);
        verl_error_set(error, "no thread to wait for a script");
    }
    s_free(self);
    return NULL;
}

int
verl_script_finish(verl_script_child_t **child_p, verl_error_t *error)
{
    verl_script_child_t *self = *child_p;
    char how[S_LAST_WORDS + 100];
    if (!self)
        return 0;
    *child_p = NULL;
    bool early = atomic_load(&self->gone);
    atomic_store(&self->over, true);
    eventfd_write(self->over_fd, 1);
    for (int64_t since = verl_now(); !atomic_load(&self->gone);) {
        kill(self->pid, verl_now() - since < S_PATIENCE ? SIGUSR1 : SIGKILL);
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    pthread_join(self->thread, NULL);
    s_how(self, how, sizeof how);
    bool failed = early && self->status != 0;
    s_free(self);
    return failed ? verl_error_set(error, "%s", how) : 0;
}
