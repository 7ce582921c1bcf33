// director.c: see director.h. One loop on one thread: messages, deaths, signals, requests, the clock. A run is one life or
// several: a lost actor that kept state ends a life, and the next goes on from the last checkpoint.
#include "runtime/director/director_impl.h"
#include <signal.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <zmq.h>

#define GRACE_NS (1 * VERL_S)               // for actors to end by themselves

// --- the endpoint's handlers --------------------------------------------------------------------------------------

static int
s_on_message(void *context, verl_inbound_t *inbound, const verl_message_t *message, verl_error_t *error)
{
    party_t *party = verl_inbound_tag(inbound);
    char label[300];
    verl_error_t wrong = { "" };
    verl_inbound_taken(inbound, 1);
    verl_inbound_done(inbound, 1);
    if (verl_hear(context, party, message, &wrong) == 0)
        return 0;
    return verl_error_set(error, "`%s` reports what it may not: %s", verl_party_label(party, label, sizeof label),
                          wrong.text);
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
    verl_hear_pong(context, message);
}

static void
s_on_malformed(void *context, const char *reason)
{
    verl_director_fail(context, "%s", reason);
}

static void
s_on_trace(void *context, const verl_message_t *message)
{
    const director_t *self = context;
    char label[300] = "?";
    if (!verl_tap_on(self->tap))
        return;
    for (const party_t *party = self->parties; party; party = party->next)
        if (party->incarnation == message->to)
            verl_party_label(party, label, sizeof label);
    verl_tap_event_t event = { .kind = verl_trace_kind_of_message(message, true), .message = message,
                               .from = VERL_TRACE_DIRECTOR, .to = label };
    verl_tap_message(self->tap, &event);
}

static int
s_send_trace(void *context, const verl_buffer_t *body, void *only)
{
    director_t *self = context;
    int count = 0;
    for (party_t *party = self->parties; party; party = party->next) {
        verl_buffer_t copy = { 0 };
        if ((only && party != only) || !party->hello || party->dead || party->leaving)
            continue;
        verl_buffer_append(&copy, body->data, body->size);
        verl_order(self, party, 0, &copy);
        count++;
    }
    verl_reader_t reader;
    uint32_t fields;
    char word[32];
    verl_reader_init(&reader, body->data, body->size);
    if (!only && verl_read_array(&reader, &fields) == 0 && verl_read_cstr(&reader, word, sizeof word) == 0 &&
        verl_tap_order(self->tap, word, &reader, NULL) == 0)
        count++;
    return count;
}

static void
s_on_signal(director_t *self)
{
    struct signalfd_siginfo info;
    while (read(self->config->signal_fd, &info, sizeof info) == sizeof info) {
        verl_event(self, "signal", json_pack("{s:i}", "signal", (int) info.ssi_signo));
        bool second = self->interrupted;
        self->interrupted = true;
        if (second || self->phase == PHASE_STARTING) {
            self->halted |= !self->error.text[0];   // else it had failed before
            verl_stop(self);
            verl_node_kill(self->node);
            continue;
        }
        self->draining = true;
        verl_resume_all(self);
        self->drain_until = verl_now() + (int64_t) (verl_revision_newest(self)->plan->drain_timeout * 1e9);
        if (self->config->observer.log)
            self->config->observer.log(self->config->observer.context,
                                       "interrupted: finishing the batches under way, then saving; once more stops now");
        verl_advance(self);
    }
}

// --- a life -------------------------------------------------------------------------------------------------------

static int
s_open_sockets(director_t *self, verl_error_t *error)
{
    static const verl_endpoint_handlers_t handlers = { .message = s_on_message, .done = s_on_tag, .pong = s_on_pong,
                                                       .malformed = s_on_malformed, .trace = s_on_trace };
    char address[VERL_ADDRESS_BYTES];
    struct epoll_event event = { .events = EPOLLIN };
    zmq_ctx_set(self->zmq, ZMQ_MAX_SOCKETS, 16384);
    if (self->config->signal_fd >= 0 && epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, self->config->signal_fd, &event))
        return verl_error_errno(error, "cannot watch for signals");
    self->tap = verl_tap_new(self->zmq, VERL_TRACE_DIRECTOR, error);
    self->traces = self->tap ? verl_traces_new(self->epoll_fd, s_send_trace, self, error) : NULL;
    if (!self->traces)
        return -1;
    verl_address(address, self->run_id, VERL_DIRECTOR);
    self->endpoint = verl_endpoint_new(self->zmq, VERL_DIRECTOR, address, &handlers, self, error);
    self->node = verl_node_new(self->run_id, self->config->run_directory, self->config->actor_program, self->zmq,
                               self->epoll_fd, error);
    self->control = verl_control_new(self->zmq, self->run_id, self->config->run_directory, self->epoll_fd,
                                     verl_on_request, self, error);
    return self->endpoint && self->node && self->control ? 0 : -1;
}

static int
s_open(director_t *self, verl_error_t *error)
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return verl_error_errno(error, "cannot get a random name for the run");
    snprintf(self->run_id, sizeof self->run_id, "%016" PRIx64, random[0]);
    self->record = verl_record_new(self->config->run_directory, error);
    if (!self->record)
        return -1;
    self->ledger = verl_ledger_new(self->first);
    self->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    self->zmq = zmq_ctx_new();
    if (!self->ledger || self->epoll_fd < 0 || !self->zmq)
        return verl_error_set(error, "out of memory");
    return s_open_sockets(self, error);
}

// The state that an actor goes on from. A program may have kept none; of our own kinds only who was lost then.
static void
s_give_state(director_t *self, party_t *party, const verl_plan_actor_t *actor, const verl_resume_t *from)
{
    char path[4600];
    snprintf(path, sizeof path, "%s/%s", from->checkpoint, party->name);
    if (verl_resume_has(from, party->name)) {
        if (!(party->restore = strdup(path)))
            verl_error_set(&self->error, "out of memory");
    } else if (from->step > 0 && party->replica == 0 && actor->kind && actor->kind->snapshot &&
               !actor->kind->external)
        verl_say(self, "actor `%s` had been lost when the checkpoint of step %" PRId64 " was made: it begins anew",
                 party->name, from->step);
}

static int
s_start(director_t *self, const verl_resume_t *from, verl_error_t *error)
{
    verl_plan_t *plan = from->plan;
    revision_t *revision = verl_revision_new(self, plan, false, error);
    if (!revision || verl_record_cut(self->record, self->first, error))
        return -1;
    verl_record_drop_unfinished(self->record);  // of a life that was killed
    revision->cut = from->cut;
    verl_ledger_own(self->ledger, from->owners);
    if (verl_bases_read(revision, from->base, error))
        return -1;
    for (int i = 0; i < revision->slots_count; i++) {
        slot_t *slot = &revision->slots[i];
        slot->party = verl_party_start(self, &plan->actors[slot->actor], slot->replica, error);
        if (!slot->party)
            return -1;
        s_give_state(self, slot->party, &plan->actors[slot->actor], from);
    }
    return verl_resume_changes(self, from, error);
}

// Milliseconds that may go by without a look at what no event tells of.
static int
s_patience(const director_t *self)
{
    if (self->phase == PHASE_STOPPING)
        return 20;
    if (self->config->watched || self->draining || self->changes || self->restarts)
        return 50;
    int most = verl_asked_lately(self) ? (int) (VERL_WATCHED_NS / VERL_MS) : self->holds ? 1000 : VERL_IDLE_MS;
    return self->pace / VERL_MS < 50 ? 50 : self->pace / VERL_MS < most ? (int) (self->pace / VERL_MS) : most;
}

static void
s_end_drain(director_t *self)
{
    char work[800];
    verl_director_fail(self, "the batches under way were not finished within %.0f s (drain_timeout)%s",
                       verl_revision_newest(self)->plan->drain_timeout, verl_under_way(self, work, sizeof work));
}

// One turn: what came, what died, what is due.
static void
s_turn(director_t *self)
{
    int64_t now = verl_now();
    bool event = verl_endpoint_step(self->endpoint, self->epoll_fd, s_patience(self));
    verl_endpoint_acknowledge(self->endpoint, false);
    if (event && self->config->signal_fd >= 0)
        s_on_signal(self);
    verl_requests_step(self);
    verl_reap(self);
    verl_restarts_step(self);
    verl_changes_step(self);
    verl_settle(self);
    verl_advance(self);
    verl_bury(self);
    verl_check_parties(self);
    verl_view(self, false);
    if (self->error.text[0])
        verl_stop(self);
    if (self->draining && self->phase == PHASE_RUNNING && now > self->drain_until)
        s_end_drain(self);
    if (self->phase == PHASE_STOPPING && now - self->stopping_at > GRACE_NS)
        verl_node_kill(self->node);
}

static void
s_free_lists(director_t *self)
{
    while (self->parties)
        verl_party_free(self, self->parties);
    while (self->revisions) {
        verl_keep_times(self, self->revisions);
        verl_revision_free(self, self->revisions);
    }
    while (self->restarts) {
        restart_t *restart = self->restarts;
        self->restarts = restart->next;
        free(restart->name);
        free(restart);
    }
    verl_changes_free(self);
    verl_requests_free(self);
}

static void
s_close(director_t *self)
{
    bool hung = self->node && verl_node_alive(self->node) > 0;
    for (party_t *party = self->parties; party; party = party->next)
        party->instance = NULL;             // the node's, which ends with all of them
    verl_node_destroy(&self->node);
    verl_ledger_destroy(&self->ledger);     // its records are by the plans of revisions
    if (self->endpoint)
        s_free_lists(self);
    verl_endpoint_destroy(&self->endpoint);
    if (self->control)
        verl_control_destroy(&self->control);
    verl_traces_destroy(&self->traces);
    verl_tap_destroy(&self->tap);
    if (self->zmq && !hung)                 // sockets of a thread that never returned would hold it for ever
        zmq_ctx_term(self->zmq);
    if (self->epoll_fd >= 0)
        close(self->epoll_fd);
    self->zmq = NULL;
    self->epoll_fd = -1;
    if (self->record && self->started_at)
        verl_record_drop_unfinished(self->record);
    verl_record_destroy(&self->record);
}

// The plan that was in force last outlives its revision.
static void
s_keep_plan(verl_run_result_t *result, revision_t *newest)
{
    result->revision = newest ? newest->plan->revision : 0;
    if (!newest || !newest->owned)
        return;
    result->plan = newest->plan;
    newest->owned = false;
}

static void
s_sum_up(director_t *self)
{
    verl_run_result_t *result = self->result;
    const char **names;
    int count = verl_stage_names(self, &names);
    verl_run_result_done(result);
    result->stages_count = 0;
    result->interrupted = self->interrupted && (self->halted || !self->error.text[0]);
    result->done = verl_ledger_done(self->ledger);
    s_keep_plan(result, verl_revision_newest(self));
    result->skipped = self->skipped_count;
    result->seconds = self->started_at ? (double) (verl_now() - self->started_at) / 1e9 : 0;
    result->times = calloc((size_t) count + 1, sizeof *result->times);
    for (int i = 0; result->times && i < count; i++)
        verl_times(self, names[i], &result->times[result->stages_count++]);
    free(names);
    json_t *profile = verl_profile(self);
    if (profile)
        verl_event(self, "profile", profile);
    verl_event(self, "ended", json_pack("{s:I, s:b, s:o}", "done", (json_int_t) result->done, "interrupted",
                                        result->interrupted, "error", verl_json_text(self->error.text)));
}

// From `from` on, until the run ends or has to go back. Returns -1 where it could not even begin.
static int
s_live(director_t *self, const verl_resume_t *from, verl_error_t *error)
{
    self->phase = PHASE_STARTING;
    self->first = from->step;
    self->checkpointed = from->step;
    while (self->skipped_count > 0 && self->skipped[self->skipped_count - 1] >= self->first)
        self->skipped_count--;              // is done again
    self->save_step = -1;
    self->numbers = from->numbers > self->numbers ? from->numbers : self->numbers;
    self->rollback = false;
    self->script_ready = !self->config->script || self->script_over;     // in each life: it has to hold its permits again
    int failed = s_open(self, error) || s_start(self, from, error);
    if (!failed) {
        // A log begins once: what came into force in a former life is made again.
        verl_event(self, self->first || self->config->resume || self->lives++ > 0 ? "resumed" : "begun",
                   json_pack("{s:I, s:I}", "from", (json_int_t) self->first, "revision",
                             (json_int_t) from->plan->revision));
        while (self->phase != PHASE_STOPPING || verl_node_alive(self->node) > 0) {
            s_turn(self);
            if (self->phase == PHASE_STOPPING && verl_now() - self->stopping_at > 3 * GRACE_NS)
                break;                      // a thread whose handler never returns
        }
        if (!self->rollback)
            verl_view(self, true);
        s_sum_up(self);
        for (const revision_t *revision = self->revisions; revision; revision = revision->next)
            verl_keep_times(self, revision);
    }
    s_close(self);
    return failed;
}

static void
s_forget(director_t *self)
{
    free(self->skipped);
    self->skipped = NULL;
    while (self->spent) {
        spent_t *spent = self->spent;
        self->spent = spent->next;
        free(spent->stage);
        free(spent);
    }
    verl_loads_free(self);
    while (self->crashes) {
        crash_t *crash = self->crashes;
        self->crashes = crash->next;
        free(crash->name);
        free(crash);
    }
}

int
verl_director_run(const verl_run_config_t *config, verl_run_result_t *ret_result, verl_error_t *error)
{
    director_t self = { .config = config, .epoll_fd = -1, .incarnations = VERL_DIRECTOR, .result = ret_result,
                        .script_ready = !config->script };
    verl_resume_t from = { .plan = config->plan, .numbers = config->plan->revision };
    *ret_result = (verl_run_result_t) { 0 };
    int failed = config->resume ? verl_resume_last(config->run_directory, &from, error) : 0;
    self.began = from.step;
    while (!failed) {
        failed = s_live(&self, &from, error);
        if (failed || !self.rollback || self.error.text[0] || self.interrupted)
            break;
        failed = verl_resume_last(config->run_directory, &from, error);
    }
    if (!ret_result->plan) {
        ret_result->plan = from.owned;
        from.owned = NULL;
    }
    verl_resume_done(&from);
    s_forget(&self);
    if (self.halted)
        return verl_error_set(error, self.started_at ? "stopped at once, as asked"
                                                     : "interrupted before any batch began");
    return failed ? -1 : self.error.text[0] ? verl_error_set(error, "%s", self.error.text) : 0;
}

void
verl_run_result_done(verl_run_result_t *result)
{
    free(result->times);
    result->times = NULL;
    verl_plan_destroy(&result->plan);
}
