// plan_json.c: see plan_json.h.
#include "runtime/director/plan_json.h"
#include <string.h>
#include "runtime/base/json.h"
#include "runtime/director/director_impl.h"
#include "runtime/topology/describe.h"

static json_t *
s_strings(char *const *strings, int count)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, json_string(strings[i]));
    return list;
}

static json_t *
s_actor(const verl_plan_actor_t *actor)
{
    static const char *const places[] = { "process", "thread" }, *const failures[] = { "stop", "restart", "ignore" };
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:b}", "name", actor->name, "kind", actor->kind_name, "place",
                     places[actor->place], "devices", actor->devices, "on_failure", failures[actor->on_failure],
                     "replicas", (json_int_t) actor->replicas, "keeps_state",
                     actor->kind ? (int) actor->kind->keeps_state : 0);
}

// The stage of its actor that replaces the weights which this one works with in place; NULL: none.
static const char *
s_writer(const verl_plan_t *plan, const verl_plan_stage_t *stage)
{
    int writer = stage->weights_edge < 0 ? verl_plan_writer(plan, (int) (stage - plan->stages)) : -1;
    return writer >= 0 ? plan->stages[writer].name : NULL;
}

static json_t *
s_needs(const verl_plan_t *plan, const verl_plan_stage_t *stage)
{
    json_t *list = json_array();
    for (int i = 0; i < stage->needs_count; i++)
        if (stage->needs[i].edge >= 0)
            json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", stage->needs[i].name, "column",
                                                  stage->needs[i].column, "from",
                                                  plan->stages[plan->edges[stage->needs[i].edge].maker].name));
    return list;
}

static json_t *
s_stage(const verl_plan_t *plan, const verl_plan_stage_t *stage)
{
    json_t *depends = json_array();
    for (int i = 0; i < stage->depends_count; i++)
        json_array_append_new(depends, json_string(plan->stages[stage->depends[i]].name));
    return json_pack("{s:s, s:s, s:s, s:b, s:b, s:b, s:s?, s:I, s:I, s:I, s:o, s:o, s:o}", "name", stage->name, "actor",
                     plan->actors[stage->actor].name, "does", stage->does, "source", stage->source, "maps", stage->maps,
                     "writes_weights", stage->handler && stage->handler->writes_weights, "in_place_of",
                     s_writer(plan, stage), "period", (json_int_t) stage->span.period, "begin",
                     (json_int_t) stage->span.begin, "parts", (json_int_t) stage->parts, "depends", depends, "needs",
                     s_needs(plan, stage), "gives", s_strings(stage->gives_as, stage->gives_count));
}

static json_t *
s_edge(const verl_plan_t *plan, int index)
{
    const verl_plan_edge_t *edge = &plan->edges[index];
    return json_pack("{s:s, s:s, s:b, s:I, s:b, s:o, s:s, s:I}", "maker", plan->stages[edge->maker].name, "reader",
                     plan->stages[edge->reader].name, "weights", edge->weights, "staleness",
                     (json_int_t) edge->staleness, "map", edge->map, "columns",
                     s_strings(edge->columns, edge->columns_count), "route", verl_describe_route(plan, index),
                     "estimated_bytes", (json_int_t) (edge->weights ? -1 : verl_describe_bytes(plan, index)));
}

json_t *
verl_plan_json(const verl_plan_t *plan)
{
    json_t *actors = json_array(), *stages = json_array(), *edges = json_array();
    for (int i = 0; i < plan->actors_count; i++)
        json_array_append_new(actors, s_actor(&plan->actors[i]));
    for (int i = 0; i < plan->stages_count; i++)
        json_array_append_new(stages, s_stage(plan, &plan->stages[i]));
    for (int i = 0; i < plan->edges_count; i++)
        json_array_append_new(edges, s_edge(plan, i));
    return json_pack("{s:s, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "run", plan->name, "file",
                     verl_json_text(plan->file), "revision", (json_int_t) plan->revision, "steps",
                     (json_int_t) plan->steps, "max_in_flight", (json_int_t) plan->max_in_flight, "max_bytes",
                     (json_int_t) plan->max_bytes, "actors", actors, "stages", stages, "edges", edges);
}
