// handover.c: state that goes from an actor to its successor before a change is in force.
//
// When all batches before the cut are done, the old one writes its state into handover-REVISION of the run directory,
// and the new one reads it there. Until the cut is logged the old one goes on, whatever becomes of that. What is written
// for a change that was given up meanwhile goes when its writer says that it is done with it, and at the latest when
// all have ended.
//
// What a sink wrote is handed over where it lies: its successor begins when it is over.
#include "runtime/director/director_impl.h"

static bool
s_hands_over(const change_t *change, int actor)
{
    const verl_change_item_t *item = &change->difference->actors[actor];
    return item->fate == VERL_FATE_REPLACED && item->state == VERL_STATE_HANDED;
}

bool
verl_hands_over(const change_t *change)
{
    for (int i = 0; i < change->difference->actors_count; i++)
        if (s_hands_over(change, i))
            return true;
    return false;
}

// As "save" has it, and the reports that answer.
static int64_t
s_step(const change_t *change)
{
    return VERL_HANDOVER + change->candidate->plan->revision;
}

static void
s_path(const director_t *self, const change_t *change, const slot_t *slot, char *path, size_t size)
{
    snprintf(path, size, "%s/handover-%" PRId64 "/%s", self->config->run_directory, change->candidate->plan->revision,
             change->candidate->plan->actors[slot->actor].name);
}

// The places whose state goes over, and who is in them: the new one by `slot`, and the old one, of several replicas the
// first; NULL: it was lost and is ignored, so that it has nothing to hand over. f returns whether it is content.
static bool
s_each(director_t *self, change_t *change, bool (*f)(director_t *, const change_t *, const slot_t *, party_t *))
{
    const revision_t *newest = verl_revision_newest(self);
    bool all = true;
    for (int i = 0; i < change->candidate->slots_count; i++) {
        const slot_t *slot = &change->candidate->slots[i];
        const verl_change_item_t *item = &change->difference->actors[slot->actor];
        if (!s_hands_over(change, slot->actor))
            continue;
        for (int j = 0; j < newest->slots_count; j++)
            if (newest->slots[j].actor == item->before && newest->slots[j].replica == 0)
                all &= f(self, change, slot, newest->slots[j].party);
    }
    return all;
}

static bool
s_save(director_t *self, const change_t *change, const slot_t *slot, party_t *old)
{
    char path[4200];
    s_path(self, change, slot, path, sizeof path);
    if (old && !old->dead && slot->replica == 0)
        verl_order_path(self, old, "save", s_step(change), path);
    return true;
}

static bool
s_has_saved(director_t *self, const change_t *change, const slot_t *slot, party_t *old)
{
    (void) self;
    (void) slot;
    return !old || old->handed == s_step(change);
}

static bool
s_restore(director_t *self, const change_t *change, const slot_t *slot, party_t *old)
{
    char path[4200];
    s_path(self, change, slot, path, sizeof path);
    if (!old)
        verl_say(self, "actor `%s` was lost with its state: its successor begins anew", slot->party->name);
    else if (!(slot->party->restore = strdup(path)))
        verl_error_set(&self->error, "out of memory");
    return true;
}

static bool
s_has_restored(director_t *self, const change_t *change, const slot_t *slot, party_t *old)
{
    (void) self;
    (void) change;
    (void) old;
    return !slot->party->restore;
}

void
verl_handover_save(director_t *self, change_t *change)
{
    s_each(self, change, s_save);
}

bool
verl_handover_saved(director_t *self, change_t *change)
{
    return s_each(self, change, s_has_saved);
}

void
verl_handover_restore(director_t *self, change_t *change)
{
    s_each(self, change, s_restore);
}

bool
verl_handover_restored(director_t *self, change_t *change)
{
    return s_each(self, change, s_has_restored);
}

void
verl_on_handed(director_t *self, party_t *party, int64_t step)
{
    const change_t *change = self->changes;
    party->handed = step;
    if (!change || !change->candidate || s_step(change) != step)
        verl_record_drop_handover(self->record, step - VERL_HANDOVER);
}

void
verl_on_not_handed(director_t *self, int64_t step, const char *why)
{
    if (!verl_changes_failed(self, step - VERL_HANDOVER, why))
        verl_record_drop_handover(self->record, step - VERL_HANDOVER);
}

// --- what goes over by itself: a file -----------------------------------------------------------------------------

// Is everything done in this place of a revision that another one follows?
static bool
s_place_is_over(const revision_t *revision, const slot_t *slot)
{
    const verl_plan_t *plan = revision->plan;
    for (int i = 0; i < plan->stages_count; i++)
        if (plan->stages[i].actor == slot->actor &&
            verl_span_previous(&plan->stages[i].span, plan->steps, revision->next->cut) > slot->through[i])
            return false;
    return true;
}

// A sink appends to what its predecessor wrote, so it begins when that one, or who follows it in its revision, is over.
bool
verl_waits_for_predecessor(const director_t *self, const revision_t *revision, const slot_t *slot)
{
    const verl_kind_t *kind = revision->plan->actors[slot->actor].kind;
    if (!kind || !kind->keeps_state || !kind->start)
        return false;
    for (const revision_t *older = self->revisions; older != revision; older = older->next)
        for (int i = 0; i < older->slots_count; i++) {
            const slot_t *other = &older->slots[i];
            if (!other->ignored && other->party != slot->party &&
                strcmp(older->plan->actors[other->actor].name, slot->party->name) == 0 && !s_place_is_over(older, other))
                return true;
        }
    return false;
}
