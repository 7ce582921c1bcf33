// readiness.c: which stage may run: data, weights, room; the oldest ready batch goes first. All under the host's lock.
#include "runtime/actor/host_impl.h"
#include "runtime/base/clock.h"

int64_t
verl_seat_after(const seat_t *seat, int64_t batch)
{
    const verl_plan_t *plan = seat->world->plan;
    int64_t next = batch;
    do
        next = verl_span_next(&seat->plan->span, plan->steps, next);
    while (next >= 0 && verl_plan_replica(plan, seat->index, next) != seat->host->config.replica);
    return next;
}

int64_t
verl_seat_wanted_update(const seat_t *seat, int64_t batch)
{
    const verl_plan_t *plan = seat->world->plan;
    int64_t update = -1, base = seat->world->base[seat->index];
    if (seat->weights)
        update = verl_plan_version(plan, seat->weights->plan->maker, seat->weights->plan->staleness, batch);
    else if (seat->writer >= 0)
        update = verl_plan_version(plan, seat->world->seats[seat->writer].index, 0, batch);
    else
        return -1;
    return update > base ? update : base;
}

bool
verl_seat_over(const seat_t *seat)
{
    return seat->next < 0 || seat->next >= seat->world->end;
}

bool
verl_world_over(const world_t *world)
{
    for (int i = 0; i < world->seats_count; i++)
        if (!verl_seat_over(&world->seats[i]))
            return false;
    return true;
}

// Runs on the part that came, rather than on the whole batch.
static bool
s_by_part(const seat_t *seat)
{
    return seat->plan->by_part && seat->rows_edge >= 0;
}

static bool
s_has_data(const seat_t *seat)
{
    if (seat->rows_edge < 0)
        return seat->next <= seat->granted;
    for (int i = 0; i < seat->in_count; i++) {
        const edge_in_t *edge = &seat->in[i];
        if (edge == seat->weights)
            continue;
        int64_t parts = verl_edge_parts(edge, seat->next);
        if (parts == 0)
            return false;
        bool part = s_by_part(seat) && parts > 1 && !edge->through_map;
        if (part ? !verl_edge_find(edge, seat->next, seat->part) : !verl_edge_whole(edge, seat->next))
            return false;
    }
    return true;
}

// Does another stage that is fed by versions have batches left for one older than this? They share what was taken.
static bool
s_older_is_wanted(const host_t *host, int64_t update)
{
    for (const world_t *world = host->worlds; world; world = world->next)
        for (int i = 0; i < world->seats_count && world->open; i++) {
            const seat_t *seat = &world->seats[i];
            if (seat->weights && !verl_seat_over(seat) && verl_seat_wanted_update(seat, seat->next) < update)
                return true;
        }
    return false;
}

// The version is here, and, for a stage that replaces it, nobody needs the old one any more. Those who do work on
// batches before its own, which wait for nothing of it.
static bool
s_has_weights(const seat_t *seat)
{
    const world_t *world = seat->world;
    int64_t update = verl_seat_wanted_update(seat, seat->next);
    if (seat->weights)
        return update < 0 || update == seat->version_update ||
               (verl_edge_find(seat->weights, update, 0) && !s_older_is_wanted(seat->host, update));
    if (seat->writer >= 0) {                // the world is open: all updates before its cut are made
        int64_t pending = world->seats[seat->writer].next;
        return pending < 0 || pending > update;
    }
    if (seat->plan->handler->writes_weights)
        for (int i = 0; i < world->seats_count; i++) {
            const seat_t *reader = &world->seats[i];
            if (reader->writer >= 0 && &world->seats[reader->writer] == seat && reader->next >= 0 &&
                reader->next <= seat->next)
                return false;
        }
    return true;
}

static bool
s_knows_weights(const verl_kind_t *kind)
{
    for (int i = 0; i < VERL_MAX_STAGES && kind->stages[i].name; i++)
        if (kind->stages[i].reads_weights || kind->stages[i].writes_weights)
            return true;
    return false;
}

// Stages that share a state which is no weights go through their batches in turn, by batch and then as the plan has
// them, dependencies first: else it would be left to time what they find in it.
static bool
s_has_turn(const seat_t *seat)
{
    const host_t *host = seat->host;
    if (!host->kind->keeps_state || s_knows_weights(host->kind))
        return true;
    for (const world_t *world = host->worlds; world; world = world->next)
        for (int i = 0; i < world->seats_count && world->open; i++) {
            const seat_t *other = &world->seats[i];
            bool first = other->next < seat->next || (other->next == seat->next && other->index < seat->index);
            if (other != seat && !verl_seat_over(other) && first)
                return false;
        }
    return true;
}

// A stage without live output always has room, and so has a batch that it has begun: the oldest batch alive gets on.
static bool
s_has_room(const seat_t *seat)
{
    const verl_plan_t *plan = seat->world->plan;
    int64_t live = atomic_load(&seat->live_bytes);
    return live == 0 || seat->part > 0 || live + atomic_load(&seat->last_bytes) <= plan->max_bytes / plan->stages_count;
}

seat_state_t
verl_seat_state(const seat_t *seat)
{
    return !seat->world->open || verl_seat_over(seat) ? SEAT_OVER
           : !s_has_data(seat)     ? SEAT_DATA
           : !s_has_turn(seat)     ? SEAT_DATA
           : !s_has_weights(seat)  ? SEAT_WEIGHTS
           : !s_has_room(seat)     ? SEAT_ROOM
                                   : SEAT_WORKER;
}

bool
verl_seat_changes_state(const seat_t *seat)
{
    const world_t *world = seat->world;
    for (int i = 0; i < world->seats_count; i++)
        if (world->seats[i].plan->handler->writes_weights)
            return seat->plan->handler->writes_weights;
    return true;
}

// A checkpoint is due before the stages that change the state go on.
static bool
s_waits_for_save(const seat_t *seat)
{
    const host_t *host = seat->host;
    return host->save_next >= 0 && seat->next >= host->save_next && verl_seat_changes_state(seat);
}

seat_t *
verl_host_pick(host_t *host)
{
    seat_t *best = NULL;
    for (world_t *world = host->paused ? NULL : host->worlds; world; world = world->next)
        for (int i = 0; i < world->seats_count; i++) {
            seat_t *seat = &world->seats[i];
            if (verl_seat_state(seat) == SEAT_WORKER && !s_waits_for_save(seat) && (!best || seat->next < best->next))
                best = seat;
        }
    return best;
}

void
verl_host_account(host_t *host)
{
    int64_t now = verl_now();
    for (world_t *world = host->worlds; world; world = world->next)
        for (int i = 0; i < world->seats_count; i++) {
            seat_t *seat = &world->seats[i];
            seat->spent[seat->state] += now - seat->since;
            seat->since = now;
            seat->state = seat == host->running ? SEAT_BUSY : verl_seat_state(seat);
        }
}

void
verl_host_changed(host_t *host)
{
    verl_host_account(host);
    bool ready = false;
    for (world_t *world = host->worlds; world; world = world->next) {
        ready |= world->retired;
        for (int i = 0; i < world->seats_count; i++)
            ready |= world->seats[i].state == SEAT_WORKER;
    }
    if (ready && !host->running)
        pthread_cond_signal(&host->changed);
}
