// worker.c: the thread that runs an actor's handlers: prepares, takes the oldest ready batch, runs, publishes.
#include <errno.h>
#include "runtime/actor/host_impl.h"
#include "runtime/base/clock.h"

#define LAZY_NS (2 * VERL_MS)               // acknowledgements wait so long for company …
#define HASTY_NS (VERL_MS / 10)             // … or so long for each batch that may be alive: few of them wait for permits
#define TINY_NS (VERL_MS / 2)               // a handler that takes longer does not keep them waiting

// What W does from here on, beside stages.
void
verl_host_set_task(host_t *host, int task, int64_t batch)
{
    pthread_mutex_lock(&host->lock);
    host->task = task;
    host->task_batch = batch;
    host->task_since = verl_now();
    pthread_mutex_unlock(&host->lock);
}

// The seat that could not begin, or NULL.
static seat_t *
s_begin_seats(world_t *world)
{
    for (int i = 0; i < world->seats_count; i++) {
        verl_stage_t *stage = &world->seats[i].stage;
        if (stage->handler->begin && stage->handler->begin(stage))
            return &world->seats[i];
    }
    return NULL;
}

// Under no lock. What came until then begins with the actor; what comes later, between batches.
static void
s_prepare(host_t *host)
{
    verl_host_set_task(host, VERL_TASK_PREPARE, -1);
    host->kind_prepared = true;
    pthread_mutex_lock(&host->lock);
    world_t *world = host->worlds;
    pthread_mutex_unlock(&host->lock);
    seat_t *seat = &world->seats[0];
    bool failed = host->kind->prepare && host->kind->prepare(&seat->stage);
    if (!failed) {
        seat_t *other = s_begin_seats(world);
        failed = other;
        seat = other ? other : seat;
    }
    if (failed) {
        verl_host_fail(host, seat, -1, verl_stage_reason(&seat->stage, "it could not be prepared"));
        return;
    }
    pthread_mutex_lock(&host->lock);
    host->prepared = true;
    world->begun = true;
    host->task = VERL_TASK_NONE;
    pthread_mutex_unlock(&host->lock);
    verl_report_word(host, "ready", 0);
}

// --- the loop -----------------------------------------------------------------------------------------------------

// Under the lock, which it lets go while it sends. A report goes before what it acknowledges.
static void
s_acknowledge(host_t *host, bool urgent)
{
    pthread_mutex_unlock(&host->lock);
    if (urgent)
        verl_outbound_flush(host->report);
    verl_endpoint_acknowledge(host->endpoint, urgent);
    pthread_mutex_lock(&host->lock);
    host->unacknowledged &= !urgent;
}

static int64_t
s_lazy(const host_t *host)
{
    int64_t hasty = HASTY_NS * host->worlds->plan->max_in_flight;
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
    verl_seat_run(seat);
    pthread_mutex_lock(&host->lock);
    host->idle_since = verl_now();
    host->last_run = host->idle_since - from;
    if (!host->unacknowledged)
        host->unacknowledged_since = verl_now();
    host->unacknowledged = true;
}

// --- worlds -------------------------------------------------------------------------------------------------------

// The kind looks at the new stages of a revision that came while the actor works. False: nothing to do.
static bool
s_begin_world(host_t *host)
{
    world_t *world = host->worlds;
    while (world && (world->begun || world->failed))
        world = world->next;
    if (!world)
        return false;
    pthread_mutex_unlock(&host->lock);
    seat_t *seat = s_begin_seats(world);
    if (seat)
        verl_report_failed_world(world, seat, verl_stage_reason(&seat->stage, "it could not begin"));
    pthread_mutex_lock(&host->lock);
    world->failed = seat;
    world->begun = !seat;
    int wired = seat ? 0 : world->unwired;
    world->unwired = 0;
    pthread_mutex_unlock(&host->lock);
    for (; wired > 0; wired--)
        verl_report_word(host, "wired", world->plan->revision);
    pthread_mutex_lock(&host->lock);
    return true;
}

static int
s_open_seats(world_t *world, verl_error_t *error)
{
    host_t *host = world->host;
    for (int i = 0; i < world->seats_count; i++) {
        seat_t *seat = &world->seats[i];
        if (host->kind->start && host->kind->start(&seat->stage, seat->start))
            return verl_error_set(error, "%s", verl_stage_reason(&seat->stage, "it could not start"));
        if (seat->plan->handler->writes_weights && verl_publish_base(seat, error))
            return -1;
    }
    return 0;
}

// A revision in force opens when all stages of the older ones are over: what they share, state above all, is its own then.
static bool
s_open_world(host_t *host)
{
    world_t *world = host->worlds;
    for (; world && world->open; world = world->next)
        if (!verl_world_over(world))
            return false;
    if (!world || !world->ordered || !world->begun)
        return false;
    verl_error_t error = { "" };
    pthread_mutex_unlock(&host->lock);
    if (s_open_seats(world, &error))
        verl_host_fail(host, NULL, -1, error.text);
    pthread_mutex_lock(&host->lock);
    world->open = true;
    verl_host_account(host);
    return true;
}

// A revision in force that waits for the end of older ones: its readers need not wait with it. True: something went.
static bool
s_pass_on(host_t *host)
{
    verl_error_t error = { "" };
    int went = 0;
    for (world_t *world = host->worlds; world && host->versions && went == 0; world = world->next) {
        if (world->open || world->retired || !world->ordered || !world->begun)
            continue;
        pthread_mutex_unlock(&host->lock);
        went = verl_pass_on_versions(world, &error);
        pthread_mutex_lock(&host->lock);
    }
    if (went < 0) {
        pthread_mutex_unlock(&host->lock);
        verl_host_fail(host, NULL, -1, error.text);
        pthread_mutex_lock(&host->lock);
    }
    return went > 0;
}

// A revision whose batches are all done, and of which nothing is on its way any more.
static bool
s_free_world(host_t *host)
{
    world_t **link = &host->worlds;
    while (*link && !((*link)->retired && atomic_load(&(*link)->outputs) == 0))
        link = &(*link)->next;
    world_t *gone = *link;
    if (!gone)
        return false;
    *link = gone->next;
    pthread_mutex_unlock(&host->lock);
    verl_world_free(gone);
    pthread_mutex_lock(&host->lock);
    return true;
}

// What is not a batch. True: something was done.
static bool
s_chores(host_t *host)
{
    if (s_free_world(host))
        return true;
    if (host->failed)
        return false;
    if (s_begin_world(host))
        return true;
    if (host->restore_path) {
        verl_restore(host);
        return true;
    }
    if (s_open_world(host) || s_pass_on(host))
        return true;
    if (!verl_save_due(host))
        return false;
    verl_save(host);
    return true;
}

static void
s_work(host_t *host)
{
    pthread_mutex_lock(&host->lock);
    while (!atomic_load(&host->stopping)) {
        verl_host_account(host);
        if (s_chores(host))
            continue;
        seat_t *seat = host->failed ? NULL : verl_host_pick(host);
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
    s_prepare(host);
    s_work(host);                           // also where it failed: it waits for its end
    if (host->kind->finish && host->kind_prepared)
        host->kind->finish(&verl_host_first_seat(host)->stage);
    atomic_store(&host->ended, true);
    verl_endpoint_wake(host->endpoint);
    return NULL;
}
