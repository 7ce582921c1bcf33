// changes.c: from a request to a candidate that can come into force (cut.c), or to nothing at all.
//
// One at a time, in order of arrival, each checked against the newest revision at its turn. What is new starts and
// prepares beside what runs; everybody gets the new table; where state is handed over (handover.c), the permit at the
// cut is held until the successor has it. Whatever fails before the cut is logged leaves no trace.
#include "runtime/director/director_impl.h"
#include "runtime/topology/topology.h"

#define SAY_NS VERL_S                       // between two words to who waits

void
verl_change_free(change_t *change)
{
    if (!change)
        return;
    verl_check_drop(&change->check);
    verl_difference_destroy(&change->difference);
    for (int i = 0; i < change->swaps_count; i++)
        free(change->swaps[i]);
    free(change->swaps);
    free(change->text);
    free(change->path);
    free(change);
}

int
verl_change_swaps(change_t *change, const json_t *names)
{
    size_t count = json_array_size(names);
    change->swaps = calloc(count + 1, sizeof *change->swaps);
    for (size_t i = 0; change->swaps && i < count; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (!name || !(change->swaps[change->swaps_count] = strdup(name)))
            return -1;
        change->swaps_count++;
    }
    return change->swaps ? 0 : -1;
}

// The first one is over.
static void
s_next(director_t *self)
{
    change_t *change = self->changes;
    self->changes = change->next;
    verl_change_free(change);
}

void
verl_changes_free(director_t *self)
{
    while (self->changes) {
        if (self->changes->token && self->control)
            verl_control_refuse(self->control, self->changes->token,
                                "the run ended, or went back to its last checkpoint, before the change was in force");
        s_next(self);
    }
    while (self->holds) {
        hold_t *hold = self->holds;
        self->holds = hold->next;
        free(hold);
    }
}

int64_t
verl_held(const director_t *self)
{
    int64_t lowest = self->changes && self->changes->hold >= 0 ? self->changes->hold : INT64_MAX;
    for (const hold_t *hold = self->holds; hold; hold = hold->next)
        lowest = hold->batch < lowest ? hold->batch : lowest;
    return lowest;
}

// --- it does not come to be ---------------------------------------------------------------------------------------

static void __attribute__((format(printf, 3, 4)))
s_refuse(director_t *self, change_t *change, const char *format, ...)
{
    char text[4000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (change->candidate)
        verl_candidate_drop(self, change);
    verl_event(self, "refused", json_pack("{s:o, s:o}", "why", verl_json_text(text), "who",
                                          verl_json_text(change->who)));
    if (change->token)
        verl_control_refuse(self->control, change->token, "%s", text);
    else
        verl_director_fail(self, "a change that the run had before cannot be made again: %s", text);
    s_next(self);
    verl_settle(self);
}

// Only a change that is not in force has it.
static bool
s_brings(const director_t *self, const change_t *change, const party_t *party)
{
    return change && change->candidate && change->candidate->cut < 0 && verl_candidate_is_new(self, change, party);
}

bool
verl_changes_remakes(const director_t *self, const party_t *party)
{
    return s_brings(self, self->changes, party) && !self->changes->token;
}

bool
verl_changes_lost(director_t *self, party_t *party, const char *why)
{
    change_t *change = self->changes;
    if (!s_brings(self, change, party))
        return false;
    s_refuse(self, change, "%s: the change is taken back", why);
    return true;
}

bool
verl_changes_failed(director_t *self, int64_t revision, const char *why)
{
    change_t *change = self->changes;
    if (!change || !change->candidate || change->candidate->plan->revision != revision)
        return false;
    s_refuse(self, change, "%s: the change is taken back", why);
    return true;
}

// --- checking -----------------------------------------------------------------------------------------------------

// Batches go on meanwhile, but not beyond the one that the change is for.
static void
s_begin_check(director_t *self, change_t *change)
{
    verl_error_t error = { "" };
    if (!change->show && change->at > verl_ledger_granted(self->ledger))
        change->hold = change->at;
    change->check = verl_check_begin(verl_revision_newest(self)->plan, change->text, change->path, self->epoll_fd,
                                     &error);
    if (!change->check)
        s_refuse(self, change, "%s", error.text);
}

// All mistakes, a line each.
static void
s_refuse_errors(director_t *self, change_t *change, verl_topology_errors_t *errors)
{
    char text[3800] = "";
    size_t length = 0;
    for (int i = 0; i < errors->count && length < sizeof text; i++)
        length += (size_t) snprintf(text + length, sizeof text - length, "%s%s", i ? "\n" : "", errors->items[i]);
    s_refuse(self, change, "%s", errors->count ? text : "no memory to check the change");
}

// Does a successor get unfinished batches of before the cut?
static bool
s_takes_over(const change_t *change)
{
    bool replaces = false;
    for (int i = 0; i < change->difference->actors_count; i++)
        replaces |= change->difference->actors[i].fate == VERL_FATE_REPLACED;
    return change->now && replaces;
}

// A change that only batches behind the last could follow would be in force for none.
static bool
s_is_too_late(const director_t *self, const change_t *change, int64_t at, char *text, size_t size)
{
    int64_t last = verl_plan_last(change->difference->after);
    if (at <= last && (verl_ledger_granted(self->ledger) < last || s_takes_over(change)))
        return false;
    snprintf(text, size, "the run ends with batch %" PRId64 ", before the change could be in force", last);
    return true;
}

// NULL: nothing speaks against it.
static const char *
s_objection(const director_t *self, const change_t *change, char *text, size_t size)
{
    int64_t granted = verl_ledger_granted(self->ledger);
    if (change->difference->empty)
        return "nothing would change";
    if (self->draining || self->phase == PHASE_SAVING)
        return "the run is ending: it takes no more changes";
    if (change->at >= 0 && change->at <= granted) {
        snprintf(text, size, "batch %" PRId64 " has its permit already: --at %" PRId64 " or later would be right",
                 change->at, granted + 1);
        return text;
    }
    if (s_is_too_late(self, change, change->at, text, size))
        return text;
    return change->now ? verl_objection_to_now(self, change, text, size) : NULL;
}

static void
s_show(director_t *self, change_t *change)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (memory) {
        verl_difference_print(change->difference, memory);
        fclose(memory);
    }
    json_t *answer = json_pack("{s:o, s:s*}", "difference", verl_difference_json(change->difference), "text", text);
    free(text);
    verl_control_answer(self->control, change->token, answer ? answer : json_object(), true);
    s_next(self);
}

// --- preparing ----------------------------------------------------------------------------------------------------

static void
s_prepare(director_t *self, change_t *change, verl_plan_t *plan)
{
    verl_error_t error = { "" };
    char brief[600];
    plan->revision = ++self->numbers;
    change->candidate = verl_revision_new(self, plan, true, &error);
    if (!change->candidate) {
        verl_plan_destroy(&plan);
        s_refuse(self, change, "%s", error.text);
        return;
    }
    verl_difference_brief(change->difference, brief, sizeof brief);
    verl_event(self, "change", json_pack("{s:I, s:o, s:o}", "revision", (json_int_t) plan->revision, "what",
                                         verl_json_text(brief), "who", verl_json_text(change->who)));
    change->hold = change->at;
    change->step = CHANGE_PREPARING;
    if (verl_candidate_people(self, change, &error)) {
        s_refuse(self, change, "%s", error.text);
        return;
    }
    verl_settle(self);
}

static void
s_check(director_t *self, change_t *change)
{
    verl_topology_errors_t errors = { 0 };
    verl_error_t error = { "" };
    char text[300];
    verl_plan_t *plan = verl_check_end(&change->check, &errors);
    if (!plan) {
        s_refuse_errors(self, change, &errors);
        verl_topology_errors_done(&errors);
        return;
    }
    change->difference = verl_difference_new(verl_revision_newest(self)->plan, plan,
                                             (const char *const *) change->swaps, change->swaps_count, &error);
    const char *objection = change->difference ? s_objection(self, change, text, sizeof text) : error.text;
    if (change->difference && change->show) {
        s_show(self, change);
        verl_plan_destroy(&plan);
    } else if (objection) {
        s_refuse(self, change, "%s", objection);
        verl_plan_destroy(&plan);
    } else {
        s_prepare(self, change, plan);
    }
}

// --- getting on ---------------------------------------------------------------------------------------------------

static void
s_commit(director_t *self, change_t *change)
{
    verl_error_t error = { "" };
    json_t *answer = NULL;
    if (s_is_too_late(self, change, -1, error.text, sizeof error.text) ||
        verl_cut(self, change, &answer, &error)) {
        s_refuse(self, change, "%s", error.text);
        return;
    }
    if (change->token)
        verl_control_answer(self->control, change->token, answer ? answer : json_object(), true);
    else
        json_decref(answer);
    change->candidate = NULL;
    s_next(self);
    verl_settle(self);
    verl_advance(self);
}

static void
s_waits_for(const director_t *self, const change_t *change, char *text, size_t size)
{
    char label[300];
    if (change->step == CHANGE_HOLDING && verl_hands_over(change)) {
        snprintf(text, size, "batch %" PRId64 ", which is not done yet", verl_ledger_done(self->ledger));
    } else if (change->step == CHANGE_HOLDING) {
        snprintf(text, size, "batch %" PRId64 ": batch %" PRId64 " is the last that has its permit", change->at,
                 verl_ledger_granted(self->ledger));
    } else if (change->step == CHANGE_SAVING || change->step == CHANGE_RESTORING) {
        snprintf(text, size, "state that is handed over");
    } else {
        snprintf(text, size, "actors that get the new table");
        for (int i = 0; i < change->candidate->slots_count; i++) {
            const slot_t *slot = &change->candidate->slots[i];
            if (slot->party && (!slot->party->ready || slot->answered != slot->sent)) {
                snprintf(text, size, "actor `%s`, which %s", verl_party_label(slot->party, label, sizeof label),
                         slot->party->ready ? "is busy" : "prepares");
                return;
            }
        }
    }
}

static void
s_tell(director_t *self, change_t *change)
{
    char text[600];
    int64_t now = verl_now();
    if (change->deadline && now > change->deadline) {
        s_waits_for(self, change, text, sizeof text);
        s_refuse(self, change, "the change was not in force within its time; it waited for %s", text);
    } else if (change->token && now - change->said_at > SAY_NS) {
        change->said_at = now;
        s_waits_for(self, change, text, sizeof text);
        verl_control_answer(self->control, change->token, json_pack("{s:s}", "waiting", text), false);
    }
}

// One step further, if it can. True: it did.
static bool
s_step(director_t *self, change_t *change)
{
    bool hands = verl_hands_over(change);
    switch (change->step) {
    case CHANGE_PREPARING:
        if (!verl_candidate_ready(self, change))
            return false;
        if (hands && change->hold < 0)
            change->hold = verl_ledger_granted(self->ledger) + 1;
        change->step = CHANGE_HOLDING;
        return true;
    case CHANGE_HOLDING:
        if (!verl_candidate_ready(self, change) ||
            (change->hold >= 0 && verl_ledger_granted(self->ledger) != change->hold - 1) ||
            (hands && verl_ledger_done(self->ledger) < change->hold))
            return false;
        if (!hands) {
            s_commit(self, change);
            return false;
        }
        verl_handover_save(self, change);
        change->step = CHANGE_SAVING;
        return true;
    case CHANGE_SAVING:
        if (!verl_handover_saved(self, change))
            return false;
        verl_handover_restore(self, change);
        change->step = CHANGE_RESTORING;
        verl_settle(self);
        return true;
    case CHANGE_RESTORING:
        if (!verl_candidate_ready(self, change) || !verl_handover_restored(self, change))
            return false;
        s_commit(self, change);
        return false;
    }
    return false;
}

void
verl_changes_add(director_t *self, change_t *change)
{
    change_t **link = &self->changes;
    while (*link)
        link = &(*link)->next;
    change->hold = change->token ? -1 : change->at;
    change->said_at = verl_now();
    *link = change;
}

void
verl_changes_step(director_t *self)
{
    change_t *change = self->changes;
    if (!change || self->phase != PHASE_RUNNING)
        return;
    if (self->draining && !change->token)
        return;                             // whoever resumes the run makes it again
    if (!change->candidate) {
        if (!change->check)
            s_begin_check(self, change);
        else if (verl_check_over(change->check))
            s_check(self, change);
        return;
    }
    while (self->changes == change && s_step(self, change))
        ;
    if (self->changes == change)
        s_tell(self, change);
}
