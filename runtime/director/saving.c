// saving.c: checkpoints: a cut between two batches, written by all actors that keep state, whole or not at all. Where none
// keeps any, the cut is all there is: the run goes on from it.
#include <unistd.h>
#include "runtime/director/director_impl.h"

// Whose state belongs to the checkpoint of so many batches: of the revision of the last of them.
static const revision_t *
s_revision(const director_t *self, int64_t step)
{
    return verl_revision_of(self, step > 0 ? step - 1 : 0);
}

static bool
s_belongs(const director_t *self, const party_t *party, int64_t step)
{
    const revision_t *revision = s_revision(self, step);
    return revision && verl_revision_slot(revision, party) && verl_party_saves(self, party);
}

// Did an actor leave its state in the checkpoint that ends? A program may keep none after all.
static bool
s_left(const director_t *self, const party_t *party, int64_t step)
{
    char path[4600];
    snprintf(path, sizeof path, "%s/checkpoints/step-%" PRId64 ".tmp/%s", self->config->run_directory, step,
             party->name);
    return s_belongs(self, party, step) && (!verl_party_actor(self, party)->kind->external || access(path, F_OK) == 0);
}

static json_t *
s_manifest(const director_t *self, int64_t step)
{
    const revision_t *revision = s_revision(self, step);
    json_t *actors = json_array();
    for (const party_t *party = self->parties; party; party = party->next)
        if (s_left(self, party, step))
            json_array_append_new(actors, json_string(party->name));
    return json_pack("{s:I, s:I, s:I, s:o, s:I, s:o, s:o}", "step", (json_int_t) step, "revision",
                     (json_int_t) revision->plan->revision, "cut", (json_int_t) revision->cut, "base",
                     verl_bases_json(revision), "seed",
                     (json_int_t) revision->plan->seed, "actors", actors, "metrics",
                     verl_ledger_owners(self->ledger, step));
}

void
verl_begin_checkpoints(director_t *self, int64_t last)
{
    const verl_plan_t *plan = verl_revision_newest(self)->plan;
    for (int64_t step = verl_ledger_granted(self->ledger) + 1; plan->save_every > 0 && step <= last; step++)
        if (step > self->first && step % plan->save_every == 0 && step < plan->steps &&
            verl_record_begin_checkpoint(self->record, step, &self->error))
            return;
}

// Has every actor that keeps state written its part of checkpoint `step`?
static bool
s_all_saved(const director_t *self, int64_t step)
{
    for (const party_t *party = self->parties; party; party = party->next)
        if (s_belongs(self, party, step) && party->saved < step)
            return false;
    return true;
}

static void
s_end_checkpoint(director_t *self, int64_t step)
{
    verl_error_t error = { "" };
    char path[sizeof self->result->checkpoint];
    // Where no actor had anything to write, its folder may not be there: it is made with a permit beyond it.
    if (verl_record_begin_checkpoint(self->record, step, &error) ||
        verl_record_end_checkpoint(self->record, step, s_manifest(self, step), verl_revision_newest(self)->plan->keep,
                                   path, sizeof path, &error)) {
        verl_director_fail(self, "%s", error.text);
        return;
    }
    memcpy(self->result->checkpoint, path, sizeof path);
    self->checkpointed = step;
    verl_event(self, "checkpoint", json_pack("{s:I, s:s}", "step", (json_int_t) step, "path",
                                             self->result->checkpoint));
}

// Checkpoint `step` is whole when all have written it and every batch before it is done: stages without state may be
// behind those that keep some, and a run that goes back to it does not make these batches again.
void
verl_end_checkpoints(director_t *self)
{
    const verl_plan_t *plan = verl_revision_newest(self)->plan;
    int64_t every = plan->save_every, last = self->checkpointed > self->first ? self->checkpointed : self->first;
    if (every <= 0)
        return;
    for (int64_t step = (last / every + 1) * every; step < plan->steps && step <= verl_ledger_done(self->ledger);
         step += every) {
        if (!s_all_saved(self, step) || self->phase == PHASE_STOPPING)
            return;
        s_end_checkpoint(self, step);
    }
}

// The last checkpoint of the run is whole, as far as those who live are concerned: who was to save may be lost and
// ignored.
void
verl_end_saving(director_t *self)
{
    if (self->phase != PHASE_SAVING || !s_all_saved(self, self->save_step))
        return;
    if (self->save_step > self->checkpointed)
        s_end_checkpoint(self, self->save_step);
    verl_stop(self);
}

void
verl_on_saved(director_t *self, party_t *party, int64_t step)
{
    if (step >= VERL_HANDOVER) {
        verl_on_handed(self, party, step);
        return;
    }
    party->saved = step > party->saved ? step : party->saved;
    verl_end_checkpoints(self);
    verl_end_saving(self);
}

static void
s_order_save(director_t *self, party_t *party)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/checkpoints/step-%" PRId64 ".tmp/%s", self->config->run_directory,
             self->save_step, party->name);
    verl_order_path(self, party, "save", self->save_step, path);
}

void
verl_finish(director_t *self)
{
    const verl_plan_t *plan = verl_revision_newest(self)->plan;
    self->phase = PHASE_SAVING;
    self->save_step = plan->steps < verl_ledger_done(self->ledger) ? plan->steps : verl_ledger_done(self->ledger);
    // What is due at this very batch the actors save unasked.
    bool due = plan->save_every > 0 && self->save_step % plan->save_every == 0 && self->save_step < plan->steps &&
               self->save_step > self->first;
    if (self->save_step == 0 || self->save_step <= self->checkpointed || (due && s_all_saved(self, self->save_step)))
        verl_stop(self);
    if (due || self->phase == PHASE_STOPPING)
        return;
    verl_error_t error = { "" };
    if (verl_record_begin_checkpoint(self->record, self->save_step, &error)) {
        verl_director_fail(self, "%s", error.text);
        return;
    }
    for (party_t *party = self->parties; party; party = party->next)
        if (s_belongs(self, party, self->save_step))
            s_order_save(self, party);
    verl_end_saving(self);
}
