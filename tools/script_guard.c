// script_guard.c: two processes for a script, so that its branches are taken back however it ends.
//
// The guard is the process that was started, the script its child. The script tells the guard of each branch before
// it begins, and when it is over; a script that a signal kills leaves its branches to the guard. A guard that is
// killed takes the script along: its child gets SIGTERM, and takes them back itself.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tools/inject.h"
#include "tools/script_impl.h"

#define S_TOLD_MOST    (8 << 20) // bytes of what is told
#define S_SECONDS      60        // ten times what all of its instructions take
#define S_SECONDS_MOST 1000000

// ---------------------------------------------------------------------------------------------------------------
// The script's end

// Takes the line, which is noted too. What a guard that is stopped does not read is its loss.
static void
s_tell(const script_t *self, json_t *line)
{
    char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    if (text && self->guard_fd >= 0)
        dprintf(self->guard_fd, "%s\n", text);
    free(text);
    verl_script_note(self, line);
}

void
verl_script_guard_begin(script_t *self, script_branch_t *branch)
{
    branch->number = ++self->branches_begun;
    s_tell(self, json_pack("{s:I, s:s, s:s, s:I}", "branch", (json_int_t) branch->number, "inverse", branch->inverse,
                           "place", branch->place, "until", (json_int_t) branch->until));
}

void
verl_script_guard_over(const script_t *self, const script_branch_t *branch)
{
    s_tell(self, json_pack("{s:I}", "over", (json_int_t) branch->number));
}

// ---------------------------------------------------------------------------------------------------------------
// The guard's end

typedef struct {
    const char *run_directory, *file;
    bool json;
    pid_t pid;
    int told_fd, signal_fd;
    size_t size;
    char *told; // lines of JSON, as they came
} s_guard_t;

// What the script said; false at its end.
static bool
s_hear(s_guard_t *self)
{
    char *more = realloc(self->told, self->size + 65536 + 1);
    if (!more)
        return false;
    self->told = more;
    ssize_t got = read(self->told_fd, self->told + self->size, 65536);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    self->size += got > 0 && self->size < S_TOLD_MOST ? (size_t) got : 0;
    self->told[self->size] = '\0';
    return got > 0;
}

// Until the script is gone: passes on what comes for it. Returns its status.
static int
s_watch(s_guard_t *self)
{
    struct pollfd items[] = { { .fd = self->told_fd, .events = POLLIN }, { .fd = self->signal_fd, .events = POLLIN } };
    struct signalfd_siginfo info;
    int status = 0;
    for (bool open = true; open;) {
        poll(items, 2, -1);
        if (items[1].revents && read(self->signal_fd, &info, sizeof info) > 0)
            kill(self->pid, (int) info.ssi_signo);
        if (items[0].revents)
            open = s_hear(self);
    }
    while (waitpid(self->pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

// The branches of a script that was killed. Returns how many.
static int
s_take_back(s_guard_t *self)
{
    script_t script = { .file = self->file, .json = self->json, .signal_fd = -1, .guard_fd = -1, .journal_fd = -1,
                        .at = -1 };
    verl_error_t error = { "" };
    int count = 0;
    verl_script_recall(&script, self->told);
    for (const script_branch_t *branch = script.branches; branch; branch = branch->next)
        count += !branch->over;
    verl_script_name(&script);
    if (count == 0 || verl_script_open(&script, self->run_directory, &error) != 0)
        script.ended = true;
    verl_script_take_all_back(&script);
    verl_script_close(&script);
    return count;
}

int64_t
verl_script_seconds(void)
{
    const char *text = getenv("VERL_SCRIPT_SECONDS");
    long seconds = text ? strtol(text, NULL, 10) : 0;
    return seconds > 0 && seconds < S_SECONDS_MOST ? seconds : S_SECONDS;
}

// Why it was killed, in words.
static void
s_why(int signal_number, char *text, size_t size)
{
    if (signal_number == SCRIPT_OVERTIME)
        snprintf(text, size, "a function of the script computed for more than %lld s (a pattern that goes back and "
                 "forth without end?): it was ended", (long long) verl_script_seconds());
    else
        snprintf(text, size, "the script was killed by signal %d (%s)", signal_number, strsignal(signal_number));
}

static int
s_guard(s_guard_t *self)
{
    int status = s_watch(self);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : INJECT_FAILED;
    if (WIFSIGNALED(status)) {
        char why[200];
        int count = s_take_back(self);
        s_why(WTERMSIG(status), why, sizeof why);
        verl_inject_failed("%s%s", why, count ? ", and its branches were taken back" : "");
    }
    free(self->told);
    close(self->told_fd);
    close(self->signal_fd);
    return code;
}

int
verl_script_guarded(const char *run_directory, const char *file, bool json,
                    int (*script)(const char *, const char *, bool, int))
{
    s_guard_t self = { .run_directory = run_directory, .file = file, .json = json };
    int fds[2];
    pid_t guard = getpid();
    fflush(NULL);
    self.signal_fd = verl_script_signals();
    if (self.signal_fd < 0 || pipe2(fds, O_CLOEXEC) != 0)
        return verl_inject_failed("no descriptors for a script: %s", strerror(errno));
    fcntl(fds[1], F_SETFL, O_NONBLOCK);
    self.told_fd = fds[0];
    self.pid = fork();
    if (self.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        setpgid(0, 0); // a terminal's Ctrl-C comes once, by the guard
        close(fds[0]);
        close(self.signal_fd);
        return getppid() == guard ? script(run_directory, file, json, fds[1]) : INJECT_FAILED;
    }
    close(fds[1]);
    if (self.pid < 0)
        return verl_inject_failed("no process for a script: %s", strerror(errno));
    return s_guard(&self);
}
