// resolved.c: a plan as a topology file that says everything, for the run directory. See verl_topology_write_resolved.
//
// Every actor is written as [actor.*] and every stage names its actor, so that one form serves all. An actor that was
// made because a stage's weights may be stale is not written: the stage's `staleness` makes it again.
#include <string.h>
#include "runtime/topology/draft.h"
#include "runtime/topology/topology.h"
#include "runtime/topology/value.h"

static const char *const s_places[] = { "process", "thread" };
static const char *const s_failures[] = { "stop", "restart", "ignore" };
static const char *const s_skips[] = { "stop", "skip" };

static void
s_key_string(FILE *out, const char *key, const char *text)
{
    fprintf(out, "%s = ", key);
    verl_value_print_string(out, text);
    fputc('\n', out);
}

static void
s_key_real(FILE *out, const char *key, double real)
{
    verl_value_t value = { .type = VERL_VALUE_REAL, .real = real };
    fprintf(out, "%s = ", key);
    verl_value_print(out, &value);
    fputc('\n', out);
}

static void
s_options(FILE *out, const verl_value_t *options)
{
    for (int i = 0; i < options->count; i++) {
        verl_value_print_key(out, options->keys[i]);
        fputs(" = ", out);
        verl_value_print(out, &options->items[i]);
        fputc('\n', out);
    }
}

static void
s_run(FILE *out, const verl_plan_t *plan)
{
    fputs("[run]\n", out);
    s_key_string(out, "name", plan->name);
    fprintf(out, "steps = %lld\nseed = %llu\nmax_in_flight = %lld\nmax_bytes = %lld\nsave_every = %lld\nkeep = %lld\n",
            (long long) plan->steps, (unsigned long long) plan->seed, (long long) plan->max_in_flight,
            (long long) plan->max_bytes, (long long) plan->save_every, (long long) plan->keep);
    s_key_real(out, "drain_timeout", plan->drain_timeout);
    if (plan->script)
        s_key_string(out, "script", plan->script);
}

static void
s_mesh(FILE *out, const verl_plan_t *plan)
{
    fputs(plan->roles_count ? "\n[mesh]\n" : "", out);
    for (int i = 0; i < plan->roles_count; i++)
        s_key_string(out, plan->roles[i], plan->roles_devices[i]);
}

static void
s_common(FILE *out, const verl_plan_actor_t *actor)
{
    s_key_string(out, "mesh", actor->role ? actor->role : actor->devices);
    s_key_string(out, "place", s_places[actor->place]);
    fprintf(out, "replicas = %lld\n", (long long) actor->replicas);
    s_key_string(out, "on_failure", s_failures[actor->on_failure]);
    s_key_real(out, "liveness", actor->liveness);
}

static void
s_actor(FILE *out, const verl_plan_actor_t *actor)
{
    fputs("\n[actor.", out);
    verl_value_print_key(out, actor->name);
    fputs("]\n", out);
    s_key_string(out, "kind", actor->kind_name);
    s_common(out, actor);
    s_key_real(out, "timeout", actor->timeout);
    s_options(out, &actor->options);
}

static void
s_depends(FILE *out, const verl_plan_t *plan, const verl_plan_stage_t *stage)
{
    if (stage->depends_count == 0)
        return;
    fputs("depends_on = [", out);
    for (int i = 0; i < stage->depends_count; i++) {
        fputs(i ? ", " : "", out);
        verl_value_print_string(out, plan->stages[stage->depends[i]].name);
    }
    fputs("]\n", out);
}

// { from = "to" } for the names that differ.
static void
s_rename(FILE *out, const char *key, const char *from, const char *to, int *count)
{
    if ((*count)++ == 0)
        fprintf(out, "%s = { ", key);
    else
        fputs(", ", out);
    verl_value_print_key(out, from);
    fputs(" = ", out);
    verl_value_print_string(out, to);
}

static void
s_columns(FILE *out, const verl_plan_stage_t *stage)
{
    int as = 0, uses = 0;
    for (int i = 0; i < stage->gives_count; i++)
        if (strcmp(stage->gives[i], stage->gives_as[i]) != 0)
            s_rename(out, "as", stage->gives[i], stage->gives_as[i], &as);
    fputs(as ? " }\n" : "", out);
    for (int i = 0; i < stage->needs_count; i++)
        if (stage->needs[i].named)
            s_rename(out, "uses", stage->needs[i].name, stage->needs[i].column, &uses);
    fputs(uses ? " }\n" : "", out);
}

// Its own thinning only: what follows from its dependencies has to follow from them when they change, too.
static void
s_span(FILE *out, const verl_plan_t *plan, const verl_plan_stage_t *stage)
{
    verl_span_t implied = { .period = 1 };
    for (int i = 0; i < stage->depends_count; i++) {
        const verl_span_t *other = &plan->stages[stage->depends[i]].span;
        implied.period = verl_draft_common_multiple(implied.period, other->period);
        implied.begin = implied.begin > other->begin ? implied.begin : other->begin;
    }
    if (stage->span.period != implied.period || (stage->source && stage->span.closing))
        fprintf(out, "every = %lld\n", (long long) stage->span.period);
    if (stage->span.begin != implied.begin)
        fprintf(out, "begin = %lld\n", (long long) stage->span.begin);
}

static void
s_stage(FILE *out, const verl_plan_t *plan, const verl_plan_stage_t *stage)
{
    const verl_plan_actor_t *actor = &plan->actors[stage->actor];
    const char *dot = strchr(actor->name, '.');
    fputs("\n[stage.", out);
    verl_value_print_key(out, stage->name);
    fprintf(out, "]\nactor = \"%.*s\"\n", (int) (dot ? dot - actor->name : (long) strlen(actor->name)), actor->name);
    s_key_string(out, "does", stage->does);
    s_depends(out, plan, stage);
    s_columns(out, stage);
    if (stage->weights_edge >= 0) {
        const verl_plan_edge_t *edge = &plan->edges[stage->weights_edge];
        s_key_string(out, "weights", plan->stages[edge->maker].name);
        fprintf(out, "staleness = %lld\n", (long long) edge->staleness);
    }
    if (dot)
        s_common(out, actor);
    s_span(out, plan, stage);
    fprintf(out, "parts = %lld\n", (long long) stage->parts);
    if (stage->timeout != actor->timeout)
        s_key_real(out, "timeout", stage->timeout);
    s_key_string(out, "on_error", s_skips[stage->on_error]);
    s_options(out, &stage->options);
}

int
verl_topology_write_resolved(const verl_plan_t *plan, FILE *out)
{
    s_run(out, plan);
    s_mesh(out, plan);
    for (int i = 0; i < plan->actors_count; i++)
        if (!strchr(plan->actors[i].name, '.'))
            s_actor(out, &plan->actors[i]);
    for (int i = 0; i < plan->stages_count; i++)
        s_stage(out, plan, &plan->stages[i]);
    return ferror(out) ? -1 : 0;
}
