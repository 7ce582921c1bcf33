// requests.c: what is asked of a run by its two sockets: to be watched, and to be changed.
#include "runtime/director/director_impl.h"

#define WATCHERS_MOST 64
#define TIMEOUT_MOST  1e9                   // s; more is none

typedef struct watcher {                    // is told of each step
    struct watcher *next;
    uint64_t        token;
} watcher_t;

struct watchers {
    watcher_t *first;
};

// --- changes ------------------------------------------------------------------------------------------------------

static void
s_apply(director_t *self, const verl_control_request_t *request)
{
    const char *fragment = json_string_value(json_object_get(request->body, "fragment"));
    const char *path = json_string_value(json_object_get(request->body, "path"));
    const char *who = json_string_value(json_object_get(request->body, "who"));
    const json_t *at = json_object_get(request->body, "at"), *limit = json_object_get(request->body, "timeout");
    change_t *change = calloc(1, sizeof *change);
    if (!fragment || !change || verl_change_swaps(change, json_object_get(request->body, "swap")) ||
        !(change->text = strdup(fragment)) || !(change->path = strdup(path ? path : "the change"))) {
        verl_control_refuse(self->control, request->token, "a change is a text \"fragment\" of TOML");
        verl_change_free(change);
        return;
    }
    change->token = request->token;
    change->at = json_is_integer(at) ? json_integer_value(at) : -1;
    change->show = json_is_true(json_object_get(request->body, "plan"));
    change->now = json_is_true(json_object_get(request->body, "now"));
    double seconds = json_number_value(limit);
    if (seconds > 0 && seconds < TIMEOUT_MOST)
        change->deadline = verl_now() + (int64_t) (seconds * 1e9);
    snprintf(change->who, sizeof change->who, "%s", who ? who : "");
    verl_changes_add(self, change);
}

// --- pausing ------------------------------------------------------------------------------------------------------

// An actor, or the one that a stage runs in.
static bool
s_goes_by(const director_t *self, const party_t *party, const char *name)
{
    int actor;
    const verl_plan_t *plan = verl_party_plan(self, party, &actor);
    if (strncmp(name, "stage.", 6) == 0 || strncmp(name, "actor.", 6) == 0)
        name += 6;
    bool found = strcmp(party->name, name) == 0;
    for (int i = 0; plan && i < plan->stages_count; i++)
        found |= plan->stages[i].actor == actor && strcmp(plan->stages[i].name, name) == 0;
    return found;
}

// A lost one, whose successor will be as it is.
static bool
s_waits(const director_t *self, const party_t *party)
{
    const restart_t *restart = self->restarts;
    while (restart && restart->incarnation != party->incarnation)
        restart = restart->next;
    return restart;
}

// Who paused it, and how long ago.
static void
s_add_paused(json_t *object, const party_t *party)
{
    json_object_set_new(object, "who", verl_json_text(party->paused_by));
    json_object_set_new(object, "seconds", json_real((double) (verl_now() - party->paused_at) / 1e9));
}

static void
s_pause(director_t *self, const verl_control_request_t *request, bool pause)
{
    const char *name = json_string_value(json_object_get(request->body, "name"));
    const char *who = json_string_value(json_object_get(request->body, "who"));
    const party_t *first = NULL;            // of those that somebody had paused before, who stays the one who did
    int count = 0, already = 0;
    for (party_t *party = self->parties; name && party; party = party->next) {
        bool gone = party->dead || party->leaving;
        if ((gone && !s_waits(self, party)) || !s_goes_by(self, party, name))
            continue;
        count++;
        if (pause && party->paused) {
            first = party;
            already++;
            continue;
        }
        party->paused = pause;
        snprintf(party->paused_by, sizeof party->paused_by, "%s", who ? who : "");
        party->paused_at = verl_now();
        if (!gone)
            verl_order_number(self, party, 0, "pause", pause);
    }
    if (!count) {
        verl_control_refuse(self->control, request->token, "there is no actor or stage \"%s\"", name ? name : "");
        return;
    }
    json_t *answer = json_pack("{s:s, s:i, s:b}", "name", name, "actors", count, "paused", pause);
    if (first && already == count)
        s_add_paused(answer, first);
    else
        verl_event(self, pause ? "paused" : "resumed", json_pack("{s:s, s:s}", "name", name, "who", who ? who : ""));
    verl_control_answer(self->control, request->token, answer, true);
}

// A run that ends waits for nobody who is paused.
void
verl_resume_all(director_t *self)
{
    for (party_t *party = self->parties; party; party = party->next)
        if (party->paused) {
            party->paused = false;
            if (!party->dead)
                verl_order_number(self, party, 0, "pause", 0);
        }
}

// --- holding ------------------------------------------------------------------------------------------------------

static void
s_hold(director_t *self, const verl_control_request_t *request)
{
    const json_t *batch = json_object_get(request->body, "batch");
    int64_t granted = verl_ledger_granted(self->ledger);
    hold_t *hold = json_is_integer(batch) ? calloc(1, sizeof *hold) : NULL;
    if (!hold) {
        verl_control_refuse(self->control, request->token, "a hold names a \"batch\"");
        return;
    }
    hold->batch = json_integer_value(batch);
    hold->token = request->token;
    if (hold->batch <= granted) {
        verl_control_refuse(self->control, request->token, "batch %" PRId64 " has its permit already: %" PRId64
                            " or later would be right", hold->batch, granted + 1);
        free(hold);
        return;
    }
    hold->next = self->holds;
    self->holds = hold;
    // Not the last answer: the hold lasts as long as its client.
    verl_control_answer(self->control, request->token, json_pack("{s:I}", "held", (json_int_t) hold->batch), false);
}

static void
s_release(director_t *self, const verl_control_request_t *request)
{
    const json_t *batch = json_object_get(request->body, "batch");
    int count = 0;
    for (hold_t **link = &self->holds; *link;) {
        hold_t *hold = *link;
        if (!json_is_integer(batch) || hold->batch != json_integer_value(batch)) {
            link = &hold->next;
            continue;
        }
        *link = hold->next;
        verl_control_answer(self->control, hold->token, json_pack("{s:b}", "released", true), true);
        free(hold);
        count++;
    }
    verl_control_answer(self->control, request->token, json_pack("{s:i}", "released", count), true);
    verl_advance(self);
}

// A client that is gone holds nothing.
static void
s_drop_holds(director_t *self)
{
    bool dropped = false;
    for (hold_t **link = &self->holds; *link;) {
        hold_t *hold = *link;
        if (verl_control_alive(self->control, hold->token)) {
            link = &hold->next;
            continue;
        }
        *link = hold->next;
        free(hold);
        dropped = true;
    }
    if (dropped)
        verl_advance(self);
}

// --- listing ------------------------------------------------------------------------------------------------------

static void
s_list(director_t *self, const verl_control_request_t *request)
{
    json_t *waiting = json_array(), *paused = json_array();
    for (const change_t *change = self->changes; change; change = change->next)
        json_array_append_new(waiting, json_pack("{s:o, s:I, s:b}", "who", verl_json_text(change->who), "at",
                                                 (json_int_t) change->at,
                                                 "prepares", change->candidate != NULL));
    for (const party_t *party = self->parties; party; party = party->next)
        if (party->paused && !party->dead) {
            json_t *item = json_pack("{s:s}", "actor", party->name);
            s_add_paused(item, party);
            json_array_append_new(paused, item);
        }
    verl_control_answer(self->control, request->token,
                        json_pack("{s:o, s:o, s:o, s:I, s:I}", "revisions", verl_watch_revisions(self), "changes", waiting, "paused",
                                  paused, "granted", (json_int_t) verl_ledger_granted(self->ledger), "done",
                                  (json_int_t) verl_ledger_done(self->ledger)), true);
}

// A script says something ("log"), or that it has ended; or that it has registered what it waits for, "ready": the first
// permit of a run with a script of its own may be given. A script that has ended holds it no longer either.
static void
s_script(director_t *self, const verl_control_request_t *request)
{
    const char *state = json_string_value(json_object_get(request->body, "state"));
    const char *text = json_string_value(json_object_get(request->body, "text"));
    if (text)
        verl_say(self, "%s", text);
    self->script_over |= state && strcmp(state, "ended") == 0;
    self->script_ready |= !state || strcmp(state, "log") != 0;
    verl_control_answer(self->control, request->token, json_pack("{s:b}", "ready", true), true);
    verl_advance(self);
}

// --- watching -----------------------------------------------------------------------------------------------------

static void
s_steps(director_t *self, const verl_control_request_t *request)
{
    int count = 0;
    watcher_t *watcher = calloc(1, sizeof *watcher);
    if (!self->watchers)
        self->watchers = calloc(1, sizeof *self->watchers);
    for (const watcher_t *other = self->watchers ? self->watchers->first : NULL; other; other = other->next)
        count++;
    if (!watcher || !self->watchers || count >= WATCHERS_MOST) {
        verl_control_refuse(self->control, request->token, "too many watch the steps of this run");
        free(watcher);
        return;
    }
    *watcher = (watcher_t) { .next = self->watchers->first, .token = request->token };
    self->watchers->first = watcher;
    verl_control_answer(self->control, request->token,
                        json_pack("{s:I, s:I}", "done", (json_int_t) verl_ledger_done(self->ledger), "granted",
                                  (json_int_t) verl_ledger_granted(self->ledger)), false);
}

void
verl_tell_step(director_t *self, const json_t *line)
{
    for (watcher_t **link = self->watchers ? &self->watchers->first : NULL; link && *link;) {
        watcher_t *watcher = *link;
        if (verl_control_alive(self->control, watcher->token)) {
            verl_control_answer(self->control, watcher->token, json_deep_copy(line), false);
            link = &watcher->next;
            continue;
        }
        *link = watcher->next;
        free(watcher);
    }
}

static void
s_trace(director_t *self, const verl_control_request_t *request)
{
    verl_error_t error = { "" };
    json_t *answer = verl_traces_ask(self->traces, request->word, request->body, &error);
    if (answer)
        verl_control_answer(self->control, request->token, answer, true);
    else
        verl_control_refuse(self->control, request->token, "%s", error.text);
}

static void
s_watch(director_t *self, const verl_control_request_t *request)
{
    verl_error_t error = { "" };
    json_t *answer = NULL;
    if (strcmp(request->word, "trace") == 0 || strcmp(request->word, "untrace") == 0) {
        s_trace(self, request);
        return;
    }
    if (strcmp(request->word, "steps") == 0) {
        s_steps(self, request);
        return;
    }
    answer = verl_watch_answer(self, request->word, request->body, &error);
    if (answer)
        verl_control_answer(self->control, request->token, answer, true);
    else
        verl_control_refuse(self->control, request->token, "%s", error.text);
}

// --- asking -------------------------------------------------------------------------------------------------------

void
verl_on_request(void *context, const verl_control_request_t *request)
{
    static const struct {
        const char *word;
        void      (*act)(director_t *, const verl_control_request_t *);
    } words[] = { { "apply", s_apply }, { "list", s_list }, { "hold", s_hold }, { "release", s_release } };
    director_t *self = context;
    if (self->phase == PHASE_STOPPING) {
        verl_control_refuse(self->control, request->token, self->rollback
                            ? "the run goes back to its last checkpoint: ask again in a moment" : "the run is ending");
        return;
    }
    if (!request->change) {
        s_watch(self, request);
        return;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(request->word, words[i].word) == 0) {
            words[i].act(self, request);
            return;
        }
    if (strcmp(request->word, "pause") == 0 || strcmp(request->word, "resume") == 0)
        s_pause(self, request, *request->word == 'p');
    else if (strcmp(request->word, "script") == 0)
        s_script(self, request);
    else
        verl_control_refuse(self->control, request->token, "\"%s\" is none of apply, pause, resume, list, hold, "
                            "release, script", request->word);
}

void
verl_requests_step(director_t *self)
{
    verl_control_step(self->control);
    verl_traces_step(self->traces);
    s_drop_holds(self);
}

void
verl_requests_free(director_t *self)
{
    while (self->watchers && self->watchers->first) {
        watcher_t *watcher = self->watchers->first;
        if (!self->rollback && self->control)   // all of the run's steps were told
            verl_control_answer(self->control, watcher->token, json_pack("{s:b}", "over", true), true);
        self->watchers->first = watcher->next;
        free(watcher);
    }
    free(self->watchers);
    self->watchers = NULL;
}
