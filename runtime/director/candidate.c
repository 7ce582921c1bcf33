// candidate.c: the people of a revision that is not in force: who goes on, who is new, and how they part again.
//
// Who is lost and ignored stays so until it is swapped. Who follows a paused one is paused.
#include "runtime/director/director_impl.h"

bool
verl_candidate_is_new(const director_t *self, const change_t *change, const party_t *party)
{
    for (const revision_t *revision = self->revisions; revision; revision = revision->next)
        if (revision != change->candidate && verl_revision_slot(revision, party))
            return false;
    return verl_revision_slot(change->candidate, party) != NULL;
}

// Where an actor was before the change; of one that had fewer replicas, any of its places. NULL: it is new.
static const slot_t *
s_before(const revision_t *newest, const verl_change_item_t *item, int64_t replica)
{
    const slot_t *any = NULL;
    for (int i = 0; i < newest->slots_count; i++) {
        if (newest->slots[i].actor != item->before)
            continue;
        any = &newest->slots[i];
        if (any->replica == replica)
            return any;
    }
    return any;
}

int
verl_candidate_people(director_t *self, change_t *change, verl_error_t *error)
{
    const revision_t *newest = verl_revision_newest(self);
    revision_t *candidate = change->candidate;
    for (int i = 0; i < candidate->slots_count; i++) {
        slot_t *slot = &candidate->slots[i];
        const verl_change_item_t *item = &change->difference->actors[slot->actor];
        const slot_t *before = s_before(newest, item, slot->replica);
        bool goes_on = before && (item->fate == VERL_FATE_KEPT || item->fate == VERL_FATE_CHANGED);
        if (goes_on && before->ignored) {
            verl_ignore(self, candidate, slot);
            continue;
        }
        slot->party = goes_on ? before->party : NULL;
        if (slot->party)
            continue;
        slot->party = verl_party_start(self, &candidate->plan->actors[slot->actor], slot->replica, error);
        if (!slot->party)
            return -1;
        if (before && before->party)
            verl_party_pause_as(slot->party, before->party);
    }
    return 0;
}

bool
verl_candidate_ready(const director_t *self, const change_t *change)
{
    if (!verl_revision_wired(change->candidate))
        return false;
    for (int i = 0; i < change->candidate->slots_count; i++) {
        const party_t *party = change->candidate->slots[i].party;
        if (party && !party->ready && verl_candidate_is_new(self, change, party))
            return false;
    }
    return true;
}

void
verl_candidate_drop(director_t *self, change_t *change)
{
    for (int i = 0; i < change->candidate->slots_count; i++) {
        slot_t *slot = &change->candidate->slots[i];
        party_t *party = slot->party;
        if (!party)
            continue;
        if (verl_candidate_is_new(self, change, party)) {
            party->leaving = true;
            if (party->instance)
                verl_node_kill_one(self->node, party->instance);
            if (!party->dead && party->instance && party->instance->thread)
                verl_party_stop(self, party);
        } else if (slot->tabled && !party->dead) {
            verl_order_number(self, party, change->candidate->plan->revision, "drop", 0);
        }
    }
    verl_record_drop_handover(self->record, change->candidate->plan->revision);
    verl_revision_free(self, change->candidate);
    change->candidate = NULL;
}
