// restarts.c: what follows when an actor is lost: the end of the run, a successor, the last checkpoint, or nothing.
//
// An actor that keeps no state gets a successor, which does again what nobody has seen the end of. One that keeps some
// takes the whole run back to its last checkpoint. Both have a limit: what fails again and again is a mistake, not luck.
#include "runtime/director/director_impl.h"

#define CRASHES_MOST 5                      // of one actor, …
#define CRASHES_NS   (60 * VERL_S)          // … within
#define PAUSE_NS     (VERL_S / 20)          // before a successor starts: doubled each time

bool
verl_restartable(const verl_plan_actor_t *actor)
{
    return actor->kind && (!actor->kind->keeps_state || actor->kind->start);
}

// How often it crashed lately, this time too.
static int
s_count_crash(director_t *self, const char *name)
{
    int count = 0;
    crash_t *crash = malloc(sizeof *crash);
    if (crash && (crash->name = strdup(name))) {
        crash->at = verl_now();
        crash->next = self->crashes;
        self->crashes = crash;
    } else {
        free(crash);
    }
    for (const crash_t *other = self->crashes; other; other = other->next)
        count += strcmp(other->name, name) == 0 && verl_now() - other->at < CRASHES_NS;
    return count;
}

void
verl_ignore(director_t *self, revision_t *revision, slot_t *slot)
{
    verl_revision_seat(self, revision, slot, NULL);
    slot->ignored = true;
    for (int i = 0; i < revision->plan->stages_count; i++)
        if (revision->plan->stages[i].actor == slot->actor)
            verl_ledger_ignore(self->ledger, revision->plan, i);
}

static void
s_ignore(director_t *self, party_t *party, const char *why)
{
    for (revision_t *revision = self->revisions; revision; revision = revision->next) {
        slot_t *slot = verl_revision_slot(revision, party);
        if (slot)
            verl_ignore(self, revision, slot);
    }
    verl_say_lost(self, "%s: the run goes on without it, as on_failure = \"ignore\" says", why);
    verl_settle(self);
    verl_advance(self);
}

static void
s_restart_later(director_t *self, const party_t *party, int crashes)
{
    restart_t *restart = calloc(1, sizeof *restart);
    if (!restart || !(restart->name = strdup(party->name))) {
        free(restart);
        verl_error_set(&self->error, "out of memory");
        return;
    }
    restart->incarnation = party->incarnation;
    restart->replica = party->replica;
    restart->due = verl_now() + (PAUSE_NS << (crashes - 1));
    restart->next = self->restarts;
    self->restarts = restart;
}

static void
s_roll_back(director_t *self, const char *why)
{
    verl_say_lost(self, "%s: the run goes back to %s", why,
                  self->checkpointed > 0 ? "its last checkpoint" : "its beginning, as it has no checkpoint yet");
    self->rollback = true;
    verl_stop(self);
}

// It gets a successor, or the run goes back.
static void
s_replace(director_t *self, party_t *party, bool restartable, const char *why)
{
    int crashes = s_count_crash(self, party->name);
    if (crashes > CRASHES_MOST) {
        verl_director_fail(self, "%s; it is the %dth time within %d s: no more restarts", why, crashes,
                           (int) (CRASHES_NS / VERL_S));
    } else if (restartable) {
        verl_say_lost(self, "%s: restarting it", why);
        s_restart_later(self, party, crashes);
    } else {
        s_roll_back(self, why);
    }
}

void
verl_lost(director_t *self, party_t *party, const char *why)
{
    const verl_plan_actor_t *actor = verl_party_actor(self, party);
    if (self->phase == PHASE_STOPPING || party->leaving || !actor)
        return;
    verl_on_failure_t on_failure = party->instance->thread ? VERL_ON_FAILURE_STOP : actor->on_failure;
    bool restartable = verl_restartable(actor);
    party->leaving = true;
    verl_node_kill_one(self->node, party->instance);
    if (on_failure != VERL_ON_FAILURE_STOP && verl_changes_remakes(self, party)) {
        s_replace(self, party, false, why); // and the change is made again once more
        return;
    }
    if (verl_changes_lost(self, party, why))
        return;                             // only a change that is not in force had it
    if (on_failure == VERL_ON_FAILURE_STOP)
        verl_director_fail(self, "%s", why);
    else if (on_failure == VERL_ON_FAILURE_IGNORE)
        s_ignore(self, party, why);
    else
        s_replace(self, party, restartable, why);
}

static party_t *
s_lost(const director_t *self, const restart_t *restart)
{
    party_t *party = self->parties;
    while (party && party->incarnation != restart->incarnation)
        party = party->next;
    return party;
}

// The next incarnation has the places of the lost one, in every revision that still has it, and the newest settings.
static void
s_restart(director_t *self, const party_t *lost)
{
    verl_error_t error = { "" };
    const verl_plan_actor_t *actor = verl_party_actor(self, lost);
    party_t *party = actor ? verl_party_start(self, actor, lost->replica, &error) : NULL;
    if (error.text[0])
        verl_director_fail(self, "%s", error.text);
    if (!party)
        return;
    verl_party_pause_as(party, lost);
    for (revision_t *revision = self->revisions; revision; revision = revision->next) {
        slot_t *slot = verl_revision_slot(revision, lost);
        if (slot)
            verl_revision_seat(self, revision, slot, party);
    }
}

// Not before the lost one is dead: what it writes to, it writes to alone.
void
verl_restarts_step(director_t *self)
{
    restart_t **link = &self->restarts;
    while (*link && self->phase != PHASE_STOPPING) {
        restart_t *restart = *link;
        const party_t *lost = s_lost(self, restart);
        if (restart->due > verl_now() || (lost && !lost->dead)) {
            link = &restart->next;
            continue;
        }
        *link = restart->next;
        if (lost)
            s_restart(self, lost);
        free(restart->name);
        free(restart);
    }
}
