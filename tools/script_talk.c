// script_talk.c: how a script asks its run for something. While it waits for an answer, the steps that are told are
// kept for later; a signal, or the end of the run, ends every wait.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>
#include "runtime/base/clock.h"
#include "runtime/control/names.h"
#include "tools/script_impl.h"

#define S_LINES_MOST 100000 // steps that wait to be looked at
#define S_LOOK_MS    250    // between two looks whether the run has moved
#define S_LAST_MS    1000   // for the last steps of a run that has ended; less than the run waits for its script
#define S_HOLD_TRIES 12
#define S_START_NS   (30 * VERL_S) // for a run that is just starting, and brought this script up

// Steps that were told; the client's own end where the run's is.
static void
s_pump(script_t *self)
{
    json_t *line;
    verl_error_t late = { "" };
    while ((line = verl_client_next(self->watch, 0, &late))) {
        if (json_is_integer(json_object_get(line, "step")) && json_array_size(self->lines) < S_LINES_MOST)
            json_array_append(self->lines, line);
        self->told_all = self->told_all || json_is_true(json_object_get(line, "over"));
        json_decref(line);
    }
    self->ended = self->ended || verl_client_why(self->watch) == VERL_CLIENT_ENDED;
}

bool
verl_script_signalled(script_t *self)
{
    struct signalfd_siginfo info;
    if (read(self->signal_fd, &info, sizeof info) <= 0 || verl_now() - self->signal_heard < VERL_S)
        return self->interrupted; // some senders say it twice
    self->signal_heard = verl_now();
    self->ended = self->ended || info.ssi_signo == SIGUSR1;
    self->interrupted = self->interrupted || info.ssi_signo != SIGUSR1;
    return true;
}

// Waits for either socket, a signal or the end.
static void
s_poll(script_t *self, bool answers)
{
    zmq_pollitem_t items[] = {
        { .socket = verl_client_socket(self->watch), .events = ZMQ_POLLIN },
        { .fd = verl_client_pid_fd(self->watch), .events = ZMQ_POLLIN },
        { .fd = self->signal_fd, .events = ZMQ_POLLIN },
        { .socket = verl_client_socket(self->change), .events = ZMQ_POLLIN },
    };
    zmq_poll(items, answers ? 4 : 3, S_LOOK_MS);
    if (items[2].revents)
        verl_script_signalled(self);
    s_pump(self);
}

// Asks to be told of each step from now on.
static int
s_subscribe(script_t *self, verl_error_t *error)
{
    json_t *answer = verl_client_ask(self->watch, json_pack("{s:s}", "do", "steps"), 30000, error);
    const char *refusal = answer ? verl_client_refusal(answer) : NULL;
    int64_t done = self->done;
    if (refusal)
        verl_error_set(error, "%s", refusal);
    else if (answer)
        self->done = json_integer_value(json_object_get(answer, "done"));
    // A run that went back makes its later steps again; those before are what they were.
    int64_t known = self->following ? self->history_count + self->done - done : 0;
    self->history_count = (int) (known < 0 ? 0 : known > SCRIPT_HISTORY ? SCRIPT_HISTORY : known);
    json_array_clear(self->lines);
    json_decref(answer);
    return answer && !refusal ? 0 : -1;
}

// The run's own script may be there before the run's sockets are, and find those of an earlier life.
static verl_client_t *
s_open(const script_t *self, const char *run_directory, bool change, verl_error_t *error)
{
    verl_error_t why = { "" };
    verl_client_t *client = verl_client_open(run_directory, change, &why);
    for (int64_t since = verl_now(); !client && self->own && verl_now() - since < S_START_NS;) {
        struct pollfd signal = { .fd = self->signal_fd, .events = POLLIN };
        if (poll(&signal, 1, 50) != 0)
            break;
        why.text[0] = '\0';
        client = verl_client_open(run_directory, change, &why);
    }
    if (!client)
        verl_error_set(error, "%s", why.text);
    return client;
}

// Both sockets, and the steps from now on.
static int
s_connect(script_t *self, const char *run_directory, verl_error_t *error)
{
    self->watch = NULL;
    self->change = s_open(self, run_directory, true, error);
    if (!self->change)
        return -1;
    snprintf(self->names, sizeof self->names, "%s/" VERL_CONTROL_FILE, verl_client_directory(self->change));
    if (stat(self->names, &self->names_as) != 0)
        verl_error_errno(error, "cannot read '%s'", self->names);
    else
        self->watch = s_open(self, verl_client_directory(self->change), false, error);
    if (self->watch && s_subscribe(self, error) == 0)
        return 0;
    verl_client_close(&self->watch);
    verl_client_close(&self->change);
    return -1;
}

// The run's sockets have other names now: it went back to a checkpoint. While there are none yet, it has not.
static bool
s_moved(const script_t *self)
{
    struct stat now;
    return stat(self->names, &now) == 0 &&
           (now.st_ino != self->names_as.st_ino || now.st_mtim.tv_sec != self->names_as.st_mtim.tv_sec ||
            now.st_mtim.tv_nsec != self->names_as.st_mtim.tv_nsec);
}

// What the script made of the topology the run makes again itself; what is still to come is held again.
static void
s_follow(script_t *self)
{
    verl_error_t error = { "" };
    verl_client_t *old[] = { self->watch, self->change };
    char directory[4096];
    snprintf(directory, sizeof directory, "%s", verl_client_directory(self->change));
    self->following = true;
    if (s_connect(self, directory, &error) != 0) {
        self->watch = old[0];
        self->change = old[1];
        self->ended = true;
        return;
    }
    verl_client_close(&old[0]);
    verl_client_close(&old[1]);
    for (const script_moment_t *moment = self->moments; moment; moment = moment->next)
        verl_script_hold(self, moment->batch, &error);
    for (const script_branch_t *branch = self->branches; branch; branch = branch->next)
        if (!branch->over)
            verl_script_hold(self, branch->until, &error);
    if (self->at >= 0)
        verl_script_hold(self, self->at, &error);
    verl_script_ready(self, &error);
    self->following = false;
}

// The steps of a run that has ended may still be on their way.
static void
s_hear_out(script_t *self)
{
    int64_t until = verl_now() + S_LAST_MS * VERL_MS;
    zmq_pollitem_t item = { .socket = verl_client_socket(self->watch), .events = ZMQ_POLLIN };
    while (!self->told_all && json_array_size(self->lines) == 0 && verl_now() < until) {
        zmq_poll(&item, 1, S_LAST_MS / 10);
        s_pump(self);
    }
}

bool
verl_script_wait(script_t *self)
{
    s_pump(self);
    if (json_array_size(self->lines) == 0 && !self->ended && !self->interrupted)
        s_poll(self, false);
    if (!self->ended && !self->interrupted && s_moved(self))
        s_follow(self);
    if (self->ended && !self->interrupted)
        s_hear_out(self);
    return !self->interrupted && (!self->ended || json_array_size(self->lines) > 0);
}

static bool
s_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

// The answer to a request, which is borrowed; NULL with why. *ret_again: the run goes back to a checkpoint, and knows
// nothing of the question.
static json_t *
s_ask(script_t *self, json_t *request, bool first, bool *ret_again, verl_error_t *error)
{
    verl_error_t why = { "" };
    json_t *answer = verl_client_ask(self->change, json_incref(request), 0, &why);
    while (!answer || (!first && verl_client_more(answer))) {
        bool nothing = !answer;
        json_decref(answer);
        if (nothing && verl_client_why(self->change) != VERL_CLIENT_LATE) {
            self->ended = self->ended || verl_client_why(self->change) == VERL_CLIENT_ENDED;
            verl_error_set(error, "%s", why.text);
            return NULL;
        }
        *ret_again = nothing && s_moved(self);
        if (*ret_again || (nothing && (self->interrupted || self->ended))) {
            verl_error_set(error, *ret_again ? "the run went back to a checkpoint"
                                  : self->ended ? "the run has ended" : "interrupted");
            return NULL;
        }
        if (nothing)
            s_poll(self, true);
        why.text[0] = '\0';
        answer = verl_client_next(self->change, 0, &why);
    }
    const char *refusal = verl_client_refusal(answer);
    if (!refusal)
        return answer;
    *ret_again = s_begins(refusal, "the run goes back");
    // a run that is at its end takes no more changes: nothing is wrong with the script
    self->ending =
        self->ending || s_begins(refusal, "the run is ending") || s_begins(refusal, "the run ends with batch");
    verl_error_set(error, "%s", refusal);
    json_decref(answer);
    return NULL;
}

json_t *
verl_script_ask(script_t *self, json_t *request, bool first, verl_error_t *error)
{
    json_t *answer = NULL;
    for (bool again = true; again && !answer;) {
        verl_error_t why = { "" };
        if (!self->following && !self->ended && s_moved(self))
            s_follow(self);
        again = false;
        if (self->ended) {
            verl_error_set(error, "the run has ended");
            break;
        }
        answer = s_ask(self, request, first, &again, &why);
        again = again && !self->following && !self->ended && !self->interrupted;
        if (again && !s_moved(self))
            s_poll(self, true);
        else if (!answer && !again)
            verl_error_set(error, "%s", why.text);
    }
    json_decref(request);
    return answer;
}

int
verl_script_hold(script_t *self, int64_t batch, verl_error_t *error)
{
    json_t *answer =
        verl_script_ask(self, json_pack("{s:s, s:I}", "do", "hold", "batch", (json_int_t) batch), true, error);
    json_decref(answer);
    return answer ? 0 : -1;
}

int
verl_script_release(script_t *self, int64_t batch, verl_error_t *error)
{
    json_t *answer =
        verl_script_ask(self, json_pack("{s:s, s:I}", "do", "release", "batch", (json_int_t) batch), false, error);
    json_decref(answer);
    return answer ? 0 : -1;
}

int64_t
verl_script_hold_next(script_t *self, verl_error_t *error)
{
    int64_t ahead = 1;
    for (int i = 0; i < S_HOLD_TRIES; i++, ahead *= 2) {
        verl_error_t why = { "" };
        json_t *answer = verl_script_ask(self, json_pack("{s:s}", "do", "list"), false, error);
        if (!answer)
            return -1;
        int64_t batch = json_integer_value(json_object_get(answer, "granted")) + ahead;
        json_decref(answer);
        if (verl_script_hold(self, batch, &why) == 0)
            return batch;
        if (self->ended || self->interrupted || i + 1 == S_HOLD_TRIES)
            verl_error_set(error, "%s", why.text);
    }
    return -1;
}

// ---------------------------------------------------------------------------------------------------------------
// A conversation

int
verl_script_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1); // of a run that is over, to its own script
    sigprocmask(SIG_BLOCK, &signals, NULL);
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

int
verl_script_open(script_t *self, const char *run_directory, verl_error_t *error)
{
    self->signal_fd = verl_script_signals();
    self->own = getenv("VERL_SCRIPT_OF_RUN") != NULL;
    self->lines = json_array();
    if (!self->lines || self->signal_fd < 0)
        return verl_error_set(error, "no memory or descriptors for a script");
    return s_connect(self, run_directory, error);
}

void
verl_script_close(script_t *self)
{
    verl_client_close(&self->watch);
    verl_client_close(&self->change);
    if (self->signal_fd >= 0)
        close(self->signal_fd);
    if (self->journal_fd >= 0)
        close(self->journal_fd);
    json_decref(self->recalled);
    json_decref(self->lines);
    for (int i = 0; i < SCRIPT_HISTORY; i++)
        json_decref(self->history[i]);
}
