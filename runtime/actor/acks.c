// acks.c: when an actor without state is done with what it took: nothing that it made of it is wanted any more.
//
// Acknowledgements are given in the order of the batches, as their senders number them.
#include <stdlib.h>
#include "runtime/actor/host_impl.h"

ack_t *
verl_ack_new(seat_t *seat)
{
    ack_t *ack = calloc(1, sizeof *ack);
    if (!ack)
        return NULL;
    *ack = (ack_t) { .seat = seat, .batch = seat->next };
    atomic_init(&ack->pending, 1);
    pthread_mutex_lock(&seat->host->lock);
    ack_t **link = &seat->acks;
    while (*link)
        link = &(*link)->next;
    *link = ack;
    pthread_mutex_unlock(&seat->host->lock);
    return ack;
}

void
verl_ack_release(ack_t *ack)
{
    seat_t *seat = ack->seat;
    unit_t *units = NULL, **last = &units;
    if (atomic_fetch_sub(&ack->pending, 1) != 1)
        return;
    pthread_mutex_lock(&seat->host->lock);
    while (seat->acks && atomic_load(&seat->acks->pending) == 0) {
        ack_t *given = seat->acks;
        seat->acks = given->next;
        *last = given->units;
        while (*last)
            last = &(*last)->next;
        free(given);
    }
    pthread_mutex_unlock(&seat->host->lock);
    verl_units_free(units, true);
}

void
verl_ack_forget(seat_t *seat, const verl_inbound_t *inbound)
{
    for (ack_t *ack = seat->acks; ack; ack = ack->next)
        for (unit_t *unit = ack->units; unit; unit = unit->next)
            if (unit->inbound == inbound)
                verl_unit_let_go(unit);
}

unit_t *
verl_ack_find(const seat_t *seat, int edge, int64_t batch, int64_t part)
{
    for (ack_t *ack = seat->acks; ack && ack->batch <= batch; ack = ack->next)
        for (unit_t *unit = ack->batch == batch ? ack->units : NULL; unit; unit = unit->next)
            if (unit->edge == edge && unit->batch == batch && unit->part == part)
                return unit;
    return NULL;
}
