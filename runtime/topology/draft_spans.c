// draft_spans.c: which batches each stage works on, and how many steps the run has.
//
// A source works on every N-th batch; another stage on those that all its dependencies work on, thinned by its own N.
#include "runtime/topology/draft.h"

// More than any batch of a run: a period that only batch 0 has.
#define S_BEYOND (2 * VERL_STEPS_MAX)

int64_t
verl_draft_common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y != 0) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x < 1 || b < 1 || a / x > S_BEYOND / b ? S_BEYOND : a / x * b;
}

static void
s_span(verl_draft_t *draft, verl_draft_stage_t *stage)
{
    verl_span_t span = { .period = stage->keys.every < 1 ? 1 : stage->keys.every, .begin = stage->keys.begin };
    span.closing = stage->deps_count > 0 || verl_node_get(stage->node, "every");
    for (int d = 0; d < stage->deps_count; d++) {
        const verl_span_t *other = &draft->stages[stage->deps[d]].span;
        span.period = verl_draft_common_multiple(span.period, other->period);
        span.begin = span.begin > other->begin ? span.begin : other->begin;
        span.closing = span.closing && other->closing;
    }
    stage->span = span;
}

// How many steps a source that ends has batches for; the closing one takes one of them.
static int64_t
s_steps_of(const verl_draft_stage_t *stage)
{
    int64_t count = stage->batches - (stage->span.closing ? 1 : 0);
    int64_t first = verl_span_next(&stage->span, INT64_MAX, -1);
    if (count <= 0)
        return first < 0 ? 0 : first;
    return count > (VERL_STEPS_MAX - first) / stage->span.period ? VERL_STEPS_MAX : first + count * stage->span.period;
}

static void
s_shorten(verl_draft_t *draft, const verl_draft_stage_t *stage)
{
    int64_t steps = s_steps_of(stage);
    if (steps == 0) {
        verl_problem_add(&draft->problems, stage->at,
                         "`%s` ends before the first step: it has %lld batches%s, and more data, "
                         "or fewer rows a batch, would be right",
                         stage->name, (long long) stage->batches,
                         stage->span.closing ? " and needs one more after the last step" : "");
        return;
    }
    if (draft->steps == 0 || steps < draft->steps)
        draft->steps = steps;
}

static void
s_check_empty(verl_draft_t *draft, const verl_draft_stage_t *stage)
{
    if (draft->steps == 0 || verl_span_next(&stage->span, draft->steps, -1) >= 0)
        return;
    for (int d = 0; d < stage->deps_count; d++)
        if (verl_span_next(&draft->stages[stage->deps[d]].span, draft->steps, -1) < 0)
            return; // that one is reported
    verl_at_t at = verl_draft_at(stage->node, "depends_on", stage->at);
    at = verl_draft_at(stage->node, "every", at);
    at = verl_draft_at(stage->node, "begin", at);
    int64_t first = verl_span_next(&stage->span, INT64_MAX, -1);
    const char *which = first < 0 || first > VERL_STEPS_MAX
                            ? "there is none that all its dependencies have"
                            : verl_pool_print(draft->pool, "its first one would be %lld", (long long) first);
    verl_problem_add(&draft->problems, at,
                     "`%s` works on no batch: %s, and the run has the batches 0 to %lld, so a smaller `begin`, or more "
                     "steps, would be right",
                     stage->name, which, (long long) (draft->steps - 1));
}

// Only where nothing else may be the reason that no source ends.
static void
s_check_steps(verl_draft_t *draft)
{
    if (draft->steps > 0 || draft->run_steps || draft->problems.count > 0)
        return;
    const verl_node_t *run = verl_node_get(draft->root, "run");
    verl_problem_add(&draft->problems, run ? run->key_at : draft->root->at,
                     "[run] has no `steps`, and no source ends the "
                     "run: `steps = N`, or `epochs` in a loader, would be right");
}

void
verl_draft_spans(verl_draft_t *draft)
{
    for (int i = 0; i < draft->order_count; i++)
        s_span(draft, &draft->stages[draft->order[i]]);
    for (int i = 0; i < draft->order_count; i++) {
        const verl_draft_stage_t *stage = &draft->stages[draft->order[i]];
        if (stage->deps_count == 0 && stage->batches >= 0)
            s_shorten(draft, stage);
    }
    for (int i = 0; i < draft->order_count; i++)
        s_check_empty(draft, &draft->stages[draft->order[i]]);
    s_check_steps(draft);
}
