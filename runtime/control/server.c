// server.c: see server.h. A token is an open question: who asked, under which id, and the last answer where it still
// waits for room. Gone clients are found by sending: an open question gets an empty answer a second ({"id", "more"}).
#include "runtime/control/server.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>
#include "runtime/base/clock.h"
#include "runtime/base/json.h"
#include "runtime/control/names.h"

#define FRAME_MOST      (4 << 20)           // bytes; who sends more is cut off by the socket
#define ANSWERS_WAITING 256                 // for one client, beyond what its kernel buffer takes
#define QUESTIONS_OPEN  4096
#define REQUESTS_A_STEP 64
#define PROBE_NS        VERL_S              // an open question hears of us that often
#define LINGER_MS       1000
#define PEER_BYTES      256                 // longest name that a ROUTER gives or takes

enum { WATCH, CHANGE, SOCKETS };

typedef struct question {
    struct question *next;
    uint64_t         token;
    int              socket;
    json_t          *id;                    // as the client wrote it; NULL: it did not
    char            *last;                  // its last answer, which waits for room
    int64_t          told_at, lost;
    bool             gone;                  // its client is
    size_t           peer_size;
    char             peer[PEER_BYTES];
} question_t;

struct verl_control {
    void                  *sockets[SOCKETS];
    int                    wake_fd;         // readable while a step has more to do than a bound let it
    verl_control_handler_t handler;
    void                  *context;
    uint64_t               last_token;
    int                    questions_count;
    question_t            *questions;
    bool                   written;
    char                   path[4200];      // of control.json
};

// --- questions ----------------------------------------------------------------------------------------------------

static question_t *
s_question(const verl_control_t *self, uint64_t token)
{
    for (question_t *question = self->questions; question; question = question->next)
        if (question->token == token)
            return question;
    return NULL;
}

static question_t *
s_ask(verl_control_t *self, int socket, zmq_msg_t *peer, const json_t *id)
{
    question_t *question = calloc(1, sizeof *question);
    if (!question)
        return NULL;
    question->token = ++self->last_token;
    question->socket = socket;
    question->id = id ? json_deep_copy(id) : NULL;
    question->told_at = verl_now();
    question->peer_size = zmq_msg_size(peer);
    memcpy(question->peer, zmq_msg_data(peer), question->peer_size);
    question->next = self->questions;
    self->questions = question;
    self->questions_count++;
    return question;
}

static void
s_question_free(question_t *question)
{
    json_decref(question->id);
    free(question->last);
    free(question);
}

static void
s_forget(verl_control_t *self, question_t *question)
{
    question_t **link = &self->questions;
    while (*link != question)
        link = &(*link)->next;
    *link = question->next;
    self->questions_count--;
    s_question_free(question);
}

// --- sending ------------------------------------------------------------------------------------------------------

// More may have come while a socket was used, of which its descriptor tells nothing any more.
static void
s_look(verl_control_t *self, int socket)
{
    int events = 0;
    size_t size = sizeof events;
    if (zmq_getsockopt(self->sockets[socket], ZMQ_EVENTS, &events, &size) == 0 && events & ZMQ_POLLIN)
        eventfd_write(self->wake_fd, 1);
}

typedef enum { SENT, NO_ROOM, GONE } sent_t;

static sent_t
s_send(verl_control_t *self, question_t *question, const char *text)
{
    void *socket = self->sockets[question->socket];
    int sent = zmq_send(socket, question->peer, question->peer_size, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    if (sent >= 0)
        sent = zmq_send(socket, text, strlen(text), ZMQ_DONTWAIT);
    int why = sent < 0 ? zmq_errno() : 0;
    s_look(self, question->socket);
    if (sent < 0 && why != EAGAIN && why != EINTR)
        question->gone = true;
    else if (sent >= 0)
        question->told_at = verl_now();
    return sent >= 0 ? SENT : question->gone ? GONE : NO_ROOM;
}

// Takes the answer.
static char *
s_write_answer(const question_t *question, json_t *answer, bool last)
{
    if (!answer)
        answer = json_object();
    json_object_set_new(answer, "id", question->id ? json_incref(question->id) : json_null());
    if (!last)
        json_object_set_new(answer, "more", json_true());
    else if (question->lost)
        json_object_set_new(answer, "lost", json_integer(question->lost));
    char *text = json_dumps(answer, JSON_COMPACT);
    json_decref(answer);
    return text;
}

void
verl_control_answer(verl_control_t *self, uint64_t token, json_t *answer, bool last)
{
    question_t *question = s_question(self, token);
    if (!question || question->last || question->gone) {
        json_decref(answer);
        return;
    }
    char *text = s_write_answer(question, answer, last);
    sent_t sent = text ? s_send(self, question, text) : NO_ROOM;
    if (last && sent == NO_ROOM && text) {
        question->last = text;              // goes with a later step
        return;
    }
    free(text);
    if (last)
        s_forget(self, question);
    else if (sent == NO_ROOM)
        question->lost++;
}

void
verl_control_refuse(verl_control_t *self, uint64_t token, const char *format, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    verl_control_answer(self, token, json_pack("{s:o}", "error", verl_json_text(text)), true);
}

bool
verl_control_alive(const verl_control_t *self, uint64_t token)
{
    const question_t *question = s_question(self, token);
    return question && !question->last && !question->gone;
}

// Last answers that waited for room; a sign of life for who has heard nothing for a while; and who is gone.
static void
s_tend(verl_control_t *self)
{
    int64_t now = verl_now();
    for (question_t *question = self->questions, *next; question; question = next) {
        next = question->next;
        if (question->last && s_send(self, question, question->last) == SENT) {
            s_forget(self, question);
            continue;
        }
        if (!question->last && !question->gone && now - question->told_at >= PROBE_NS) {
            char *text = s_write_answer(question, NULL, false);
            if (text)
                s_send(self, question, text);
            free(text);
        }
        if (question->gone)
            s_forget(self, question);
    }
}

// --- receiving ----------------------------------------------------------------------------------------------------

static int
s_word(const json_t *body, verl_control_request_t *request, verl_error_t *error)
{
    if (!json_is_object(body))
        return verl_error_set(error, "a request is a JSON object with \"do\" and \"id\"");
    if (!json_is_number(json_object_get(body, "id")))
        return verl_error_set(error, "a request has a number as \"id\", under which it is answered");
    request->word = json_string_value(json_object_get(body, "do"));
    if (!request->word)
        return verl_error_set(error, "a request says with \"do\", a string, what is to be done");
    request->body = body;
    return 0;
}

static json_t *
s_parse(zmq_msg_t *frame, bool alone, verl_error_t *error)
{
    json_error_t where;
    if (!alone) {
        verl_error_set(error, "a request is one frame, a JSON object");
        return NULL;
    }
    if (zmq_msg_size(frame) > VERL_CONTROL_REQUEST_BYTES) {
        verl_error_set(error, "a request has at most %d bytes, not %zu", VERL_CONTROL_REQUEST_BYTES,
                       zmq_msg_size(frame));
        return NULL;
    }
    json_t *body = json_loadb(zmq_msg_data(frame), zmq_msg_size(frame), JSON_REJECT_DUPLICATES, &where);
    if (!body)
        verl_error_set(error, "a request is a JSON object: at byte %d, %s", where.position, where.text);
    return body;
}

static void
s_request(verl_control_t *self, int socket, zmq_msg_t *peer, zmq_msg_t *frame, bool alone)
{
    verl_error_t error = { "" };
    verl_control_request_t request = { .change = socket == CHANGE };
    json_t *body = s_parse(frame, alone, &error);
    if (body && self->questions_count >= QUESTIONS_OPEN)
        verl_error_set(&error, "%d questions are open already: try again later", QUESTIONS_OPEN);
    if (body)
        s_word(body, &request, &error);
    const json_t *id = json_object_get(body, "id");
    question_t *question = s_ask(self, socket, peer, json_is_number(id) ? id : NULL);
    uint64_t token = question ? question->token : 0;
    if (question && error.text[0]) {
        verl_control_refuse(self, token, "%s", error.text);
        if (self->questions_count > QUESTIONS_OPEN && s_question(self, token))
            s_forget(self, question);       // who asks so often and does not read is not answered either
    } else if (question) {
        request.token = token;
        self->handler(self->context, &request);
    }
    json_decref(body);
}

// One request, of whatever number of frames. False: none is there.
static bool
s_receive(verl_control_t *self, int socket)
{
    zmq_msg_t peer, frame;
    void *from = self->sockets[socket];
    zmq_msg_init(&peer);
    zmq_msg_init(&frame);
    bool got = zmq_msg_recv(&peer, from, ZMQ_DONTWAIT) >= 0;
    int frames = 0;
    for (bool more = got && zmq_msg_more(&peer); more; more = zmq_msg_more(&frame), frames++)
        if (zmq_msg_recv(&frame, from, ZMQ_DONTWAIT) < 0)
            break;
    if (got && zmq_msg_size(&peer) <= PEER_BYTES)
        s_request(self, socket, &peer, &frame, frames == 1);
    zmq_msg_close(&peer);
    zmq_msg_close(&frame);
    return got;
}

void
verl_control_step(verl_control_t *self)
{
    eventfd_t ignored;
    eventfd_read(self->wake_fd, &ignored);
    for (int socket = 0; socket < SOCKETS; socket++) {
        for (int i = 0; i < REQUESTS_A_STEP && s_receive(self, socket); i++) {
        }
        s_look(self, socket);
    }
    s_tend(self);
}

// --- life ---------------------------------------------------------------------------------------------------------

static int
s_option(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value);
}

static int
s_bind(verl_control_t *self, void *zmq, int which, const char *address, int epoll_fd, verl_error_t *error)
{
    int fd;
    size_t size = sizeof fd;
    int64_t most = FRAME_MOST;
    struct epoll_event event = { .events = EPOLLIN };
    void *socket = self->sockets[which] = zmq_socket(zmq, ZMQ_ROUTER);
    if (!socket)
        return verl_error_set(error, "cannot make a socket: %s", zmq_strerror(zmq_errno()));
    if (s_option(socket, ZMQ_LINGER, LINGER_MS) || s_option(socket, ZMQ_SNDHWM, ANSWERS_WAITING) ||
        s_option(socket, ZMQ_RCVHWM, ANSWERS_WAITING) || s_option(socket, ZMQ_ROUTER_MANDATORY, 1) ||
        zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof most) ||
        s_option(socket, ZMQ_IPC_FILTER_UID, (int) getuid()))
        return verl_error_set(error, "cannot restrict %s to this user: %s", address, zmq_strerror(zmq_errno()));
    if (zmq_bind(socket, address))
        return verl_error_set(error, "cannot bind %s: %s", address, zmq_strerror(zmq_errno()));
    if (zmq_getsockopt(socket, ZMQ_FD, &fd, &size) || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event))
        return verl_error_errno(error, "cannot wait for %s", address);
    return 0;
}

// Beside it first, so that nobody reads half of it.
static int
s_write_names(verl_control_t *self, const char *directory, const char *run_id, char addresses[][VERL_CONTROL_BYTES],
              verl_error_t *error)
{
    char beside[sizeof self->path + 8];
    if ((size_t) snprintf(self->path, sizeof self->path, "%s/" VERL_CONTROL_FILE, directory) >= sizeof self->path)
        return verl_error_set(error, "the name of the run directory is too long: %s", directory);
    snprintf(beside, sizeof beside, "%s.tmp", self->path);
    json_t *names = json_pack("{s:s, s:i, s:s, s:s}", "run_id", run_id, "pid", (int) getpid(), "watch",
                              addresses[WATCH], "change", addresses[CHANGE]);
    char *text = names ? json_dumps(names, JSON_COMPACT) : NULL;
    json_decref(names);
    unlink(beside);
    int fd = text ? open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    bool whole = fd >= 0 && dprintf(fd, "%s\n", text) == (int) strlen(text) + 1;
    if (fd >= 0 && close(fd))
        whole = false;
    free(text);
    if (!whole || rename(beside, self->path))
        return verl_error_errno(error, "cannot write %s", self->path);
    self->written = true;
    return 0;
}

static int
s_open(verl_control_t *self, void *zmq, const char *run_id, const char *directory, int epoll_fd, verl_error_t *error)
{
    char addresses[SOCKETS][VERL_CONTROL_BYTES];
    struct epoll_event event = { .events = EPOLLIN };
    verl_control_address(addresses[WATCH], run_id, "watch");
    verl_control_address(addresses[CHANGE], run_id, "change");
    self->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->wake_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, self->wake_fd, &event))
        return verl_error_errno(error, "cannot make an eventfd");
    for (int i = 0; i < SOCKETS; i++)
        if (s_bind(self, zmq, i, addresses[i], epoll_fd, error))
            return -1;
    return s_write_names(self, directory, run_id, addresses, error);
}

verl_control_t *
verl_control_new(void *zmq, const char *run_id, const char *run_directory, int epoll_fd, verl_control_handler_t handler,
                 void *context, verl_error_t *error)
{
    verl_control_t *self = calloc(1, sizeof *self);
    if (!self) {
        verl_error_set(error, "out of memory");
        return NULL;
    }
    self->wake_fd = -1;
    self->handler = handler;
    self->context = context;
    if (s_open(self, zmq, run_id, run_directory, epoll_fd, error))
        verl_control_destroy(&self);
    return self;
}

void
verl_control_destroy(verl_control_t **control_p)
{
    verl_control_t *self = *control_p;
    if (!self)
        return;
    *control_p = NULL;
    if (self->written)
        unlink(self->path);
    while (self->questions)
        s_forget(self, self->questions);
    for (int i = 0; i < SOCKETS; i++)
        if (self->sockets[i])
            zmq_close(self->sockets[i]);
    if (self->wake_fd >= 0)
        close(self->wake_fd);
    free(self);
}
