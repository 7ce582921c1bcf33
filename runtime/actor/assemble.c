// assemble.c: what one run of a handler is given: columns of several edges, seen through row maps as one table.
#include <stdlib.h>
#include <string.h>
#include "runtime/actor/host_impl.h"

static edge_in_t *
s_edge(seat_t *seat, int edge)
{
    for (int i = 0; i < seat->in_count; i++)
        if (seat->in[i].edge == edge)
            return &seat->in[i];
    return NULL;
}

// All parts of a batch as one. The units stay where they are; only W removes them, so no lock is needed to read them
// once their list has been looked at.
static verl_batch_t *
s_join(view_t *view, edge_in_t *edge, int64_t batch, int64_t parts, verl_error_t *error)
{
    const verl_batch_t **stored = calloc((size_t) parts, sizeof *stored);
    verl_batch_t *joined = NULL;
    if (!stored) {
        verl_error_set(error, "out of memory");
        return NULL;
    }
    host_t *host = edge->seat->host;
    pthread_mutex_lock(&host->lock);
    for (int64_t i = 0; i < parts; i++)
        stored[i] = verl_edge_find(edge, batch, i)->stored;
    pthread_mutex_unlock(&host->lock);
    joined = verl_batch_concat(stored, (int) parts, error);
    free(stored);
    if (joined)
        view->joined[view->joined_count++] = joined;
    return joined;
}

// What an edge brings for this run: one part, or the whole batch. NULL: out of memory, or the batch was skipped.
static const verl_batch_t *
s_bring(view_t *view, edge_in_t *edge, verl_error_t *error)
{
    seat_t *seat = edge->seat;
    host_t *host = seat->host;
    int64_t have = 0;
    unit_t *only = NULL;
    pthread_mutex_lock(&host->lock);
    int64_t parts = verl_edge_parts(edge, seat->next);
    bool by_part = seat->plan->by_part && parts > 1 && !edge->through_map;
    for (unit_t *unit = edge->first; unit && unit->batch <= seat->next; unit = unit->next) {
        if (unit->batch != seat->next || (by_part && unit->part != seat->part))
            continue;
        view->skipped |= !unit->stored;
        if (unit->time > view->ready)
            view->ready = unit->time;
        only = unit;
        have++;
    }
    pthread_mutex_unlock(&host->lock);
    if (by_part)
        view->parts = parts;
    if (view->skipped)
        return NULL;
    return have == 1 ? only->stored : s_join(view, edge, seat->next, parts, error);
}

// The rows of this run: those of the batch that decides them, or the slice of it that a cutting stage takes in turn.
static void
s_rows(view_t *view, const seat_t *seat, const verl_batch_t *rows, int64_t *ret_rows, int64_t *ret_first)
{
    int64_t count = verl_batch_rows(rows), cut = seat->plan->parts;
    *ret_rows = count;
    *ret_first = verl_batch_first_row(rows);
    if (cut <= 1 || view->parts > 1 || seat->plan->parts_of != seat->index)
        return;
    view->parts = cut;
    *ret_first = count * seat->part / cut;
    *ret_rows = count * (seat->part + 1) / cut - *ret_first;
}

static int
s_put(view_t *view, seat_t *seat, const verl_plan_need_t *need, const verl_batch_t *const *brought,
      verl_error_t *error)
{
    edge_in_t *edge = s_edge(seat, need->edge);
    const verl_batch_t *stored = brought[edge - seat->in], *outer = stored;
    const verl_column_t *column = verl_batch_column(stored, need->column);
    const int32_t *maps[16];
    int64_t lengths[16];
    if (!column)
        return verl_error_set(error, "stage %s did not bring column %s",
                              seat->world->plan->stages[edge->plan->maker].name, need->column);
    if (need->maps > 16)
        return verl_error_set(error, "column %s lies behind %d row maps", need->name, need->maps);
    for (int i = 0; i < need->maps; i++) {
        const verl_batch_t *mapping = brought[s_edge(seat, need->map_edges[i]) - seat->in];
        maps[i] = verl_batch_map(mapping);
        lengths[i] = verl_batch_rows(mapping);
        if (!maps[i])
            return verl_error_set(error, "the row map to column %s is missing", need->name);
        if (i == 0)
            outer = mapping;
    }
    return verl_batch_put(view->given, need->name, column, maps, lengths, need->maps,
                          verl_batch_first_row(view->given) - verl_batch_first_row(outer), error);
}

static int
s_fill(view_t *view, seat_t *seat, const verl_batch_t *const *brought, verl_error_t *error)
{
    int64_t rows, first;
    s_rows(view, seat, brought[seat->rows_edge], &rows, &first);
    view->given = verl_batch_new_given(seat->next, rows, first);
    if (!view->given)
        return verl_error_set(error, "out of memory");
    for (int i = 0; i < seat->plan->needs_count; i++)
        if (seat->plan->needs[i].edge >= 0 && s_put(view, seat, &seat->plan->needs[i], brought, error))
            return -1;
    return 0;
}

int
verl_view_make(view_t *view, seat_t *seat, verl_error_t *error)
{
    *view = (view_t) { .parts = 1 };
    if (seat->rows_edge < 0) {
        view->given = verl_batch_new_given(seat->next, 0, 0);
        return view->given ? 0 : verl_error_set(error, "out of memory");
    }
    const verl_batch_t **brought = calloc((size_t) seat->in_count, sizeof *brought);
    view->joined = calloc((size_t) seat->in_count, sizeof *view->joined);
    int failed = brought && view->joined ? 0 : verl_error_set(error, "out of memory");
    for (int i = 0; i < seat->in_count && !failed; i++)
        if (&seat->in[i] != seat->weights && !(brought[i] = s_bring(view, &seat->in[i], error)))
            failed = view->skipped ? 0 : -1;
    if (!failed && !view->skipped)
        failed = s_fill(view, seat, brought, error);
    free(brought);
    return failed;
}

void
verl_view_done(view_t *view)
{
    verl_batch_destroy(&view->given);
    for (int i = 0; i < view->joined_count; i++)
        verl_batch_destroy(&view->joined[i]);
    free(view->joined);
    *view = (view_t) { 0 };
}
