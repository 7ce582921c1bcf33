// endpoint.c: see endpoint.h. Its life, and the turns of the mailbox thread.
#include "runtime/mailbox/endpoint_impl.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#define IDLE_MS         10000               // longest sleep of a mailbox thread
#define RESEND_MAX_NS   (10 * VERL_S)
#define FRAMES_A_STEP   256                 // read before other duties get their turn

// --- life ---------------------------------------------------------------------------------------------------------

static int
s_bind(verl_endpoint_t *self, const char *address, verl_error_t *error)
{
    int none = 0, uid = (int) getuid();
    self->router = zmq_socket(self->zmq, ZMQ_ROUTER);
    if (!self->router)
        return verl_error_set(error, "cannot make a socket: %s", zmq_strerror(zmq_errno()));
    zmq_setsockopt(self->router, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(self->router, ZMQ_RCVHWM, &none, sizeof none);
    zmq_setsockopt(self->router, ZMQ_SNDHWM, &none, sizeof none);
    if (strncmp(address, "ipc:", 4) == 0 && zmq_setsockopt(self->router, ZMQ_IPC_FILTER_UID, &uid, sizeof uid))
        return verl_error_set(error, "cannot restrict %s to this user: %s", address, zmq_strerror(zmq_errno()));
    if (zmq_bind(self->router, address))
        return verl_error_set(error, "cannot bind %s: %s", address, zmq_strerror(zmq_errno()));
    return 0;
}

verl_endpoint_t *
verl_endpoint_new(void *zmq, uint64_t incarnation, const char *address, const verl_endpoint_handlers_t *handlers,
                  void *context, verl_error_t *error)
{
    verl_endpoint_t *self = calloc(1, sizeof *self);
    if (!self) {
        verl_error_set(error, "out of memory");
        return NULL;
    }
    self->zmq = zmq;
    self->incarnation = incarnation;
    self->handlers = *handlers;
    self->context = context;
    pthread_mutex_init(&self->lock, NULL);
    self->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->wake_fd < 0 ? verl_error_errno(error, "cannot make an eventfd") : s_bind(self, address, error))
        verl_endpoint_destroy(&self);
    return self;
}

void
verl_endpoint_destroy(verl_endpoint_t **endpoint_p)
{
    verl_endpoint_t *self = *endpoint_p;
    if (!self)
        return;
    *endpoint_p = NULL;
    for (peer_t *peer = self->peers, *next; peer; peer = next) {
        next = peer->next;
        verl_peer_free(self, peer);
    }
    if (self->router)
        zmq_close(self->router);
    if (self->wake_fd >= 0)
        close(self->wake_fd);
    verl_buffer_done(&self->scratch);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

// --- turns -------------------------------------------------------------------------------------------------------

// Has it been so for a tick? *since: when that was first seen, 0: not yet.
static bool
s_for_a_tick(int64_t *since, int64_t now)
{
    if (!*since)
        *since = now;
    return now - *since >= VERL_TICK_MS * VERL_MS;
}

// Sends what was queued and not flushed for a tick, and tells what changed and was not told for one. Returns the
// milliseconds until it has to be called again, at most `wait`.
static int
s_tell_late(verl_endpoint_t *self, int64_t now, int wait)
{
    bool queued = verl_peers_queued(self), flush = queued && s_for_a_tick(&self->queued_at, now);
    if (queued && !flush)
        wait = VERL_TICK_MS;
    else
        self->queued_at = 0;
    for (peer_t *peer = self->peers; peer; peer = peer->next)
        for (verl_inbound_t *in = peer->inbound; in; in = in->next) {
            if (!verl_inbound_untold(in))
                continue;
            wait = VERL_TICK_MS;
            if (!s_for_a_tick(&in->changed_at, now))
                continue;
            verl_peers_flush(self);         // a report of a batch goes before the batch is acknowledged
            verl_inbound_tell(self, peer, in);
            flush = true;
        }
    if (flush)
        verl_peers_flush(self);
    return wait;
}

// Sends again what stayed unanswered. Returns as above.
static int
s_repeat(verl_endpoint_t *self, int64_t now, int wait)
{
    for (peer_t *peer = self->peers; peer; peer = peer->next)
        for (verl_outbound_t *out = peer->outbound; out; out = out->next) {
            if (out->sent <= out->received)
                continue;
            if (now - out->answered_at >= out->resend_ns) {
                verl_outbound_send_from(out, out->received + 1);
                verl_peer_flush(peer);
                out->answered_at = now;
                out->resend_ns = out->resend_ns * 2 < RESEND_MAX_NS ? out->resend_ns * 2 : RESEND_MAX_NS;
            }
            int left = (int) ((out->answered_at + out->resend_ns - now) / VERL_MS) + 1;
            wait = left < wait ? left : wait;
        }
    return wait;
}

// Returns the milliseconds until it has to be called again.
static int
s_heartbeat(verl_endpoint_t *self)
{
    pthread_mutex_lock(&self->lock);
    int wait = self->sent ? (int) (VERL_RESEND_NS / VERL_MS) : IDLE_MS;
    self->sent = false;
    int64_t now = verl_now();
    wait = s_tell_late(self, now, wait);
    wait = s_repeat(self, now, wait);
    self->sleeps_ms = wait;
    pthread_mutex_unlock(&self->lock);
    return wait;
}

bool
verl_endpoint_step(verl_endpoint_t *self, int fd, int timeout_ms)
{
    int frames = 0;
    while (frames < FRAMES_A_STEP && verl_endpoint_receive(self))
        frames++;
    int wait = s_heartbeat(self);
    if (frames)
        wait = 0;
    else if (timeout_ms >= 0 && timeout_ms < wait)
        wait = timeout_ms;
    zmq_pollitem_t items[] = { { self->router, 0, ZMQ_POLLIN, 0 },
                               { NULL, self->wake_fd, ZMQ_POLLIN, 0 },
                               { NULL, fd, ZMQ_POLLIN, 0 } };
    if (zmq_poll(items, fd < 0 ? 2 : 3, wait) <= 0)
        return false;
    if (items[1].revents) {
        uint64_t count;
        if (read(self->wake_fd, &count, sizeof count) < 0 && errno != EAGAIN)
            return false;
    }
    return fd >= 0 && items[2].revents;
}

void
verl_endpoint_wake(verl_endpoint_t *self)
{
    uint64_t one = 1;
    ssize_t written = write(self->wake_fd, &one, sizeof one);
    (void) written;                         // full: it is awake already
}

int64_t
verl_endpoint_unanswered(verl_endpoint_t *self)
{
    int64_t count = 0;
    pthread_mutex_lock(&self->lock);
    for (peer_t *peer = self->peers; peer; peer = peer->next)
        for (verl_outbound_t *out = peer->outbound; out; out = out->next)
            count += (int64_t) verl_outbox_count(&out->outbox);
    pthread_mutex_unlock(&self->lock);
    return count;
}
