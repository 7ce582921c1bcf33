// peers.c: who is spoken to, and the channels to and from them: opened, found, closed.
#include "runtime/mailbox/endpoint_impl.h"
#include <stdlib.h>
#include <zmq.h>

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

void
verl_peer_free(verl_endpoint_t *self, peer_t *peer)
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

peer_t *
verl_peer_find(const verl_endpoint_t *self, uint64_t incarnation)
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
    peer_t *peer = verl_peer_find(self, incarnation);
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

verl_outbound_t *
verl_outbound_find(peer_t *peer, int64_t edge)
{
    verl_outbound_t *out = peer ? peer->outbound : NULL;
    while (out && out->edge != edge)
        out = out->next;
    return out;
}

verl_inbound_t *
verl_inbound_find(peer_t *peer, int64_t edge)
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
    peer_t *peer = verl_peer_find(self, to);
    verl_outbound_t *out = verl_outbound_find(peer, edge);
    if (peer && !out && (out = calloc(1, sizeof *out))) {
        *out = (verl_outbound_t) { .next = peer->outbound, .peer = peer, .edge = edge, .limit = (uint64_t) window,
                                   .resend_ns = VERL_RESEND_NS };
        peer->outbound = out;
    }
    pthread_mutex_unlock(&self->lock);
    return out;
}

verl_inbound_t *
verl_inbound_open(verl_endpoint_t *self, uint64_t from, int64_t edge, int64_t window, void *tag)
{
    pthread_mutex_lock(&self->lock);
    peer_t *peer = verl_peer_find(self, from);
    verl_inbound_t *in = verl_inbound_find(peer, edge);
    if (peer && !in && (in = calloc(1, sizeof *in))) {
        in->next = peer->inbound;
        atomic_init(&in->refs, 1);
        in->from = from;
        in->edge = edge;
        in->window = window;
        in->tag = tag;
        peer->inbound = in;
        verl_inbound_tell(self, peer, in);             // what came before is lost: send it again
        verl_peer_flush(peer);
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

int64_t
verl_outbound_credit(const verl_outbound_t *outbound)
{
    verl_endpoint_t *self = outbound->peer->endpoint;
    pthread_mutex_lock(&self->lock);
    int64_t credit = outbound->limit > outbound->last ? (int64_t) (outbound->limit - outbound->last) : 0;
    pthread_mutex_unlock(&self->lock);
    return credit;
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
    verl_peer_flush(out->peer);
    peer_t *idle = s_unlink_idle(self, out->peer);
    pthread_mutex_unlock(&self->lock);
    s_outbound_free(self, out);
    if (idle)
        verl_peer_free(self, idle);
}

void
verl_inbound_close(verl_endpoint_t *self, verl_inbound_t *in)
{
    pthread_mutex_lock(&self->lock);
    peer_t *peer = verl_peer_find(self, in->from);
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
        verl_peer_free(self, idle);
}
