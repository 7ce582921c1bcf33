// client.c: see client.h.
#include "tools/client.h"
#include <czmq.h>
#include "runtime/base/clock.h"
#include "runtime/control/found.h"
#include "runtime/control/server.h"
#include "tools/limits.h"

#define ANSWER_MOST  (64 << 20)             // bytes
#define RECONNECT_MS 20
#define LAST_MS      50                     // for what a run said just before it ended to come through
#define LOOK_MS      250                    // between looks whether the run has other sockets by now

struct verl_client {
    verl_found_t      run;
    zsock_t          *dealer;
    bool              change;               // which socket
    char             *request;              // that is open; NULL: it has had an answer
    int64_t           looked_at;
    int               interrupt_fd;
    json_int_t        id;                   // of the question that is open
    verl_client_why_t why;
};

static void *
s_fail(verl_client_t *self, verl_client_why_t why)
{
    self->why = why;
    return NULL;
}

static const char *
s_address(const verl_client_t *self)
{
    return self->change ? self->run.change : self->run.watch;
}

static int
s_connect(verl_client_t *self, verl_error_t *error)
{
    if (verl_limits_spare(error))
        return -1;
    zsys_handler_set(NULL);                                 // signals are the tool's own
    self->dealer = zsock_new(ZMQ_DEALER);
    zsock_set_linger(self->dealer, 0);
    zsock_set_sndtimeo(self->dealer, 0);
    zsock_set_reconnect_ivl(self->dealer, RECONNECT_MS);
    zsock_set_maxmsgsize(self->dealer, ANSWER_MOST);
    if (zsock_connect(self->dealer, "%s", s_address(self)))
        return verl_error_set(error, "cannot connect to %s: %s", s_address(self), zmq_strerror(zmq_errno()));
    return 0;
}

verl_client_t *
verl_client_open(const char *run_directory, bool change, verl_error_t *error)
{
    verl_client_t *self = calloc(1, sizeof *self);
    if (!self) {
        verl_error_set(error, "out of memory");
        return NULL;
    }
    self->run.pid_fd = self->interrupt_fd = -1;
    self->change = change;
    if (verl_found_open(&self->run, run_directory, error) || s_connect(self, error))
        verl_client_close(&self);
    return self;
}

void
verl_client_close(verl_client_t **client_p)
{
    verl_client_t *self = *client_p;
    if (!self)
        return;
    *client_p = NULL;
    zsock_destroy(&self->dealer);
    verl_found_done(&self->run);
    free(self->request);
    free(self);
}

// --- asking -------------------------------------------------------------------------------------------------------

static int
s_send(verl_client_t *self, verl_error_t *error)
{
    if (zstr_send(self->dealer, self->request))
        return verl_error_set(error, "the request cannot be sent: %s", zmq_strerror(zmq_errno()));
    return 0;
}

// Takes the request.
static int
s_put(verl_client_t *self, json_t *request, verl_error_t *error)
{
    json_object_set_new(request, "id", json_integer(++self->id));
    free(self->request);
    self->request = json_dumps(request, JSON_COMPACT);
    json_decref(request);
    if (!self->request)
        return verl_error_set(error, "the request cannot be written as JSON: it is to be UTF-8");
    if (strlen(self->request) > VERL_CONTROL_REQUEST_BYTES)
        return verl_error_set(error, "the request has %zu bytes: at most %d go to a run at once",
                              strlen(self->request), VERL_CONTROL_REQUEST_BYTES);
    return s_send(self, error);
}

// Other sockets are those of a run that went back to a checkpoint: it knows nothing of what was asked before.
static void
s_look_again(verl_client_t *self, verl_error_t *error)
{
    char before[VERL_CONTROL_BYTES];
    if (verl_now() - self->looked_at < LOOK_MS * VERL_MS)
        return;
    self->looked_at = verl_now();
    memcpy(before, s_address(self), sizeof before);
    if (verl_found_again(&self->run) <= 0)
        return;
    zsock_disconnect(self->dealer, "%s", before);
    if (zsock_connect(self->dealer, "%s", s_address(self)))
        verl_error_set(error, "cannot connect to %s: %s", s_address(self), zmq_strerror(zmq_errno()));
    else if (self->request)
        s_send(self, error);
    else
        verl_error_set(error, "the run in %s went back to its last checkpoint", self->run.directory);
}

// Waits for the socket. Milliseconds, -1: for ever.
static verl_client_why_t
s_wait(const verl_client_t *self, int64_t timeout_ms)
{
    zmq_pollitem_t items[] = {
        { .socket = verl_client_socket(self), .events = ZMQ_POLLIN },
        { .fd = self->run.pid_fd, .events = ZMQ_POLLIN },
        { .fd = self->interrupt_fd, .events = ZMQ_POLLIN },
    };
    int got = zmq_poll(items, self->interrupt_fd >= 0 ? 3 : 2, timeout_ms);
    if (got > 0 && !items[0].revents && items[1].revents)
        got = zmq_poll(items, 1, LAST_MS) > 0 ? 1 : -2;
    if (got > 0 && items[0].revents)
        return VERL_CLIENT_ANSWERED;
    return got == -2 ? VERL_CLIENT_ENDED : got > 0 ? VERL_CLIENT_INTERRUPTED : VERL_CLIENT_LATE;
}

// One answer, of whatever number of frames. NULL without a sentence: none is there.
static json_t *
s_receive(verl_client_t *self, verl_error_t *error)
{
    zmsg_t *message = zsock_events(self->dealer) & ZMQ_POLLIN ? zmsg_recv(self->dealer) : NULL;
    zframe_t *frame = message ? zmsg_first(message) : NULL;
    if (!frame)
        return NULL;
    json_t *answer =
        zmsg_size(message) == 1 ? json_loadb((char *) zframe_data(frame), zframe_size(frame), 0, NULL) : NULL;
    zmsg_destroy(&message);
    if (json_is_object(answer))
        return answer;
    json_decref(answer);
    verl_error_set(error, "the run in %s answers with something that is no JSON object", self->run.directory);
    return NULL;
}

// Of this question, and with something in it?
static bool
s_concerns(const verl_client_t *self, const json_t *answer)
{
    const json_t *id = json_object_get(answer, "id");
    if (!json_is_integer(id) || json_integer_value(id) != self->id)
        return false;
    return json_object_size(answer) > 2 || !json_is_true(json_object_get(answer, "more"));
}

// Why nothing came, in a sentence; none where the wait goes on.
static void
s_explain(const verl_client_t *self, verl_client_why_t why, int timeout_ms, bool over, verl_error_t *error)
{
    if (why == VERL_CLIENT_ENDED)
        verl_error_set(error, "the run in %s ended (process %d)", self->run.directory, (int) self->run.pid);
    else if (why == VERL_CLIENT_INTERRUPTED)
        verl_error_set(error, "interrupted");
    else if (why == VERL_CLIENT_LATE && over)
        verl_error_set(error, "the run in %s did not answer within %g s", self->run.directory,
                       (double) timeout_ms / 1000);
}

// One wait, for an answer or until it is time to look around.
static verl_client_why_t
s_wait_a_while(verl_client_t *self, int timeout_ms, int64_t until, verl_error_t *error)
{
    int64_t left = (until - verl_now() + VERL_MS - 1) / VERL_MS, wait = LOOK_MS;
    if (timeout_ms >= 0 && left < wait)
        wait = left > 0 ? left : 0;
    verl_client_why_t why = s_wait(self, wait);
    s_explain(self, why, timeout_ms, timeout_ms >= 0 && verl_now() >= until, error);
    if (why != VERL_CLIENT_LATE || error->text[0])
        return why;
    s_look_again(self, error);
    return VERL_CLIENT_BACK;
}

static json_t *
s_until(verl_client_t *self, int timeout_ms, verl_error_t *error)
{
    int64_t until = verl_now() + (int64_t) timeout_ms * VERL_MS;
    for (;;) {
        json_t *answer = s_receive(self, error);
        if (answer && s_concerns(self, answer)) {
            free(self->request);
            self->request = NULL;
            self->why = VERL_CLIENT_ANSWERED;
            return answer;
        }
        bool passed = answer != NULL;
        json_decref(answer);
        if (error->text[0])
            return s_fail(self, VERL_CLIENT_FAILED);
        verl_client_why_t why = passed ? VERL_CLIENT_ANSWERED : s_wait_a_while(self, timeout_ms, until, error);
        if (error->text[0])
            return s_fail(self, why);
    }
}

json_t *
verl_client_ask(verl_client_t *self, json_t *request, int timeout_ms, verl_error_t *error)
{
    verl_error_t why = { "" };
    json_t *answer = NULL;
    if (!json_is_object(request)) {
        json_decref(request);
        verl_error_set(&why, "out of memory");
        self->why = VERL_CLIENT_FAILED;
    } else if (s_put(self, request, &why))
        self->why = VERL_CLIENT_FAILED;
    else
        answer = s_until(self, timeout_ms, &why);
    if (!answer)
        verl_error_set(error, "%s", why.text);
    return answer;
}

json_t *
verl_client_next(verl_client_t *self, int timeout_ms, verl_error_t *error)
{
    verl_error_t why = { "" };
    json_t *answer = s_until(self, timeout_ms, &why);
    if (!answer)
        verl_error_set(error, "%s", why.text);
    return answer;
}

// --- looking ------------------------------------------------------------------------------------------------------

const char *
verl_client_refusal(const json_t *answer)
{
    const json_t *error = json_object_get(answer, "error");
    return json_is_string(error) ? json_string_value(error) : error ? "it cannot be done" : NULL;
}

bool
verl_client_more(const json_t *answer)
{
    return json_is_true(json_object_get(answer, "more"));
}

verl_client_why_t
verl_client_why(const verl_client_t *self)
{
    return self->why;
}

void
verl_client_interrupt_by(verl_client_t *self, int fd)
{
    self->interrupt_fd = fd;
}

const char *
verl_client_directory(const verl_client_t *self)
{
    return self->run.directory;
}

pid_t
verl_client_pid(const verl_client_t *self)
{
    return self->run.pid;
}

void *
verl_client_socket(const verl_client_t *self)
{
    return zsock_resolve(self->dealer);
}

int
verl_client_pid_fd(const verl_client_t *self)
{
    return self->run.pid_fd;
}
