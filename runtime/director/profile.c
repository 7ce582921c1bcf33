// profile.c: where the time of a run went, as JSON: the plan, for each of its stages times and bytes, what was loaded.
//
// It holds all that a diagnosis needs, so that one of a run that has ended (the last "profile" in its run.log) says the
// same as one of a run that lives. Times and bytes are of all incarnations and revisions of a stage's name.
#include "runtime/director/director_impl.h"
#include "runtime/director/plan_json.h"

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
verl_revision_json(const revision_t *revision)
{
    json_t *plan = verl_plan_json(revision->plan);
    json_object_set_new(plan, "first", json_integer((json_int_t) revision->cut));
    return plan;
}

json_t *
verl_profile(const director_t *self)
{
    const revision_t *newest = verl_revision_newest(self);
    json_t *profile = newest ? verl_revision_json(newest) : NULL, *stage;
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
