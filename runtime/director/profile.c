// profile.c: where the time of a run went, as JSON: the plan, for each of its stages times and bytes, what was loaded.
//
// It holds all that a diagnosis needs, so that one of a run that has ended (the last "profile" in its run.log) says the
// same as one of a run that lives. Times and bytes are of all incarnations and revisions of a stage's name.
#include "runtime/director/director_impl.h"
#include "runtime/topology/describe.h"

#define LOADS_MOST 256                      // names that are kept; further ones are not counted

// --- what was loaded ----------------------------------------------------------------------------------------------

static load_t *
s_load(director_t *self, const char *stage, const char *what)
{
    int count = 0;
    load_t *load = self->loads;
    for (; load && (strcmp(load->stage, stage) != 0 || strcmp(load->what, what) != 0); load = load->next)
        count++;
    if (load)
        return load;
    if (count >= LOADS_MOST || !(load = calloc(1, sizeof *load)))
        return NULL;
    load->stage = strdup(stage);
    load->what = strdup(what);
    if (!load->stage || !load->what) {
        free(load->stage);
        free(load->what);
        free(load);
        return NULL;
    }
    load->next = self->loads;
    return self->loads = load;
}

void
verl_loads_add(director_t *self, const char *stage, int64_t batch, const char *what, double seconds)
{
    load_t *load = s_load(self, stage, what);
    if (!load)
        return;
    load->times++;
    load->seconds += seconds;
    load->in_batches += batch >= 0;
    load->batch_seconds += batch >= 0 ? seconds : 0;
}

void
verl_loads_free(director_t *self)
{
    while (self->loads) {
        load_t *load = self->loads;
        self->loads = load->next;
        free(load->stage);
        free(load->what);
        free(load);
    }
}

static json_t *
s_loads(const director_t *self)
{
    json_t *list = json_array();
    for (const load_t *load = self->loads; load; load = load->next)
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:f, s:f}", "stage", load->stage, "what",
                                              load->what, "times", (json_int_t) load->times, "in_batches",
                                              (json_int_t) load->in_batches, "seconds", load->seconds, "batch_seconds",
                                              load->batch_seconds));
    return list;
}

// --- the plan -----------------------------------------------------------------------------------------------------

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
verl_plan_json(const revision_t *revision)
{
    const verl_plan_t *plan = revision->plan;
    json_t *actors = json_array(), *stages = json_array(), *edges = json_array();
    for (int i = 0; i < plan->actors_count; i++)
        json_array_append_new(actors, s_actor(&plan->actors[i]));
    for (int i = 0; i < plan->stages_count; i++)
        json_array_append_new(stages, s_stage(plan, &plan->stages[i]));
    for (int i = 0; i < plan->edges_count; i++)
        json_array_append_new(edges, s_edge(plan, i));
    return json_pack("{s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "run", plan->name, "file",
                     verl_json_text(plan->file),
                     "revision", (json_int_t) plan->revision, "first", (json_int_t) revision->cut, "steps",
                     (json_int_t) plan->steps, "max_in_flight", (json_int_t) plan->max_in_flight, "max_bytes",
                     (json_int_t) plan->max_bytes, "actors", actors, "stages", stages, "edges", edges);
}

// --- the times ----------------------------------------------------------------------------------------------------

// Time of a stage that is not in force (yet, or any more) is none of these: shares are of the rest, and add to 1.
static json_t *
s_seconds(const times_t *times, bool shares)
{
    static const struct {
        const char *name;
        int         state;                  // seat_state_t
    } columns[] = { { "busy", 0 }, { "moving", 6 }, { "data", 1 }, { "weights", 2 }, { "room", 3 }, { "worker", 4 } };
    json_t *object = json_object();
    double whole = 0;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        whole += (double) times->ns[columns[i].state];
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        json_object_set_new(object, columns[i].name,
                            json_real((double) times->ns[columns[i].state] / (!shares ? 1e9 : whole > 0 ? whole : 1)));
    return object;
}

static void
s_add_times(const director_t *self, json_t *stage)
{
    times_t times;
    const char *name = json_string_value(json_object_get(stage, "name"));
    verl_stage_times(self, name, &times);
    json_object_set_new(stage, "batches", json_integer(times.batches));
    json_object_set_new(stage, "seconds", s_seconds(&times, false));
    json_object_set_new(stage, "shares", s_seconds(&times, true));
    json_object_set_new(stage, "handoff_us", json_real(verl_ledger_handoff(self->ledger, name)));
    json_object_set_new(stage, "bytes", json_pack("{s:I, s:I, s:I}", "out", (json_int_t) times.ns[VERL_STATES], "again",
                                                  (json_int_t) times.ns[VERL_STATES + 1], "unseen",
                                                  (json_int_t) times.ns[VERL_STATES + 2]));
}

json_t *
verl_profile(const director_t *self)
{
    const revision_t *newest = verl_revision_newest(self);
    json_t *profile = newest ? verl_plan_json(newest) : NULL, *stage;
    size_t i;
    if (!profile)
        return NULL;
    json_array_foreach(json_object_get(profile, "stages"), i, stage)
        s_add_times(self, stage);
    json_object_set_new(profile, "loads", s_loads(self));
    json_object_set_new(profile, "done", json_integer(verl_ledger_done(self->ledger) - self->began));
    json_object_set_new(profile, "seconds",
                        json_real(self->started_at ? (double) (verl_now() - self->started_at) / 1e9 : 0));
    return profile;
}
