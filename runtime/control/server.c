// server.c: see server.h: requests as they come, and the life of both sockets. What is answered: questions.c.
#include "runtime/control/server_impl.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "runtime/control/names.h"

#define FRAME_MOST      (4 << 20)           // bytes; who sends more is cut off by the socket
#define ANSWERS_WAITING 256                 // for one client, beyond what its kernel buffer takes
#define QUESTIONS_OPEN  4096
#define REQUESTS_A_STEP 64
#define LINGER_MS       1000

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
    question_t *question = verl_question_open(self, socket, peer, json_is_number(id) ? id : NULL);
    uint64_t token = question ? question->token : 0;
    if (question && error.text[0]) {
        verl_control_refuse(self, token, "%s", error.text);
        if (self->questions_count > QUESTIONS_OPEN && verl_question_find(self, token))
            verl_question_forget(self, question);       // who asks so often and does not read is not answered either
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
        verl_control_look(self, socket);
    }
    verl_questions_tend(self);
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
        verl_question_forget(self, self->questions);
    for (int i = 0; i < SOCKETS; i++)
        if (self->sockets[i])
            zmq_close(self->sockets[i]);
    if (self->wake_fd >= 0)
        close(self->wake_fd);
    free(self);
}
