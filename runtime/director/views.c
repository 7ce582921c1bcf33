// views.c: what the stages are doing, for whoever looks at the terminal.
#include "runtime/director/director_impl.h"

// Batches that the dependencies of a stage have made, of its own.
static int64_t
s_fed(const director_t *self, const verl_plan_t *plan, const verl_plan_stage_t *stage)
{
    int64_t fed = verl_span_ordinal(&stage->span, plan->steps, verl_ledger_granted(self->ledger) + 1);
    for (int i = 0; i < stage->in_count; i++) {
        const verl_plan_edge_t *edge = &plan->edges[stage->in_edges[i]];
        int64_t last = verl_ledger_stage_last(self->ledger, plan->stages[edge->maker].name);
        int64_t made = verl_span_ordinal(&stage->span, plan->steps, last + 1);
        if (!edge->weights && made < fed)
            fed = made;
    }
    return fed;
}

static void
s_view_parties(const director_t *self, const revision_t *revision, const verl_plan_stage_t *stage,
               verl_stage_view_t *view)
{
    bool ready = true, paused = false;
    for (int i = 0; i < revision->slots_count; i++) {
        const party_t *party = revision->slots[i].party;
        if (revision->slots[i].actor != stage->actor)
            continue;
        ready &= party && party->ready;
        paused |= party && party->paused;
        if (party && party->running >= 0 &&
            strcmp(verl_stage_label(self, party->running_revision, party->running), stage->name) == 0) {
            view->state = "running";
            view->batch = party->running_batch;
            view->age = (double) (verl_now() - party->running_since) / 1e9;
            view->progress = party->progress;
        }
    }
    if (!ready)
        view->state = self->phase == PHASE_STARTING ? "starting" : "preparing";
    else if (view->done >= view->total)
        view->state = "done";
    else if (paused && strcmp(view->state, "running") != 0)
        view->state = "paused";
}

void
verl_view_stage(const director_t *self, const revision_t *revision, int index, verl_stage_view_t *view)
{
    const verl_plan_t *plan = revision->plan;
    const verl_plan_stage_t *stage = &plan->stages[index];
    *view = (verl_stage_view_t) { .name = stage->name, .batch = verl_ledger_stage_last(self->ledger, stage->name),
                                  .done = verl_ledger_stage_done(self->ledger, stage->name), .state = "waiting" };
    view->done += verl_span_ordinal(&stage->span, plan->steps, self->first);
    view->total = verl_span_ordinal(&stage->span, plan->steps, plan->steps) + stage->span.closing;
    int64_t fed = s_fed(self, plan, stage);
    view->queue = fed > view->done ? fed - view->done : 0;
    s_view_parties(self, revision, stage, view);
}

void
verl_view(director_t *self, bool now)
{
    const revision_t *newest = verl_revision_newest(self);
    if (!newest || !self->config->observer.view || (!now && verl_now() - self->viewed_at < VERL_WATCHED_NS))
        return;
    verl_stage_view_t *stages = calloc((size_t) newest->plan->stages_count, sizeof *stages);
    if (!stages)
        return;
    self->viewed_at = verl_now();
    for (int i = 0; i < newest->plan->stages_count; i++)
        verl_view_stage(self, newest, i, &stages[i]);
    verl_run_view_t view = { .stages_count = newest->plan->stages_count, .stages = stages,
                             .done = verl_ledger_done(self->ledger), .total = verl_plan_last(newest->plan) + 1,
                             .seconds = self->started_at ? (double) (verl_now() - self->started_at) / 1e9 : 0 };
    self->config->observer.view(self->config->observer.context, &view);
    free(stages);
}
