// endpoint.c: see endpoint.h. One lock guards peers, outboxes and sockets that send; the ROUTER is the mailbox
// thread's alone. Counters of an inbound channel are atomic, since the worker moves what the mailbox thread reports.
#include "runtime/mailbox/endpoint.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>
#include "runtime/base/clock.h"
#include "runtime/mailbox/outbox.h"

#define TICK_MS         20                  // a status that changed is told at the latest after that
#define IDLE_MS         10000               // longest sleep of a mailbox thread
#define RESEND_NS       (2 * VERL_S)        // unanswered so long: sent again
#define RESEND_MAX_NS   (10 * VERL_S)
#define FRAMES_A_STEP   256                 // read before other duties get their turn

typedef struct peer peer_t;

struct verl_outbound {
    verl_outbound_t *next;
    peer_t          *peer;
    int64_t          edge;
    verl_outbox_t    outbox;                // seq done + 1 … last
    uint64_t         last, sent;            // numbered; handed to the socket
    uint64_t         received, limit, done; // as the receiver told
    int64_t          answered_at, resend_ns;
};

typedef struct stash {                      // came before its turn
    struct stash *next;
    uint64_t      seq;
    size_t        size;
    char          bytes[];
} stash_t;

struct verl_inbound {
    verl_inbound_t  *next;
    atomic_int       refs;                  // the peer's, and those of whoever still has to say that it is done
    uint64_t         from;
    int64_t          edge, window;
    void            *tag;
    _Atomic uint64_t received, taken, done;
    uint64_t         told_received, told_taken, told_done;   // in the last status; under the lock
    bool             repeat;                                 // a duplicate came: the last status was lost
    int64_t          changed_at;                             // when the heartbeat first saw it untold; 0: it is told
    stash_t         *stash;                                  // mailbox thread only, by rising seq
};

struct peer {
    peer_t          *next;
    verl_endpoint_t *endpoint;
    uint64_t         incarnation;
    void            *dealer;
    verl_buffer_t    frame;
    verl_outbound_t *outbound;
    verl_inbound_t  *inbound;
};

struct verl_endpoint {
    void                    *zmq, *router;
    uint64_t                 incarnation;
    verl_endpoint_handlers_t handlers;
    void                    *context;
    int                      wake_fd;
    pthread_mutex_t          lock;
    peer_t                  *peers;
    verl_buffer_t            scratch;       // under the lock
    bool                     sent;          // something was, since the last heartbeat
    bool                     sleeps_long;   // the mailbox thread waits longer than a message may stay unanswered
};

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

static void s_flush_peer(peer_t *peer);

static void
s_inbound_free(verl_inbound_t *inbound)
{
    while (inbound->stash) {
        stash_t *next = inbound->stash->next;
        free(inbound->stash);
        inbound->stash = next;
    }
    verl_inbound_release(inbound);
}

static void
s_outbound_free(verl_endpoint_t *self, verl_outbound_t *out)
{
    while (verl_outbox_count(&out->outbox)) {
        void *tag = verl_outbox_pop(&out->outbox);
        if (tag)
            self->handlers.done(self->context, tag);
    }
    verl_outbox_done(&out->outbox);
    free(out);
}

static void
s_peer_free(verl_endpoint_t *self, peer_t *peer)
{
    for (verl_outbound_t *out = peer->outbound, *next; out; out = next) {
        next = out->next;
        s_outbound_free(self, out);
    }
    for (verl_inbound_t *in = peer->inbound, *next; in; in = next) {
        next = in->next;
        s_inbound_free(in);
    }
    verl_buffer_done(&peer->frame);
    zmq_close(peer->dealer);
    free(peer);
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
        s_peer_free(self, peer);
    }
    if (self->router)
        zmq_close(self->router);
    if (self->wake_fd >= 0)
        close(self->wake_fd);
    verl_buffer_done(&self->scratch);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

uint64_t
verl_endpoint_incarnation(const verl_endpoint_t *endpoint)
{
    return endpoint->incarnation;
}

// --- peers and channels -------------------------------------------------------------------------------------------

static peer_t *
s_peer(const verl_endpoint_t *self, uint64_t incarnation)
{
    for (peer_t *peer = self->peers; peer; peer = peer->next)
        if (peer->incarnation == incarnation)
            return peer;
    return NULL;
}

static void *
s_dealer(verl_endpoint_t *self, const char *address, verl_error_t *error)
{
    int none = 0, reconnect = 10, reconnect_most = 1000;
    void *dealer = zmq_socket(self->zmq, ZMQ_DEALER);
    if (!dealer) {
        verl_error_set(error, "cannot make a socket: %s", zmq_strerror(zmq_errno()));
        return NULL;
    }
    zmq_setsockopt(dealer, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(dealer, ZMQ_SNDHWM, &none, sizeof none);
    zmq_setsockopt(dealer, ZMQ_RECONNECT_IVL, &reconnect, sizeof reconnect);
    zmq_setsockopt(dealer, ZMQ_RECONNECT_IVL_MAX, &reconnect_most, sizeof reconnect_most);
    if (zmq_connect(dealer, address)) {
        verl_error_set(error, "cannot connect to %s: %s", address, zmq_strerror(zmq_errno()));
        zmq_close(dealer);
        return NULL;
    }
    return dealer;
}

int
verl_endpoint_connect(verl_endpoint_t *self, uint64_t incarnation, const char *address, verl_error_t *error)
{
    pthread_mutex_lock(&self->lock);
    peer_t *peer = s_peer(self, incarnation);
    if (!peer && (peer = calloc(1, sizeof *peer))) {
        peer->endpoint = self;
        peer->incarnation = incarnation;
        peer->dealer = s_dealer(self, address, error);
        if (peer->dealer) {
            peer->next = self->peers;
            self->peers = peer;
        } else {
            free(peer);
            peer = NULL;
        }
    }
    pthread_mutex_unlock(&self->lock);
    return peer ? 0 : verl_error_set(error, "out of memory");
}

void
verl_endpoint_disconnect(verl_endpoint_t *self, uint64_t incarnation)
{
    pthread_mutex_lock(&self->lock);
    peer_t **link = &self->peers;
    while (*link && (*link)->incarnation != incarnation)
        link = &(*link)->next;
    peer_t *peer = *link;
    if (peer)
        *link = peer->next;
    pthread_mutex_unlock(&self->lock);
    if (peer)
        s_peer_free(self, peer);
}

static verl_outbound_t *
s_outbound_find(peer_t *peer, int64_t edge)
{
    verl_outbound_t *out = peer ? peer->outbound : NULL;
    while (out && out->edge != edge)
        out = out->next;
    return out;
}

static verl_inbound_t *
s_inbound_find(peer_t *peer, int64_t edge)
{
    verl_inbound_t *in = peer ? peer->inbound : NULL;
    while (in && in->edge != edge)
        in = in->next;
    return in;
}

verl_outbound_t *
verl_outbound_open(verl_endpoint_t *self, uint64_t to, int64_t edge, int64_t window)
{
    pthread_mutex_lock(&self->lock);
    peer_t *peer = s_peer(self, to);
    verl_outbound_t *out = s_outbound_find(peer, edge);
    if (peer && !out && (out = calloc(1, sizeof *out))) {
        *out = (verl_outbound_t) { .next = peer->outbound, .peer = peer, .edge = edge, .limit = (uint64_t) window,
                                   .resend_ns = RESEND_NS };
        peer->outbound = out;
    }
    pthread_mutex_unlock(&self->lock);
    return out;
}

static void s_flush_peer(peer_t *peer);
static void s_tell(verl_endpoint_t *self, peer_t *peer, verl_inbound_t *in);

verl_inbound_t *
verl_inbound_open(verl_endpoint_t *self, uint64_t from, int64_t edge, int64_t window, void *tag)
{
    pthread_mutex_lock(&self->lock);
    peer_t *peer = s_peer(self, from);
    verl_inbound_t *in = s_inbound_find(peer, edge);
    if (peer && !in && (in = calloc(1, sizeof *in))) {
        in->next = peer->inbound;
        atomic_init(&in->refs, 1);
        in->from = from;
        in->edge = edge;
        in->window = window;
        in->tag = tag;
        peer->inbound = in;
        s_tell(self, peer, in);             // what came before is lost: send it again
        s_flush_peer(peer);
    }
    pthread_mutex_unlock(&self->lock);
    return in;
}

void *
verl_inbound_tag(const verl_inbound_t *inbound)
{
    return inbound->tag;
}

uint64_t
verl_inbound_from(const verl_inbound_t *inbound)
{
    return inbound->from;
}

uint64_t
verl_outbound_last(const verl_outbound_t *outbound)
{
    verl_endpoint_t *self = outbound->peer->endpoint;
    pthread_mutex_lock(&self->lock);
    uint64_t last = outbound->last;
    pthread_mutex_unlock(&self->lock);
    return last;
}

uint64_t
verl_outbound_to(const verl_outbound_t *outbound)
{
    return outbound->peer->incarnation;
}

int64_t
verl_inbound_edge(const verl_inbound_t *inbound)
{
    return inbound->edge;
}

verl_inbound_t *
verl_inbound_hold(verl_inbound_t *inbound)
{
    atomic_fetch_add(&inbound->refs, 1);
    return inbound;
}

void
verl_inbound_release(verl_inbound_t *inbound)
{
    if (atomic_fetch_sub(&inbound->refs, 1) == 1)
        free(inbound);
}

// A peer without channels is forgotten.
static peer_t *
s_unlink_idle(verl_endpoint_t *self, peer_t *peer)
{
    peer_t **link = &self->peers;
    if (peer->inbound || peer->outbound)
        return NULL;
    while (*link != peer)
        link = &(*link)->next;
    *link = peer->next;
    return peer;
}

void
verl_outbound_close(verl_outbound_t *out)
{
    verl_endpoint_t *self = out->peer->endpoint;
    verl_outbound_t **link = &out->peer->outbound;
    pthread_mutex_lock(&self->lock);
    while (*link != out)
        link = &(*link)->next;
    *link = out->next;
    s_flush_peer(out->peer);
    peer_t *idle = s_unlink_idle(self, out->peer);
    pthread_mutex_unlock(&self->lock);
    s_outbound_free(self, out);
    if (idle)
        s_peer_free(self, idle);
}

void
verl_inbound_close(verl_endpoint_t *self, verl_inbound_t *in)
{
    pthread_mutex_lock(&self->lock);
    peer_t *peer = s_peer(self, in->from);
    verl_inbound_t **link = peer ? &peer->inbound : NULL;
    while (link && *link && *link != in)
        link = &(*link)->next;
    bool open = link && *link;
    if (open)
        *link = in->next;
    peer_t *idle = open ? s_unlink_idle(self, peer) : NULL;
    pthread_mutex_unlock(&self->lock);
    if (open)
        s_inbound_free(in);
    if (idle)
        s_peer_free(self, idle);
}

// --- sending: all under the lock ----------------------------------------------------------------------------------

static void
s_flush_peer(peer_t *peer)
{
    if (!peer->frame.size)
        return;
    zmq_msg_t message;
    if (zmq_msg_init_size(&message, peer->frame.size))
        return;                             // no memory: what is numbered is sent again later
    memcpy(zmq_msg_data(&message), peer->frame.data, peer->frame.size);
    if (zmq_msg_send(&message, peer->dealer, ZMQ_DONTWAIT) < 0)
        zmq_msg_close(&message);            // likewise
    verl_buffer_clear(&peer->frame);
}

static void
s_put(peer_t *peer, const char *bytes, size_t size)
{
    if (peer->frame.size && peer->frame.size + size > VERL_FRAME_BYTES)
        s_flush_peer(peer);
    verl_buffer_append(&peer->frame, bytes, size);
    if (peer->frame.size >= VERL_FRAME_BYTES)
        s_flush_peer(peer);
}

static void
s_trace(verl_endpoint_t *self, const verl_message_t *message)
{
    if (self->handlers.trace)
        self->handlers.trace(self->context, message);
}

// Sends what is numbered, kept and within the limit, from seq `from` on.
static void
s_send_from(verl_outbound_t *out, uint64_t from)
{
    uint64_t to = out->last < out->limit ? out->last : out->limit;
    if (from <= out->done)
        from = out->done + 1;
    for (uint64_t seq = from; seq <= to; seq++) {
        size_t size;
        const char *bytes = verl_outbox_at(&out->outbox, seq - out->done - 1, &size);
        s_put(out->peer, bytes, size);
    }
    if (to > out->sent) {
        if (out->sent == out->received)
            out->answered_at = verl_now();
        out->sent = to;
        verl_endpoint_t *self = out->peer->endpoint;
        self->sent = true;
        if (self->sleeps_long) {
            self->sleeps_long = false;
            verl_endpoint_wake(self);
        }
    }
}

static int
s_send(verl_endpoint_t *self, verl_outbound_t *out, const verl_message_t *message, void *tag)
{
    verl_message_t numbered = *message;
    numbered.type = VERL_MESSAGE_DATA;
    numbered.edge = out->edge;
    numbered.from = self->incarnation;
    numbered.to = out->peer->incarnation;
    numbered.seq = out->last + 1;
    verl_buffer_clear(&self->scratch);
    if (verl_message_write(&self->scratch, &numbered) ||
        verl_outbox_push(&out->outbox, self->scratch.data, self->scratch.size, tag))
        return -1;
    out->last++;
    if (out->sent + 1 == out->last)
        s_send_from(out, out->last);
    if (out->edge < 0)
        s_trace(self, &numbered);
    return 0;
}

int
verl_outbound_send(verl_outbound_t *out, const verl_message_t *message, void *tag)
{
    verl_endpoint_t *self = out->peer->endpoint;
    pthread_mutex_lock(&self->lock);
    int failed = s_send(self, out, message, tag);
    pthread_mutex_unlock(&self->lock);
    return failed;
}

int
verl_outbound_inherit(verl_outbound_t *out, verl_outbound_t *from)
{
    verl_endpoint_t *self = out->peer->endpoint;
    int failed = 0;
    pthread_mutex_lock(&self->lock);
    while (!failed && verl_outbox_count(&from->outbox)) {
        size_t size;
        verl_reader_t reader;
        verl_message_t message;
        const char *bytes = verl_outbox_at(&from->outbox, 0, &size);
        verl_reader_init(&reader, bytes, size);
        failed = verl_message_read(&reader, &message, NULL);
        void *tag = failed ? NULL : from->outbox.entries[from->outbox.first & (from->outbox.entries_room - 1)].tag;
        if (!failed && !(failed = s_send(self, out, &message, tag)))
            verl_outbox_pop(&from->outbox);
    }
    from->done = from->last;
    s_flush_peer(out->peer);
    pthread_mutex_unlock(&self->lock);
    return failed ? -1 : 0;
}

void
verl_outbound_flush(verl_outbound_t *out)
{
    verl_endpoint_t *self = out->peer->endpoint;
    pthread_mutex_lock(&self->lock);
    s_flush_peer(out->peer);
    pthread_mutex_unlock(&self->lock);
}

void
verl_endpoint_flush(verl_endpoint_t *self)
{
    pthread_mutex_lock(&self->lock);
    for (peer_t *peer = self->peers; peer; peer = peer->next)
        s_flush_peer(peer);
    pthread_mutex_unlock(&self->lock);
}

static void
s_put_message(verl_endpoint_t *self, peer_t *peer, verl_message_t *message)
{
    message->from = self->incarnation;
    message->to = peer->incarnation;
    verl_buffer_clear(&self->scratch);
    if (verl_message_write(&self->scratch, message) == 0)
        s_put(peer, self->scratch.data, self->scratch.size);
    s_trace(self, message);
}

int
verl_endpoint_ping(verl_endpoint_t *self, uint64_t to, int64_t number)
{
    pthread_mutex_lock(&self->lock);
    peer_t *peer = s_peer(self, to);
    if (peer) {
        s_put_message(self, peer, &(verl_message_t) { .type = VERL_MESSAGE_PING, .batch = number, .parts = 1 });
        s_flush_peer(peer);
    }
    pthread_mutex_unlock(&self->lock);
    return peer ? 0 : -1;
}

// --- acknowledging ------------------------------------------------------------------------------------------------

void
verl_inbound_taken(verl_inbound_t *inbound, int64_t count)
{
    atomic_fetch_add(&inbound->taken, (uint64_t) count);
}

void
verl_inbound_done(verl_inbound_t *inbound, int64_t count)
{
    atomic_fetch_add(&inbound->done, (uint64_t) count);
}

static bool
s_untold(const verl_inbound_t *in)
{
    return in->repeat || in->told_received != atomic_load(&in->received) || in->told_taken != atomic_load(&in->taken) ||
           in->told_done != atomic_load(&in->done);
}

static void
s_tell(verl_endpoint_t *self, peer_t *peer, verl_inbound_t *in)
{
    in->repeat = false;
    in->told_received = atomic_load(&in->received);
    in->told_taken = atomic_load(&in->taken);
    in->told_done = atomic_load(&in->done);
    in->changed_at = 0;
    s_put_message(self, peer,
                  &(verl_message_t) { .type = VERL_MESSAGE_STATUS, .edge = in->edge, .seq = in->told_received,
                                      .revision = (int64_t) in->told_taken + in->window,
                                      .batch = (int64_t) in->told_done, .parts = 1 });
}

void
verl_endpoint_acknowledge(verl_endpoint_t *self, bool urgent)
{
    pthread_mutex_lock(&self->lock);
    for (peer_t *peer = self->peers; peer; peer = peer->next) {
        bool told = false;
        for (verl_inbound_t *in = peer->inbound; in; in = in->next) {
            bool used_up = (int64_t) (atomic_load(&in->taken) - in->told_taken) * 4 >= in->window;
            if ((urgent && s_untold(in)) || used_up) {
                s_tell(self, peer, in);
                told = true;
            }
        }
        if (told)
            s_flush_peer(peer);
    }
    pthread_mutex_unlock(&self->lock);
}

// --- receiving: the mailbox thread --------------------------------------------------------------------------------

static void
s_malformed(const verl_endpoint_t *self, const char *reason)
{
    if (self->handlers.malformed)
        self->handlers.malformed(self->context, reason);
}

static int
s_deliver(verl_endpoint_t *self, verl_inbound_t *in, const verl_message_t *message)
{
    verl_error_t error = { "" };
    atomic_store(&in->received, message->seq);
    if (self->handlers.message(self->context, in, message, &error) == 0)
        return 0;
    s_malformed(self, error.text);
    return -1;
}

static void
s_stash(verl_inbound_t *in, const verl_message_t *message)
{
    stash_t **link = &in->stash;
    while (*link && (*link)->seq < message->seq)
        link = &(*link)->next;
    if (*link && (*link)->seq == message->seq)
        return;
    verl_buffer_t copy = { 0 };
    stash_t *stash = NULL;
    if (verl_message_write(&copy, message) == 0 && (stash = malloc(sizeof *stash + copy.size))) {
        stash->seq = message->seq;
        stash->size = copy.size;
        memcpy(stash->bytes, copy.data, copy.size);
        stash->next = *link;
        *link = stash;
    }
    verl_buffer_done(&copy);                // without memory it is as if it had been lost: it is sent again
}

static void
s_unstash(verl_endpoint_t *self, verl_inbound_t *in)
{
    while (in->stash && in->stash->seq <= atomic_load(&in->received) + 1) {
        stash_t *stash = in->stash;
        verl_reader_t reader;
        verl_message_t message;
        in->stash = stash->next;
        verl_reader_init(&reader, stash->bytes, stash->size);
        if (stash->seq == atomic_load(&in->received) + 1 && verl_message_read(&reader, &message, NULL) == 0)
            s_deliver(self, in, &message);
        free(stash);
    }
}

static void
s_on_data(verl_endpoint_t *self, peer_t *peer, const verl_message_t *message)
{
    verl_inbound_t *in = s_inbound_find(peer, message->edge);
    if (!in)
        return;                             // an edge that is not wired yet: it is sent again
    uint64_t received = atomic_load(&in->received);
    if (message->seq <= received) {
        pthread_mutex_lock(&self->lock);
        in->repeat = true;
        pthread_mutex_unlock(&self->lock);
    } else if (message->seq > atomic_load(&in->taken) + (uint64_t) in->window) {
        return;                             // beyond the credit
    } else if (message->seq != received + 1) {
        s_stash(in, message);
    } else if (s_deliver(self, in, message) == 0) {
        s_unstash(self, in);
    }
}

// Tags that a status lets go are collected under the lock and returned without it.
static void
s_on_status(verl_endpoint_t *self, peer_t *peer, const verl_message_t *message)
{
    void *tags[256];
    bool more = true;
    while (more) {
        int count = 0;
        pthread_mutex_lock(&self->lock);
        verl_outbound_t *out = s_outbound_find(peer, message->edge);
        more = false;
        if (out && message->seq <= out->last && message->batch >= 0 && (uint64_t) message->batch <= out->last) {
            if (!message->seq && !out->received && out->sent) {      // it has just opened the channel
                s_send_from(out, 1);
                s_flush_peer(peer);
                out->answered_at = verl_now();
            }
            if (message->seq > out->received || (uint64_t) message->batch > out->done) {
                out->answered_at = verl_now();
                out->resend_ns = RESEND_NS;
            }
            if (message->seq > out->received)
                out->received = message->seq;
            while (out->done < (uint64_t) message->batch && count < 256) {
                void *tag = verl_outbox_pop(&out->outbox);
                out->done++;
                if (tag)
                    tags[count++] = tag;
            }
            more = out->done < (uint64_t) message->batch;
            if ((uint64_t) message->revision > out->limit) {
                out->limit = (uint64_t) message->revision;
                s_send_from(out, out->sent + 1);
                s_flush_peer(peer);
            }
        }
        pthread_mutex_unlock(&self->lock);
        for (int i = 0; i < count; i++)
            self->handlers.done(self->context, tags[i]);
    }
}

static void
s_on_ping(verl_endpoint_t *self, peer_t *peer, const verl_message_t *message)
{
    verl_buffer_t body = { 0 };
    if (self->handlers.ping)
        self->handlers.ping(self->context, &body);
    pthread_mutex_lock(&self->lock);
    s_put_message(self, peer, &(verl_message_t) { .type = VERL_MESSAGE_PONG, .batch = message->batch, .parts = 1,
                                                  .body = body.data, .body_size = body.size });
    s_flush_peer(peer);
    pthread_mutex_unlock(&self->lock);
    verl_buffer_done(&body);
}

static void
s_on_frame(verl_endpoint_t *self, const char *bytes, size_t size)
{
    verl_reader_t reader;
    verl_message_t message = { 0 };
    verl_error_t error = { "" };
    verl_reader_init(&reader, bytes, size);
    while (verl_reader_left(&reader)) {
        if (verl_message_read(&reader, &message, &error)) {
            s_malformed(self, error.text);
            return;
        }
        peer_t *peer = message.to == self->incarnation ? s_peer(self, message.from) : NULL;
        if (!peer)
            continue;                       // of or for another incarnation
        if (message.type == VERL_MESSAGE_DATA)
            s_on_data(self, peer, &message);
        else if (message.type == VERL_MESSAGE_STATUS)
            s_on_status(self, peer, &message);
        else if (message.type == VERL_MESSAGE_PING)
            s_on_ping(self, peer, &message);
        else if (self->handlers.pong)
            self->handlers.pong(self->context, &message);
    }
}

// One frame, if there is one: the ROUTER puts the sender's routing id before it.
static bool
s_receive(verl_endpoint_t *self)
{
    zmq_msg_t part;
    bool last = false;
    zmq_msg_init(&part);
    if (zmq_msg_recv(&part, self->router, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&part);
        return false;
    }
    for (int i = 0; zmq_msg_more(&part); i++) {
        if (zmq_msg_recv(&part, self->router, 0) < 0)
            break;
        last = !zmq_msg_more(&part);
        if (last && i == 0)
            s_on_frame(self, zmq_msg_data(&part), zmq_msg_size(&part));
    }
    zmq_msg_close(&part);
    return true;
}

// Tells what changed and was not told for a while, sends again what stayed unanswered. Returns the milliseconds until
// it has to be called again.
static int
s_heartbeat(verl_endpoint_t *self)
{
    pthread_mutex_lock(&self->lock);
    int wait = self->sent ? (int) (RESEND_NS / VERL_MS) : IDLE_MS;
    self->sent = false;
    int64_t now = verl_now();
    for (peer_t *peer = self->peers; peer; peer = peer->next) {
        bool tell = false;
        for (verl_inbound_t *in = peer->inbound; in; in = in->next) {
            if (!s_untold(in))
                continue;
            wait = TICK_MS;
            if (!in->changed_at)
                in->changed_at = now;
            else if (now - in->changed_at >= TICK_MS * VERL_MS) {
                s_tell(self, peer, in);
                tell = true;
            }
        }
        for (verl_outbound_t *out = peer->outbound; out; out = out->next) {
            if (out->sent <= out->received)
                continue;
            if (now - out->answered_at >= out->resend_ns) {
                s_send_from(out, out->received + 1);
                out->answered_at = now;
                out->resend_ns = out->resend_ns * 2 < RESEND_MAX_NS ? out->resend_ns * 2 : RESEND_MAX_NS;
                tell = true;
            }
            int left = (int) ((out->answered_at + out->resend_ns - now) / VERL_MS) + 1;
            wait = left < wait ? left : wait;
        }
        if (tell)
            s_flush_peer(peer);
    }
    self->sleeps_long = wait > RESEND_NS / VERL_MS;
    pthread_mutex_unlock(&self->lock);
    return wait;
}

bool
verl_endpoint_step(verl_endpoint_t *self, int fd, int timeout_ms)
{
    int frames = 0;
    while (frames < FRAMES_A_STEP && s_receive(self))
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
