// receiving.c: messages in: what is for whom, what came twice or too early. The mailbox thread.
#include "runtime/mailbox/endpoint_impl.h"
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

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
    verl_inbound_t *in = verl_inbound_find(peer, message->edge);
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

// Is it what a receiver of this channel can have come to? Under the lock.
static bool
s_believes(const verl_outbound_t *out, const verl_message_t *status, verl_error_t *error)
{
    if (status->batch >= 0 && (uint64_t) status->batch <= status->seq && status->seq <= out->last &&
        status->revision >= 0)
        return true;
    verl_error_set(error, "incarnation %llu has received %llu of the %llu messages of edge %lld, is done with %lld and "
                   "takes up to %lld, it says, which cannot be",
                   (unsigned long long) status->from, (unsigned long long) status->seq, (unsigned long long) out->last,
                   (long long) out->edge, (long long) status->batch, (long long) status->revision);
    return false;
}

// Under the lock. Collects the tags that the status lets go, at most `room`; returns whether there are more.
static bool
s_take_status(verl_outbound_t *out, const verl_message_t *status, void **tags, int room, int *ret_count)
{
    if (!status->seq && !out->received && out->sent) {  // it has just opened the channel
        verl_outbound_send_from(out, 1);
        verl_peer_flush(out->peer);
        out->answered_at = verl_now();
    }
    if (status->seq > out->received || (uint64_t) status->batch > out->done) {
        out->answered_at = verl_now();
        out->resend_ns = VERL_RESEND_NS;
    }
    if (status->seq > out->received)
        out->received = status->seq;
    while (out->done < (uint64_t) status->batch && *ret_count < room) {
        void *tag = verl_outbox_pop(&out->outbox);
        out->done++;
        if (tag)
            tags[(*ret_count)++] = tag;
    }
    if ((uint64_t) status->revision > out->limit) {
        out->limit = (uint64_t) status->revision;
        verl_outbound_send_from(out, out->sent + 1);
        verl_peer_flush(out->peer);
    }
    return out->done < (uint64_t) status->batch;
}

// Tags are returned without the lock.
static void
s_on_status(verl_endpoint_t *self, peer_t *peer, const verl_message_t *message)
{
    void *tags[256];
    bool more = true;
    verl_error_t error = { "" };
    while (more) {
        int count = 0;
        pthread_mutex_lock(&self->lock);
        verl_outbound_t *out = verl_outbound_find(peer, message->edge);
        bool believed = out && s_believes(out, message, &error);
        more = believed && s_take_status(out, message, tags, 256, &count);
        pthread_mutex_unlock(&self->lock);
        for (int i = 0; i < count; i++)
            self->handlers.done(self->context, tags[i]);
    }
    if (error.text[0])
        s_malformed(self, error.text);
}

static void
s_on_ping(verl_endpoint_t *self, peer_t *peer, const verl_message_t *message)
{
    verl_buffer_t body = { 0 };
    if (self->handlers.ping)
        self->handlers.ping(self->context, &body);
    pthread_mutex_lock(&self->lock);
    verl_peer_put(self, peer, &(verl_message_t) { .type = VERL_MESSAGE_PONG, .batch = message->batch, .parts = 1,
                                                  .body = body.data, .body_size = body.size });
    verl_peer_flush(peer);
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
        peer_t *peer = message.to == self->incarnation ? verl_peer_find(self, message.from) : NULL;
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
bool
verl_endpoint_receive(verl_endpoint_t *self)
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
