// units.c: the mailbox of a stage: what came over each of its edges, in the order in which it is wanted.
#include <stdlib.h>
#include "runtime/actor/host_impl.h"

static void
s_free(unit_t *unit, bool done)
{
    if (unit->stored)
        verl_batch_destroy(&unit->stored);
    if (unit->inbound && done)
        verl_inbound_done(unit->inbound, 1);
    verl_unit_let_go(unit);
    if (unit->output)
        verl_output_release(unit->output);
    free(unit);
}

void
verl_units_free(unit_t *units, bool done)
{
    while (units) {
        unit_t *next = units->next;
        s_free(units, done);
        units = next;
    }
}

void
verl_unit_let_go(unit_t *unit)
{
    if (unit->inbound)
        verl_inbound_release(unit->inbound);
    unit->inbound = NULL;
}

void
verl_edge_insert(edge_in_t *edge, unit_t *unit)
{
    unit_t **link = &edge->first;
    while (*link && ((*link)->batch < unit->batch || ((*link)->batch == unit->batch && (*link)->part < unit->part)))
        link = &(*link)->next;
    unit->next = *link;
    *link = unit;
}

unit_t *
verl_edge_find(const edge_in_t *edge, int64_t batch, int64_t part)
{
    for (unit_t *unit = edge->first; unit && unit->batch <= batch; unit = unit->next)
        if (unit->batch == batch && unit->part == part)
            return unit;
    return NULL;
}

int64_t
verl_edge_parts(const edge_in_t *edge, int64_t batch)
{
    for (unit_t *unit = edge->first; unit && unit->batch <= batch; unit = unit->next)
        if (unit->batch == batch)
            return unit->parts;
    return 0;
}

bool
verl_edge_whole(const edge_in_t *edge, int64_t batch)
{
    int64_t have = 0, parts = 1;
    for (unit_t *unit = edge->first; unit && unit->batch <= batch; unit = unit->next) {
        if (unit->batch == batch) {
            have++;
            parts = unit->parts;
        }
    }
    return have == parts;
}

unit_t *
verl_edge_take(edge_in_t *edge, int64_t batch)
{
    unit_t *taken = NULL, **last = &taken;
    while (edge->first && edge->first->batch <= batch) {
        *last = edge->first;
        edge->first = edge->first->next;
        last = &(*last)->next;
    }
    *last = NULL;
    return taken;
}

// --- what comes ---------------------------------------------------------------------------------------------------

static int
s_check(const edge_in_t *edge, const verl_message_t *message, verl_error_t *error)
{
    const verl_plan_t *plan = edge->seat->world->plan;
    const char *maker = plan->stages[edge->plan->maker].name;
    if (message->revision != plan->revision)
        return verl_error_set(error, "stage %s sent batch %lld under revision %lld on an edge of revision %lld", maker,
                              (long long) message->batch, (long long) message->revision, (long long) plan->revision);
    if (message->batch < 0 || message->batch > plan->steps || message->parts > (1 << 20))
        return verl_error_set(error, "stage %s sent batch %lld, which the run does not have", maker,
                              (long long) message->batch);
    return 0;
}

static unit_t *
s_unit(host_t *host, const edge_in_t *edge, verl_inbound_t *inbound, const verl_message_t *message,
       verl_error_t *error)
{
    unit_t *unit = calloc(1, sizeof *unit);
    if (!unit) {
        verl_error_set(error, "out of memory for batch %lld", (long long) message->batch);
        return NULL;
    }
    *unit = (unit_t) { .edge = edge->edge, .batch = message->batch, .part = message->part, .parts = message->parts,
                       .time = message->time };
    if (message->body_size) {
        unit->stored = verl_batch_unpack(message->batch, message->body, message->body_size, &host->slabs, error);
        if (!unit->stored) {
            free(unit);
            return NULL;
        }
    }
    unit->inbound = verl_inbound_hold(inbound);
    return unit;
}

// The stage is past this batch, or uses a later version.
static bool
s_late(const edge_in_t *edge, const verl_message_t *message)
{
    const seat_t *seat = edge->seat;
    if (!seat->world->open)
        return seat->world->ordered && !edge->plan->weights && message->batch < seat->start;
    if (edge == seat->weights)
        return message->batch < seat->version_update;
    return seat->next < 0 || message->batch < seat->next;
}

// A successor sends what was here already: it is acknowledged to it, when its time comes. Under the lock.
static bool
s_had(edge_in_t *edge, verl_inbound_t *inbound, const verl_message_t *message)
{
    unit_t *unit = verl_edge_find(edge, message->batch, message->part);
    if (!unit)
        unit = verl_ack_find(edge->seat, edge->edge, message->batch, message->part);
    if (!unit && !s_late(edge, message))
        return false;
    if (unit && !unit->inbound && !unit->output) {
        unit->inbound = verl_inbound_hold(inbound);
        if (unit->taken)
            verl_inbound_taken(inbound, 1);
    } else {
        verl_inbound_taken(inbound, 1);
        verl_inbound_done(inbound, 1);
    }
    return true;
}

int
verl_host_receive(host_t *host, edge_in_t *edge, verl_inbound_t *inbound, const verl_message_t *message,
                  verl_error_t *error)
{
    if (s_check(edge, message, error))
        return -1;
    pthread_mutex_lock(&host->lock);
    bool had = s_had(edge, inbound, message);
    pthread_mutex_unlock(&host->lock);
    unit_t *unit = had ? NULL : s_unit(host, edge, inbound, message, error);
    if (had || !unit)
        return had ? 0 : -1;
    pthread_mutex_lock(&host->lock);
    verl_edge_insert(edge, unit);
    verl_host_changed(host);
    pthread_mutex_unlock(&host->lock);
    return 0;
}
