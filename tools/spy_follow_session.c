// spy_follow_session.c: see spy_follow_session.h.
#include "tools/spy_follow_session.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>
#include "runtime/base/clock.h"
#include "tools/spy_follow_socket.h"

#define ASK_MS    10000
#define FINISH_NS VERL_S
#define QUIET_NS  (VERL_S / 10)             // after the end of a run nothing came for so long: nothing will

struct verl_spy_session {
    verl_client_t      *client;
    zsock_t            *router;
    int                 signal_fd;
    int64_t             trace;              // id; 0: none
    int                 told;               // parties that were told to trace
    bool                enough;
    verl_filter_t       filter;
    verl_spy_listener_t listener;
    verl_spy_merge_t   *merge;
};

// --- beginning ----------------------------------------------------------------------------------------------------

int64_t
verl_spy_clock_offset(void)
{
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    return (int64_t) real.tv_sec * VERL_S + real.tv_nsec - verl_now();
}

static int
s_ask(verl_spy_session_t *self, const char *address, verl_error_t *error)
{
    json_t *request = json_pack("{s:s, s:s, s:i, s:o}", "do", "trace", "address", address, "pid", (int) getpid(),
                                "filter", verl_filter_to_json(&self->filter));
    json_t *answer = request ? verl_client_ask(self->client, request, ASK_MS, error) : NULL;
    const char *refusal = answer ? verl_client_refusal(answer) : NULL;
    if (refusal)
        verl_error_set(error, "the run refuses to be followed: %s", refusal);
    self->trace = refusal ? 0 : json_integer_value(json_object_get(answer, "trace"));
    self->told = (int) json_integer_value(json_object_get(answer, "parties"));
    json_decref(answer);
    return self->trace ? 0 : verl_error_set(error, "the run does not say which trace it began");
}

static int
s_watch_signals(verl_spy_session_t *self, verl_error_t *error)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    self->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (self->signal_fd < 0)
        return verl_error_errno(error, "cannot watch for signals");
    return 0;
}

verl_spy_session_t *
verl_spy_session_open(const char *run, const verl_filter_t *filter, const verl_spy_listener_t *listener,
                      verl_error_t *error)
{
    verl_spy_session_t *self = calloc(1, sizeof *self);
    char address[VERL_SPY_ADDRESS];
    if (!self) {
        verl_error_set(error, "out of memory");
        return NULL;
    }
    self->signal_fd = -1;
    self->filter = *filter;
    self->listener = *listener;
    self->merge = verl_spy_merge_new(filter->records, filter->bytes);
    if (!self->merge)
        verl_error_set(error, "out of memory");
    // Signals first: threads that libzmq makes block what their maker blocks.
    if (self->merge && s_watch_signals(self, error) == 0 && (self->client = verl_client_open(run, false, error))) {
        verl_client_interrupt_by(self->client, self->signal_fd);
        self->router = verl_spy_socket_open("spy", address, error);
        if (self->router && s_ask(self, address, error) == 0)
            return self;
    }
    verl_spy_session_close(&self);
    return NULL;
}

void
verl_spy_session_close(verl_spy_session_t **session_p)
{
    verl_spy_session_t *self = *session_p;
    *session_p = NULL;
    if (!self)
        return;
    verl_spy_merge_destroy(&self->merge);
    zsock_destroy(&self->router);
    verl_client_close(&self->client);
    if (self->signal_fd >= 0)
        close(self->signal_fd);
    free(self);
}

// --- taking -------------------------------------------------------------------------------------------------------

static int
s_receive(verl_spy_session_t *self, verl_error_t *error)
{
    return verl_spy_socket_receive(self->router, self->merge, &self->listener, error);
}

// Hands over the records that are older than `until`. They are taken off all the same when the listener wants no more.
static void
s_hand_over(verl_spy_session_t *self, int64_t until)
{
    const verl_trace_record_t *record;
    while ((record = verl_spy_merge_next(self->merge, until))) {
        if (!self->enough && !self->listener.record(self->listener.context, record))
            self->enough = true;
        verl_spy_merge_pop(self->merge);
    }
}

static bool
s_interrupted(verl_spy_session_t *self)
{
    struct signalfd_siginfo info;
    return read(self->signal_fd, &info, sizeof info) == sizeof info;
}

// The run is over: its actors sent their last frames before they ended.
static verl_spy_state_t
s_end(verl_spy_session_t *self, verl_error_t *error)
{
    int64_t quiet = verl_now(), limit = quiet + FINISH_NS;
    self->trace = 0;
    while (verl_now() < limit && verl_now() - quiet < QUIET_NS) {
        int frames = verl_spy_socket_wait(self->router, 20) ? s_receive(self, error) : 0;
        if (frames < 0)
            return VERL_SPY_FAILED;
        if (frames > 0)
            quiet = verl_now();
        s_hand_over(self, INT64_MAX);
        verl_spy_socket_give_credit(self->router, self->merge);
    }
    return self->enough ? VERL_SPY_ENOUGH : VERL_SPY_RUN_ENDED;
}

verl_spy_state_t
verl_spy_session_step(verl_spy_session_t *self, int wait_ms, verl_error_t *error)
{
    int due = verl_spy_merge_wait_ms(self->merge);
    zmq_pollitem_t items[] = { { zsock_resolve(self->router), 0, ZMQ_POLLIN, 0 },
                               { NULL, self->signal_fd, ZMQ_POLLIN, 0 },
                               { NULL, verl_client_pid_fd(self->client), ZMQ_POLLIN, 0 } };
    zmq_poll(items, 3, due >= 0 && (wait_ms < 0 || due < wait_ms) ? due : wait_ms);
    if (s_receive(self, error) < 0)
        return VERL_SPY_FAILED;
    s_hand_over(self, verl_now() - VERL_SPY_HOLD_NS);
    verl_spy_socket_give_credit(self->router, self->merge);
    if (self->listener.pause && !self->listener.pause(self->listener.context))
        self->enough = true;
    if (self->enough)
        return VERL_SPY_ENOUGH;
    if (items[1].revents && s_interrupted(self))
        return VERL_SPY_INTERRUPTED;
    return items[2].revents ? s_end(self, error) : VERL_SPY_GOES_ON;
}

verl_spy_state_t
verl_spy_session_run(verl_spy_session_t *self, double seconds, verl_error_t *error)
{
    int64_t end = seconds > 0 ? verl_now() + (int64_t) (seconds * 1e9) : INT64_MAX;
    verl_spy_state_t state = VERL_SPY_GOES_ON;
    while (state == VERL_SPY_GOES_ON && verl_now() < end) {
        int64_t left = (end - verl_now()) / VERL_MS + 1;
        state = verl_spy_session_step(self, left < 1000 ? (int) (left > 0 ? left : 0) : 1000, error);
    }
    return state;
}

// Asks for the end. Returns how many were told, each of which will tell its last counts.
static int
s_untrace(verl_spy_session_t *self)
{
    json_t *request = json_pack("{s:s, s:I}", "do", "untrace", "trace", (json_int_t) self->trace);
    json_t *answer = request ? verl_client_ask(self->client, request, 1000, NULL) : NULL;
    int told = (int) json_integer_value(json_object_get(answer, "parties"));
    json_decref(answer);
    self->trace = 0;
    return told;
}

void
verl_spy_session_finish(verl_spy_session_t *self)
{
    int64_t limit = verl_now() + FINISH_NS;
    int wanted = verl_spy_merge_finished(self->merge);
    wanted += self->trace ? s_untrace(self) : 0;
    while (verl_spy_merge_finished(self->merge) < wanted && verl_now() < limit) {
        verl_spy_socket_wait(self->router, 20);
        if (s_receive(self, NULL) < 0)
            break;
        verl_spy_socket_give_credit(self->router, self->merge);
    }
    s_hand_over(self, INT64_MAX);
}

// --- asked for ----------------------------------------------------------------------------------------------------

void
verl_spy_session_totals(const verl_spy_session_t *session, verl_spy_totals_t *ret)
{
    verl_spy_merge_totals(session->merge, ret);
}

const char *
verl_spy_session_directory(const verl_spy_session_t *session)
{
    return verl_client_directory(session->client);
}

int
verl_spy_session_parties(const verl_spy_session_t *session)
{
    return session->told;
}

verl_client_t *
verl_spy_session_client(const verl_spy_session_t *session)
{
    return session->client;
}
