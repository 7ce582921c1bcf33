// sending.c: messages out: numbered, kept, joined to frames; and what is told of those that came. All under the lock.
#include "runtime/mailbox/endpoint_impl.h"
#include <string.h>
#include <zmq.h>

void
verl_peer_flush(peer_t *peer)
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
        verl_peer_flush(peer);
    verl_buffer_append(&peer->frame, bytes, size);
    if (peer->frame.size >= VERL_FRAME_BYTES)
        verl_peer_flush(peer);
}

static void
s_trace(verl_endpoint_t *self, const verl_message_t *message)
{
    if (self->handlers.trace)
        self->handlers.trace(self->context, message);
}

// The mailbox thread has something to do within `most_ms`.
static void
s_shorten_sleep(verl_endpoint_t *self, int64_t most_ms)
{
    if (self->sleeps_ms <= most_ms)
        return;
    self->sleeps_ms = most_ms;
    verl_endpoint_wake(self);
}

// Sends what is numbered, kept and within the limit, from seq `from` on.
void
verl_outbound_send_from(verl_outbound_t *out, uint64_t from)
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
        s_shorten_sleep(self, VERL_RESEND_NS / VERL_MS);
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
        verl_outbound_send_from(out, out->last);
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
    from->done = from->last - verl_outbox_count(&from->outbox);
    verl_peer_flush(out->peer);
    pthread_mutex_unlock(&self->lock);
    return failed ? -1 : 0;
}

void
verl_outbound_flush(verl_outbound_t *out)
{
    verl_endpoint_t *self = out->peer->endpoint;
    pthread_mutex_lock(&self->lock);
    verl_peer_flush(out->peer);
    pthread_mutex_unlock(&self->lock);
}

void
verl_peers_flush(verl_endpoint_t *self)
{
    for (peer_t *peer = self->peers; peer; peer = peer->next)
        verl_peer_flush(peer);
}

bool
verl_peers_queued(const verl_endpoint_t *self)
{
    const peer_t *peer = self->peers;
    while (peer && !peer->frame.size)
        peer = peer->next;
    return peer;
}

void
verl_endpoint_flush(verl_endpoint_t *self)
{
    pthread_mutex_lock(&self->lock);
    verl_peers_flush(self);
    pthread_mutex_unlock(&self->lock);
}

void
verl_peer_put(verl_endpoint_t *self, peer_t *peer, verl_message_t *message)
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
    peer_t *peer = verl_peer_find(self, to);
    if (peer) {
        verl_peer_put(self, peer, &(verl_message_t) { .type = VERL_MESSAGE_PING, .batch = number, .parts = 1 });
        verl_peer_flush(peer);
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

bool
verl_inbound_untold(const verl_inbound_t *in)
{
    return in->repeat || in->told_received != atomic_load(&in->received) || in->told_taken != atomic_load(&in->taken) ||
           in->told_done != atomic_load(&in->done);
}

// Counters grow meanwhile: read in this order, what is told never has more done than received.
void
verl_inbound_tell(verl_endpoint_t *self, peer_t *peer, verl_inbound_t *in)
{
    in->repeat = false;
    in->told_done = atomic_load(&in->done);
    in->told_taken = atomic_load(&in->taken);
    in->told_received = atomic_load(&in->received);
    in->changed_at = 0;
    verl_peer_put(self, peer,
                  &(verl_message_t) { .type = VERL_MESSAGE_STATUS, .edge = in->edge, .seq = in->told_received,
                                      .revision = (int64_t) in->told_taken + in->window,
                                      .batch = (int64_t) in->told_done, .parts = 1 });
}

// What is queued goes first, whoever it is for: a report of a batch goes before the batch is acknowledged.
void
verl_endpoint_acknowledge(verl_endpoint_t *self, bool urgent)
{
    bool told = false, untold = false;
    pthread_mutex_lock(&self->lock);
    for (peer_t *peer = self->peers; peer; peer = peer->next)
        for (verl_inbound_t *in = peer->inbound; in; in = in->next) {
            bool used_up = (int64_t) (atomic_load(&in->taken) - in->told_taken) * 4 >= in->window;
            if (!used_up && !(urgent && verl_inbound_untold(in))) {
                untold |= verl_inbound_untold(in);
                continue;
            }
            if (!told)
                verl_peers_flush(self);
            verl_inbound_tell(self, peer, in);
            told = true;
        }
    if (told)
        verl_peers_flush(self);
    if (untold || verl_peers_queued(self))
        s_shorten_sleep(self, VERL_TICK_MS);
    pthread_mutex_unlock(&self->lock);
}
