// bases.c: which versions of weights the stages of a revision work with from its cut on.
//
// A stage has a base: an update below it means the base, the weights as they were then. Where neither the stage nor its
// writer is touched, its base is that of the revision before, and it goes on as without the change. So does what shares
// one set of weights with it: they have one base, as long as all versions that it calls for are kept. Else it is the
// update before the cut. It is decided once, with the cut, and is the same for whoever begins later.
#include "runtime/director/director_impl.h"

int
verl_plan_writer(const verl_plan_t *plan, int stage)
{
    const verl_plan_stage_t *reader = &plan->stages[stage];
    if (reader->weights_edge >= 0)
        return plan->edges[reader->weights_edge].maker;
    if (!reader->handler || !reader->handler->reads_weights || reader->handler->writes_weights)
        return -1;
    for (int i = 0; i < plan->stages_count; i++)
        if (plan->stages[i].actor == reader->actor && plan->stages[i].handler &&
            plan->stages[i].handler->writes_weights)
            return i;
    return -1;
}

static int
s_stage(const verl_plan_t *plan, const char *name)
{
    int stage = plan->stages_count - 1;
    while (stage >= 0 && strcmp(plan->stages[stage].name, name) != 0)
        stage--;
    return stage;
}

static const party_t *
s_party(const revision_t *revision, int actor, int64_t replica)
{
    for (int i = 0; i < revision->slots_count; i++)
        if (revision->slots[i].actor == actor && revision->slots[i].replica == replica)
            return revision->slots[i].party;
    return NULL;
}

// The same name, batches and incarnations.
static bool
s_same_stage(const revision_t *before, int old, const revision_t *after, int new)
{
    const verl_plan_stage_t *a = &before->plan->stages[old], *b = &after->plan->stages[new];
    int64_t replicas = after->plan->actors[b->actor].replicas;
    bool same = strcmp(a->name, b->name) == 0 && a->span.period == b->span.period && a->span.begin == b->span.begin &&
                a->span.closing == b->span.closing && before->plan->actors[a->actor].replicas == replicas;
    for (int64_t i = 0; i < replicas && same; i++)
        same = s_party(after, b->actor, i) && s_party(after, b->actor, i) == s_party(before, a->actor, i);
    return same;
}

static int64_t
s_staleness(const verl_plan_t *plan, int stage)
{
    int edge = plan->stages[stage].weights_edge;
    return edge >= 0 ? plan->edges[edge].staleness : -1;    // in place
}

// The stage of the revision before whose versions this one goes on with; -1: none.
static int
s_goes_on(const revision_t *before, const revision_t *after, int stage)
{
    int old = s_stage(before->plan, after->plan->stages[stage].name);
    int writer = verl_plan_writer(after->plan, stage), old_writer = old >= 0 ? verl_plan_writer(before->plan, old) : -1;
    bool same = writer >= 0 && old_writer >= 0 && s_staleness(before->plan, old) == s_staleness(after->plan, stage) &&
                s_same_stage(before, old, after, stage) && s_same_stage(before, old_writer, after, writer);
    return same ? old : -1;
}

// Do two stages of an actor go through the versions of one writer together?
static bool
s_share(const verl_plan_t *plan, int a, int b)
{
    int writer = verl_plan_writer(plan, a);
    return writer >= 0 && writer == verl_plan_writer(plan, b) && plan->stages[a].actor == plan->stages[b].actor &&
           s_staleness(plan, a) == s_staleness(plan, b);
}

// The stage of the revision before whose versions a stage, or one that shares them and works on the batch too, goes on
// with; -1: none. batch -1: any.
static int
s_goes_on_with(const revision_t *before, const revision_t *after, int stage, int64_t batch)
{
    const verl_plan_t *plan = after->plan;
    int old = -1;
    for (int i = 0; i < plan->stages_count && old < 0; i++)
        if (s_share(plan, stage, i) && (batch < 0 || verl_span_has(&plan->stages[i].span, plan->steps, batch)))
            old = s_goes_on(before, after, i);
    return old;
}

// Are the versions of before the cut kept that a stage wants: by one that goes on and works on the same batches?
static bool
s_are_kept(const revision_t *before, const revision_t *after, int stage, int64_t cut)
{
    const verl_plan_t *plan = after->plan;
    const verl_span_t *span = &plan->stages[stage].span;
    int64_t k = verl_span_next(span, plan->steps, cut - 1), last = cut + s_staleness(plan, stage);
    while (k >= 0 && k <= last && s_goes_on_with(before, after, stage, k) >= 0)
        k = verl_span_next(span, plan->steps, k);
    return k < 0 || k > last;
}

static int64_t
s_base(const revision_t *before, const revision_t *after, int stage, int64_t cut)
{
    int old = s_goes_on_with(before, after, stage, -1);
    for (int i = 0; i < after->plan->stages_count && old >= 0; i++)
        if (s_share(after->plan, stage, i) && !s_are_kept(before, after, i, cut))
            old = -1;
    return old >= 0 ? before->base[old] : cut - 1;
}

void
verl_bases_at_cut(revision_t *revision, const revision_t *before, int64_t cut)
{
    for (int i = 0; i < revision->plan->stages_count; i++)
        revision->base[i] = s_base(before, revision, i, cut);
}

json_t *
verl_bases_json(const revision_t *revision)
{
    json_t *bases = json_object();
    for (int i = 0; i < revision->plan->stages_count; i++)
        if (verl_plan_writer(revision->plan, i) >= 0)
            json_object_set_new(bases, revision->plan->stages[i].name, json_integer((json_int_t) revision->base[i]));
    return bases;
}

int
verl_bases_read(revision_t *revision, const json_t *bases, verl_error_t *error)
{
    for (int i = 0; i < revision->plan->stages_count; i++) {
        const json_t *base = json_object_get(bases, revision->plan->stages[i].name);
        revision->base[i] = json_is_integer(base) ? json_integer_value(base) : revision->cut - 1;
        if ((base && !json_is_integer(base)) || revision->base[i] < -1 || revision->base[i] >= revision->cut)
            return verl_error_set(error, "the manifest of the checkpoint says of stage %s no base from -1 to %" PRId64
                                  ": it is damaged", revision->plan->stages[i].name, revision->cut - 1);
    }
    return 0;
}
