// plan.c: what a plan says about batches: spans, replicas, versions. See plan.h.
#include "runtime/topology/plan.h"
#include <stdlib.h>
#include "runtime/topology/kinds.h"
#include "runtime/topology/plan_box.h"

typedef struct box {
    verl_plan_t plan; // first, so that the one is found from the other
    verl_pool_t pool;
} box_t;

verl_plan_t *
verl_plan_new(void)
{
    box_t *box = calloc(1, sizeof *box);
    return box ? &box->plan : NULL;
}

verl_pool_t *
verl_plan_pool(verl_plan_t *plan)
{
    return &((box_t *) plan)->pool;
}

void
verl_plan_destroy(verl_plan_t **plan_p)
{
    if (!plan_p || !*plan_p)
        return;
    verl_pool_done(verl_plan_pool(*plan_p));
    free(*plan_p);
    *plan_p = NULL;
}

// Counted first, then filled in.
void
verl_plan_link(verl_plan_t *plan)
{
    verl_pool_t *pool = verl_plan_pool(plan);
    for (int e = 0; e < plan->edges_count; e++) {
        plan->stages[plan->edges[e].reader].in_count++;
        plan->stages[plan->edges[e].maker].out_count++;
    }
    for (int i = 0; i < plan->stages_count; i++) {
        verl_plan_stage_t *stage = &plan->stages[i];
        stage->in_edges = verl_pool_array(pool, (size_t) stage->in_count, sizeof(int));
        stage->out_edges = verl_pool_array(pool, (size_t) stage->out_count, sizeof(int));
        stage->in_count = stage->out_count = 0;
    }
    for (int e = 0; e < plan->edges_count; e++) {
        verl_plan_stage_t *reader = &plan->stages[plan->edges[e].reader], *maker = &plan->stages[plan->edges[e].maker];
        reader->in_edges[reader->in_count++] = e;
        maker->out_edges[maker->out_count++] = e;
    }
}

// The first batch at or above `from` that the period allows, the closing one aside; -1: none below steps.
static int64_t
s_at_or_above(const verl_span_t *span, int64_t steps, int64_t from)
{
    if (from < span->begin)
        from = span->begin;
    if (from < 0)
        from = 0;
    int64_t rest = from % span->period;
    if (rest != 0 && span->period - rest > INT64_MAX - from)
        return -1;
    int64_t k = rest == 0 ? from : from + (span->period - rest);
    return k < steps ? k : -1;
}

bool
verl_span_has(const verl_span_t *span, int64_t steps, int64_t k)
{
    if (k == steps)
        return span->closing;
    return k >= 0 && k < steps && k >= span->begin && k % span->period == 0;
}

int64_t
verl_span_next(const verl_span_t *span, int64_t steps, int64_t k)
{
    if (k >= steps)
        return -1;
    int64_t next = s_at_or_above(span, steps, k < 0 ? 0 : k + 1);
    return next >= 0 ? next : span->closing ? steps : -1;
}

int64_t
verl_span_previous(const verl_span_t *span, int64_t steps, int64_t k)
{
    if (k > steps && span->closing)
        return steps;
    if (k > steps)
        k = steps;
    int64_t last = k <= 0 ? -1 : (k - 1) / span->period * span->period;
    return last >= span->begin ? last : -1;
}

int64_t
verl_span_ordinal(const verl_span_t *span, int64_t steps, int64_t k)
{
    int64_t closing = k > steps && span->closing;
    if (k > steps)
        k = steps;
    int64_t first = s_at_or_above(span, INT64_MAX, span->begin);
    if (first < 0 || k <= first)
        return closing;
    return (k - 1 - first) / span->period + 1 + closing;
}

int64_t
verl_plan_replica(const verl_plan_t *plan, int stage, int64_t k)
{
    const verl_plan_stage_t *self = &plan->stages[stage];
    return verl_span_ordinal(&self->span, plan->steps, k) % plan->actors[self->actor].replicas;
}

int64_t
verl_plan_version(const verl_plan_t *plan, int writer, int64_t staleness, int64_t k)
{
    int64_t bound = k > staleness ? k - staleness : 0;
    return verl_span_previous(&plan->stages[writer].span, plan->steps, bound);
}

// A kind that updates weights keeps nothing else.
static bool
s_keeps_weights(const verl_kind_t *kind)
{
    bool weights = false;
    for (int i = 0; kind && i < verl_stage_kind_count(kind); i++)
        weights |= kind->stages[i].writes_weights;
    return weights;
}

bool
verl_plan_is_fed(const verl_plan_t *plan, int actor)
{
    bool fed = false;
    if (!s_keeps_weights(plan->actors[actor].kind))
        return false;
    for (int i = 0; i < plan->stages_count; i++) {
        const verl_plan_stage_t *stage = &plan->stages[i];
        if (stage->actor != actor || !stage->handler)
            continue;
        if (stage->handler->writes_weights || (stage->handler->reads_weights && stage->weights_edge < 0))
            return false;
        fed |= stage->weights_edge >= 0;
    }
    return fed;
}

int64_t
verl_plan_last(const verl_plan_t *plan)
{
    for (int i = 0; i < plan->stages_count; i++)
        if (plan->stages[i].span.closing)
            return plan->steps;
    return plan->steps - 1;
}

int64_t
verl_plan_window(const verl_plan_t *plan)
{
    int64_t parts = 1;
    for (int i = 0; i < plan->stages_count; i++)
        if (plan->stages[i].parts > parts)
            parts = plan->stages[i].parts;
    int64_t window = (plan->max_in_flight + 1) * parts;
    return window < 64 ? 64 : window;
}
