// cut.c: from a candidate that all are ready for to a revision in force.
//
// The point of no return is a line of run.log, "cut", with all that is needed to make the change again. Before it is on
// disk nothing follows from it; where it cannot be written, no line and no topology of the revision are left.
#include "runtime/director/director_impl.h"
#include "runtime/topology/topology.h"

char *
verl_plan_text(const verl_plan_t *plan, size_t *ret_size)
{
    char *text = NULL;
    FILE *memory = open_memstream(&text, ret_size);
    int failed = !memory || verl_topology_write_resolved(plan, memory);
    if (memory && fclose(memory))
        failed = 1;
    if (!failed)
        return text;
    free(text);
    return NULL;
}

static int
s_log_cut(director_t *self, const change_t *change, int64_t cut, verl_error_t *error)
{
    size_t size = 0;
    const revision_t *candidate = change->candidate;
    int64_t number = candidate->plan->revision;
    char *text = verl_plan_text(candidate->plan, &size), brief[600];
    int failed = text ? verl_record_topology(self->record, number, text, size, error)
                      : verl_error_set(error, "out of memory");
    free(text);
    if (failed)
        return -1;
    json_t *swaps = json_array();
    for (int i = 0; i < change->swaps_count; i++)
        json_array_append_new(swaps, json_string(change->swaps[i]));
    verl_difference_brief(change->difference, brief, sizeof brief);
    failed = verl_record_commit(self->record, "cut", json_pack("{s:I, s:I, s:o, s:o, s:s, s:s, s:o}", "revision",
                                (json_int_t) number, "first", (json_int_t) cut, "what", verl_json_text(brief), "who",
                                verl_json_text(change->who), "fragment", change->text, "path", change->path, "swap",
                                swaps), error);
    if (failed)
        verl_record_drop_topology(self->record, number);
    return failed;
}

// The old incarnations end at once; their unfinished batches are their successors'.
static void
s_end_old(director_t *self, change_t *change)
{
    for (int i = 0; i < change->candidate->slots_count; i++) {
        const slot_t *slot = &change->candidate->slots[i];
        const verl_change_item_t *item = &change->difference->actors[slot->actor];
        if (item->fate != VERL_FATE_REPLACED || !slot->party)
            continue;
        for (revision_t *revision = self->revisions; revision != change->candidate; revision = revision->next)
            for (int j = 0; j < revision->slots_count; j++) {
                slot_t *old = &revision->slots[j];
                if (old->replica != slot->replica || !old->party || old->party == slot->party ||
                    strcmp(revision->plan->actors[old->actor].name, slot->party->name) != 0)
                    continue;
                old->party->leaving = true;
                verl_node_kill_one(self->node, old->party->instance);
                verl_revision_seat(self, revision, old, slot->party);
            }
    }
}

// Who follows whom: [["mid#3", "mid#5"], …].
static json_t *
s_followers(director_t *self, const change_t *change)
{
    char old_label[300], new_label[300];
    const revision_t *newest = verl_revision_newest(self);
    json_t *pairs = json_array();
    for (int i = 0; i < change->candidate->slots_count; i++) {
        const slot_t *slot = &change->candidate->slots[i];
        const verl_change_item_t *item = &change->difference->actors[slot->actor];
        for (int j = 0; item->fate == VERL_FATE_REPLACED && j < newest->slots_count; j++) {
            const slot_t *old = &newest->slots[j];
            if (old->actor == item->before && old->replica == slot->replica && old->party)
                json_array_append_new(pairs, json_pack("[s, s]",
                                                       verl_party_label(old->party, old_label, sizeof old_label),
                                                       verl_party_label(slot->party, new_label, sizeof new_label)));
        }
    }
    return pairs;
}

int
verl_cut(director_t *self, change_t *change, json_t **ret_answer, verl_error_t *error)
{
    char brief[600];
    int64_t cut = verl_ledger_granted(self->ledger) + 1;
    revision_t *candidate = change->candidate;
    if (s_log_cut(self, change, cut, error))
        return -1;
    json_t *followers = s_followers(self, change);
    verl_bases_at_cut(candidate, verl_revision_newest(self), cut);
    candidate->cut = cut;
    verl_record_drop_handover(self->record, candidate->plan->revision);
    if (change->now)
        s_end_old(self, change);
    verl_difference_brief(change->difference, brief, sizeof brief);
    verl_say(self, "revision %" PRId64 " from batch %" PRId64 " on: %s", candidate->plan->revision, cut, brief);
    *ret_answer = json_pack("{s:I, s:I, s:o, s:o, s:o}", "revision", (json_int_t) candidate->plan->revision, "first",
                            (json_int_t) cut, "what", verl_json_text(brief), "followers", followers, "difference",
                            verl_difference_json(change->difference));
    return 0;
}
