// revisions.c: the numbered versions of the topology, who has which place in them, and where each begins.
//
// A place begins when the table is there, all live parties have answered the newest list of peers, and its state is read
// back. Where it begins follows from marks, one a stage and incarnation: up to it nothing is needed of it any more (it was
// told to begin behind it, or has reported it). A batch is needed of a stage while its own mark is below it, or that of a
// reader, or, through readers without state, that of theirs: until then no sender has let it go.
#include "runtime/director/director_impl.h"

// --- life ---------------------------------------------------------------------------------------------------------

static int
s_slot(revision_t *revision, int actor, int64_t replica)
{
    slot_t *slot = &revision->slots[revision->slots_count++];
    size_t stages = (size_t) revision->plan->stages_count;
    *slot = (slot_t) { .actor = actor, .replica = replica, .through = malloc(stages * sizeof *slot->through),
                       .times = calloc(stages, sizeof *slot->times) };
    for (size_t i = 0; slot->through && i < stages; i++)
        slot->through[i] = -1;
    return slot->through && slot->times ? 0 : -1;
}

revision_t *
verl_revision_new(director_t *self, verl_plan_t *plan, bool owned, verl_error_t *error)
{
    revision_t *revision = calloc(1, sizeof *revision), **link = &self->revisions;
    int64_t count = 0;
    if (!revision) {
        verl_error_set(error, "out of memory");
        return NULL;
    }
    *revision = (revision_t) { .plan = plan, .owned = owned, .cut = -1, .permitted = -1, .edition = 1 };
    for (int i = 0; i < plan->actors_count; i++)
        count += plan->actors[i].replicas;
    revision->slots = calloc((size_t) count, sizeof *revision->slots);
    revision->base = calloc((size_t) plan->stages_count, sizeof *revision->base);
    bool failed = !revision->slots || !revision->base;
    for (int i = 0; i < plan->actors_count && !failed; i++)
        for (int64_t j = 0; j < plan->actors[i].replicas && !failed; j++)
            failed = s_slot(revision, i, j);
    while (*link)
        link = &(*link)->next;
    *link = revision;
    if (!failed)
        return revision;
    revision->owned = false;
    verl_revision_free(self, revision);
    verl_error_set(error, "out of memory");
    return NULL;
}

void
verl_revision_free(director_t *self, revision_t *revision)
{
    revision_t **link = &self->revisions;
    while (*link && *link != revision)
        link = &(*link)->next;
    if (*link)
        *link = revision->next;
    for (int i = 0; i < revision->slots_count; i++) {
        free(revision->slots[i].through);
        free(revision->slots[i].times);
    }
    free(revision->slots);
    if (self->ledger)
        verl_ledger_forget(self->ledger, revision->plan);
    free(revision->base);
    if (revision->owned)
        verl_plan_destroy(&revision->plan);
    free(revision);
}

revision_t *
verl_revision_find(const director_t *self, int64_t number)
{
    revision_t *revision = self->revisions;
    while (revision && revision->plan->revision != number)
        revision = revision->next;
    return revision;
}

revision_t *
verl_revision_newest(const director_t *self)
{
    revision_t *newest = NULL;
    for (revision_t *revision = self->revisions; revision; revision = revision->next)
        if (revision->cut >= 0)
            newest = revision;
    return newest;
}

revision_t *
verl_revision_of(const director_t *self, int64_t batch)
{
    revision_t *found = self->revisions;
    for (revision_t *revision = self->revisions; revision; revision = revision->next)
        if (revision->cut >= 0 && revision->cut <= batch)
            found = revision;
    return found;
}

slot_t *
verl_revision_slot(const revision_t *revision, const party_t *party)
{
    for (int i = 0; i < revision->slots_count; i++)
        if (revision->slots[i].party == party)
            return &revision->slots[i];
    return NULL;
}

void
verl_revision_seat(director_t *self, revision_t *revision, slot_t *slot, party_t *party)
{
    verl_keep_slot_times(self, revision, slot);
    slot->party = party;
    slot->sent = slot->answered = slot->edition = 0;
    slot->tabled = slot->begun = false;
    revision->edition++;
}

// --- beginning ----------------------------------------------------------------------------------------------------

static bool
s_there(const revision_t *revision)
{
    for (int i = 0; i < revision->slots_count; i++) {
        const slot_t *slot = &revision->slots[i];
        if (!slot->ignored && (!slot->party || slot->party->dead || !slot->party->hello))
            return false;
    }
    return true;
}

bool
verl_revision_wired(const revision_t *revision)
{
    if (!s_there(revision))
        return false;
    for (int i = 0; i < revision->slots_count; i++) {
        const slot_t *slot = &revision->slots[i];
        if (!slot->ignored && (slot->edition != revision->edition || slot->answered != slot->sent))
            return false;
    }
    return true;
}

// The newest first: what an actor is made of, it takes from the first table that comes.
static void
s_tables(director_t *self, revision_t *revision)
{
    if (revision->next)
        s_tables(self, revision->next);
    for (int i = 0; i < revision->slots_count; i++) {
        slot_t *slot = &revision->slots[i];
        if (slot->party && slot->party->hello && !slot->tabled) {
            verl_order_table(self, slot->party, revision);
            slot->tabled = true;
        }
    }
}

static void
s_peers(director_t *self, revision_t *revision)
{
    for (int i = 0; i < revision->slots_count && s_there(revision); i++) {
        slot_t *slot = &revision->slots[i];
        if (slot->ignored || slot->edition == revision->edition)
            continue;
        verl_order_peers(self, slot->party, revision);
        slot->edition = revision->edition;
        slot->sent++;
    }
}

const slot_t *
verl_revision_place(const revision_t *revision, int stage, int64_t batch)
{
    int64_t replica = verl_plan_replica(revision->plan, stage, batch);
    for (int i = 0; i < revision->slots_count; i++)
        if (revision->slots[i].actor == revision->plan->stages[stage].actor && revision->slots[i].replica == replica)
            return &revision->slots[i];
    return NULL;
}

static bool
s_needed(const revision_t *revision, int stage, int64_t batch)
{
    const verl_plan_t *plan = revision->plan;
    const slot_t *slot = verl_revision_place(revision, stage, batch);
    if (!slot || slot->ignored)
        return false;
    if (batch > slot->through[stage])
        return true;
    if (!verl_restartable(&plan->actors[slot->actor]))
        return false;                       // it keeps what it took
    for (int i = 0; i < plan->stages[stage].out_count; i++) {
        const verl_plan_edge_t *edge = &plan->edges[plan->stages[stage].out_edges[i]];
        if (!edge->weights && verl_span_has(&plan->stages[edge->reader].span, plan->steps, batch) &&
            s_needed(revision, edge->reader, batch))
            return true;
    }
    return false;
}

// The stage of this name that the party of a place has in a later revision; -1: none.
static int
s_same_stage(const revision_t *later, const slot_t *place, const char *name)
{
    for (int i = 0; place && i < later->plan->stages_count; i++)
        if (later->plan->stages[i].actor == place->actor && strcmp(later->plan->stages[i].name, name) == 0)
            return i;
    return -1;
}

// The lowest batch that is needed of a stage in this place. Where its revision needs none any more, the lowest of those
// behind it: a stage is told where it begins before its first batch, whichever revision that is of.
static int64_t
s_start(const director_t *self, const revision_t *revision, const slot_t *slot, int stage)
{
    const verl_plan_t *plan = revision->plan;
    const revision_t *later = revision->next && revision->next->cut >= 0 ? revision->next : NULL;
    int64_t granted = verl_ledger_granted(self->ledger), low = revision->cut > self->first ? revision->cut : self->first;
    int64_t end = later ? later->cut : INT64_MAX;
    for (int64_t k = verl_span_next(&plan->stages[stage].span, plan->steps, low - 1); k >= 0 && k <= granted && k < end;
         k = verl_span_next(&plan->stages[stage].span, plan->steps, k))
        if (verl_plan_replica(plan, stage, k) == slot->replica && s_needed(revision, stage, k))
            return k;
    const slot_t *place = later ? verl_revision_slot(later, slot->party) : NULL;
    int same = place ? s_same_stage(later, place, plan->stages[stage].name) : -1;
    int64_t none = same >= 0 ? s_start(self, later, place, same) : later ? end : granted + 1;
    return none > low ? none : low;
}

// Readers first: what a maker has to do again depends on where they begin. What a predecessor has reported counts for its
// place alone.
static void
s_place(director_t *self, revision_t *revision)
{
    for (int stage = revision->plan->stages_count - 1; stage >= 0; stage--)
        for (int i = 0; i < revision->slots_count; i++) {
            slot_t *slot = &revision->slots[i];
            if (slot->begun || slot->ignored || slot->actor != revision->plan->stages[stage].actor)
                continue;
            slot->through[stage] = s_start(self, revision, slot, stage) - 1;
        }
}

static bool
s_is_source(const revision_t *revision, int actor)
{
    bool source = false;
    for (int i = 0; i < revision->plan->stages_count; i++)
        source |= revision->plan->stages[i].source && revision->plan->stages[i].actor == actor;
    return source;
}

static void
s_permit(director_t *self, const revision_t *revision, const slot_t *slot)
{
    if (slot->party && slot->begun && revision->permitted >= 0 && s_is_source(revision, slot->actor))
        verl_order_number(self, slot->party, revision->plan->revision, "permit", revision->permitted);
}

static void
s_begin(director_t *self, revision_t *revision)
{
    size_t stages = (size_t) revision->plan->stages_count;
    int64_t *starts = calloc(stages, sizeof *starts);
    s_place(self, revision);
    for (int i = 0; starts && i < revision->slots_count; i++) {
        slot_t *slot = &revision->slots[i];
        if (slot->begun || slot->ignored || slot->party->restore || verl_waits_for_predecessor(self, revision, slot))
            continue;
        for (size_t j = 0; j < stages; j++)
            starts[j] = revision->plan->stages[j].actor == slot->actor ? slot->through[j] + 1 : 0;
        verl_order_begin(self, slot->party, revision, starts);
        slot->begun = true;
        s_permit(self, revision, slot);
    }
    if (!starts)
        verl_error_set(&self->error, "out of memory");
    free(starts);
}

// Dead parties that nobody has a place for any more: their successors have begun.
void
verl_bury(director_t *self)
{
    for (party_t *party = self->parties, *next; party; party = next) {
        next = party->next;
        bool placed = false, unwired = false;
        for (const revision_t *revision = self->revisions; revision; revision = revision->next) {
            placed |= verl_revision_slot(revision, party) != NULL;
            unwired |= !verl_revision_wired(revision);
        }
        if (party->dead && !placed && !unwired)
            verl_party_free(self, party);
    }
}

void
verl_settle(director_t *self)
{
    if (self->phase == PHASE_STOPPING)
        return;
    bool all = true;
    if (self->revisions)
        s_tables(self, self->revisions);
    for (revision_t *revision = self->revisions; revision; revision = revision->next) {
        s_peers(self, revision);
        all &= revision->cut < 0 || verl_revision_wired(revision);
    }
    for (party_t *party = self->parties; party; party = party->next)
        if (party->restore && !party->restoring && party->hello && verl_party_actor(self, party)) {
            verl_order_path(self, party, "restore", -1, party->restore);
            party->restoring = true;
        }
    for (revision_t *revision = self->revisions; revision && all; revision = revision->next)
        if (revision->cut >= 0)
            s_begin(self, revision);
    if (all && self->phase == PHASE_STARTING) {
        self->phase = PHASE_RUNNING;
        self->started_at = self->started_at ? self->started_at : verl_now();
    }
    verl_grant(self);
}

// --- permits ------------------------------------------------------------------------------------------------------

void
verl_grant(director_t *self)
{
    revision_t *newest = verl_revision_newest(self);
    if (self->phase != PHASE_RUNNING || !newest || !self->script_ready)
        return;
    int64_t last = verl_ledger_grantable(self->ledger, newest->plan), held = verl_held(self) - 1;
    last = last < held ? last : held;
    if (!self->draining && last > verl_ledger_granted(self->ledger)) {
        verl_begin_checkpoints(self, last);
        verl_ledger_grant(self->ledger, last, newest->plan);
    }
    for (revision_t *revision = self->revisions; revision && revision->cut >= 0; revision = revision->next) {
        int64_t end = revision->next && revision->next->cut >= 0 ? revision->next->cut - 1 : INT64_MAX;
        int64_t most = verl_ledger_granted(self->ledger) < end ? verl_ledger_granted(self->ledger) : end;
        if (most <= revision->permitted || most < revision->cut)
            continue;
        revision->permitted = most;
        for (int i = 0; i < revision->slots_count; i++)
            s_permit(self, revision, &revision->slots[i]);
    }
}

// A checkpoint up to a revision's end that is not whole yet still needs its actors.
static bool
s_saving(const director_t *self, const revision_t *revision, int64_t end)
{
    const verl_plan_t *plan = revision->plan;
    int64_t due = plan->save_every > 0 ? end / plan->save_every * plan->save_every : 0;
    bool any = false;
    for (const party_t *party = self->parties; party; party = party->next)
        any |= verl_party_saves(self, party);
    return any && due > 0 && due < plan->steps && due > self->first && self->checkpointed < due;
}

static void
s_retire_one(director_t *self, revision_t *revision)
{
    for (int i = 0; i < revision->slots_count; i++) {
        party_t *party = revision->slots[i].party;
        if (!party || party->dead)
            continue;
        bool elsewhere = false;
        for (const revision_t *other = self->revisions; other; other = other->next)
            elsewhere |= other != revision && verl_revision_slot(other, party);
        if (elsewhere)
            verl_order_number(self, party, revision->plan->revision, "retire", 0);
        else
            verl_party_stop(self, party);
    }
    verl_event(self, "retired", json_pack("{s:I}", "revision", (json_int_t) revision->plan->revision));
    verl_keep_times(self, revision);
    verl_revision_free(self, revision);
}

void
verl_retire(director_t *self)
{
    while (self->revisions && self->revisions->next && self->revisions->next->cut >= 0 &&
           verl_ledger_done(self->ledger) >= self->revisions->next->cut && verl_revision_wired(self->revisions) &&
           !s_saving(self, self->revisions, self->revisions->next->cut))
        s_retire_one(self, self->revisions);
}
