// draft_plan.c: the plan of a topology in which nothing is wrong.
//
// Invariant: one file gives one plan: stages in the order of draft_order.c, and edges numbered by their readers.
#include <string.h>
#include "runtime/base/machine.h"
#include "runtime/topology/draft.h"
#include "runtime/topology/plan_box.h"

static void
s_actors(verl_draft_t *draft, verl_plan_t *plan, int *index)
{
    plan->actors = verl_pool_array(draft->pool, (size_t) draft->actors_count, sizeof *plan->actors);
    for (int i = 0; i < draft->actors_count; i++) {
        const verl_draft_actor_t *from = &draft->actors[i];
        index[i] = plan->actors_count;
        if (from->stages == 0)
            continue;
        plan->actors[plan->actors_count++] =
            (verl_plan_actor_t){ .name = verl_pool_copy(draft->pool, from->name),
                                 .kind = from->kind,
                                 .kind_name = verl_pool_copy(draft->pool, from->kind_name),
                                 .options = from->options,
                                 .place = (verl_place_t) from->keys.place,
                                 .replicas = from->keys.replicas,
                                 .on_failure = (verl_on_failure_t) from->keys.on_failure,
                                 .devices = verl_pool_copy(draft->pool, from->devices),
                                 .role = from->role ? verl_pool_copy(draft->pool, from->role) : NULL,
                                 .timeout = from->keys.timeout,
                                 .liveness = from->keys.liveness,
                                 .line = from->at.line,
                                 .column = from->at.column };
    }
}

static void
s_edge(verl_draft_t *draft, verl_plan_t *plan, const verl_draft_stage_t *stage, verl_draft_edge_t *from)
{
    verl_plan_edge_t *edge = &plan->edges[plan->edges_count];
    *edge = (verl_plan_edge_t){ .maker = draft->stages[from->maker].plan,
                                .reader = stage->plan,
                                .map = from->map,
                                .columns_count = from->columns_count };
    edge->columns = verl_pool_array(draft->pool, (size_t) from->columns_count, sizeof *edge->columns);
    for (int i = 0; i < from->columns_count; i++)
        edge->columns[i] = verl_pool_copy(draft->pool, from->columns[i]);
    from->id = plan->edges_count++;
}

// Data edges of a reader first, then that of its weights. Returns the id of the latter, -1: none.
static int
s_edges_of(verl_draft_t *draft, verl_plan_t *plan, verl_draft_stage_t *stage)
{
    for (int i = 0; i < stage->in_count; i++)
        s_edge(draft, plan, stage, &stage->in[i]);
    if (stage->weights_from < 0)
        return -1;
    plan->edges[plan->edges_count] = (verl_plan_edge_t){ .maker = draft->stages[stage->weights_from].plan,
                                                         .reader = stage->plan,
                                                         .weights = true,
                                                         .staleness = stage->keys.staleness };
    return plan->edges_count++;
}

static void
s_needs(verl_draft_t *draft, const verl_draft_stage_t *from, verl_plan_stage_t *to)
{
    to->needs_count = from->needs_count;
    to->needs = verl_pool_array(draft->pool, (size_t) from->needs_count, sizeof *to->needs);
    for (int i = 0; i < from->needs_count; i++) {
        const verl_draft_need_t *need = &from->needs[i];
        to->needs[i] = (verl_plan_need_t){ .name = verl_pool_copy(draft->pool, need->name),
                                           .edge = need->edge < 0 ? -1 : from->in[need->edge].id,
                                           .column = verl_pool_copy(draft->pool, need->column),
                                           .maps = need->maps,
                                           .named = need->named };
        to->needs[i].map_edges = verl_pool_array(draft->pool, (size_t) need->maps, sizeof(int));
        for (int m = 0; m < need->maps; m++)
            to->needs[i].map_edges[m] = from->in[need->map_edges[m]].id;
    }
}

static void
s_gives(verl_draft_t *draft, const verl_draft_stage_t *from, verl_plan_stage_t *to)
{
    size_t count = (size_t) from->gives_count;
    to->gives_count = from->gives_count;
    to->gives = verl_pool_array(draft->pool, count, sizeof *to->gives);
    to->gives_as = verl_pool_array(draft->pool, count, sizeof *to->gives_as);
    to->gives_type = verl_pool_array(draft->pool, count, sizeof *to->gives_type);
    for (size_t i = 0; i < count; i++) {
        to->gives[i] = verl_pool_copy(draft->pool, from->gives[i].name);
        to->gives_as[i] = verl_pool_copy(draft->pool, from->gives[i].as);
        to->gives_type[i] = verl_pool_copy(draft->pool, from->gives[i].type);
    }
}

static void
s_stage(verl_draft_t *draft, verl_plan_t *plan, verl_draft_stage_t *from, const int *actors)
{
    verl_plan_stage_t *to = &plan->stages[from->plan];
    *to = (verl_plan_stage_t){ .name = verl_pool_copy(draft->pool, from->name),
                               .actor = actors[from->actor],
                               .handler = from->handler,
                               .does = verl_pool_copy(draft->pool, from->handler->name),
                               .options = from->options,
                               .span = from->span,
                               .source = from->deps_count == 0,
                               .maps = from->maps,
                               .rows_of = draft->stages[from->rows_of].plan,
                               .parts = from->keys.parts,
                               .parts_of = from->parts_of < 0 ? -1 : draft->stages[from->parts_of].plan,
                               .by_part = from->by_part,
                               .on_error = (verl_on_error_t) from->keys.on_error,
                               .timeout = from->timeout,
                               .depends_count = from->deps_count,
                               .line = from->at.line,
                               .column = from->at.column };
    to->depends = verl_pool_array(draft->pool, (size_t) from->deps_count, sizeof *to->depends);
    for (int i = 0; i < from->deps_count; i++)
        to->depends[i] = draft->stages[from->deps[i]].plan;
    to->weights_edge = s_edges_of(draft, plan, from);
    s_needs(draft, from, to);
    s_gives(draft, from, to);
}

// What keeps every stage busy: along the longest chain, one batch at work and one waiting for each worker.
static int64_t
s_in_flight(const verl_draft_t *draft, const verl_plan_t *plan)
{
    int64_t longest = 0;
    int64_t *chain = verl_pool_array(draft->pool, (size_t) plan->stages_count, sizeof *chain);
    for (int i = 0; i < plan->stages_count; i++) {
        const verl_plan_stage_t *stage = &plan->stages[i];
        for (int d = 0; d < stage->depends_count; d++)
            if (chain[stage->depends[d]] > chain[i])
                chain[i] = chain[stage->depends[d]];
        chain[i] += plan->actors[stage->actor].replicas;
        longest = chain[i] > longest ? chain[i] : longest;
    }
    return longest * 2 > 4096 ? 4096 : longest * 2;
}

static int64_t
s_half_of_memory(void)
{
    int64_t memory = verl_machine_memory();
    return memory < INT64_MAX ? memory / 2 : INT64_C(1) << 30;
}

static void
s_run(verl_draft_t *draft, verl_plan_t *plan)
{
    const char *slash = strrchr(draft->file, '/');
    plan->revision = 1;
    plan->name = verl_pool_copy(draft->pool, draft->run.name);
    plan->file = verl_pool_print(draft->pool, "%s/%s", draft->folder, slash ? slash + 1 : draft->file);
    plan->steps = draft->steps;
    plan->seed = (uint64_t) draft->run.seed;
    plan->max_in_flight = draft->run_in_flight ? draft->run.max_in_flight : s_in_flight(draft, plan);
    plan->max_bytes = draft->run_bytes ? draft->run.max_bytes : s_half_of_memory();
    plan->save_every = draft->run.save_every;
    plan->keep = draft->run.keep;
    plan->drain_timeout = draft->run.drain_timeout;
    plan->script = draft->run.script && *draft->run.script ? verl_pool_copy(draft->pool, draft->run.script) : NULL;
}

void
verl_draft_plan(verl_draft_t *draft, verl_plan_t *plan)
{
    int *actors = verl_pool_array(draft->pool, (size_t) draft->actors_count, sizeof *actors);
    size_t edges = 0;
    for (int i = 0; i < draft->order_count; i++) {
        draft->stages[draft->order[i]].plan = i;
        edges += (size_t) draft->stages[draft->order[i]].in_count + 1;
    }
    s_actors(draft, plan, actors);
    plan->roles_count = draft->roles_count;
    plan->roles = draft->roles;
    plan->roles_devices = draft->roles_devices;
    plan->stages_count = draft->order_count;
    plan->stages = verl_pool_array(draft->pool, (size_t) draft->order_count, sizeof *plan->stages);
    plan->edges = verl_pool_array(draft->pool, edges, sizeof *plan->edges);
    for (int i = 0; i < draft->order_count; i++)
        s_stage(draft, plan, &draft->stages[draft->order[i]], actors);
    verl_plan_link(plan);
    s_run(draft, plan);
}
