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
    if (output->seat)
        atomic_fetch_sub(&output->seat->live_bytes, output->bytes);
    verl_batch_destroy(&output->made);
    free(output);
    pthread_mutex_lock(&host->lock);
    verl_host_changed(host);                // there may be room now
    pthread_mutex_unlock(&host->lock);
}

static output_t *
s_output(host_t *host, seat_t *seat, verl_batch_t *made)
{
    output_t *output = calloc(1, sizeof *output);
    if (!output)
        return NULL;
    atomic_init(&output->refs, 1);
    output->made = made;
    output->seat = seat;
    output->host = host;
    output->bytes = made ? (int64_t) verl_batch_bytes(made) : 0;
    if (seat) {
        atomic_fetch_add(&seat->live_bytes, output->bytes);
        atomic_store(&seat->last_bytes, output->bytes);
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
    *unit = (unit_t) { .batch = message->batch, .part = message->part, .parts = message->parts,
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

static int
s_send(host_t *host, edge_out_t *edge, int64_t replica, const verl_message_t *message, output_t *output,
       verl_error_t *error)
{
    verl_outbound_t *channel = edge->channels[replica];
    if (!channel)
        return s_send_here(host, edge->local, message, output, error);
    atomic_fetch_add(&output->refs, 1);
    if (verl_outbound_send(channel, message, output)) {
        atomic_fetch_sub(&output->refs, 1);
        return verl_error_set(error, "out of memory for a message to stage %s", edge->reader->name);
    }
    verl_outbound_flush(channel);
    return 0;
}

int
verl_publish(seat_t *seat, verl_batch_t *made, int64_t part, int64_t parts, int64_t time, verl_error_t *error)
{
    host_t *host = seat->host;
    const verl_plan_t *plan = host->plan;
    verl_buffer_t body = { 0 };
    output_t *output = s_output(host, seat, made);
    if (!output) {
        verl_batch_destroy(&made);
        return verl_error_set(error, "out of memory");
    }
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
            failed = s_send(host, edge, replica, &message, output, error);
    }
    verl_buffer_done(&body);
    verl_output_release(output);
    return failed;
}

// Does a replica of a reader want the version that the update of `batch` made: is there a batch k of its own with
// batch < k - staleness <= the update after it?
static bool
s_wants(const seat_t *writer, const edge_out_t *edge, int64_t replica, int64_t batch)
{
    const verl_plan_t *plan = writer->host->plan;
    const verl_span_t *span = &edge->reader->span;
    int64_t staleness = edge->plan->staleness;
    int64_t after = verl_span_next(&writer->plan->span, plan->steps, batch);
    int64_t k = verl_span_next(span, plan->steps, batch + staleness);
    for (; k >= 0 && (after < 0 || k <= after + staleness); k = verl_span_next(span, plan->steps, k))
        if (verl_plan_replica(plan, edge->plan->reader, k) == replica)
            return true;
    return false;
}

static int
s_give(seat_t *writer, output_t **output_p, verl_buffer_t *body, verl_error_t *error)
{
    host_t *host = writer->host;
    verl_batch_t *made = verl_batch_new_made(writer->next, -1, 0, &host->memory);
    if (!made)
        return verl_error_set(error, "out of memory");
    if (writer->stage.kind->give_weights(&writer->stage, made) || verl_batch_seal(made, error)) {
        verl_error_set(error, "%s", writer->stage.error.text[0] ? writer->stage.error.text : "no weights were given");
        verl_batch_destroy(&made);
        return -1;
    }
    const char *names[VERL_MAX_COLUMNS];
    int count = verl_batch_columns(made);
    for (int i = 0; i < count && i < VERL_MAX_COLUMNS; i++)
        names[i] = verl_batch_column_at(made, i)->name;
    if (verl_batch_pack(made, names, NULL, count, false, body, error) || !(*output_p = s_output(host, NULL, made))) {
        verl_batch_destroy(&made);
        return verl_error_set(error, "out of memory");
    }
    return 0;
}

int
verl_publish_weights(seat_t *writer, int64_t batch, verl_error_t *error)
{
    host_t *host = writer->host;
    output_t *output = NULL;
    verl_buffer_t body = { 0 };
    int failed = 0;
    for (int i = 0; i < writer->out_count && !failed; i++) {
        edge_out_t *edge = &writer->out[i];
        for (int64_t replica = 0; edge->plan->weights && replica < edge->replicas && !failed; replica++) {
            if (!s_wants(writer, edge, replica, batch))
                continue;
            failed = output ? 0 : s_give(writer, &output, &body, error);
            verl_message_t message = { .revision = host->plan->revision, .batch = batch, .parts = 1,
                                       .time = verl_now(), .body = body.data, .body_size = body.size };
            if (!failed)
                failed = s_send(host, edge, replica, &message, output, error);
        }
    }
    verl_buffer_done(&body);
    if (output)
        verl_output_release(output);
    return failed;
}

bool
verl_seat_is_sink(const seat_t *seat, int64_t batch)
{
    for (int i = 0; i < seat->out_count; i++)
        if (!seat->out[i].plan->weights &&
            verl_span_has(&seat->out[i].reader->span, seat->host->plan->steps, batch))
            return false;
    return true;
}
