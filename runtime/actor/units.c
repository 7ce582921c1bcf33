// units.c: the mailbox of a stage: what came over each of its edges, in the order in which it is wanted.
#include <stdlib.h>
#include "runtime/actor/host_impl.h"

void
verl_unit_free(unit_t *unit, bool done)
{
    if (unit->stored)
        verl_batch_destroy(&unit->stored);
    if (unit->inbound && done)
        verl_inbound_done(unit->inbound, 1);
    if (unit->output)
        verl_output_release(unit->output);
    free(unit);
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

void
verl_edge_finish(edge_in_t *edge, int64_t batch)
{
    host_t *host = edge->seat->host;
    unit_t *gone = NULL, **last = &gone;
    pthread_mutex_lock(&host->lock);
    while (edge->first && edge->first->batch <= batch) {
        *last = edge->first;
        edge->first = edge->first->next;
        last = &(*last)->next;
    }
    *last = NULL;
    pthread_mutex_unlock(&host->lock);
    while (gone) {
        unit_t *next = gone->next;
        verl_unit_free(gone, true);
        gone = next;
    }
}

static int
s_check(const edge_in_t *edge, const verl_message_t *message, verl_error_t *error)
{
    const verl_plan_t *plan = edge->seat->host->plan;
    const char *maker = plan->stages[edge->plan->maker].name;
    if (message->revision != plan->revision)
        return verl_error_set(error, "stage %s sent batch %lld under revision %lld, which is unknown here", maker,
                              (long long) message->batch, (long long) message->revision);
    if (message->batch < 0 || message->batch > plan->steps || message->parts > (1 << 20))
        return verl_error_set(error, "stage %s sent batch %lld, which the run does not have", maker,
                              (long long) message->batch);
    return 0;
}

int
verl_host_receive(host_t *host, edge_in_t *edge, verl_inbound_t *inbound, const verl_message_t *message,
                  verl_error_t *error)
{
    if (s_check(edge, message, error))
        return -1;
    unit_t *unit = calloc(1, sizeof *unit);
    if (!unit)
        return verl_error_set(error, "out of memory for batch %lld", (long long) message->batch);
    *unit = (unit_t) { .batch = message->batch, .part = message->part, .parts = message->parts,
                       .time = message->time, .inbound = inbound };
    if (message->body_size) {
        unit->stored = verl_batch_unpack(message->batch, message->body, message->body_size, &host->slabs, error);
        if (!unit->stored) {
            free(unit);
            return -1;
        }
    }
    pthread_mutex_lock(&host->lock);
    verl_edge_insert(edge, unit);
    verl_host_changed(host);
    pthread_mutex_unlock(&host->lock);
    return 0;
}
