// plan_encode.c: a plan as msgpack. Every record is an array of fixed length, in the order of plan.h; plan_decode.c
// reads the same order. The edges of a stage are left out, since they follow from the edges.
#include <string.h>
#include "runtime/topology/plan.h"
#include "runtime/topology/plan_format.h"
#include "runtime/wire/pack.h"

static void
s_value(verl_buffer_t *out, const verl_value_t *value)
{
    switch (value->type) {
    case VERL_VALUE_BOOL:
        verl_pack_bool(out, value->boolean);
        return;
    case VERL_VALUE_INT:
        verl_pack_int(out, value->integer);
        return;
    case VERL_VALUE_REAL:
        verl_pack_real(out, value->real);
        return;
    case VERL_VALUE_STRING:
        verl_pack_cstr(out, value->string);
        return;
    case VERL_VALUE_ARRAY:
        verl_pack_array(out, (uint32_t) value->count);
        break;
    case VERL_VALUE_TABLE:
        verl_pack_map(out, (uint32_t) value->count);
        break;
    }
    for (int i = 0; i < value->count; i++) {
        if (value->type == VERL_VALUE_TABLE)
            verl_pack_cstr(out, value->keys[i]);
        s_value(out, &value->items[i]);
    }
}

static void
s_strings(verl_buffer_t *out, char *const *strings, int count)
{
    verl_pack_array(out, (uint32_t) count);
    for (int i = 0; i < count; i++)
        verl_pack_cstr(out, strings[i]);
}

static void
s_ints(verl_buffer_t *out, const int *items, int count)
{
    verl_pack_array(out, (uint32_t) count);
    for (int i = 0; i < count; i++)
        verl_pack_int(out, items[i]);
}

static void
s_actor(verl_buffer_t *out, const verl_plan_actor_t *actor)
{
    verl_pack_array(out, VERL_PLAN_ACTOR_ITEMS);
    verl_pack_cstr(out, actor->name);
    verl_pack_cstr(out, actor->kind_name);
    s_value(out, &actor->options);
    verl_pack_int(out, actor->place);
    verl_pack_int(out, actor->replicas);
    verl_pack_int(out, actor->on_failure);
    verl_pack_cstr(out, actor->devices);
    verl_pack_real(out, actor->timeout);
    verl_pack_real(out, actor->liveness);
    verl_pack_int(out, actor->line);
    verl_pack_int(out, actor->column);
}

static void
s_needs(verl_buffer_t *out, const verl_plan_stage_t *stage)
{
    verl_pack_array(out, (uint32_t) stage->needs_count);
    for (int i = 0; i < stage->needs_count; i++) {
        const verl_plan_need_t *need = &stage->needs[i];
        verl_pack_array(out, VERL_PLAN_NEED_ITEMS);
        verl_pack_cstr(out, need->name);
        verl_pack_int(out, need->edge);
        verl_pack_cstr(out, need->column);
        s_ints(out, need->map_edges, need->maps);
    }
}

static void
s_stage(verl_buffer_t *out, const verl_plan_stage_t *stage)
{
    verl_pack_array(out, VERL_PLAN_STAGE_ITEMS);
    verl_pack_cstr(out, stage->name);
    verl_pack_int(out, stage->actor);
    verl_pack_cstr(out, stage->does);
    s_value(out, &stage->options);
    verl_pack_int(out, stage->span.period);
    verl_pack_int(out, stage->span.begin);
    verl_pack_bool(out, stage->span.closing);
    verl_pack_bool(out, stage->source);
    verl_pack_bool(out, stage->maps);
    verl_pack_int(out, stage->rows_of);
    verl_pack_int(out, stage->parts);
    verl_pack_int(out, stage->parts_of);
    verl_pack_bool(out, stage->by_part);
    verl_pack_int(out, stage->on_error);
    verl_pack_real(out, stage->timeout);
    s_ints(out, stage->depends, stage->depends_count);
    verl_pack_int(out, stage->weights_edge);
    s_needs(out, stage);
    s_strings(out, stage->gives, stage->gives_count);
    s_strings(out, stage->gives_as, stage->gives_count);
    s_strings(out, stage->gives_type, stage->gives_count);
    verl_pack_int(out, stage->line);
    verl_pack_int(out, stage->column);
}

static void
s_edge(verl_buffer_t *out, const verl_plan_edge_t *edge)
{
    verl_pack_array(out, VERL_PLAN_EDGE_ITEMS);
    verl_pack_int(out, edge->maker);
    verl_pack_int(out, edge->reader);
    verl_pack_bool(out, edge->weights);
    verl_pack_int(out, edge->staleness);
    verl_pack_bool(out, edge->map);
    s_strings(out, edge->columns, edge->columns_count);
}

char *
verl_plan_encode(const verl_plan_t *plan, size_t *ret_bytes)
{
    verl_buffer_t out = { 0 };
    verl_pack_array(&out, VERL_PLAN_ITEMS);
    verl_pack_int(&out, VERL_PLAN_FORMAT);
    verl_pack_int(&out, plan->revision);
    verl_pack_cstr(&out, plan->name);
    verl_pack_cstr(&out, plan->file);
    verl_pack_int(&out, plan->steps);
    verl_pack_uint(&out, plan->seed);
    verl_pack_int(&out, plan->max_in_flight);
    verl_pack_int(&out, plan->max_bytes);
    verl_pack_int(&out, plan->save_every);
    verl_pack_int(&out, plan->keep);
    verl_pack_real(&out, plan->drain_timeout);
    verl_pack_array(&out, (uint32_t) plan->actors_count);
    for (int i = 0; i < plan->actors_count; i++)
        s_actor(&out, &plan->actors[i]);
    verl_pack_array(&out, (uint32_t) plan->stages_count);
    for (int i = 0; i < plan->stages_count; i++)
        s_stage(&out, &plan->stages[i]);
    verl_pack_array(&out, (uint32_t) plan->edges_count);
    for (int i = 0; i < plan->edges_count; i++)
        s_edge(&out, &plan->edges[i]);
    char *bytes = out.failed ? NULL : verl_buffer_take(&out, ret_bytes);
    verl_buffer_done(&out);
    return bytes;
}
