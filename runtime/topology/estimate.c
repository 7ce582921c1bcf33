// estimate.c: how much an edge carries, guessed from what the topology says. See describe.h.
#include <stdlib.h>
#include <string.h>
#include "runtime/tensor/batch.h"
#include "runtime/topology/describe.h"
#include "runtime/topology/grammar.h"
#include "runtime/topology/value.h"

// An integer option of a stage or of its actor; -1: there is none.
static int64_t
s_option(const verl_plan_t *plan, const verl_plan_stage_t *stage, const char *name)
{
    const verl_value_t *value = verl_value_get(&stage->options, name);
    if (!value)
        value = verl_value_get(&plan->actors[stage->actor].options, name);
    return value && value->type == VERL_VALUE_INT ? value->integer : -1;
}

// Rows of what a stage gives. A stage that makes rows and does not say how many is taken to keep them all.
static int64_t
s_rows(const verl_plan_t *plan, int index)
{
    double factor = 1;
    for (;;) {
        const verl_plan_stage_t *stage = &plan->stages[index];
        if (stage->source || stage->rows_of == index) {
            int64_t rows = s_option(plan, stage, "rows");
            return rows < 1 || (double) rows * factor > 1e15 ? -1 : (int64_t) ((double) rows * factor);
        }
        int64_t samples = stage->maps ? s_option(plan, stage, "samples") : 1;
        factor *= samples > 0 ? (double) samples : 1;
        index = stage->rows_of;
    }
}

double
verl_describe_row_bytes(const char *type, double positions)
{
    size_t name = strcspn(type, "[");
    int dtype = verl_dtype_find(type, name);
    if (dtype < 0)
        return 0;
    double bytes = (double) verl_dtype_bytes((verl_dtype_t) dtype);
    if (dtype == VERL_TEXT)
        return bytes * positions;
    for (const char *comma = strchr(type, ','); comma; comma = strchr(comma + 1, ',')) {
        double width = strtod(comma + 1, NULL);
        bytes *= comma[1] == '*' ? positions : width > 0 ? width : 1;
    }
    return bytes;
}

static double
s_row_bytes(const verl_plan_stage_t *maker, const char *column)
{
    for (int i = 0; i < maker->gives_count; i++)
        if (strcmp(maker->gives_as[i], column) == 0)
            return verl_describe_row_bytes(maker->gives_type[i], VERL_DESCRIBE_POSITIONS);
    return 0;
}

int64_t
verl_describe_bytes(const verl_plan_t *plan, int edge)
{
    const verl_plan_edge_t *self = &plan->edges[edge];
    double row = self->map ? sizeof(int32_t) : 0;
    for (int i = 0; i < self->columns_count; i++)
        row += s_row_bytes(&plan->stages[self->maker], self->columns[i]);
    if (row == 0)
        return 0;
    int64_t rows = s_rows(plan, self->maker);
    return rows < 0 || (double) rows * row > 1e18 ? -1 : (int64_t) ((double) rows * row);
}

const char *
verl_describe_route(const verl_plan_t *plan, int edge)
{
    const verl_plan_edge_t *self = &plan->edges[edge];
    if (self->weights)
        return "arena";
    int64_t rows = s_rows(plan, self->maker);
    for (int i = 0; i < self->columns_count; i++)
        if (rows < 0 ||
            (double) rows * s_row_bytes(&plan->stages[self->maker], self->columns[i]) > VERL_BATCH_INLINE)
            return "arena";
    return "inline";
}
