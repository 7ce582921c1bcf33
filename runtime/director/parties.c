// parties.c: the incarnations of a run: how they start, who they are, who waits for them.
#include "runtime/director/director_impl.h"

static void
s_channels(director_t *self, party_t *party, verl_error_t *error)
{
    char address[VERL_ADDRESS_BYTES];
    verl_address(address, self->run_id, party->incarnation);
    if (verl_endpoint_connect(self->endpoint, party->incarnation, address, error))
        return;
    party->control = verl_outbound_open(self->endpoint, party->incarnation, VERL_EDGE_CONTROL, VERL_CONTROL_WINDOW);
    party->reports = verl_inbound_open(self->endpoint, party->incarnation, VERL_EDGE_REPORT, VERL_CONTROL_WINDOW,
                                       party);
    if (!party->control || !party->reports)
        verl_error_set(error, "out of memory");
}

party_t *
verl_party_start(director_t *self, const verl_plan_actor_t *actor, int64_t replica, verl_error_t *error)
{
    party_t *party = calloc(1, sizeof *party);
    verl_error_t wrong = { "" };
    char label[300];
    if (!party || !(party->name = strdup(actor->name))) {
        free(party);
        verl_error_set(error, "out of memory");
        return NULL;
    }
    party->replica = replica;
    party->incarnation = ++self->incarnations;
    party->running = VERL_TASK_NONE;
    party->saved = -1;
    party->next = self->parties;
    self->parties = party;
    s_channels(self, party, &wrong);        // before the process: its first word may come at any moment after
    if (!wrong.text[0])
        party->instance = verl_node_start(self->node, actor, replica, party->incarnation, &wrong);
    if (!party->instance) {
        verl_error_set(error, "%s", wrong.text);
        party->dead = true;
        return NULL;
    }
    party->instance->tag = party;
    party->begun_at = verl_now();
    int64_t every = verl_ping_every(self, actor);
    self->pace = self->pace && self->pace < every ? self->pace : every;
    verl_event(self, "started", json_pack("{s:s, s:i}", "actor", verl_party_label(party, label, sizeof label), "pid",
                                          (int) party->instance->pid));
    return party;
}

void
verl_party_free(director_t *self, party_t *party)
{
    party_t **link = &self->parties;
    while (*link != party)
        link = &(*link)->next;
    *link = party->next;
    if (party->reports)
        verl_inbound_close(self->endpoint, party->reports);
    if (party->control)
        verl_outbound_close(party->control);
    if (party->instance)
        verl_node_forget(self->node, party->instance);
    free(party->restore);
    free(party->seats);
    free(party->name);
    free(party);
}

void
verl_party_stop(director_t *self, party_t *party)
{
    party->leaving = true;
    if (!party->dead && party->control)
        verl_order_number(self, party, 0, "stop", 0);
}

void
verl_party_pause_as(party_t *party, const party_t *other)
{
    party->paused = other->paused;
    party->paused_at = other->paused_at;
    memcpy(party->paused_by, other->paused_by, sizeof party->paused_by);
}

// "reward#7", or "reward.2#7" of several replicas.
const char *
verl_party_label(const party_t *party, char *label, size_t size)
{
    return verl_trace_label(label, size, party->name, party->replica, party->instance ? party->instance->replicas : 1,
                            party->incarnation);
}

const char *
verl_stage_label(const director_t *self, int64_t revision, int stage)
{
    const revision_t *found = verl_revision_find(self, revision);
    return found && stage >= 0 && stage < found->plan->stages_count ? found->plan->stages[stage].name : "?";
}

const verl_plan_t *
verl_party_plan(const director_t *self, const party_t *party, int *ret_actor)
{
    const verl_plan_t *plan = NULL;
    for (const revision_t *revision = self->revisions; revision; revision = revision->next) {
        const slot_t *slot = verl_revision_slot(revision, party);
        if (!slot)
            continue;
        plan = revision->plan;
        *ret_actor = slot->actor;
    }
    return plan;
}

const verl_plan_actor_t *
verl_party_actor(const director_t *self, const party_t *party)
{
    int actor;
    const verl_plan_t *plan = verl_party_plan(self, party, &actor);
    return plan ? &plan->actors[actor] : NULL;
}

// Replicas learn nothing that the others do not know, so the first one's state is that of all.
bool
verl_party_saves(const director_t *self, const party_t *party)
{
    const verl_plan_actor_t *actor = verl_party_actor(self, party);
    return actor && actor->kind && party->replica == 0 &&
           (actor->kind->snapshot || (actor->kind->external && actor->kind->keeps_state));
}

// The stages that wait for an actor, for people: " (waiting for it: a, b)".
void
verl_waiters(const director_t *self, const party_t *party, char *text, size_t size)
{
    size_t length = 0;
    int actor;
    const verl_plan_t *plan = verl_party_plan(self, party, &actor);
    text[0] = 0;
    for (int i = 0; plan && i < plan->stages_count; i++) {
        bool waits = false;
        for (int j = 0; j < plan->stages[i].in_count; j++) {
            const verl_plan_edge_t *edge = &plan->edges[plan->stages[i].in_edges[j]];
            waits |= plan->stages[edge->maker].actor == actor && plan->stages[i].actor != actor;
        }
        if (waits && length < size)
            length += (size_t) snprintf(text + length, size - length, "%s%s", length ? ", " : " (waiting for it: ",
                                        plan->stages[i].name);
    }
    if (length && length < size)
        snprintf(text + length, size - length, ")");
}
