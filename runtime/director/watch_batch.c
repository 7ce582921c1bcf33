// watch_batch.c: where a batch stands at each stage of its revision, and which of its dependencies is missing there.
//
// What is missing is read off the ledger by the same rules by which actors judge readiness; what only an actor knows (a
// message that is under way, room in its memory) is said as such.
#include "runtime/director/director_impl.h"

typedef struct look {
    const director_t  *self;
    const revision_t  *revision;
    const verl_plan_t *plan;
    int64_t            batch;
    json_t            *missing;             // of the stage that is looked at
} look_t;

static void __attribute__((format(printf, 5, 6)))
s_misses(look_t *look, const char *kind, const char *stage, int64_t batch, const char *format, ...)
{
    char text[700];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    json_t *entry = json_pack("{s:s, s:o}", "kind", kind, "text", verl_json_text(text));
    if (stage)
        json_object_set_new(entry, "stage", json_string(stage));
    if (batch >= 0)
        json_object_set_new(entry, "batch", json_integer(batch));
    json_array_append_new(look->missing, entry);
}

static void
s_data(look_t *look, int stage)
{
    for (int i = 0; i < look->plan->stages[stage].in_count; i++) {
        const verl_plan_edge_t *edge = &look->plan->edges[look->plan->stages[stage].in_edges[i]];
        const char *maker = look->plan->stages[edge->maker].name;
        if (!edge->weights && !verl_ledger_has_done(look->self->ledger, look->batch, edge->maker))
            s_misses(look, "data", maker, look->batch, "data of stage %s", maker);
    }
}

// The update whose weights a reader works with on a batch; -1: those that it loaded.
static int64_t
s_update(const look_t *look, int reader, int writer, int64_t staleness, int64_t batch)
{
    int64_t update = verl_plan_version(look->plan, writer, staleness, batch);
    int64_t base = look->revision->base[reader];
    return update > base ? update : base;
}

// A version that some update makes, of this revision or of the one before, and that is not there.
static void
s_version(look_t *look, int reader, int writer, int64_t staleness)
{
    int64_t update = s_update(look, reader, writer, staleness, look->batch);
    const char *name = look->plan->stages[writer].name;
    const revision_t *maker = update >= 0 ? verl_revision_of(look->self, update) : NULL;
    for (int i = 0; maker && i < maker->plan->stages_count; i++)
        if (strcmp(maker->plan->stages[i].name, name) == 0 && !verl_ledger_has_done(look->self->ledger, update, i))
            s_misses(look, "weights", name, update, "weights version %" PRId64
                     ", which stage %s makes of batch %" PRId64, update + 1, name, update);
}

// Another stage that shares the versions of this one's actor, and has a batch left for an older one. A program has a
// version for each of its stages.
static void
s_sharers(look_t *look, int index, const verl_plan_edge_t *edge)
{
    const verl_plan_t *plan = look->plan;
    const verl_plan_stage_t *stage = &plan->stages[index];
    const verl_kind_t *kind = plan->actors[stage->actor].kind;
    int64_t update = s_update(look, index, edge->maker, edge->staleness, look->batch);
    for (int i = 0; i < plan->stages_count && kind && !kind->external; i++) {
        const verl_plan_stage_t *other = &plan->stages[i];
        if (i == index || other->actor != stage->actor || other->weights_edge < 0)
            continue;
        int64_t batch = verl_span_previous(&other->span, plan->steps, look->batch);
        while (batch >= look->revision->cut && s_update(look, i, edge->maker, edge->staleness, batch) >= update)
            batch = verl_span_previous(&other->span, plan->steps, batch);
        if (batch >= look->revision->cut && !verl_ledger_has_done(look->self->ledger, batch, i))
            s_misses(look, "weights", other->name, batch, "stage %s to be done with batch %" PRId64
                     ", which wants older weights of the actor that they share", other->name, batch);
    }
}

static bool
s_writes(const verl_plan_stage_t *stage)
{
    return stage->handler && stage->handler->writes_weights;
}

static void
s_weights(look_t *look, int index)
{
    const verl_plan_stage_t *stage = &look->plan->stages[index];
    if (stage->weights_edge >= 0) {
        const verl_plan_edge_t *edge = &look->plan->edges[stage->weights_edge];
        s_version(look, index, edge->maker, edge->staleness);
        s_sharers(look, index, edge);
        return;
    }
    for (int i = 0; i < look->plan->stages_count; i++) {
        const verl_plan_stage_t *other = &look->plan->stages[i];
        bool reads = other->handler && other->handler->reads_weights && other->weights_edge < 0;
        if (i == index || other->actor != stage->actor)
            continue;
        if (!s_writes(stage) && s_writes(other) && stage->handler && stage->handler->reads_weights)
            s_version(look, index, i, 0);
        else if (s_writes(stage) && reads && !s_writes(other) &&
                 verl_span_has(&other->span, look->plan->steps, look->batch) &&
                 !verl_ledger_has_done(look->self->ledger, look->batch, i))
            s_misses(look, "weights", other->name, look->batch,
                     "stage %s to be done with the weights that it replaces", other->name);
    }
}

// An earlier batch of the same stage in the same place.
static void
s_order(look_t *look, int index)
{
    const verl_plan_stage_t *stage = &look->plan->stages[index];
    int64_t before = look->batch;
    do
        before = verl_span_previous(&stage->span, look->plan->steps, before);
    while (before >= look->revision->cut &&
           verl_plan_replica(look->plan, index, before) != verl_plan_replica(look->plan, index, look->batch));
    if (before >= look->revision->cut && !verl_ledger_has_done(look->self->ledger, before, index))
        s_misses(look, "order", stage->name, before, "its own batch %" PRId64 ", which comes first", before);
}

static void
s_worker(look_t *look, const party_t *party)
{
    if (party->paused)
        s_misses(look, "paused", NULL, -1, "%s paused %s %.0f s ago",
                 party->paused_by[0] ? party->paused_by : "somebody", party->name,
                 (double) (verl_now() - party->paused_at) / 1e9);
    if (party->running >= 0)
        s_misses(look, "worker", verl_stage_label(look->self, party->running_revision, party->running),
                 party->running_batch, "its actor, busy with stage %s of batch %" PRId64 " for %.2f s",
                 verl_stage_label(look->self, party->running_revision, party->running), party->running_batch,
                 (double) (verl_now() - party->running_since) / 1e9);
    else if (party->running == VERL_TASK_SAVE)
        s_misses(look, "worker", NULL, -1, "its actor, which writes a checkpoint");
}

static void
s_lost(look_t *look, int index)
{
    const char *name = look->plan->actors[look->plan->stages[index].actor].name;
    int64_t replica = verl_plan_replica(look->plan, index, look->batch);
    for (const restart_t *restart = look->self->restarts; restart; restart = restart->next)
        if (strcmp(restart->name, name) == 0 && restart->replica == replica) {
            s_misses(look, "actor", NULL, -1, "its actor %s, which is lost and starts again in %.1f s", name,
                     (double) (restart->due - verl_now()) / 1e9);
            return;
        }
    s_misses(look, "actor", NULL, -1, "its actor %s, which is lost", name);
}

// Returns the state; look->missing gets what it waits for.
static const char *
s_state(look_t *look, int index)
{
    const slot_t *slot = verl_revision_place(look->revision, index, look->batch);
    const party_t *party = slot ? slot->party : NULL;
    if (verl_ledger_has_done(look->self->ledger, look->batch, index))
        return "done";
    if (!party || party->dead) {
        s_lost(look, index);
        return "waiting";
    }
    if (party->running == index && party->running_batch == look->batch &&
        party->running_revision == look->plan->revision)
        return "running";
    if (!party->ready || party->restore)
        s_misses(look, "actor", NULL, -1, "its actor %s, which is %s", party->name,
                 !party->hello ? "starting" : !party->ready ? "preparing" : "reading back its state");
    s_data(look, index);
    s_weights(look, index);
    s_order(look, index);
    s_worker(look, party);
    if (json_array_size(look->missing) == 0)
        s_misses(look, "room", NULL, -1,
                 "nothing that the director knows of: a message on its way, or room for what it "
                 "makes");
    return "waiting";
}

static json_t *
s_stage(look_t *look, int index)
{
    const verl_plan_stage_t *stage = &look->plan->stages[index];
    look->missing = json_array();
    const char *state = s_state(look, index);
    json_t *object = json_pack("{s:s, s:s, s:I, s:s, s:o}", "name", stage->name, "actor",
                               look->plan->actors[stage->actor].name, "replica",
                               (json_int_t) verl_plan_replica(look->plan, index, look->batch), "state", state,
                               "missing", look->missing);
    const slot_t *slot = verl_revision_place(look->revision, index, look->batch);
    if (strcmp(state, "running") == 0)
        json_object_set_new(object, "seconds", json_real((double) (verl_now() - slot->party->running_since) / 1e9));
    return object;
}

// Why a batch has no permit.
static void
s_no_permit(const director_t *self, const verl_plan_t *plan, int64_t batch, json_t *answer)
{
    char why[400];
    int64_t done = verl_ledger_done(self->ledger), held = verl_held(self);
    if (batch > verl_plan_last(plan))
        snprintf(why, sizeof why, "the run ends with batch %" PRId64, verl_plan_last(plan));
    else if (!self->script_ready)
        snprintf(why, sizeof why, "the run's script has not said that it is ready");
    else if (self->draining)
        snprintf(why, sizeof why, "the run is being drained: no batch begins any more");
    else if (held <= batch)
        snprintf(why, sizeof why, "the permit of batch %" PRId64 " is held back by a change or a script", held);
    else
        snprintf(why, sizeof why, "batch %" PRId64 " has to be done first (max_in_flight = %" PRId64 ", done up to %"
                 PRId64 ")", batch - plan->max_in_flight, plan->max_in_flight, done - 1);
    json_object_set_new(answer, "state", json_string("no permit"));
    json_object_set_new(answer, "why", json_string(why));
}

json_t *
verl_watch_batch(const director_t *self, int64_t batch, verl_error_t *error)
{
    look_t look = { .self = self, .revision = verl_revision_of(self, batch), .batch = batch };
    if (!look.revision || look.revision->cut < 0) {
        verl_error_set(error, "the run is just beginning");
        return NULL;
    }
    look.plan = look.revision->plan;
    json_t *answer = json_pack("{s:I, s:s}", "batch", (json_int_t) batch, "run", look.plan->name);
    json_t *way = verl_ledger_way(self->ledger, batch), *stages = json_array();
    if (way)
        json_object_set_new(answer, "way", way);
    if (batch < verl_ledger_done(self->ledger)) {
        json_object_set_new(answer, "state", json_string("done"));
    } else if (batch > verl_ledger_granted(self->ledger)) {
        s_no_permit(self, verl_revision_newest(self)->plan, batch, answer);
    } else {
        json_object_set_new(answer, "state", json_string("under way"));
        json_object_set_new(answer, "revision", json_integer(look.plan->revision));
        for (int i = 0; i < look.plan->stages_count; i++)
            if (verl_span_has(&look.plan->stages[i].span, look.plan->steps, batch))
                json_array_append_new(stages, s_stage(&look, i));
    }
    json_object_set_new(answer, "stages", stages);
    return answer;
}
