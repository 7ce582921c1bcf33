// publish.c: hands what a stage made to its readers, from memory that the node owns, and keeps it until they are done.
#include <stdlib.h>
#include <string.h>
#include "runtime/actor/host_impl.h"
#include "runtime/base/clock.h"

void
verl_output_release(output_t *output)
{
    if (atomic_fetch_sub(&output->refs, 1) != 1)
        return;
    host_t *host = output->host;
    world_t *world = output->seat ? output->seat->world : NULL;
    if (output->seat)
        atomic_fetch_sub(&output->seat->live_bytes, output->bytes);
    verl_batch_destroy(&output->made);
    if (output->ack)
        verl_ack_release(output->ack);
    free(output);
    pthread_mutex_lock(&host->lock);
    if (world)
        atomic_fetch_sub(&world->outputs, 1);
    verl_host_changed(host);                // there may be room now
    pthread_mutex_unlock(&host->lock);
}

output_t *
verl_output_new(host_t *host, seat_t *seat, ack_t *ack, verl_batch_t *made)
{
    output_t *output = calloc(1, sizeof *output);
    if (!output)
        return NULL;
    atomic_init(&output->refs, 1);
    *output = (output_t) { .refs = 1, .made = made, .seat = seat, .ack = ack, .host = host,
                           .bytes = made ? (int64_t) verl_batch_bytes(made) : 0 };
    if (ack)
        atomic_fetch_add(&ack->pending, 1);
    if (seat) {
        atomic_fetch_add(&seat->world->outputs, 1);
        atomic_fetch_add(&seat->live_bytes, output->bytes);
    }
    return output;
}

// Into the mailbox of a stage of this actor, by the same form as on a socket.
static int
s_send_here(host_t *host, edge_in_t *edge, const verl_message_t *message, output_t *output, verl_error_t *error)
{
    unit_t *unit = calloc(1, sizeof *unit);
    if (!unit)
        return verl_error_set(error, "out of memory");
    *unit = (unit_t) { .edge = edge->edge, .batch = message->batch, .part = message->part, .parts = message->parts,
                       .time = message->time, .output = output };
    if (message->body_size) {
        unit->stored = verl_batch_unpack(message->batch, message->body, message->body_size, &host->slabs, error);
        if (!unit->stored) {
            free(unit);
            return -1;
        }
    }
    atomic_fetch_add(&output->refs, 1);
    pthread_mutex_lock(&host->lock);
    verl_edge_insert(edge, unit);
    pthread_mutex_unlock(&host->lock);
    return 0;
}

// For whoever listens: what goes over an edge; seq 0: to a stage of this actor.
static void
s_trace(const seat_t *seat, const edge_out_t *edge, uint64_t to, uint64_t seq, int64_t sent_at,
        const verl_message_t *message, const output_t *output)
{
    host_t *host = seat->host;
    verl_message_t traced = *message;
    traced.type = VERL_MESSAGE_DATA;
    traced.edge = verl_edge_number(seat->world, edge->edge);
    traced.from = host->config.incarnation;
    traced.to = to;
    traced.seq = seq;
    verl_tap_event_t event = { .kind = edge->plan->weights ? VERL_TRACE_WEIGHTS : VERL_TRACE_DATA, .t = sent_at,
                               .message = &traced,
                               .from = verl_host_label(host, traced.from), .to = verl_host_label(host, to),
                               .stage = seat->plan->name, .reader = edge->reader->name, .made = output->made,
                               .names = edge->names, .columns = (const char *const *) edge->plan->columns,
                               .columns_count = edge->plan->columns_count,
                               .map = edge->plan->map };
    verl_tap_message(host->tap, &event);
}

// The host's lock is held while a message is queued, so that a reader's successor gets it or its predecessor had it.
int
verl_publish_to(seat_t *seat, edge_out_t *edge, int64_t replica, const verl_message_t *message, output_t *output,
                verl_error_t *error)
{
    host_t *host = seat->host;
    int64_t sent_at = verl_tap_on(host->tap) ? verl_now() : 0;      // before: its reader may be quick
    if (edge->local && replica == host->config.replica) {
        if (s_send_here(host, edge->local, message, output, error))
            return -1;
        if (sent_at)
            s_trace(seat, edge, host->config.incarnation, 0, sent_at, message, output);
        return 0;
    }
    pthread_mutex_lock(&host->lock);
    verl_outbound_t *channel = edge->channels[replica];
    uint64_t to = channel ? verl_outbound_to(channel) : 0, seq = 0;
    int failed = 0;
    if (channel) {
        atomic_fetch_add(&output->refs, 1);
        failed = verl_outbound_send(channel, message, output);
        verl_outbound_flush(channel);
        seq = sent_at ? verl_outbound_last(channel) : 0;
    }
    pthread_mutex_unlock(&host->lock);
    if (failed) {
        atomic_fetch_sub(&output->refs, 1);
        return verl_error_set(error, "out of memory for a message to stage %s", edge->reader->name);
    }
    if (sent_at && channel)
        s_trace(seat, edge, to, seq, sent_at, message, output);
    return 0;
}

int
verl_publish(seat_t *seat, verl_batch_t *made, int64_t part, int64_t parts, int64_t time, verl_error_t *error)
{
    host_t *host = seat->host;
    const verl_plan_t *plan = seat->world->plan;
    verl_buffer_t body = { 0 };
    output_t *output = verl_output_new(host, seat, seat->ack, made);
    if (!output) {
        verl_batch_destroy(&made);
        return verl_error_set(error, "out of memory");
    }
    atomic_store(&seat->last_bytes, output->bytes);
    int failed = 0;
    for (int i = 0; i < seat->out_count && !failed; i++) {
        edge_out_t *edge = &seat->out[i];
        if (edge->plan->weights || !verl_span_has(&edge->reader->span, plan->steps, seat->next))
            continue;
        verl_buffer_clear(&body);
        if (made)
            failed = verl_batch_pack(made, edge->names, (const char *const *) edge->plan->columns,
                                     edge->plan->columns_count, edge->plan->map, &body, error);
        verl_message_t message = { .revision = plan->revision, .batch = seat->next, .part = part, .parts = parts,
                                   .time = time, .body = body.data, .body_size = body.size };
        int64_t replica = verl_plan_replica(plan, edge->plan->reader, seat->next);
        if (!failed)
            failed = verl_publish_to(seat, edge, replica, &message, output, error);
        if (made)
            seat->bytes[SEAT_BYTES_OUT] += (int64_t) verl_batch_bytes_of(made, edge->names, edge->plan->columns_count,
                                                                         edge->plan->map);
    }
    verl_buffer_done(&body);
    verl_output_release(output);
    return failed;
}

bool
verl_seat_is_sink(const seat_t *seat, int64_t batch)
{
    for (int i = 0; i < seat->out_count; i++)
        if (!seat->out[i].plan->weights &&
            verl_span_has(&seat->out[i].reader->span, seat->world->plan->steps, batch))
            return false;
    return true;
}
