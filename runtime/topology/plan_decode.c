// plan_decode.c: reads a plan that nobody vouches for. First the shape (types, counts, ranges), then what it means
// (indices, and that edges, needs and dependencies fit together), then it is believed.
#include <string.h>
#include "runtime/topology/kinds.h"
#include "runtime/topology/plan_box.h"
#include "runtime/topology/plan_format.h"
#include "runtime/wire/read.h"

typedef struct decode {
    verl_reader_t reader;
    verl_pool_t *pool;
    verl_plan_t *plan;
    verl_error_t *error;
    bool failed; // once set, everything that is read is empty
} decode_t;

static void
s_fail(decode_t *self, const char *what)
{
    self->failed = true;
    verl_error_set(self->error, "a plan that cannot be read: %s", what);
}

static int64_t
s_int(decode_t *self, int64_t min, int64_t max, const char *what)
{
    int64_t value = 0;
    if (self->failed)
        return min;
    if (verl_read_int(&self->reader, &value) == 0 && value >= min && value <= max)
        return value;
    s_fail(self, what);
    return min;
}

static bool
s_bool(decode_t *self, const char *what)
{
    bool value = false;
    if (!self->failed && verl_read_bool(&self->reader, &value) != 0)
        s_fail(self, what);
    return value;
}

static double
s_seconds(decode_t *self, const char *what)
{
    double value = 0;
    if (!self->failed && (verl_read_real(&self->reader, &value) != 0 || !(value >= 0 && value <= 1e9)))
        s_fail(self, what);
    return self->failed ? 0 : value;
}

static char *
s_text(decode_t *self, const char *what)
{
    const char *bytes = "";
    size_t size = 0;
    if (!self->failed && (verl_read_str(&self->reader, &bytes, &size) != 0 || memchr(bytes, 0, size)))
        s_fail(self, what);
    return self->failed ? verl_pool_copy(self->pool, "") : verl_pool_copy_n(self->pool, bytes, size);
}

static char *
s_name(decode_t *self, const char *what)
{
    char *name = s_text(self, what);
    if (!self->failed && !*name)
        s_fail(self, what);
    return name;
}

// A count of items, each of which takes `least` bytes at least.
static int
s_count(decode_t *self, size_t least, const char *what)
{
    uint32_t count = 0;
    if (self->failed)
        return 0;
    if (verl_read_array(&self->reader, &count) == 0 && count <= verl_reader_left(&self->reader) / least)
        return (int) count;
    s_fail(self, what);
    return 0;
}

static void
s_record(decode_t *self, uint32_t items, const char *what)
{
    uint32_t count = 0;
    if (!self->failed && (verl_read_array(&self->reader, &count) != 0 || count != items))
        s_fail(self, what);
}

static char **
s_strings(decode_t *self, int *ret_count, const char *what)
{
    int count = s_count(self, 1, what);
    char **strings = verl_pool_array(self->pool, (size_t) count, sizeof *strings);
    for (int i = 0; i < count && !self->failed; i++)
        strings[i] = s_name(self, what);
    *ret_count = count;
    return strings;
}

static int *
s_ints(decode_t *self, int *ret_count, int max, const char *what)
{
    int count = s_count(self, 1, what);
    int *items = verl_pool_array(self->pool, (size_t) count, sizeof *items);
    for (int i = 0; i < count && !self->failed; i++)
        items[i] = (int) s_int(self, 0, max, what);
    *ret_count = count;
    return items;
}

static verl_value_t s_value(decode_t *self, int depth);

static verl_value_t
s_list(decode_t *self, verl_value_type_t type, int depth)
{
    verl_value_t value = { .type = type };
    uint32_t count = 0;
    bool table = type == VERL_VALUE_TABLE;
    int rc = table ? verl_read_map(&self->reader, &count) : verl_read_array(&self->reader, &count);
    if (rc != 0 || depth == VERL_PLAN_VALUE_DEPTH || count > verl_reader_left(&self->reader)) {
        s_fail(self, "an option's value");
        return value;
    }
    value.count = (int) count;
    value.items = verl_pool_array(self->pool, count, sizeof *value.items);
    if (table)
        value.keys = verl_pool_array(self->pool, count, sizeof *value.keys);
    for (uint32_t i = 0; i < count && !self->failed; i++) {
        if (table)
            value.keys[i] = s_text(self, "an option's name");
        value.items[i] = s_value(self, depth + 1);
    }
    return value;
}

static verl_value_t
s_value(decode_t *self, int depth)
{
    verl_value_t value = { 0 };
    if (self->failed)
        return value;
    int rc = 0;
    switch (verl_read_peek(&self->reader)) {
    case VERL_READ_BOOL:
        rc = verl_read_bool(&self->reader, &value.boolean);
        break;
    case VERL_READ_INT:
        value.type = VERL_VALUE_INT;
        rc = verl_read_int(&self->reader, &value.integer);
        break;
    case VERL_READ_REAL:
        value.type = VERL_VALUE_REAL;
        rc = verl_read_real(&self->reader, &value.real);
        break;
    case VERL_READ_STR:
        value.type = VERL_VALUE_STRING;
        value.string = s_text(self, "an option's value");
        break;
    case VERL_READ_ARRAY:
        return s_list(self, VERL_VALUE_ARRAY, depth);
    case VERL_READ_MAP:
        return s_list(self, VERL_VALUE_TABLE, depth);
    default:
        rc = -1;
    }
    if (rc != 0)
        s_fail(self, "an option's value");
    return value;
}

static verl_value_t
s_options(decode_t *self)
{
    verl_value_t value = s_value(self, 0);
    if (!self->failed && value.type != VERL_VALUE_TABLE)
        s_fail(self, "options that are no table");
    return value;
}

static void
s_actor(decode_t *self, verl_plan_actor_t *actor)
{
    s_record(self, VERL_PLAN_ACTOR_ITEMS, "an actor");
    actor->name = s_name(self, "an actor's name");
    actor->kind_name = s_name(self, "an actor's kind");
    actor->options = s_options(self);
    actor->place = (verl_place_t) s_int(self, 0, VERL_PLACE_THREAD, "an actor's place");
    actor->replicas = s_int(self, 1, 1024, "an actor's replicas");
    actor->on_failure = (verl_on_failure_t) s_int(self, 0, VERL_ON_FAILURE_IGNORE, "an actor's on_failure");
    actor->devices = s_name(self, "an actor's devices");
    actor->timeout = s_seconds(self, "an actor's timeout");
    actor->liveness = s_seconds(self, "an actor's liveness");
    actor->line = (int) s_int(self, 0, INT32_MAX, "an actor's line");
    actor->column = (int) s_int(self, 0, INT32_MAX, "an actor's column");
    actor->kind = self->failed ? NULL : verl_kind_known(actor->kind_name);
}

static void
s_needs(decode_t *self, verl_plan_stage_t *stage)
{
    stage->needs_count = s_count(self, 5, "needs");
    stage->needs = verl_pool_array(self->pool, (size_t) stage->needs_count, sizeof *stage->needs);
    for (int i = 0; i < stage->needs_count && !self->failed; i++) {
        verl_plan_need_t *need = &stage->needs[i];
        s_record(self, VERL_PLAN_NEED_ITEMS, "a need");
        need->name = s_name(self, "a need's name");
        need->edge = (int) s_int(self, -1, INT32_MAX, "a need's edge");
        need->column = s_name(self, "a need's column");
        need->map_edges = s_ints(self, &need->maps, INT32_MAX, "a need's maps");
    }
}

static void
s_gives(decode_t *self, verl_plan_stage_t *stage)
{
    int as = 0, type = 0;
    stage->gives = s_strings(self, &stage->gives_count, "a stage's gives");
    stage->gives_as = s_strings(self, &as, "names of a stage's gives");
    stage->gives_type = s_strings(self, &type, "types of a stage's gives");
    if (!self->failed && (as != stage->gives_count || type != stage->gives_count))
        s_fail(self, "a stage's gives, names and types differ in number");
}

static void
s_stage(decode_t *self, verl_plan_stage_t *stage)
{
    int stages = self->plan->stages_count - 1;
    s_record(self, VERL_PLAN_STAGE_ITEMS, "a stage");
    stage->name = s_name(self, "a stage's name");
    stage->actor = (int) s_int(self, 0, self->plan->actors_count - 1, "a stage's actor");
    stage->does = s_name(self, "what a stage does");
    stage->options = s_options(self);
    stage->span.period = s_int(self, 1, INT64_MAX, "a stage's period");
    stage->span.begin = s_int(self, 0, INT64_MAX, "a stage's begin");
    stage->span.closing = s_bool(self, "a stage's closing");
    stage->source = s_bool(self, "whether a stage is a source");
    stage->maps = s_bool(self, "whether a stage maps");
    stage->rows_of = (int) s_int(self, 0, stages, "a stage's rows");
    stage->parts = s_int(self, 1, 1024, "a stage's parts");
    stage->parts_of = (int) s_int(self, -1, stages, "who cuts a stage's parts");
    stage->by_part = s_bool(self, "whether a stage goes part by part");
    stage->on_error = (verl_on_error_t) s_int(self, 0, VERL_ON_ERROR_SKIP, "a stage's on_error");
    stage->timeout = s_seconds(self, "a stage's timeout");
    stage->depends = s_ints(self, &stage->depends_count, stages, "a stage's dependencies");
    stage->weights_edge = (int) s_int(self, -1, INT32_MAX, "a stage's weights");
    s_needs(self, stage);
    s_gives(self, stage);
    stage->line = (int) s_int(self, 0, INT32_MAX, "a stage's line");
    stage->column = (int) s_int(self, 0, INT32_MAX, "a stage's column");
    if (self->failed)
        return;
    const verl_kind_t *kind = self->plan->actors[stage->actor].kind;
    stage->handler = kind ? verl_stage_kind_find(kind, stage->does) : NULL;
}

static void
s_edge(decode_t *self, verl_plan_edge_t *edge)
{
    int stages = self->plan->stages_count - 1;
    s_record(self, VERL_PLAN_EDGE_ITEMS, "an edge");
    edge->maker = (int) s_int(self, 0, stages, "an edge's maker");
    edge->reader = (int) s_int(self, 0, stages, "an edge's reader");
    edge->weights = s_bool(self, "whether an edge brings weights");
    edge->staleness = s_int(self, 0, 1000000, "an edge's staleness");
    edge->map = s_bool(self, "whether an edge brings a map");
    edge->columns = s_strings(self, &edge->columns_count, "an edge's columns");
    if (!self->failed && (edge->maker == edge->reader || (!edge->weights && edge->maker > edge->reader)))
        s_fail(self, "an edge that goes backwards");
}

static void
s_lists(decode_t *self)
{
    verl_plan_t *plan = self->plan;
    plan->actors_count = s_count(self, 16, "actors");
    plan->actors = verl_pool_array(self->pool, (size_t) plan->actors_count, sizeof *plan->actors);
    for (int i = 0; i < plan->actors_count && !self->failed; i++)
        s_actor(self, &plan->actors[i]);
    plan->stages_count = s_count(self, 24, "stages");
    plan->stages = verl_pool_array(self->pool, (size_t) plan->stages_count, sizeof *plan->stages);
    if (!self->failed && (plan->actors_count == 0 || plan->stages_count == 0))
        s_fail(self, "no actor or no stage");
    for (int i = 0; i < plan->stages_count && !self->failed; i++)
        s_stage(self, &plan->stages[i]);
    plan->edges_count = s_count(self, 7, "edges");
    plan->edges = verl_pool_array(self->pool, (size_t) plan->edges_count, sizeof *plan->edges);
    for (int i = 0; i < plan->edges_count && !self->failed; i++)
        s_edge(self, &plan->edges[i]);
}

static bool
s_has(char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

// Is it the id of an edge to this stage, of columns or of weights?
static bool
s_leads_to(const verl_plan_t *plan, int edge, int stage, bool weights)
{
    return edge < plan->edges_count && plan->edges[edge].reader == stage && plan->edges[edge].weights == weights;
}

static bool
s_need_fits(const verl_plan_t *plan, int stage, const verl_plan_need_t *need)
{
    for (int m = 0; m < need->maps; m++)
        if (!s_leads_to(plan, need->map_edges[m], stage, false) || !plan->edges[need->map_edges[m]].map)
            return false;
    if (need->edge < 0)
        return need->maps == 0;
    return s_leads_to(plan, need->edge, stage, false) &&
           s_has(plan->edges[need->edge].columns, plan->edges[need->edge].columns_count, need->column);
}

static void
s_check_stage(decode_t *self, int index)
{
    const verl_plan_t *plan = self->plan;
    const verl_plan_stage_t *stage = &plan->stages[index];
    if (stage->source != (stage->depends_count == 0) || (stage->source && stage->rows_of != index))
        s_fail(self, "a source that is none");
    if (stage->rows_of > index || stage->parts_of > index)
        s_fail(self, "rows or parts of a stage that comes later");
    if (stage->weights_edge >= 0 && !s_leads_to(plan, stage->weights_edge, index, true))
        s_fail(self, "weights from an edge that brings none");
    for (int i = 0; i < stage->depends_count; i++) {
        bool there = false;
        for (int e = 0; e < stage->in_count; e++)
            there = there || (plan->edges[stage->in_edges[e]].maker == stage->depends[i] &&
                              !plan->edges[stage->in_edges[e]].weights);
        if (!there)
            s_fail(self, "a dependency without an edge");
    }
    for (int i = 0; i < stage->needs_count; i++)
        if (!s_need_fits(plan, index, &stage->needs[i]))
            s_fail(self, "a need that its edges do not meet");
}

static void
s_check_edge(decode_t *self, const verl_plan_edge_t *edge)
{
    const verl_plan_stage_t *maker = &self->plan->stages[edge->maker];
    if (edge->weights && (edge->map || edge->columns_count > 0))
        s_fail(self, "an edge of weights that brings columns");
    for (int i = 0; i < edge->columns_count; i++)
        if (!s_has(maker->gives_as, maker->gives_count, edge->columns[i]))
            s_fail(self, "an edge with a column that its maker does not give");
}

static void
s_decode(void *argument)
{
    decode_t *self = argument;
    verl_plan_t *plan = self->plan;
    s_record(self, VERL_PLAN_ITEMS, "it is no plan");
    s_int(self, VERL_PLAN_FORMAT, VERL_PLAN_FORMAT, "another format");
    plan->revision = s_int(self, 0, INT64_MAX, "the revision");
    plan->name = s_name(self, "the run's name");
    plan->file = s_text(self, "the run's file");
    plan->steps = s_int(self, 1, INT64_MAX / 4, "the steps");
    plan->seed = 0;
    if (!self->failed && verl_read_uint(&self->reader, &plan->seed) != 0)
        s_fail(self, "the seed");
    plan->max_in_flight = s_int(self, 1, 1000000, "max_in_flight");
    plan->max_bytes = s_int(self, 1, INT64_MAX, "max_bytes");
    plan->save_every = s_int(self, 0, INT64_MAX, "save_every");
    plan->keep = s_int(self, 1, INT64_MAX, "keep");
    plan->drain_timeout = s_seconds(self, "drain_timeout");
    s_lists(self);
    if (!self->failed && verl_reader_left(&self->reader) > 0)
        s_fail(self, "something behind its end");
    if (self->failed)
        return;
    verl_plan_link(plan);
    for (int i = 0; i < plan->edges_count && !self->failed; i++)
        s_check_edge(self, &plan->edges[i]);
    for (int i = 0; i < plan->stages_count && !self->failed; i++)
        s_check_stage(self, i);
}

verl_plan_t *
verl_plan_decode(const char *bytes, size_t size, verl_error_t *error)
{
    decode_t self = { .error = error, .plan = verl_plan_new() };
    bool done = false;
    if (size > VERL_PLAN_MAX_BYTES)
        verl_error_set(error, "a plan of %zu bytes: at most %u are read", size, VERL_PLAN_MAX_BYTES);
    else if (self.plan) {
        self.pool = verl_plan_pool(self.plan);
        verl_reader_init(&self.reader, bytes, size);
        done = verl_pool_run(self.pool, s_decode, &self);
    }
    if (done && !self.failed)
        return self.plan;
    verl_error_set(error, "no memory for a plan");
    verl_plan_destroy(&self.plan);
    return NULL;
}

int
verl_plan_bind(verl_plan_t *plan, int actor, verl_error_t *error)
{
    verl_plan_actor_t *self = &plan->actors[actor];
    if (!self->kind)
        self->kind = verl_kind_find(self->kind_name, error);
    if (!self->kind)
        return -1;
    for (int i = 0; i < plan->stages_count; i++) {
        verl_plan_stage_t *stage = &plan->stages[i];
        if (stage->actor != actor)
            continue;
        stage->handler = verl_stage_kind_find(self->kind, stage->does);
        if (!stage->handler)
            return verl_error_set(error, "kind `%s` does no `%s`, which the stage `%s` asks for: another build of it?",
                                  self->kind_name, stage->does, stage->name);
    }
    return 0;
}
