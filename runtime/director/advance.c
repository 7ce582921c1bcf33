// advance.c: what actors report, and what follows: batches that are done, lines of metrics, permits, the end.
#include "runtime/director/director_impl.h"

// The batch that was taken last.
static void
s_note_skipped(director_t *self)
{
    int64_t *grown = realloc(self->skipped, (size_t) (self->skipped_count + 1) * sizeof *grown);
    if (!grown)
        return;                             // without memory the closing paragraph counts one less
    self->skipped = grown;
    self->skipped[self->skipped_count++] = verl_ledger_done(self->ledger) - 1;
}

static void
s_write_steps(director_t *self)
{
    json_t *line;
    verl_error_t error = { "" };
    bool skipped;
    while ((line = verl_ledger_take(self->ledger, &skipped))) {
        if (skipped)
            s_note_skipped(self);
        int failed = verl_record_metrics(self->record, line, &error);
        if (self->config->observer.step)
            self->config->observer.step(self->config->observer.context, line);
        verl_tell_step(self, line);
        json_decref(line);
        if (failed) {
            verl_director_fail(self, "%s", error.text);
            return;
        }
    }
}

void
verl_advance(director_t *self)
{
    verl_end_saving(self);
    if (self->phase != PHASE_RUNNING)
        return;
    s_write_steps(self);
    if (self->phase != PHASE_RUNNING)
        return;
    verl_end_checkpoints(self);
    verl_grant(self);
    verl_retire(self);
    bool drained = self->draining && verl_ledger_done(self->ledger) > verl_ledger_granted(self->ledger);
    if (drained || verl_ledger_done(self->ledger) > verl_plan_last(verl_revision_newest(self)->plan))
        verl_finish(self);
}

// --- reports ------------------------------------------------------------------------------------------------------

#define TIMES_MOST (INT64_C(1) << 56)       // ns, or bytes: sums of what actors say stay in range

static int
s_read_times(verl_reader_t *reader, times_t *times)
{
    uint32_t count;
    *times = (times_t) { .batches = 1 };
    if (verl_read_array(reader, &count) || count < VERL_TIMES_LEAST || count > VERL_TIMES)
        return -1;
    for (uint32_t i = 0; i < count; i++)
        if (verl_read_int(reader, &times->ns[i]) || times->ns[i] < 0 || times->ns[i] > TIMES_MOST)
            return -1;
    return 0;
}

// Where an actor of a revision is, or who follows it there.
static slot_t *
s_place(const revision_t *revision, int actor, int64_t replica)
{
    for (int i = 0; i < revision->slots_count; i++)
        if (revision->slots[i].actor == actor && revision->slots[i].replica == replica)
            return &revision->slots[i];
    return NULL;
}

// The last words of one that was replaced say where its successor begins; behind that, the successor does it again.
static int
s_on_done(director_t *self, party_t *party, int64_t number, verl_reader_t *reader, verl_error_t *error)
{
    int64_t stage, batch, busy, handoff, version;
    bool skipped;
    times_t times;
    const revision_t *revision = verl_revision_find(self, number);
    if (verl_read_int(reader, &stage) || verl_read_int(reader, &batch) || verl_read_bool(reader, &skipped) ||
        verl_read_int(reader, &busy) || verl_read_int(reader, &handoff) || verl_read_int(reader, &version) ||
        busy < 0 || s_read_times(reader, &times) || stage < 0 || (revision && stage >= revision->plan->stages_count))
        return verl_error_set(error, "a report is malformed");
    if (!revision)
        return 0;                           // of a revision that is over: some actor did a batch again
    const verl_plan_t *plan = revision->plan;
    if (strcmp(plan->actors[plan->stages[stage].actor].name, party->name) != 0)
        return verl_error_set(error, "actor %s reports for stage %s, which is not its own", party->name,
                              plan->stages[stage].name);
    slot_t *slot = s_place(revision, plan->stages[stage].actor, party->replica);
    bool followed = slot && slot->party && slot->party != party;
    if (followed && slot->begun)
        return 0;
    if (verl_ledger_enter(self->ledger, plan, (int) stage, batch, skipped, busy, handoff, reader, error))
        return -1;
    if (slot && slot->party == party) {
        times.batches += slot->times[stage].batches;
        slot->times[stage] = times;
    }
    if (slot)
        slot->through[stage] = batch > slot->through[stage] ? batch : slot->through[stage];
    verl_advance(self);
    return 0;
}

// "read back its state", and what helps where that is a checkpoint's: another will fail in the same way.
static const char *
s_restored(const party_t *party, char *text, size_t size)
{
    const char *end = party->restore ? strrchr(party->restore, '/') : NULL, *folder = end;
    while (folder && folder > party->restore && folder[-1] != '/')
        folder--;
    if (folder && strncmp(folder, "step-", 5) == 0)
        snprintf(text, size, "read back its state; without %.*s the run would go on from an earlier step",
                 (int) (end - party->restore), party->restore);
    else
        snprintf(text, size, "read back its state");
    return text;
}

static int
s_on_failed(director_t *self, party_t *party, int64_t number, verl_reader_t *reader, verl_error_t *error)
{
    int64_t stage, batch;
    char text[1024], label[300], why[2600], restored[1200];
    if (verl_read_int(reader, &stage) || verl_read_int(reader, &batch) || verl_read_cstr(reader, text, sizeof text) ||
        stage < -1)
        return verl_error_set(error, "a report of a failure is malformed");
    verl_party_label(party, label, sizeof label);
    const char *name = verl_stage_label(self, number, (int) stage);
    if (stage < 0 && batch >= VERL_HANDOVER) {
        snprintf(why, sizeof why, "%s (while `%s` handed over its state)", text, label);
        verl_on_not_handed(self, batch, why);
        return 0;
    }
    if (stage < 0 && batch >= 0)
        snprintf(why, sizeof why, "%s (while `%s` saved the checkpoint step-%" PRId64 ")", text, label, batch);
    else if (stage >= 0 && batch >= 0)
        snprintf(why, sizeof why, "%s (while stage `%s` of `%s` handled batch %" PRId64 ")", text, name, label, batch);
    else
        snprintf(why, sizeof why, "%s (while `%s` %s)", text, label,
                 party->restoring ? s_restored(party, restored, sizeof restored)
                 : party->ready   ? "worked"
                                  : "was being prepared");
    // One that had prepared does not like its new stages, and goes on as it was: only their change ends.
    bool well = stage >= 0 && party->ready;
    if (!verl_changes_failed(self, number, why) || !well)
        verl_lost(self, party, why);        // who was new with the change is leaving already
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
    verl_event(self, "log", json_pack("{s:o, s:o}", "stage", verl_json_text(stage), "text", verl_json_text(text)));
    if (self->config->observer.log)
        self->config->observer.log(self->config->observer.context, text);
    return 0;
}

static int
s_on_loaded(director_t *self, verl_reader_t *reader, verl_error_t *error)
{
    char stage[256], what[256];
    int64_t batch;
    double seconds;
    if (verl_read_cstr(reader, stage, sizeof stage) || verl_read_int(reader, &batch) ||
        verl_read_cstr(reader, what, sizeof what) || verl_read_real(reader, &seconds) || !(seconds >= 0 && seconds < 1e9))
        return verl_error_set(error, "a report of something loaded is malformed");
    verl_loads_add(self, stage, batch, what, seconds);
    return 0;
}

static int
s_on_hello(director_t *self, party_t *party, verl_reader_t *reader, uint32_t fields, verl_error_t *error)
{
    int64_t pid;
    char version[64], key[32];
    uint32_t entries = 0;
    if (verl_read_int(reader, &pid) || verl_read_cstr(reader, version, sizeof version) ||
        (fields > 3 && verl_read_map(reader, &entries)))
        return verl_error_set(error, "a greeting is malformed");
    for (uint32_t i = 0; i < entries; i++)
        if (verl_read_cstr(reader, key, sizeof key) ||
            (strcmp(key, "holds_lock") == 0 ? verl_read_bool(reader, &party->holds_lock) : verl_read_skip(reader)))
            return verl_error_set(error, "a greeting is malformed");
    party->hello = true;
    verl_traces_welcome(self->traces, party);
    if (party->paused)
        verl_order_number(self, party, 0, "pause", 1);
    return 0;
}

static int
s_on_wired(director_t *self, party_t *party, int64_t number, verl_error_t *error)
{
    const revision_t *revision = verl_revision_find(self, number);
    slot_t *slot = revision ? verl_revision_slot(revision, party) : NULL;
    if (!slot)
        return 0;                           // of a place that it has no more
    if (slot->answered >= slot->sent)
        return verl_error_set(error, "actor %s answers a list of peers that it was not sent", party->name);
    slot->answered++;
    return 0;
}

static void
s_on_ready(director_t *self, party_t *party)
{
    char label[300];
    party->ready = true;
    verl_event(self, "ready", json_pack("{s:s}", "actor", verl_party_label(party, label, sizeof label)));
}

static void
s_on_restored(director_t *self, party_t *party)
{
    char label[300];
    party->restoring = false;
    free(party->restore);
    party->restore = NULL;
    verl_event(self, "restored", json_pack("{s:s}", "actor", verl_party_label(party, label, sizeof label)));
}

// What changes who is where.
static int
s_on_word(director_t *self, party_t *party, const char *word, int64_t revision, uint32_t fields,
          verl_reader_t *reader, verl_error_t *error)
{
    int failed = 0;
    if (strcmp(word, "hello") == 0)
        failed = s_on_hello(self, party, reader, fields, error);
    else if (strcmp(word, "wired") == 0)
        failed = s_on_wired(self, party, revision, error);
    else if (strcmp(word, "ready") == 0)
        s_on_ready(self, party);
    else if (strcmp(word, "restored") == 0)
        s_on_restored(self, party);
    else
        return verl_error_set(error, "a report says '%s', which is unknown", word);
    if (!failed)
        verl_settle(self);
    return failed;
}

static int
s_on_saved_word(director_t *self, party_t *party, verl_reader_t *reader, verl_error_t *error)
{
    int64_t step;
    if (verl_read_int(reader, &step))
        return verl_error_set(error, "a report of a checkpoint is malformed");
    verl_on_saved(self, party, step);
    return 0;
}

int
verl_hear(director_t *self, party_t *party, const verl_message_t *message, verl_error_t *error)
{
    verl_reader_t reader;
    uint32_t fields;
    char word[32];
    verl_reader_init(&reader, message->body, message->body_size);
    if (verl_read_array(&reader, &fields) || verl_read_cstr(&reader, word, sizeof word))
        return verl_error_set(error, "a report is malformed");
    if (self->phase == PHASE_STOPPING)
        return 0;
    return strcmp(word, "done") == 0     ? s_on_done(self, party, message->revision, &reader, error)
           : strcmp(word, "failed") == 0 ? s_on_failed(self, party, message->revision, &reader, error)
           : strcmp(word, "sample") == 0 ? s_on_sample(self, &reader, error)
           : strcmp(word, "log") == 0    ? s_on_log(self, &reader, error)
           : strcmp(word, "loaded") == 0 ? s_on_loaded(self, &reader, error)
           : strcmp(word, "saved") == 0  ? s_on_saved_word(self, party, &reader, error)
                                         : s_on_word(self, party, word, message->revision, fields, &reader, error);
}

void
verl_hear_pong(director_t *self, const verl_message_t *message)
{
    verl_reader_t reader;
    uint32_t fields;
    int64_t stage, batch, since, revision = 0, now = verl_now();
    double progress;
    bool prepared, paused;
    party_t *party = self->parties;
    while (party && party->incarnation != message->from)
        party = party->next;
    if (!party)
        return;
    verl_reader_init(&reader, message->body, message->body_size);
    if (verl_read_array(&reader, &fields) || verl_read_int(&reader, &stage) || verl_read_int(&reader, &batch) ||
        verl_read_int(&reader, &since) || verl_read_real(&reader, &progress) ||
        verl_read_bool(&reader, &prepared) || verl_read_int(&reader, &revision) || verl_read_bool(&reader, &paused) ||
        stage < VERL_TASK_SAVE || stage > INT32_MAX || since < 0 || since > now)
        return;                             // no answer: a mailbox that says nothing else is silent
    party->answered_at = party->told_at = now;
    party->running = (int) stage;
    party->running_revision = revision;
    party->running_batch = batch;
    party->running_since = now - since;
    party->progress = progress >= 1 ? 1 : progress > 0 ? progress : 0;     // what is no number is none
    if (fields > 7)
        verl_hear_seats(party, &reader);
}
