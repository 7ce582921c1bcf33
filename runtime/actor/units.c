// units.c: the mailbox of a stage: what came over each of its edges, in the order in which it is wanted.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "runtime/actor/host_impl.h"

#define MOST_PARTS (1 << 20)

// What is done with and was never taken leaves the mailbox too: the credit moves.
static void
s_free(unit_t *unit, bool done)
{
    if (unit->stored)
        verl_batch_destroy(&unit->stored);
    if (unit->inbound && done && !unit->taken)
        verl_inbound_taken(unit->inbound, 1);
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

// It is not what this edge may carry: says who sent it and what is wrong with it.
static int __attribute__((format(printf, 4, 5)))
s_refuse(const edge_in_t *edge, const verl_message_t *message, verl_error_t *error, const char *format, ...)
{
    char what[sizeof error->text - 400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return verl_error_set(error, "stage %s of %s sent batch %lld%s",
                          edge->seat->world->plan->stages[edge->plan->maker].name,
                          verl_host_label(edge->seat->host, message->from), (long long) message->batch, what);
}

static int
s_check(const edge_in_t *edge, const verl_message_t *message, verl_error_t *error)
{
    const verl_plan_t *plan = edge->seat->world->plan;
    if (message->revision != plan->revision)
        return s_refuse(edge, message, error, " under revision %lld on an edge of revision %lld",
                        (long long) message->revision, (long long) plan->revision);
    if (message->batch < 0 || message->batch > plan->steps)
        return s_refuse(edge, message, error, ", which the run does not have");
    if (message->parts > (edge->plan->weights ? 1 : MOST_PARTS))
        return s_refuse(edge, message, error, " in %lld parts: more than there may be", (long long) message->parts);
    if (edge->plan->weights && !message->body_size)
        return s_refuse(edge, message, error, " without the weights that it made");
    return 0;
}

// All messages of a batch say the same number of parts: what is joined is whole. Under the lock.
static int
s_check_parts(const edge_in_t *edge, const verl_message_t *message, verl_error_t *error)
{
    int64_t parts = verl_edge_parts(edge, message->batch);
    if (!parts || parts == message->parts)
        return 0;
    return s_refuse(edge, message, error, " in %lld parts and in %lld", (long long) parts, (long long) message->parts);
}

static unit_t *
s_unit(host_t *host, const edge_in_t *edge, verl_inbound_t *inbound, const verl_message_t *message,
       verl_error_t *error)
{
    verl_error_t wrong = { "" };
    unit_t *unit = calloc(1, sizeof *unit);
    if (!unit) {
        verl_error_set(error, "out of memory for batch %lld", (long long) message->batch);
        return NULL;
    }
    *unit = (unit_t) { .edge = edge->edge, .batch = message->batch, .part = message->part, .parts = message->parts,
                       .time = message->time };
    if (message->body_size) {
        unit->stored = verl_batch_unpack(message->batch, message->body, message->body_size, &host->slabs, &wrong);
        if (!unit->stored) {
            s_refuse(edge, message, error, ", which cannot be taken: %s", wrong.text);
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
    int failed = had ? 0 : s_check_parts(edge, message, error);
    pthread_mutex_unlock(&host->lock);
    unit_t *unit = had || failed ? NULL : s_unit(host, edge, inbound, message, error);
    if (!unit)
        return had ? 0 : -1;
    pthread_mutex_lock(&host->lock);
    verl_edge_insert(edge, unit);
    verl_host_changed(host);
    pthread_mutex_unlock(&host->lock);
    return 0;
}
