// worker.c: the thread that runs an actor's handlers: prepares, takes the oldest ready batch, runs, publishes.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "runtime/actor/host_impl.h"
#include "runtime/base/clock.h"

#define LAZY_NS (2 * VERL_MS)               // acknowledgements wait so long for company …
#define HASTY_NS (VERL_MS / 10)             // … or so long for each batch that may be alive: few of them wait for permits
#define TINY_NS (VERL_MS / 2)               // a handler that takes longer does not keep them waiting

// The host stops working but answers until the director ends it.
static void
s_fail(host_t *host, seat_t *seat, int64_t batch, const char *text)
{
    pthread_mutex_lock(&host->lock);
    host->failed = true;
    pthread_mutex_unlock(&host->lock);
    verl_report_failed(host, seat, batch, text);
}

// What W does from here on, beside stages.
static void
s_set_task(host_t *host, int task, int64_t batch)
{
    pthread_mutex_lock(&host->lock);
    host->task = task;
    host->task_batch = batch;
    host->task_since = verl_now();
    pthread_mutex_unlock(&host->lock);
}

static int
s_prepare(host_t *host)
{
    const verl_kind_t *kind = host->actor->kind;
    seat_t *seat = &host->seats[0];
    s_set_task(host, VERL_TASK_PREPARE, -1);
    host->kind_prepared = true;
    if (kind->prepare && kind->prepare(&seat->stage)) {
        s_fail(host, seat, -1, seat->stage.error.text[0] ? seat->stage.error.text : "it could not be prepared");
        return -1;
    }
    for (int i = 0; i < host->seats_count; i++) {
        seat = &host->seats[i];
        if (seat->stage.handler->begin && seat->stage.handler->begin(&seat->stage)) {
            s_fail(host, seat, -1, seat->stage.error.text[0] ? seat->stage.error.text : "it could not begin");
            return -1;
        }
    }
    pthread_mutex_lock(&host->lock);
    host->prepared = true;
    host->task = VERL_TASK_NONE;
    pthread_mutex_unlock(&host->lock);
    verl_report_word(host, "ready");
    return 0;
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
    pthread_mutex_unlock(&host->lock);
    if (unit->inbound)
        verl_inbound_taken(unit->inbound, 1);
    if (seat->stage.kind->take_weights(&seat->stage, unit->stored))
        return verl_error_set(error, "%s", seat->stage.error.text[0] ? seat->stage.error.text : "weights not taken");
    pthread_mutex_lock(&host->lock);
    seat->version_update = update;
    pthread_mutex_unlock(&host->lock);
    verl_edge_finish(seat->weights, update - 1);
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
    int failed = seat->stage.handler->handler(&seat->stage, view->given, made);
    seat->batch_busy += verl_now() - seat->started;
    if (failed || seat->stage.error.text[0])
        return verl_error_set(error, "%s", seat->stage.error.text[0] ? seat->stage.error.text
                                           : verl_batch_error(made)  ? verl_batch_error(made)
                                                                     : "the handler gave no reason");
    if (verl_batch_seal(made, error))
        return -1;
    seat->made_rows += verl_batch_rows(made);
    return 0;
}

// One part, or the whole batch, through the handler and out.
static int
s_run_part(seat_t *seat, int64_t *ret_parts, verl_error_t *error)
{
    view_t view;
    verl_batch_t *made = NULL;
    int failed = verl_view_make(&view, seat, error);
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
    if (!failed)
        failed = verl_publish(seat, made, seat->part, view.parts, verl_now(), error);
    else
        verl_batch_destroy(&made);
    verl_view_done(&view);
    return failed;
}

static void
s_finish_batch(seat_t *seat)
{
    host_t *host = seat->host;
    int64_t batch = seat->next;
    for (int i = 0; i < seat->in_count; i++)
        if (&seat->in[i] != seat->weights)
            verl_edge_finish(&seat->in[i], batch);
    pthread_mutex_lock(&host->lock);
    host->running = NULL;
    verl_host_account(host);
    seat->next = verl_seat_after(seat, batch);
    seat->part = 0;
    seat->made_rows = 0;
    pthread_mutex_unlock(&host->lock);
    verl_report_done(seat, batch);
    verl_stage_forget_metrics(&seat->stage);
    seat->batch_busy = 0;
    seat->skipped = false;
}

static void
s_run(seat_t *seat)
{
    verl_error_t error = { "" };
    int64_t parts = 1;
    seat->stage.batch = seat->next;
    atomic_store(&seat->stage.progress, 0);
    int failed = s_run_part(seat, &parts, &error);
    bool last = seat->part + 1 >= parts;
    if (!failed && last && seat->plan->handler->writes_weights)
        failed = verl_publish_weights(seat, seat->next, &error);
    if (failed && !(atomic_load(&seat->host->stopping) && !seat->stage.error.text[0])) {
        s_fail(seat->host, seat, seat->next, error.text);
        return;
    }
    if (last) {
        s_finish_batch(seat);
        return;
    }
    pthread_mutex_lock(&seat->host->lock);
    seat->part++;
    seat->host->running = NULL;
    verl_host_account(seat->host);
    pthread_mutex_unlock(&seat->host->lock);
}

// --- checkpoints --------------------------------------------------------------------------------------------------

static bool
s_save_due(const host_t *host)
{
    if (host->save_now >= 0)
        return true;
    if (host->save_next < 0 || !host->actor->kind->snapshot)
        return false;
    for (int i = 0; i < host->seats_count; i++) {
        const seat_t *seat = &host->seats[i];
        if (verl_seat_changes_state(seat) && seat->next >= 0 && seat->next < host->save_next)
            return false;
    }
    return true;
}

static void
s_save(host_t *host)
{
    bool asked = host->save_now >= 0;
    int64_t step = asked ? host->save_now : host->save_next;
    char directory[4096];
    snprintf(directory, sizeof directory, "%s/checkpoints/step-%lld.tmp/%s", host->config.run_directory,
             (long long) step, host->actor->name);
    pthread_mutex_unlock(&host->lock);
    s_set_task(host, VERL_TASK_SAVE, step);
    char *slash = strrchr(directory, '/');
    const verl_error_t *error = &host->seats[0].stage.error;
    int failed = 0;
    if (host->actor->kind->snapshot) {
        *slash = 0;
        (void) mkdir(directory, 0700);      // there already, where another actor saved first
        *slash = '/';
        if (mkdir(directory, 0700) && errno != EEXIST)
            failed = verl_fail(&host->seats[0].stage, "cannot make %s: %s", directory, strerror(errno));
        else
            failed = host->actor->kind->snapshot(&host->seats[0].stage, directory);
    }
    if (failed)
        s_fail(host, NULL, step, error->text[0] ? error->text : "the checkpoint could not be written");
    else
        verl_report_saved(host, step);
    s_set_task(host, VERL_TASK_NONE, -1);
    pthread_mutex_lock(&host->lock);
    if (asked)
        host->save_now = -1;
    else
        host->save_next = host->save_next + host->plan->save_every < host->plan->steps
                              ? host->save_next + host->plan->save_every : -1;
}

// --- the loop -----------------------------------------------------------------------------------------------------

// Under the lock, which it lets go while it sends.
static void
s_acknowledge(host_t *host, bool urgent)
{
    pthread_mutex_unlock(&host->lock);
    verl_endpoint_acknowledge(host->endpoint, urgent);
    if (urgent)
        verl_outbound_flush(host->report);
    pthread_mutex_lock(&host->lock);
    host->unacknowledged &= !urgent;
}

static int64_t
s_lazy(const host_t *host)
{
    int64_t hasty = HASTY_NS * host->plan->max_in_flight;
    return hasty < LAZY_NS ? hasty : LAZY_NS;
}

// Waits for something to change; tells what is overdue after a moment of quiet. Under the lock.
static void
s_wait(host_t *host)
{
    if (!host->unacknowledged) {
        pthread_cond_wait(&host->changed, &host->lock);
        return;
    }
    int64_t until = host->unacknowledged_since + s_lazy(host);
    struct timespec time = { .tv_sec = until / VERL_S, .tv_nsec = until % VERL_S };
    if (pthread_cond_timedwait(&host->changed, &host->lock, &time) == ETIMEDOUT)
        s_acknowledge(host, true);
}

// Runs one batch or part of a stage. Before a handler that may take long, nothing is left untold.
static void
s_turn(host_t *host, seat_t *seat)
{
    bool overdue = host->last_run > TINY_NS || verl_now() - host->unacknowledged_since > s_lazy(host);
    if (host->unacknowledged)
        s_acknowledge(host, overdue);
    int64_t from = verl_now();
    seat->started = from;
    host->running = seat;
    verl_host_account(host);
    pthread_mutex_unlock(&host->lock);
    s_run(seat);
    pthread_mutex_lock(&host->lock);
    host->idle_since = verl_now();
    host->last_run = host->idle_since - from;
    if (!host->unacknowledged)
        host->unacknowledged_since = verl_now();
    host->unacknowledged = true;
}

static void
s_work(host_t *host)
{
    pthread_mutex_lock(&host->lock);
    while (!atomic_load(&host->stopping)) {
        verl_host_account(host);
        if (!host->failed && s_save_due(host)) {
            s_save(host);
            continue;
        }
        seat_t *seat = host->failed || !host->wired ? NULL : verl_host_pick(host);
        if (seat)
            s_turn(host, seat);
        else
            s_wait(host);
    }
    pthread_mutex_unlock(&host->lock);
}

void *
verl_worker(void *argument)
{
    host_t *host = argument;
    if (s_prepare(host) == 0 || host->failed)
        s_work(host);
    if (host->actor->kind->finish && host->kind_prepared)
        host->actor->kind->finish(&host->seats[0].stage);
    atomic_store(&host->ended, true);
    verl_endpoint_wake(host->endpoint);
    return NULL;
}
