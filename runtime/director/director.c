// director.c: see director.h. One loop on one thread: messages, deaths, signals, the clock.
#include "runtime/director/director.h"
#include <inttypes.h>
#include <stdarg.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>
#include "runtime/actor/host.h"
#include "runtime/base/clock.h"
#include "runtime/director/ledger.h"
#include "runtime/director/node.h"
#include "runtime/director/record.h"
#include "runtime/mailbox/address.h"
#include "runtime/mailbox/endpoint.h"
#include "runtime/wire/pack.h"

#define CONTROL_WINDOW 4096
#define GRACE_NS       (1 * VERL_S)         // for actors to end by themselves
#define HELLO_NS       (10 * VERL_S)        // for a process to begin and say so, …
#define CROWD_NS       (VERL_S / 10)        // … and so much more for each that begins beside it
#define LOADING_S      60.0                 // no timeout is shorter where an actor prepares or saves
#define PING_NS        (2 * VERL_S)
#define IDLE_MS        1000                // longest sleep of the loop
#define WATCHED_NS     (VERL_S / 5)         // between views, and pings, when somebody looks

typedef enum { PHASE_STARTING, PHASE_RUNNING, PHASE_SAVING, PHASE_STOPPING } phase_t;

typedef struct party {                      // what the director knows of one instance
    verl_instance_t *instance;
    verl_outbound_t *control;
    bool             hello, wired, ready;
    int64_t          saved;                 // last checkpoint that it reported
    int64_t          begun_at;              // its process
    int64_t          pinged_at, answered_at;
    int              running;               // stage, as of its last answer, or a host_task_t
    int64_t          running_batch, running_since;
    double           progress;
} party_t;

typedef struct spent {
    int64_t ns[6];                          // by seat_state_t
} spent_t;

typedef struct director {
    const verl_run_config_t *config;
    const verl_plan_t       *plan;
    char                     run_id[33];
    void                    *zmq;
    int                      epoll_fd;
    verl_endpoint_t         *endpoint;
    verl_node_t             *node;
    verl_ledger_t           *ledger;
    verl_record_t           *record;
    int                      parties_count;
    party_t                 *parties;
    spent_t                 *spent;         // one a stage and replica, summed below
    phase_t                  phase;
    bool                     interrupted, draining, halted;
    bool                     hurried;       // some limit is so short that it is looked at often
    int64_t                  started_at, stopping_at, drain_until, viewed_at, stepped_at;
    int64_t                  save_step;     // of the checkpoint that is being written; -1: none
    verl_error_t             error;
    verl_run_result_t       *result;
} director_t;

// --- saying -------------------------------------------------------------------------------------------------------

static void
s_order(director_t *self, party_t *party, verl_buffer_t *body)
{
    verl_message_t message = { .revision = self->plan->revision, .batch = -1, .parts = 1, .time = verl_now(),
                               .body = body->data, .body_size = body->size };
    if (body->failed || verl_outbound_send(party->control, &message, NULL))
        verl_error_set(&self->error, "out of memory");
    verl_outbound_flush(party->control);
    verl_buffer_done(body);
}

static void
s_order_number(director_t *self, party_t *party, const char *word, int64_t number)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 2);
    verl_pack_cstr(&body, word);
    verl_pack_int(&body, number);
    s_order(self, party, &body);
}

static void
s_order_table(director_t *self, party_t *party)
{
    verl_buffer_t body = { 0 };
    size_t size;
    char *table = verl_plan_encode(self->plan, &size);
    if (!table) {
        verl_error_set(&self->error, "out of memory");
        return;
    }
    verl_pack_array(&body, 2);
    verl_pack_cstr(&body, "table");
    verl_pack_bin(&body, table, size);
    free(table);
    s_order(self, party, &body);
}

static void
s_order_peers(director_t *self, party_t *party)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 2);
    verl_pack_cstr(&body, "peers");
    verl_pack_array(&body, (uint32_t) self->parties_count);
    for (int i = 0; i < self->parties_count; i++) {
        const verl_instance_t *instance = self->parties[i].instance;
        verl_pack_array(&body, 3);
        verl_pack_uint(&body, instance->incarnation);
        verl_pack_cstr(&body, self->plan->actors[instance->actor].name);
        verl_pack_int(&body, instance->replica);
    }
    s_order(self, party, &body);
}

static void
s_log(director_t *self, const char *event, json_t *fields)
{
    verl_record_event(self->record, event, fields);
}

// "reward#7", or "reward.2#7" of several replicas.
static const char *
s_label(const director_t *self, const verl_instance_t *instance, char *label, size_t size)
{
    const verl_plan_actor_t *actor = &self->plan->actors[instance->actor];
    if (actor->replicas > 1)
        snprintf(label, size, "%s.%" PRId64 "#%" PRIu64, actor->name, instance->replica, instance->incarnation);
    else
        snprintf(label, size, "%s#%" PRIu64, actor->name, instance->incarnation);
    return label;
}

// The stages that wait for an actor, for people: " (waiting for it: a, b)".
static void
s_waiters(const director_t *self, int actor, char *text, size_t size)
{
    size_t length = 0;
    text[0] = 0;
    for (int i = 0; i < self->plan->stages_count; i++) {
        bool waits = false;
        for (int j = 0; j < self->plan->stages[i].in_count; j++) {
            const verl_plan_edge_t *edge = &self->plan->edges[self->plan->stages[i].in_edges[j]];
            waits |= self->plan->stages[edge->maker].actor == actor && self->plan->stages[i].actor != actor;
        }
        if (waits && length < size)
            length += (size_t) snprintf(text + length, size - length, "%s%s", length ? ", " : " (waiting for it: ",
                                        self->plan->stages[i].name);
    }
    if (length && length < size)
        snprintf(text + length, size - length, ")");
}

// --- ending -------------------------------------------------------------------------------------------------------

static void
s_stop(director_t *self)
{
    if (self->phase == PHASE_STOPPING)
        return;
    self->phase = PHASE_STOPPING;
    self->stopping_at = verl_now();
    for (int i = 0; i < self->parties_count; i++)
        if (self->parties[i].instance->alive && self->parties[i].control)
            s_order_number(self, &self->parties[i], "stop", 0);
}

static void __attribute__((format(printf, 2, 3)))
s_fail(director_t *self, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    s_log(self, "failed", json_pack("{s:s}", "why", text));
    verl_error_set(&self->error, "%s", text);
    s_stop(self);
}

static json_t *
s_manifest(const director_t *self, int64_t step)
{
    json_t *actors = json_array();
    for (int i = 0; i < self->plan->actors_count; i++)
        if (self->plan->actors[i].kind && self->plan->actors[i].kind->snapshot)
            json_array_append_new(actors, json_string(self->plan->actors[i].name));
    return json_pack("{s:I, s:I, s:I, s:o}", "step", (json_int_t) step, "revision", (json_int_t) self->plan->revision,
                     "seed", (json_int_t) self->plan->seed, "actors", actors);
}

static bool
s_saves(const director_t *self, const party_t *party)
{
    const verl_kind_t *kind = self->plan->actors[party->instance->actor].kind;
    return kind && kind->snapshot;
}

// Has every actor that keeps state written its part of checkpoint `step`?
static bool
s_all_saved(const director_t *self, int64_t step)
{
    for (int i = 0; i < self->parties_count; i++)
        if (s_saves(self, &self->parties[i]) && self->parties[i].saved < step)
            return false;
    return true;
}

static void
s_end_checkpoint(director_t *self, int64_t step)
{
    verl_error_t error = { "" };
    char path[sizeof self->result->checkpoint];
    if (verl_record_end_checkpoint(self->record, step, s_manifest(self, step), self->plan->keep, path, sizeof path,
                                   &error)) {
        s_fail(self, "%s", error.text);
        return;
    }
    memcpy(self->result->checkpoint, path, sizeof path);
    s_log(self, "checkpoint", json_pack("{s:I, s:s}", "step", (json_int_t) step, "path", self->result->checkpoint));
}

// The last checkpoint, then the end.
static void
s_finish(director_t *self)
{
    bool any = false;
    self->phase = PHASE_SAVING;
    self->save_step = self->plan->steps < verl_ledger_done(self->ledger) ? self->plan->steps
                                                                         : verl_ledger_done(self->ledger);
    for (int i = 0; i < self->parties_count; i++)
        any |= s_saves(self, &self->parties[i]);
    // What is due at this very batch the actors save unasked.
    bool due = self->plan->save_every > 0 && self->save_step % self->plan->save_every == 0 &&
               self->save_step < self->plan->steps;
    if (!any || self->save_step == 0 || (due && s_all_saved(self, self->save_step)))
        s_stop(self);
    if (due || self->phase == PHASE_STOPPING)
        return;
    verl_error_t error = { "" };
    if (verl_record_begin_checkpoint(self->record, self->save_step, &error)) {
        s_fail(self, "%s", error.text);
        return;
    }
    for (int i = 0; i < self->parties_count; i++)
        if (s_saves(self, &self->parties[i]))
            s_order_number(self, &self->parties[i], "save", self->save_step);
}

// --- granting -----------------------------------------------------------------------------------------------------

static bool
s_all(const director_t *self, bool wired)
{
    for (int i = 0; i < self->parties_count; i++)
        if (wired ? !self->parties[i].wired : !self->parties[i].hello)
            return false;
    return true;
}

static void
s_grant(director_t *self)
{
    int64_t last = verl_ledger_grantable(self->ledger), before = verl_ledger_granted(self->ledger);
    if (self->draining || last <= before)
        return;
    // A checkpoint's directory is there before the actors reach its cut.
    for (int64_t step = before + 1; self->plan->save_every > 0 && step <= last; step++)
        if (step > 0 && step % self->plan->save_every == 0 && step < self->plan->steps &&
            verl_record_begin_checkpoint(self->record, step, &self->error))
            return;
    verl_ledger_grant(self->ledger, last);
    for (int i = 0; i < self->parties_count; i++) {
        party_t *party = &self->parties[i];
        bool source = false;
        for (int j = 0; j < self->plan->stages_count; j++)
            source |= self->plan->stages[j].source && self->plan->stages[j].actor == party->instance->actor;
        if (source)
            s_order_number(self, party, "permit", verl_ledger_granted(self->ledger));
    }
}

static void
s_advance(director_t *self)
{
    json_t *line;
    verl_error_t error = { "" };
    if (self->phase != PHASE_RUNNING)
        return;
    while ((line = verl_ledger_take(self->ledger))) {
        int failed = verl_record_metrics(self->record, line, &error);
        if (self->config->observer.step)
            self->config->observer.step(self->config->observer.context, line);
        json_decref(line);
        if (failed) {
            s_fail(self, "%s", error.text);
            return;
        }
    }
    s_grant(self);
    bool drained = self->draining && verl_ledger_done(self->ledger) > verl_ledger_granted(self->ledger);
    if (drained || verl_ledger_done(self->ledger) > verl_plan_last(self->plan))
        s_finish(self);
}

// --- hearing ------------------------------------------------------------------------------------------------------

static int
s_on_done(director_t *self, party_t *party, verl_reader_t *reader, verl_error_t *error)
{
    int64_t stage, batch, busy, handoff, version;
    bool skipped;
    uint32_t states;
    if (verl_read_int(reader, &stage) || verl_read_int(reader, &batch) || verl_read_bool(reader, &skipped) ||
        verl_read_int(reader, &busy) || verl_read_int(reader, &handoff) || verl_read_int(reader, &version) ||
        verl_read_array(reader, &states) || states != 6 || stage < 0 || stage >= self->plan->stages_count ||
        self->plan->stages[stage].actor != party->instance->actor)
        return verl_error_set(error, "a report is malformed");
    spent_t spent;
    for (int i = 0; i < 6; i++)
        if (verl_read_int(reader, &spent.ns[i]))
            return verl_error_set(error, "a report is malformed");
    if (verl_ledger_enter(self->ledger, (int) stage, batch, skipped, busy, handoff, reader, error))
        return -1;
    self->spent[party - self->parties + stage * self->parties_count] = spent;
    s_advance(self);
    return 0;
}

static int
s_on_failed(director_t *self, party_t *party, verl_reader_t *reader, verl_error_t *error)
{
    int64_t stage, batch;
    char text[1024], label[300];
    if (verl_read_int(reader, &stage) || verl_read_int(reader, &batch) || verl_read_cstr(reader, text, sizeof text) ||
        stage < -1 || stage >= self->plan->stages_count)
        return verl_error_set(error, "a report of a failure is malformed");
    s_label(self, party->instance, label, sizeof label);
    if (stage < 0 && batch >= 0)
        s_fail(self, "%s (while `%s` saved the checkpoint step-%" PRId64 ")", text, label, batch);
    else if (stage >= 0 && batch >= 0)
        s_fail(self, "%s (while stage `%s` of `%s` handled batch %" PRId64 ")", text, self->plan->stages[stage].name,
               label, batch);
    else
        s_fail(self, "%s (while `%s` %s)", text, label, party->ready ? "worked" : "was being prepared");
    return 0;
}

static int
s_on_sample(director_t *self, verl_reader_t *reader, verl_error_t *error)
{
    char stage[256];
    const char *prompt, *response;
    size_t prompt_size, response_size;
    int64_t batch;
    double score;
    if (verl_read_cstr(reader, stage, sizeof stage) || verl_read_int(reader, &batch) ||
        verl_read_str(reader, &prompt, &prompt_size) || verl_read_str(reader, &response, &response_size) ||
        verl_read_real(reader, &score))
        return verl_error_set(error, "a sample is malformed");
    char *texts[2] = { strndup(prompt, prompt_size), strndup(response, response_size) };
    if (self->config->observer.sample && texts[0] && texts[1])
        self->config->observer.sample(self->config->observer.context, stage, batch, texts[0], texts[1], score);
    free(texts[0]);
    free(texts[1]);
    return 0;
}

static int
s_on_log(director_t *self, verl_reader_t *reader, verl_error_t *error)
{
    char stage[256], text[1100];
    if (verl_read_cstr(reader, stage, sizeof stage) || verl_read_cstr(reader, text, sizeof text))
        return verl_error_set(error, "a line of log is malformed");
    s_log(self, "log", json_pack("{s:s, s:s}", "stage", stage, "text", text));
    if (self->config->observer.log)
        self->config->observer.log(self->config->observer.context, text);
    return 0;
}

static int
s_on_saved(director_t *self, party_t *party, verl_reader_t *reader, verl_error_t *error)
{
    int64_t step;
    if (verl_read_int(reader, &step) || step <= party->saved)
        return verl_error_set(error, "a report of a checkpoint is malformed");
    party->saved = step;
    if (!s_all_saved(self, step))
        return 0;
    s_end_checkpoint(self, step);
    if (self->phase == PHASE_SAVING && step == self->save_step)
        s_stop(self);
    return 0;
}

static int
s_on_word(director_t *self, party_t *party, const char *word, verl_error_t *error)
{
    if (strcmp(word, "hello") == 0) {
        party->hello = true;
        s_order_table(self, party);
        for (int i = 0; s_all(self, false) && i < self->parties_count; i++)
            s_order_peers(self, &self->parties[i]);
    } else if (strcmp(word, "wired") == 0) {
        party->wired = true;
        if (s_all(self, true) && self->phase == PHASE_STARTING) {
            self->phase = PHASE_RUNNING;
            self->started_at = verl_now();
            s_grant(self);
        }
    } else if (strcmp(word, "ready") == 0) {
        char label[300];
        party->ready = true;
        s_log(self, "ready", json_pack("{s:s}", "actor", s_label(self, party->instance, label, sizeof label)));
    } else {
        return verl_error_set(error, "a report says '%s', which is unknown", word);
    }
    return 0;
}

static int
s_on_message(void *context, verl_inbound_t *inbound, const verl_message_t *message, verl_error_t *error)
{
    director_t *self = context;
    party_t *party = verl_inbound_tag(inbound);
    verl_reader_t reader;
    uint32_t fields;
    char word[32];
    verl_inbound_taken(inbound, 1);
    verl_inbound_done(inbound, 1);
    verl_reader_init(&reader, message->body, message->body_size);
    if (verl_read_array(&reader, &fields) || verl_read_cstr(&reader, word, sizeof word))
        return verl_error_set(error, "a report is malformed");
    if (self->phase == PHASE_STOPPING)
        return 0;
    return strcmp(word, "done") == 0     ? s_on_done(self, party, &reader, error)
           : strcmp(word, "failed") == 0 ? s_on_failed(self, party, &reader, error)
           : strcmp(word, "sample") == 0 ? s_on_sample(self, &reader, error)
           : strcmp(word, "log") == 0    ? s_on_log(self, &reader, error)
           : strcmp(word, "saved") == 0  ? s_on_saved(self, party, &reader, error)
                                         : s_on_word(self, party, word, error);
}

static void
s_on_tag(void *context, void *tag)
{
    (void) context;
    (void) tag;
}

static void
s_on_pong(void *context, const verl_message_t *message)
{
    director_t *self = context;
    verl_reader_t reader;
    uint32_t fields;
    int64_t stage, batch, since;
    for (int i = 0; i < self->parties_count; i++) {
        party_t *party = &self->parties[i];
        if (party->instance->incarnation != message->from)
            continue;
        verl_reader_init(&reader, message->body, message->body_size);
        party->answered_at = verl_now();
        if (verl_read_array(&reader, &fields) || verl_read_int(&reader, &stage) || verl_read_int(&reader, &batch) ||
            verl_read_int(&reader, &since) || verl_read_real(&reader, &party->progress) || stage < VERL_TASK_SAVE ||
            stage >= self->plan->stages_count)
            return;
        party->running = (int) stage;
        party->running_batch = batch;
        party->running_since = verl_now() - since;
    }
}

static void
s_on_malformed(void *context, const char *reason)
{
    s_fail(context, "%s", reason);
}

// --- deaths, hangs and signals ------------------------------------------------------------------------------------

static const char *
s_how(const verl_death_t *death, char *text, size_t size)
{
    if (WIFSIGNALED(death->status))
        snprintf(text, size, "was killed by signal %d (SIG%s)", WTERMSIG(death->status),
                 sigabbrev_np(WTERMSIG(death->status)) ? sigabbrev_np(WTERMSIG(death->status)) : "?");
    else
        snprintf(text, size, "ended with exit code %d", WEXITSTATUS(death->status));
    return text;
}

static void
s_reap(director_t *self)
{
    verl_death_t death;
    verl_instance_t *instance;
    while ((instance = verl_node_reap(self->node, &death))) {
        char label[300], how[100], waiters[300];
        s_label(self, instance, label, sizeof label);
        s_how(&death, how, sizeof how);
        s_log(self, "ended", json_pack("{s:s, s:s, s:I}", "actor", label, "how", how, "peak_kb",
                                       (json_int_t) death.peak_kb));
        if (self->phase == PHASE_STOPPING)
            continue;
        s_waiters(self, instance->actor, waiters, sizeof waiters);
        if (instance->thread)
            s_fail(self, "actor `%s` could not go on: %s", label, death.tail);
        else
            s_fail(self, "actor `%s` %s%s; most memory %ld MB; %s%s", label, how, waiters, death.peak_kb / 1024,
                   death.tail[0] ? "its last words: " : "it wrote nothing to ",
                   death.tail[0] ? death.tail : death.log);
    }
}

// Often where somebody looks, or where a short limit has to be kept.
static int64_t
s_ping_every(const director_t *self, const verl_plan_actor_t *actor)
{
    double limit = actor->liveness > 0 && (actor->timeout <= 0 || actor->liveness < actor->timeout) ? actor->liveness
                                                                                                    : actor->timeout;
    int64_t every = self->config->watched ? WATCHED_NS : PING_NS;
    if (limit > 0 && (int64_t) (limit * 1e9 / 4) < every)
        every = (int64_t) (limit * 1e9 / 4);
    return every < 20 * VERL_MS ? 20 * VERL_MS : every;
}

// A process that does not even say hello.
static void
s_check_begin(director_t *self, const party_t *party, int64_t now)
{
    const verl_plan_actor_t *actor = &self->plan->actors[party->instance->actor];
    double limit = (double) (HELLO_NS + CROWD_NS * self->parties_count) / 1e9;
    char label[300];
    limit = actor->liveness > limit ? actor->liveness : limit;
    if (actor->liveness > 0 && (double) (now - party->begun_at) / 1e9 > limit)
        s_fail(self, "actor `%s` does not begin: its process %d has said nothing for %.0f s",
               s_label(self, party->instance, label, sizeof label), (int) party->instance->pid, limit);
}

// What an actor does takes too long.
static void
s_check_timeout(director_t *self, const party_t *party, int64_t now, const char *label, const char *waiters)
{
    bool stage = party->running >= 0;
    double limit = stage ? self->plan->stages[party->running].timeout
                         : self->plan->actors[party->instance->actor].timeout;
    if (limit <= 0 || party->running == VERL_TASK_NONE)
        return;
    limit = !stage && limit < LOADING_S ? LOADING_S : limit;
    double since = (double) (now - party->running_since) / 1e9;
    if (since > limit && stage)
        s_fail(self, "stage `%s` of `%s` has worked on batch %" PRId64 " for more than %.0f s (timeout)%s",
               self->plan->stages[party->running].name, label, party->running_batch, limit, waiters);
    else if (since > limit && party->running == VERL_TASK_SAVE)
        s_fail(self, "actor `%s` has been writing the checkpoint step-%" PRId64 " for more than %.0f s (timeout)%s",
               label, party->running_batch, limit, waiters);
    else if (since > limit)
        s_fail(self, "actor `%s` has been preparing for more than %.0f s (timeout)%s", label, limit, waiters);
}

static void
s_check_party(director_t *self, party_t *party, int64_t now)
{
    const verl_plan_actor_t *actor = &self->plan->actors[party->instance->actor];
    char label[300], waiters[300];
    if (!party->instance->alive)
        return;
    if (!party->hello) {
        s_check_begin(self, party, now);
        return;
    }
    int64_t every = s_ping_every(self, actor);
    if (party->pinged_at <= party->answered_at && now - party->pinged_at >= every) {
        party->pinged_at = now;
        verl_endpoint_ping(self->endpoint, party->instance->incarnation, now);
        return;
    }
    s_waiters(self, party->instance->actor, waiters, sizeof waiters);
    s_label(self, party->instance, label, sizeof label);
    if (actor->liveness > 0 && party->pinged_at > party->answered_at &&
        (double) (now - party->pinged_at) / 1e9 > actor->liveness)
        s_fail(self, "actor `%s` does not answer: its mailbox has been silent for %.0f s (liveness)%s", label,
               actor->liveness, waiters);
    else
        s_check_timeout(self, party, now, label, waiters);
}

static void
s_check_parties(director_t *self)
{
    int64_t now = verl_now();
    bool slept = self->stepped_at && now - self->stepped_at > IDLE_MS * VERL_MS + VERL_S;
    for (int i = 0; i < self->parties_count && self->phase != PHASE_STOPPING; i++) {
        if (slept)                          // this process was stopped or starved: nobody else is to blame
            self->parties[i].begun_at = self->parties[i].pinged_at = self->parties[i].answered_at = now;
        s_check_party(self, &self->parties[i], now);
    }
    self->stepped_at = now;
}

static void
s_on_signal(director_t *self)
{
    struct signalfd_siginfo info;
    while (read(self->config->signal_fd, &info, sizeof info) == sizeof info) {
        s_log(self, "signal", json_pack("{s:i}", "signal", (int) info.ssi_signo));
        bool second = self->interrupted;
        self->interrupted = true;
        if (second || self->phase == PHASE_STARTING) {
            self->halted = true;
            s_stop(self);
            verl_node_kill(self->node);
            continue;
        }
        self->draining = true;
        self->drain_until = verl_now() + (int64_t) (self->plan->drain_timeout * 1e9);
        if (self->config->observer.log)
            self->config->observer.log(self->config->observer.context,
                                       "interrupted: finishing the batches under way, then saving; once more stops now");
        s_advance(self);
    }
}

// --- views --------------------------------------------------------------------------------------------------------

static void
s_view_stage(const director_t *self, int index, verl_stage_view_t *view)
{
    const verl_plan_stage_t *stage = &self->plan->stages[index];
    int64_t steps = self->plan->steps, fed = verl_ledger_granted(self->ledger) + 1, now = verl_now();
    bool ready = true;
    *view = (verl_stage_view_t) { .name = stage->name, .batch = verl_ledger_stage_last(self->ledger, index),
                                  .done = verl_ledger_stage_done(self->ledger, index), .state = "waiting" };
    view->total = verl_span_ordinal(&stage->span, steps, steps) + stage->span.closing;
    fed = verl_span_ordinal(&stage->span, steps, fed);
    for (int i = 0; i < stage->in_count; i++) {
        const verl_plan_edge_t *edge = &self->plan->edges[stage->in_edges[i]];
        int64_t last = verl_ledger_stage_last(self->ledger, edge->maker);
        int64_t made = verl_span_ordinal(&stage->span, steps, last + 1);
        if (!edge->weights && made < fed)
            fed = made;
    }
    view->queue = fed > view->done ? fed - view->done : 0;
    for (int i = 0; i < self->parties_count; i++) {
        const party_t *party = &self->parties[i];
        if (party->instance->actor != stage->actor)
            continue;
        ready &= party->ready;
        if (party->running == index) {
            view->state = "running";
            view->batch = party->running_batch;
            view->age = (double) (now - party->running_since) / 1e9;
            view->progress = party->progress;
        }
    }
    if (!ready)
        view->state = self->phase == PHASE_STARTING ? "starting" : "preparing";
    else if (view->done == view->total)
        view->state = "done";
}

static void
s_view(director_t *self, bool now)
{
    if (!self->config->observer.view || (!now && verl_now() - self->viewed_at < WATCHED_NS))
        return;
    verl_stage_view_t *stages = calloc((size_t) self->plan->stages_count, sizeof *stages);
    if (!stages)
        return;
    self->viewed_at = verl_now();
    for (int i = 0; i < self->plan->stages_count; i++)
        s_view_stage(self, i, &stages[i]);
    verl_run_view_t view = { .stages_count = self->plan->stages_count, .stages = stages,
                             .done = verl_ledger_done(self->ledger), .total = verl_plan_last(self->plan) + 1,
                             .seconds = self->started_at ? (double) (verl_now() - self->started_at) / 1e9 : 0 };
    self->config->observer.view(self->config->observer.context, &view);
    free(stages);
}

// --- the run ------------------------------------------------------------------------------------------------------

static int
s_open(director_t *self, verl_error_t *error)
{
    static const verl_endpoint_handlers_t handlers = { .message = s_on_message, .done = s_on_tag,
                                                       .pong = s_on_pong, .malformed = s_on_malformed };
    char address[VERL_ADDRESS_BYTES];
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return verl_error_errno(error, "cannot get a random name for the run");
    snprintf(self->run_id, sizeof self->run_id, "%016" PRIx64, random[0]);
    self->record = verl_record_new(self->config->run_directory, error);
    self->ledger = verl_ledger_new(self->plan);
    self->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    self->zmq = zmq_ctx_new();
    if (!self->record || !self->ledger || self->epoll_fd < 0 || !self->zmq)
        return verl_error_set(error, "out of memory");
    zmq_ctx_set(self->zmq, ZMQ_MAX_SOCKETS, 16384);
    struct epoll_event event = { .events = EPOLLIN };
    if (self->config->signal_fd >= 0 && epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, self->config->signal_fd, &event))
        return verl_error_errno(error, "cannot watch for signals");
    verl_address(address, self->run_id, VERL_DIRECTOR);
    self->endpoint = verl_endpoint_new(self->zmq, VERL_DIRECTOR, address, &handlers, self, error);
    self->node = verl_node_new(self->plan, self->run_id, self->config->run_directory, self->config->actor_program,
                               self->zmq, self->epoll_fd, error);
    return self->endpoint && self->node ? 0 : -1;
}

static int
s_start_party(director_t *self, party_t *party, int actor, int64_t replica, verl_error_t *error)
{
    char address[VERL_ADDRESS_BYTES];
    uint64_t incarnation = VERL_DIRECTOR + 1 + (uint64_t) self->parties_count;
    verl_address(address, self->run_id, incarnation);
    *party = (party_t) { .running = VERL_TASK_NONE };
    // Channels before the process: its first word may come at any moment after.
    if (verl_endpoint_connect(self->endpoint, incarnation, address, error) ||
        !(party->control = verl_outbound_open(self->endpoint, incarnation, VERL_EDGE_CONTROL, CONTROL_WINDOW)) ||
        !verl_inbound_open(self->endpoint, incarnation, VERL_EDGE_REPORT, CONTROL_WINDOW, party))
        return verl_error_set(error, "out of memory");
    party->instance = verl_node_start(self->node, actor, replica, incarnation, error);
    if (!party->instance)
        return -1;
    party->instance->tag = party;
    party->begun_at = verl_now();
    self->hurried |= s_ping_every(self, &self->plan->actors[actor]) < PING_NS / 2;
    self->parties_count++;
    char label[300];
    s_log(self, "started", json_pack("{s:s, s:i}", "actor", s_label(self, party->instance, label, sizeof label),
                                     "pid", (int) party->instance->pid));
    return 0;
}

static int
s_start(director_t *self, verl_error_t *error)
{
    int64_t count = 0;
    for (int i = 0; i < self->plan->actors_count; i++)
        count += self->plan->actors[i].replicas;
    self->parties = calloc((size_t) count, sizeof *self->parties);
    self->spent = calloc((size_t) (count * self->plan->stages_count), sizeof *self->spent);
    if (!self->parties || !self->spent)
        return verl_error_set(error, "out of memory");
    for (int i = 0; i < self->plan->actors_count; i++)
        for (int64_t j = 0; j < self->plan->actors[i].replicas; j++)
            if (s_start_party(self, &self->parties[self->parties_count], i, j, error))
                return -1;
    return 0;
}

// One turn: what came, what died, what is due.
static void
s_turn(director_t *self)
{
    int64_t now = verl_now();
    bool event = verl_endpoint_step(self->endpoint, self->epoll_fd, self->phase == PHASE_STOPPING ? 20
                                    : self->config->watched || self->hurried || self->draining ? 50 : IDLE_MS);
    verl_endpoint_acknowledge(self->endpoint, false);
    if (event && self->config->signal_fd >= 0)
        s_on_signal(self);
    s_reap(self);
    s_check_parties(self);
    s_view(self, false);
    if (self->error.text[0])
        s_stop(self);
    if (self->draining && self->phase != PHASE_STOPPING && now > self->drain_until)
        s_fail(self, "the batches under way were not finished within %.0f s (drain_timeout)",
               self->plan->drain_timeout);
    if (self->phase == PHASE_STOPPING && now - self->stopping_at > GRACE_NS)
        verl_node_kill(self->node);
}

// What of the time between start and end a stage spent how; its replicas together.
static void
s_times(director_t *self, int index, verl_stage_times_t *times)
{
    int64_t sum[6] = { 0 }, all = 0;
    for (int i = 0; i < self->parties_count; i++)
        for (int j = 0; j < 6; j++)
            sum[j] += self->spent[i + index * self->parties_count].ns[j];
    for (int j = 0; j < 6; j++)
        all += sum[j];
    double whole = all > 0 ? (double) all : 1;
    *times = (verl_stage_times_t) {
        .name = self->plan->stages[index].name, .batches = verl_ledger_stage_done(self->ledger, index),
        .busy = (double) sum[0] / whole, .waiting_data = (double) (sum[1] + sum[5]) / whole,
        .waiting_weights = (double) sum[2] / whole, .blocked = (double) sum[3] / whole,
        .waiting_worker = (double) sum[4] / whole, .busy_seconds = (double) sum[0] / 1e9,
        .handoff_us = verl_ledger_handoff(self->ledger, index),
    };
}

static void
s_close(director_t *self)
{
    bool hung = self->node && verl_node_alive(self->node) > 0;
    verl_node_destroy(&self->node);
    verl_endpoint_destroy(&self->endpoint);
    if (self->zmq && !hung)                 // sockets of a thread that never returned would hold it for ever
        zmq_ctx_term(self->zmq);
    if (self->epoll_fd >= 0)
        close(self->epoll_fd);
    verl_ledger_destroy(&self->ledger);
    if (self->record && self->started_at)
        verl_record_drop_checkpoints(self->record);
    verl_record_destroy(&self->record);
    free(self->parties);
    free(self->spent);
}

static void
s_sum_up(director_t *self)
{
    verl_run_result_t *result = self->result;
    result->interrupted = self->interrupted;
    result->done = verl_ledger_done(self->ledger);
    result->seconds = self->started_at ? (double) (verl_now() - self->started_at) / 1e9 : 0;
    result->times = calloc((size_t) self->plan->stages_count, sizeof *result->times);
    for (int i = 0; result->times && i < self->plan->stages_count; i++)
        s_times(self, i, &result->times[result->stages_count++]);
    s_log(self, "ended", json_pack("{s:I, s:b, s:s}", "done", (json_int_t) result->done, "interrupted",
                                   result->interrupted, "error", self->error.text));
}

int
verl_director_run(const verl_run_config_t *config, verl_run_result_t *ret_result, verl_error_t *error)
{
    director_t self = { .config = config, .plan = config->plan, .epoll_fd = -1, .save_step = -1,
                        .result = ret_result };
    *ret_result = (verl_run_result_t) { 0 };
    int failed = s_open(&self, error) || s_start(&self, error);
    if (!failed) {
        while (self.phase != PHASE_STOPPING || verl_node_alive(self.node) > 0) {
            s_turn(&self);
            if (self.phase == PHASE_STOPPING && verl_now() - self.stopping_at > 3 * GRACE_NS)
                break;                      // a thread whose handler never returns
        }
        s_view(&self, true);
        s_sum_up(&self);
    }
    s_close(&self);
    if (self.halted)
        return verl_error_set(error, "stopped at once, as asked");
    return failed ? -1 : self.error.text[0] ? verl_error_set(error, "%s", self.error.text) : 0;
}

void
verl_run_result_done(verl_run_result_t *result)
{
    free(result->times);
    result->times = NULL;
}
