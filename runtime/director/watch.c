// watch.c: what a run says about itself to whoever watches it: how it is, its plan, where its time went, one batch.
//
// Everything is answered at once, from what the director knows anyway; nothing here changes the run.
#include "runtime/director/director_impl.h"
#include <unistd.h>

#define BATCH_MOST (INT64_C(1) << 53)
#define FAMILY     64                       // processes that are looked at for one actor

// Of a process, in bytes, from /proc; 0: unknown. With its children and theirs (a program is its guard's child), as many
// as are `left` to be looked at.
static int64_t
s_memory(pid_t pid, int *left)
{
    char path[64];
    long long whole = 0, resident = 0;
    int child;
    snprintf(path, sizeof path, "/proc/%d/statm", (int) pid);
    FILE *file = pid > 0 && (*left)-- > 0 ? fopen(path, "re") : NULL;
    if (!file)
        return 0;
    if (fscanf(file, "%lld %lld", &whole, &resident) != 2)
        resident = 0;
    fclose(file);
    int64_t bytes = (int64_t) resident * sysconf(_SC_PAGESIZE);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int) pid, (int) pid);
    file = fopen(path, "re");
    while (file && fscanf(file, "%d", &child) == 1)
        bytes += s_memory(child, left);
    if (file)
        fclose(file);
    return bytes;
}

static int64_t
s_party_memory(const party_t *party)
{
    int left = FAMILY;
    return s_memory(party->instance->pid, &left);   // of a thread of this process: 0
}

// Of an actor that is a program, its own process: its guard's only child. 0: it is no program, or there are others.
static int
s_program(const director_t *self, const party_t *party)
{
    char path[64];
    int program = 0, other;
    const verl_plan_actor_t *actor = verl_party_actor(self, party);
    int guard = (int) party->instance->pid;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", guard, guard);
    FILE *file = actor && actor->kind && actor->kind->external && guard > 0 ? fopen(path, "re") : NULL;
    if (file && (fscanf(file, "%d", &program) != 1 || fscanf(file, "%d", &other) == 1))
        program = 0;
    if (file)
        fclose(file);
    return program;
}

static double
s_since(int64_t then)
{
    return then > 0 ? (double) (verl_now() - then) / 1e9 : 0;
}

static const char *
s_party_state(const party_t *party)
{
    if (party->dead)
        return "lost";
    if (!party->hello)
        return "starting";
    if (party->leaving)
        return "ending";
    if (party->restore)
        return "restoring";
    if (!party->ready)
        return "preparing";
    if (party->running >= 0)
        return "running";
    return party->running == VERL_TASK_SAVE ? "saving" : party->paused ? "paused" : "waiting";
}

// An actor whose place is taken by nobody yet, because it died, stays in the list until its successor has begun.
static json_t *
s_party(const director_t *self, const party_t *party)
{
    char label[300];
    bool alive = party->instance && !party->dead, runs = alive && party->running >= 0;
    json_t *object = json_pack("{s:s, s:s, s:I, s:I, s:i, s:s, s:b, s:I}", "label",
                               verl_party_label(party, label, sizeof label), "name", party->name, "incarnation",
                               (json_int_t) party->incarnation, "replica", (json_int_t) party->replica, "pid",
                               alive ? (int) party->instance->pid : 0, "state", s_party_state(party), "ready",
                               party->ready, "memory", (json_int_t) (alive ? s_party_memory(party) : 0));
    int program = alive ? s_program(self, party) : 0;
    if (program)
        json_object_set_new(object, "program", json_integer(program));
    if (party->paused)
        json_object_set_new(
            object, "paused",
            json_pack("{s:o, s:f}", "who", verl_json_text(party->paused_by), "seconds", s_since(party->paused_at)));
    if (runs)
        json_object_set_new(object, "running",
                            json_pack("{s:s, s:I, s:f, s:f}", "stage",
                                      verl_stage_label(self, party->running_revision, party->running), "batch",
                                      (json_int_t) party->running_batch, "seconds", s_since(party->running_since),
                                      "progress", party->progress));
    return object;
}

static json_t *
s_stage(const director_t *self, const revision_t *revision, int index)
{
    verl_stage_view_t view;
    verl_stage_times_t times;
    const char *waits;
    int64_t credit;
    const verl_plan_stage_t *stage = &revision->plan->stages[index];
    verl_view_stage(self, revision, index, &view);
    verl_view_seats(self, revision, index, &waits, &credit);
    verl_times(self, stage->name, &times);
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:{s:f, s:f, s:f, s:f, s:f, s:f}, s:f}", "name", stage->name,
        "actor", revision->plan->actors[stage->actor].name, "state", view.state, "batch", (json_int_t) view.batch,
        "done", (json_int_t) view.done, "total", (json_int_t) view.total, "queue", (json_int_t) view.queue, "age",
        view.age, "progress", view.progress, "shares", "busy", times.busy, "moving", times.moving, "data",
        times.waiting_data, "weights", times.waiting_weights, "room", times.blocked, "worker", times.waiting_worker,
        "handoff_us", times.handoff_us);
    bool idle = strcmp(view.state, "waiting") == 0;
    json_object_set_new(object, "waits", waits && idle ? json_string(waits) : json_null());
    json_object_set_new(object, "credit", credit >= 0 ? json_integer((json_int_t) credit) : json_null());
    return object;
}

json_t *
verl_watch_revisions(const director_t *self)
{
    json_t *list = json_array();
    for (const revision_t *revision = self->revisions; revision; revision = revision->next)
        if (revision->cut >= 0)
            json_array_append_new(list, json_pack("{s:I, s:I}", "revision", (json_int_t) revision->plan->revision,
                                                  "first", (json_int_t) revision->cut));
    return list;
}

static json_t *
s_status(const director_t *self, const revision_t *newest)
{
    static const char *const phases[] = { "starting", "running", "saving", "stopping" };
    json_t *actors = json_array(), *stages = json_array();
    for (const party_t *party = self->parties; party; party = party->next)
        json_array_insert_new(actors, 0, s_party(self, party));
    for (int i = 0; i < newest->plan->stages_count; i++)
        json_array_append_new(stages, s_stage(self, newest, i));
    return json_pack(
        "{s:s, s:o, s:i, s:s, s:b, s:I, s:o, s:I, s:I, s:I, s:I, s:f, s:o, s:o}", "run", newest->plan->name,
        "directory", verl_json_text(self->config->run_directory), "pid", (int) getpid(), "phase", phases[self->phase],
        "draining", self->draining, "revision", (json_int_t) newest->plan->revision, "revisions", verl_watch_revisions(self),
        "first", (json_int_t) self->first, "done", (json_int_t) verl_ledger_done(self->ledger), "granted",
        (json_int_t) verl_ledger_granted(self->ledger), "total", (json_int_t) (verl_plan_last(newest->plan) + 1),
        "seconds", s_since(self->started_at), "actors", actors, "stages", stages);
}

static json_t *
s_batch(const director_t *self, const json_t *request, verl_error_t *error)
{
    const json_t *batch = json_object_get(request, "batch");
    if (json_is_integer(batch) && json_integer_value(batch) >= 0 && json_integer_value(batch) < BATCH_MOST)
        return verl_watch_batch(self, json_integer_value(batch), error);
    verl_error_set(error, "\"batch\" is the number of a batch, from 0 on");
    return NULL;
}

json_t *
verl_watch_answer(director_t *self, const char *word, const json_t *request, verl_error_t *error)
{
    const revision_t *newest = verl_revision_newest(self);
    json_t *answer = NULL;
    self->asked_at = verl_now();
    if (!newest)
        verl_error_set(error, "the run is just beginning");
    else if (strcmp(word, "status") == 0)
        answer = s_status(self, newest);
    else if (strcmp(word, "batch") == 0)
        return s_batch(self, request, error);
    else if (strcmp(word, "plan") == 0)
        answer = verl_revision_json(newest);
    else if (strcmp(word, "profile") == 0)
        answer = verl_profile(self);
    else
        verl_error_set(error, "\"%s\" is none of status, batch, plan, profile, steps, trace, untrace", word);
    if (!answer && !error->text[0])
        verl_error_set(error, "out of memory");
    return answer;
}
