// ask.c: see kind.h. The program runs in a session of its own, without input; of what it prints so much is read as a
// description may be long, and its last words on the error stream are kept for the sentence.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "actors/command/kind.h"

#define S_PATIENCE_MS 20000                 // for a program that does something, such as importing much, …
#define S_STILL_MS    3500                  // … and for one that stands still
#define S_LOOK_MS     200
#define S_MOST        ((size_t) 1 << 20)    // bytes of a description
#define S_WORDS       1000                  // and of the last words

extern char **environ;

typedef struct stream {
    int    fd;
    size_t used, room;
    char  *text;                            // terminated
    bool   tail;                            // keeps the end rather than the beginning
} stream_t;

typedef struct talk {
    pid_t    pid;
    stream_t out, err;
    int      status;                        // as of waitpid
    bool     late, still, too_long;
    int64_t  begun_at, moved_at, looked_at; // ms
    uint64_t used;                          // by its session
} talk_t;

static int64_t
s_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// The environment with VERL_DESCRIBE=1. The array is the caller's, not its strings.
static char **
s_environment(void)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **all = calloc(count + 2, sizeof *all);
    size_t kept = 0;
    for (size_t i = 0; all && i < count; i++)
        if (strncmp(environ[i], "VERL_DESCRIBE=", 14) != 0)
            all[kept++] = environ[i];
    if (all)
        all[kept] = (char *) "VERL_DESCRIBE=1";
    return all;
}

typedef struct start {
    char **words, **environment;
    int    out, err, report;                // report: takes the errno of a program that cannot be run
    pid_t  parent;
} start_t;

// In the child: nothing that is unsafe after a fork of a program with threads. It dies with whoever asks.
static void __attribute__((noreturn))
s_become(const start_t *start)
{
    sigset_t none;
    sigemptyset(&none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (getppid() == start->parent && nothing >= 0 && dup2(nothing, 0) >= 0 && dup2(start->out, 1) >= 0 &&
        dup2(start->err, 2) >= 0)
        execvpe(start->words[0], start->words, start->environment);
    int reason = errno;
    ssize_t written = write(start->report, &reason, sizeof reason);
    _exit(written > 0 ? 127 : 126);
}

// Returns an errno.
static int
s_fork(start_t *start, pid_t *ret_pid)
{
    int report[2], reason = 0;
    if (pipe2(report, O_CLOEXEC))
        return errno;
    start->report = report[1];
    start->parent = getpid();
    *ret_pid = fork();
    if (*ret_pid == 0)
        s_become(start);
    int failed = *ret_pid < 0 ? errno : 0;
    close(report[1]);
    if (!failed && read(report[0], &reason, sizeof reason) > 0) {
        failed = reason;
        waitpid(*ret_pid, NULL, 0);
    }
    close(report[0]);
    return failed;
}

static int
s_spawn(const verl_strings_t *command, int out, int err, pid_t *ret_pid)
{
    start_t start = { .words = calloc((size_t) command->count + 1, sizeof *start.words),
                      .environment = s_environment(), .out = out, .err = err };
    for (int i = 0; i < command->count && start.words; i++)
        start.words[i] = (char *) (uintptr_t) command->items[i];
    int failed = start.words && start.environment ? s_fork(&start, ret_pid) : ENOMEM;
    free(start.words);
    free(start.environment);
    return failed;
}

// Reads what is there. Returns false at the end.
static bool
s_read(stream_t *stream, size_t most)
{
    char piece[4096];
    ssize_t got = read(stream->fd, piece, sizeof piece);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (got <= 0)
        return false;
    size_t size = (size_t) got;
    if (stream->tail && stream->used && stream->used + size > most) {
        size_t drop = stream->used + size - most;
        drop = drop < stream->used ? drop : stream->used;
        memmove(stream->text, stream->text + drop, stream->used - drop);
        stream->used -= drop;
    }
    if (stream->used + size + 1 > stream->room) {
        size_t room = 2 * (stream->used + size + 1);
        char *text = realloc(stream->text, room);
        if (!text)
            return false;
        stream->text = text;
        stream->room = room;
    }
    memcpy(stream->text + stream->used, piece, size);
    stream->used += size;
    stream->text[stream->used] = 0;
    return true;
}

// --- how long -----------------------------------------------------------------------------------------------------

// What a process of the session has used: processor time and pages that were read for it. Returns whether it waits for
// a processor or a disk right now.
static bool
s_look_at(const char *process, pid_t session, uint64_t *used)
{
    char path[300], text[1024], state;
    int its;
    unsigned long faults, user, system;
    snprintf(path, sizeof path, "/proc/%s/stat", process);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = 0;
    const char *rest = strrchr(text, ')');  // behind its name
    if (!rest || sscanf(rest + 1, " %c %*d %*d %d %*d %*d %*u %*u %*u %lu %*u %lu %lu", &state, &its, &faults, &user,
                        &system) != 5 || its != session)
        return false;
    *used += faults + user + system;
    return state == 'R' || state == 'D';
}

// Has it had its time? A program of Python may import for long; one that stands still will not go on.
static bool
s_is_late(talk_t *talk)
{
    int64_t now = s_now_ms();
    DIR *all = now - talk->looked_at >= S_LOOK_MS ? opendir("/proc") : NULL;
    bool moves = false;
    uint64_t used = 0;
    if (all) {
        for (const struct dirent *entry; (entry = readdir(all));)
            if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' && s_look_at(entry->d_name, talk->pid, &used))
                moves = true;
        closedir(all);
        talk->looked_at = now;
        talk->moved_at = moves || used != talk->used ? now : talk->moved_at;
        talk->used = used;
    }
    talk->still = now - talk->moved_at >= S_STILL_MS;
    talk->late = talk->still || now - talk->begun_at >= S_PATIENCE_MS;
    return talk->late;
}

// --- listening ----------------------------------------------------------------------------------------------------

static void
s_hear(stream_t *stream, size_t most)
{
    if (s_read(stream, most))
        return;
    close(stream->fd);
    stream->fd = -1;
}

// Until its output ends or it does (a child that it left may keep the output), the time is over, or it says too much.
static void
s_listen(talk_t *talk)
{
    int ended = (int) syscall(SYS_pidfd_open, talk->pid, 0);
    bool over = false;
    talk->begun_at = talk->moved_at = talk->looked_at = s_now_ms();
    while (talk->out.fd >= 0 && !over && !talk->too_long && !s_is_late(talk)) {
        struct pollfd items[] = { { .fd = talk->out.fd, .events = POLLIN }, { .fd = talk->err.fd, .events = POLLIN },
                                  { .fd = ended, .events = POLLIN } };
        if (poll(items, 3, S_LOOK_MS) <= 0)
            continue;
        over = items[2].revents && !(items[0].revents & POLLIN);    // what it said is read first
        if (items[0].revents && !over)
            s_hear(&talk->out, S_MOST);
        if (items[1].revents)
            s_hear(&talk->err, S_WORDS);
        talk->too_long = talk->out.used > S_MOST;
    }
    // It may close its output and go on: its end has the same deadline.
    while (!talk->late && !talk->too_long && waitpid(talk->pid, &talk->status, WNOHANG) == 0) {
        nanosleep(&(struct timespec) { .tv_nsec = 2000000 }, NULL);
        s_is_late(talk);
    }
    if (talk->err.fd >= 0) {                // its last words may have come behind its output
        fcntl(talk->err.fd, F_SETFL, O_NONBLOCK);
        s_read(&talk->err, S_WORDS);
    }
    if (ended >= 0)
        close(ended);
}

static int
s_start(const verl_strings_t *command, talk_t *talk, char *error, size_t size)
{
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC))
        return snprintf(error, size, "no pipe can be made: %s", strerror(errno)), -1;
    if (pipe2(err, O_CLOEXEC)) {
        snprintf(error, size, "no pipe can be made: %s", strerror(errno));
        close(out[0]);
        close(out[1]);
        return -1;
    }
    int failed = s_spawn(command, out[1], err[1], &talk->pid);
    close(out[1]);
    close(err[1]);
    talk->out = (stream_t) { .fd = out[0] };
    talk->err = (stream_t) { .fd = err[0], .tail = true };
    if (!failed)
        return 0;
    snprintf(error, size, "`%.200s` cannot be started: %s; a program in PATH, or the path of one, would be right",
             command->items[0], strerror(failed));
    close(out[0]);
    close(err[0]);
    return -1;
}

// --- what it said -------------------------------------------------------------------------------------------------

// In a traceback of Python, the place that it came to last: `File "reward.py", line 3`; or NULL.
static const char *
s_place(const char *text)
{
    const char *place = NULL;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        place = strncmp(line, "  File \"", 8) == 0 ? line + 2 : place;
    }
    return place;
}

// Is it another package of the name that it met, or none?
static const char *
s_advice(const char *words)
{
    return strstr(words, "No module named 'verl'") || strstr(words, "module 'verl' has no attribute")
               ? "; the package of this project is meant, not PyPI's of the name verl: PYTHONPATH=.../actors/python, "
                 "or `pip install` of that folder, would be right"
               : "";
}

// The last line that it wrote to its error stream, behind ": "; or nothing.
static const char *
s_last_words(stream_t *stream, char *text, size_t size)
{
    text[0] = 0;
    while (stream->used && (unsigned char) stream->text[stream->used - 1] <= ' ')
        stream->text[--stream->used] = 0;
    if (!stream->used)
        return text;
    const char *line = strrchr(stream->text, '\n'), *place = s_place(stream->text);
    line = line ? line + 1 : stream->text;
    snprintf(text, size, ": %.300s%s%.*s%s%s", line, place ? " (" : "", place ? (int) strcspn(place, "\n") : 0,
             place ? place : "", place ? ")" : "", s_advice(line));
    for (char *c = text; *c; c++)
        if ((unsigned char) *c < ' ')
            *c = ' ';
    return text;
}

// All that it printed; or its last line, behind what it or a library of it prints when it is loaded. where: why it is
// neither.
static json_t *
s_description(const stream_t *out, json_error_t *where)
{
    const char *text = out->text ? out->text : "";
    size_t size = out->used;
    json_t *all = json_loadb(text, size, JSON_REJECT_DUPLICATES, where);
    while (size && (unsigned char) text[size - 1] <= ' ')
        size--;
    const char *line = memrchr(text, '\n', size);
    if (all || !line || line[1] != '{')
        return all;
    line++;
    return json_loadb(line, size - (size_t) (line - text), JSON_REJECT_DUPLICATES, where);
}

static int
s_parse(talk_t *talk, const verl_strings_t *command, json_t **ret, char *error, size_t size)
{
    char words[S_WORDS + 8], name[240];
    snprintf(name, sizeof name, "%.100s%s%.100s", command->items[0], command->count > 1 ? " " : "",
             command->count > 1 ? command->items[1] : "");
    s_last_words(&talk->err, words, sizeof words);
    if (talk->late)
        snprintf(error, size, "`%s` did not describe itself within %g s%s%s: with VERL_DESCRIBE=1 it has to print its "
                 "description and end; what is heavy to load belongs in @verl.prepare of the Python package", name,
                 (talk->still ? S_STILL_MS : S_PATIENCE_MS) / 1e3,
                 talk->still ? " in which it did nothing else" : "", words);
    else if (talk->too_long)
        snprintf(error, size, "`%s` printed more than 1 MiB where VERL_DESCRIBE=1 asks for its description: what else "
                 "it says belongs on standard error", name);
    else if (WIFSIGNALED(talk->status))
        snprintf(error, size, "`%s` died of signal %d when it was asked to describe itself%s", name,
                 WTERMSIG(talk->status), words);
    else if (WEXITSTATUS(talk->status))
        snprintf(error, size, "`%s` ended with status %d when it was asked to describe itself%s", name,
                 WEXITSTATUS(talk->status), words);
    else {
        json_error_t where;
        *ret = s_description(&talk->out, &where);
        if (json_is_object(*ret))
            return 0;
        snprintf(error, size, "`%s` printed something that is no description (%.100s) where VERL_DESCRIBE=1 asks for "
                 "one JSON object, as its last line: verl.main() of the Python package prints it; what else it says "
                 "belongs on standard error, and what is heavy to load in @verl.prepare", name,
                 *ret ? "no object" : where.text);
        json_decref(*ret);
    }
    *ret = NULL;
    return -1;
}

int
verl_command_ask(const verl_strings_t *command, json_t **ret, bool *ret_killed, char *error, size_t size)
{
    talk_t talk = { .status = 0 };
    *ret = NULL;
    *ret_killed = false;
    if (command->count < 1 || !command->items[0][0])
        return snprintf(error, size, "a command is empty: a program and its arguments would be right"), -1;
    if (s_start(command, &talk, error, size))
        return -1;
    s_listen(&talk);
    kill(-talk.pid, SIGKILL);               // it, where it still runs, and children that it left
    if (talk.late || talk.too_long)
        waitpid(talk.pid, &talk.status, 0);
    int failed = s_parse(&talk, command, ret, error, size);
    *ret_killed = !talk.late && !talk.too_long && WIFSIGNALED(talk.status);
    if (talk.out.fd >= 0)
        close(talk.out.fd);
    if (talk.err.fd >= 0)
        close(talk.err.fd);
    free(talk.out.text);
    free(talk.err.text);
    return failed;
}
