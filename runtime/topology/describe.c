// describe.c: --plan. See describe.h.
#include "runtime/topology/describe.h"
#include <string.h>
#include "runtime/topology/devices.h"
#include "runtime/topology/value.h"

static const char *
s_size(int64_t bytes, char *text, size_t size)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    double amount = (double) bytes;
    int unit = 0;
    for (; amount >= 1024 && unit < 5; unit++)
        amount /= 1024;
    if (bytes < 0)
        snprintf(text, size, "of unknown size");
    else
        snprintf(text, size, unit ? "%.1f %s" : "%.0f %s", amount, units[unit]);
    return text;
}

static void
s_run(FILE *out, const verl_plan_t *plan)
{
    char bytes[32];
    fprintf(out, "run %s: %lld steps, seed %llu, at most %lld batches in flight and %s of them\n", plan->name,
            (long long) plan->steps, (unsigned long long) plan->seed, (long long) plan->max_in_flight,
            s_size(plan->max_bytes, bytes, sizeof bytes));
    if (plan->save_every > 0)
        fprintf(out, "checkpoints: every %lld batches, the last %lld are kept\n", (long long) plan->save_every,
                (long long) plan->keep);
    else
        fputs("checkpoints: only at the end\n", out);
    if (plan->script)
        fprintf(out, "script: %s\n", plan->script);
}

static void
s_actors(FILE *out, const verl_plan_t *plan)
{
    static const char *const places[] = { "process", "thread" }, *const failures[] = { "stop", "restart", "ignore" };
    fputs("\nactors\n", out);
    for (int i = 0; i < plan->actors_count; i++) {
        const verl_plan_actor_t *actor = &plan->actors[i];
        fprintf(out, "  %-20s kind %s, %s on %s", actor->name, actor->kind_name, places[actor->place], actor->devices);
        if (actor->replicas > 1)
            fprintf(out, ", %lld replicas", (long long) actor->replicas);
        if (actor->on_failure != VERL_ON_FAILURE_STOP)
            fprintf(out, ", on failure: %s", failures[actor->on_failure]);
        fprintf(out, ", timeout %g s, liveness %g s\n", actor->timeout, actor->liveness);
    }
}

static void
s_span(FILE *out, const verl_plan_t *plan, const verl_span_t *span)
{
    int64_t first = verl_span_next(span, plan->steps, -1);
    int64_t second = first < 0 ? -1 : verl_span_next(span, plan->steps, first);
    if (span->period == 1 && span->begin == 0 && !span->closing)
        fputs("every batch", out);
    else if (span->period == 1 && !span->closing)
        fprintf(out, "every batch from %lld on", (long long) span->begin);
    else if (first == plan->steps)
        fputs("once, after the last batch", out);
    else if (second < 0 || second == plan->steps)
        fprintf(out, "batch %lld", (long long) first);
    else
        fprintf(out, "batches %lld, %lld, … (every %lld)", (long long) first, (long long) second,
                (long long) span->period);
    if (span->closing && first != plan->steps)
        fputs(" and once after the last", out);
}

static void
s_rows(FILE *out, const verl_plan_t *plan, int index)
{
    const verl_plan_stage_t *stage = &plan->stages[index];
    if (stage->source)
        fputs("makes rows", out);
    else
        fprintf(out, "rows of `%s`%s", plan->stages[stage->rows_of].name,
                stage->maps ? ", makes new ones of them" : "");
    if (stage->parts > 1)
        fprintf(out, ", cuts them into %lld parts", (long long) stage->parts);
    if (stage->by_part)
        fputs(", part by part", out);
}

static void
s_needs(FILE *out, const verl_plan_t *plan, const verl_plan_stage_t *stage)
{
    for (int i = 0; i < stage->needs_count; i++) {
        const verl_plan_need_t *need = &stage->needs[i];
        if (need->edge < 0)
            continue;
        fprintf(out, "      needs %s", need->name);
        if (strcmp(need->name, need->column) != 0)
            fprintf(out, " (as %s)", need->column);
        fprintf(out, " from `%s`", plan->stages[plan->edges[need->edge].maker].name);
        for (int m = 0; m < need->maps; m++)
            fprintf(out, "%s `%s`", m ? "," : ", through the map of",
                    plan->stages[plan->edges[need->map_edges[m]].maker].name);
        fputc('\n', out);
    }
    int without = 0;
    for (int i = 0; i < stage->needs_count; i++)
        if (stage->needs[i].edge < 0)
            fprintf(out, "%s%s", without++ ? ", " : "      goes without ", stage->needs[i].name);
    fputs(without ? "\n" : "", out);
}

static void
s_stages(FILE *out, const verl_plan_t *plan)
{
    fputs("\nstages\n", out);
    for (int i = 0; i < plan->stages_count; i++) {
        const verl_plan_stage_t *stage = &plan->stages[i];
        fprintf(out, "  %-20s %s of %s; ", stage->name, stage->does, plan->actors[stage->actor].name);
        s_span(out, plan, &stage->span);
        fputs("; ", out);
        s_rows(out, plan, i);
        if (stage->timeout != plan->actors[stage->actor].timeout)
            fprintf(out, "; timeout %g s", stage->timeout);
        fputs(stage->on_error == VERL_ON_ERROR_SKIP ? "; a batch on which it fails is skipped\n" : "\n", out);
        for (int d = 0; d < stage->depends_count; d++)
            fprintf(out, "%s`%s`%s", d ? ", " : "      depends on ", plan->stages[stage->depends[d]].name,
                    d == stage->depends_count - 1 ? "\n" : "");
        s_needs(out, plan, stage);
        for (int g = 0; g < stage->gives_count; g++)
            fprintf(out, "%s%s %s%s", g ? ", " : "      gives ", stage->gives_as[g], stage->gives_type[g],
                    g == stage->gives_count - 1 ? "\n" : "");
    }
}

static const char *
s_type(const verl_plan_stage_t *maker, const char *column)
{
    for (int i = 0; i < maker->gives_count; i++)
        if (strcmp(maker->gives_as[i], column) == 0)
            return maker->gives_type[i];
    return "?";
}

static void
s_edges(FILE *out, const verl_plan_t *plan)
{
    fprintf(out, "\nedges (bytes a batch, with %d positions where a row is ragged)\n", VERL_DESCRIBE_POSITIONS);
    for (int e = 0; e < plan->edges_count; e++) {
        const verl_plan_edge_t *edge = &plan->edges[e];
        const verl_plan_stage_t *maker = &plan->stages[edge->maker];
        if (edge->weights)
            continue;
        char bytes[32];
        fprintf(out, "  %s -> %s: ", maker->name, plan->stages[edge->reader].name);
        for (int c = 0; c < edge->columns_count; c++)
            fprintf(out, "%s%s %s", c ? ", " : "", edge->columns[c], s_type(maker, edge->columns[c]));
        fprintf(out, "%s%s", edge->columns_count && edge->map ? ", " : "", edge->map ? "its row map" : "");
        if (edge->columns_count || edge->map)
            fprintf(out, "; %s, %s%s\n", verl_describe_route(plan, e), verl_describe_bytes(plan, e) < 0 ? "" : "about ",
                    s_size(verl_describe_bytes(plan, e), bytes, sizeof bytes));
        else
            fputs("only that it is done\n", out);
    }
}

// Does an update wait for a stage of its actor, which works in place with what it replaces?
static bool
s_waits_for(const verl_plan_t *plan, int update, int reader)
{
    const verl_plan_stage_t *u = &plan->stages[update], *r = &plan->stages[reader];
    return update != reader && u->actor == r->actor && u->handler && r->handler && u->handler->writes_weights &&
           r->handler->reads_weights && !r->handler->writes_weights && r->weights_edge < 0;
}

static void
s_weights(FILE *out, const verl_plan_t *plan)
{
    int count = 0;
    for (int u = 0; u < plan->stages_count; u++)
        for (int r = 0; r < plan->stages_count; r++)
            if (s_waits_for(plan, u, r)) {
                fprintf(out, "%s  %s -> %s: in place in %s, staleness 0: `%s` of a batch waits for `%s` of it\n",
                        count++ ? "" : "\nweights\n", plan->stages[u].name, plan->stages[r].name,
                        plan->actors[plan->stages[u].actor].name, plan->stages[u].name, plan->stages[r].name);
            }
    for (int e = 0; e < plan->edges_count; e++) {
        const verl_plan_edge_t *edge = &plan->edges[e];
        if (edge->weights)
            fprintf(out, "%s  %s -> %s: published versions into %s, staleness %lld; %s\n", count++ ? "" : "\nweights\n",
                    plan->stages[edge->maker].name, plan->stages[edge->reader].name,
                    plan->actors[plan->stages[edge->reader].actor].name, (long long) edge->staleness,
                    verl_describe_route(plan, e));
    }
}

static void
s_warn(FILE *out, int *count)
{
    fputs((*count)++ ? "  " : "\nwarnings\n  ", out);
}

static bool
s_on_cuda(const verl_plan_t *plan, int stage)
{
    return strncmp(plan->actors[plan->stages[stage].actor].devices, "cuda", 4) == 0;
}

static void
s_warn_edges(FILE *out, const verl_plan_t *plan, int *count)
{
    for (int e = 0; e < plan->edges_count; e++) {
        const verl_plan_edge_t *edge = &plan->edges[e];
        bool data = edge->weights || edge->columns_count > 0;
        if (!data || !s_on_cuda(plan, edge->maker) || !s_on_cuda(plan, edge->reader))
            continue;
        s_warn(out, count);
        fprintf(out, "%s -> %s goes from GPU to GPU through the host's memory\n", plan->stages[edge->maker].name,
                plan->stages[edge->reader].name);
    }
}

static void
s_warn_batches(FILE *out, const verl_plan_t *plan, int *count)
{
    if (plan->max_in_flight == 1 && plan->stages_count > 1) {
        s_warn(out, count);
        fputs("max_in_flight is 1: no stage works while another batch is at a later one\n", out);
    }
    for (int i = 0; i < plan->stages_count; i++) {
        const verl_plan_stage_t *stage = &plan->stages[i];
        int64_t batches = verl_span_ordinal(&stage->span, plan->steps, plan->steps + 1);
        if (batches >= plan->actors[stage->actor].replicas)
            continue;
        s_warn(out, count);
        fprintf(out, "%s has %lld replicas, but `%s` works on %lld batches only\n", plan->actors[stage->actor].name,
                (long long) plan->actors[stage->actor].replicas, stage->name, (long long) batches);
    }
}

static void
s_warn_memory(FILE *out, const verl_plan_t *plan, int *count)
{
    double batch = 0;
    char have[32], need[32];
    for (int e = 0; e < plan->edges_count; e++)
        batch += plan->edges[e].weights ? 0 : (double) verl_describe_bytes(plan, e);
    if (batch * (double) plan->max_in_flight <= (double) plan->max_bytes)
        return;
    s_warn(out, count);
    fprintf(out, "%lld batches in flight may take about %s, and max_bytes is %s: fewer will be alive at once\n",
            (long long) plan->max_in_flight,
            s_size((int64_t) (batch * (double) plan->max_in_flight), need, sizeof need),
            s_size(plan->max_bytes, have, sizeof have));
}

// Processes that compute beside each other on fewer cores slow each other down.
static void
s_warn_cores(FILE *out, const verl_plan_t *plan, int *count)
{
    int64_t workers = 0;
    for (int i = 0; i < plan->actors_count; i++)
        workers += plan->actors[i].replicas;
    if (workers <= 4 * (int64_t) verl_core_count())
        return;
    s_warn(out, count);
    fprintf(out, "%lld workers share %d cores\n", (long long) workers, verl_core_count());
}

int
verl_describe_plan(const verl_plan_t *plan, FILE *out)
{
    int warnings = 0;
    s_run(out, plan);
    s_actors(out, plan);
    s_stages(out, plan);
    s_edges(out, plan);
    s_weights(out, plan);
    s_warn_edges(out, plan, &warnings);
    s_warn_batches(out, plan, &warnings);
    s_warn_memory(out, plan, &warnings);
    s_warn_cores(out, plan, &warnings);
    return ferror(out) ? -1 : 0;
}
