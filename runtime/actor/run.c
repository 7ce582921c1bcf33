// run.c: one batch or part through a stage's handler and out: W's.
#include <stdlib.h>
#include "runtime/actor/host_impl.h"
#include "runtime/base/clock.h"

// The host stops working but answers until the director ends it.
void
verl_host_fail(host_t *host, seat_t *seat, int64_t batch, const char *text)
{
    pthread_mutex_lock(&host->lock);
    host->failed = true;
    pthread_mutex_unlock(&host->lock);
    verl_report_failed(host, seat, batch, text);
}

// The published version that this batch is to be worked with becomes the one in use; the one before it is let go.
static int
s_take_version(seat_t *seat, verl_error_t *error)
{
    int64_t update = verl_seat_wanted_update(seat, seat->next);
    seat->stage.version = update + 1;
    if (!seat->weights || update == seat->version_update)
        return 0;
    host_t *host = seat->host;
    pthread_mutex_lock(&host->lock);
    unit_t *unit = verl_edge_find(seat->weights, update, 0);
    if (unit->inbound)
        verl_inbound_taken(unit->inbound, 1);
    unit->taken = true;
    pthread_mutex_unlock(&host->lock);
    int64_t begin = verl_now();
    if (seat->stage.kind->take_weights(&seat->stage, unit->stored))
        return verl_error_set(error, "%s", verl_stage_reason(&seat->stage, "weights not taken"));
    seat->moved += verl_now() - begin;
    pthread_mutex_lock(&host->lock);
    seat->version_update = update;
    unit_t *gone = verl_edge_take(seat->weights, update - 1);
    pthread_mutex_unlock(&host->lock);
    verl_units_free(gone, true);
    verl_units_free(host->old_version, false);
    host->old_version = NULL;
    return 0;
}

static void
s_taken(seat_t *seat)
{
    pthread_mutex_lock(&seat->host->lock);
    for (int i = 0; i < seat->in_count; i++)
        for (unit_t *unit = seat->in[i].first; unit && unit->batch <= seat->next; unit = unit->next)
            if (unit->inbound && unit->batch == seat->next && &seat->in[i] != seat->weights && !unit->taken) {
                verl_inbound_taken(unit->inbound, 1);
                unit->taken = true;
            }
    pthread_mutex_unlock(&seat->host->lock);
}

static int
s_handle(seat_t *seat, view_t *view, verl_batch_t **made_p, verl_error_t *error)
{
    host_t *host = seat->host;
    int64_t rows = seat->rows_edge < 0 ? -1 : verl_batch_rows(view->given);
    verl_batch_t *made = verl_batch_new_made(seat->next, rows, verl_batch_first_row(view->given), &host->memory);
    if (!made)
        return verl_error_set(error, "out of memory");
    *made_p = made;
    if (seat->plan->maps)
        verl_batch_set_first_row(made, seat->made_rows);
    seat->started = verl_now();
    // Only where the worker was idle when the input came: else it is time in a queue.
    seat->handoff = view->ready > host->idle_since ? seat->started - view->ready : 0;
    seat->stage.moved = 0;
    int failed = seat->stage.handler->handler(&seat->stage, view->given, made);
    seat->batch_busy += verl_now() - seat->started;
    seat->moved += seat->stage.moved;
    if (failed || seat->stage.error.text[0])
        return verl_error_set(error, "%s", verl_stage_reason(&seat->stage, verl_batch_error(made)
                                                                               ? verl_batch_error(made)
                                                                               : "the handler gave no reason"));
    if (verl_batch_seal(made, error))
        return -1;
    if (verl_batch_map(made) && !seat->plan->maps)
        return verl_error_set(error, "the handler gave a row map, and its kind does not declare that it makes new rows: "
                                     ".maps, or verl_declare_maps, would be right");
    seat->made_rows += verl_batch_rows(made);
    seat->bytes[SEAT_BYTES_UNSEEN] += (int64_t) verl_batch_unseen(view->given);
    seat->bytes[SEAT_BYTES_AGAIN] += (int64_t) verl_batch_again(view->given, made);
    return 0;
}

// One part, or the whole batch, through the handler and out.
static int
s_run_part(seat_t *seat, int64_t *ret_parts, verl_error_t *error)
{
    view_t view;
    verl_batch_t *made = NULL;
    int64_t from = verl_now();
    int failed = verl_view_make(&view, seat, error);
    seat->moved = verl_now() - from;
    s_taken(seat);
    *ret_parts = view.parts;
    seat->skipped |= view.skipped;
    if (!failed && !view.skipped) {
        failed = s_take_version(seat, error) || s_handle(seat, &view, &made, error);
        if (failed && seat->plan->on_error == VERL_ON_ERROR_SKIP && !atomic_load(&seat->host->stopping)) {
            verl_log(&seat->stage, "batch %lld is skipped: %s", (long long) seat->next, error->text);
            *error = seat->stage.error = (verl_error_t) { "" };
            verl_batch_destroy(&made);
            seat->skipped = true;
            failed = 0;
        }
    }
    from = verl_now();
    if (!failed)
        failed = verl_publish(seat, made, seat->part, view.parts, from, error);
    else
        verl_batch_destroy(&made);
    seat->moved += verl_now() - from;
    verl_view_done(&view);
    return failed;
}

// Under the lock, when the time of the run is booked: what of it went into moving bytes.
static void
s_book_moves(seat_t *seat)
{
    int64_t moved = seat->moved < seat->spent[SEAT_BUSY] ? seat->moved : seat->spent[SEAT_BUSY];
    seat->spent[SEAT_BUSY] -= moved;
    seat->spent[SEAT_MOVE] += moved;
    seat->moved = 0;
}

// What the batch was made of. The report goes before anything is acknowledged: whoever hears that a stage is done with a
// batch can rely on the director having been told.
static void
s_finish_batch(seat_t *seat)
{
    host_t *host = seat->host;
    int64_t batch = seat->next;
    unit_t *units = NULL, **last = &units;
    ack_t *ack = seat->ack;
    pthread_mutex_lock(&host->lock);
    for (int i = 0; i < seat->in_count; i++) {
        if (&seat->in[i] == seat->weights)
            continue;
        *last = verl_edge_take(&seat->in[i], batch);
        for (; *last; last = &(*last)->next)
            ;
    }
    if (ack)
        ack->units = units;
    host->running = NULL;
    verl_host_account(host);
    s_book_moves(seat);
    seat->next = verl_seat_after(seat, batch);
    seat->part = 0;
    seat->made_rows = 0;
    pthread_mutex_unlock(&host->lock);
    if (seat->skipped)                      // what other parts of it measured is of no whole batch
        verl_stage_forget_metrics(&seat->stage);
    bool told = verl_report_done(seat, batch, ack) == 0;
    seat->ack = NULL;
    if (!ack)
        verl_units_free(units, told);
    else if (told)
        verl_ack_release(ack);
    verl_stage_forget_metrics(&seat->stage);
    seat->batch_busy = 0;
    seat->skipped = false;
}

// A stage of an actor without state acknowledges late: see acks.c.
static int
s_begin_batch(seat_t *seat, verl_error_t *error)
{
    seat->stage.batch = seat->next;
    atomic_store(&seat->stage.progress, 0);
    if (!seat->host->chained || seat->ack)
        return 0;
    seat->ack = verl_ack_new(seat);
    return seat->ack ? 0 : verl_error_set(error, "out of memory");
}

void
verl_seat_run(seat_t *seat)
{
    verl_error_t error = { "" };
    host_t *host = seat->host;
    int64_t parts = 1, from = verl_now();
    int failed = s_begin_batch(seat, &error) || s_run_part(seat, &parts, &error);
    bool last = seat->part + 1 >= parts;
    if (!failed && last && seat->plan->handler->writes_weights) {
        int64_t begin = verl_now();
        failed = verl_publish_weights(seat, seat->next, &error);
        seat->moved += verl_now() - begin;
    }
    if (failed) {                           // a handler that gives up because it is told to stop has not failed
        if (!atomic_load(&host->stopping) || seat->stage.error.text[0])
            verl_host_fail(host, seat, seat->next, error.text);
        return;
    }
    if (verl_tap_on(host->tap))
        verl_tap_ran(host->tap, seat->plan->name, seat->world->plan->revision, seat->next, seat->part, parts, from,
                     verl_now());
    if (last) {
        s_finish_batch(seat);
        return;
    }
    pthread_mutex_lock(&host->lock);
    seat->part++;
    host->running = NULL;
    verl_host_account(host);
    s_book_moves(seat);
    pthread_mutex_unlock(&host->lock);
}
