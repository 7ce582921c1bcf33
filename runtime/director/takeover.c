// takeover.c: may what replaces an actor work its unfinished batches (--now)? Those are worked by the table that they
// began with, so a successor that such a table does not describe would fail, and end the run.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "runtime/director/director_impl.h"

static bool
s_same_columns(const verl_plan_stage_t *a, const verl_plan_stage_t *b)
{
    bool same = a->needs_count == b->needs_count && a->gives_count == b->gives_count;
    for (int i = 0; same && i < a->needs_count; i++)
        same = strcmp(a->needs[i].name, b->needs[i].name) == 0;
    for (int i = 0; same && i < a->gives_count; i++)
        same = strcmp(a->gives[i], b->gives[i]) == 0 && strcmp(a->gives_type[i], b->gives_type[i]) == 0;
    return same;
}

// Can a successor as `plan` has it work the batches of a plan before it? Its process is of one kind, and it says once
// which columns it takes and gives.
static bool
s_can_take_over(const verl_plan_t *plan, int index, const verl_plan_t *old)
{
    const verl_plan_actor_t *actor = &plan->actors[index];
    for (int i = 0; i < old->actors_count; i++)
        if (strcmp(old->actors[i].name, actor->name) == 0 && strcmp(old->actors[i].kind_name, actor->kind_name) != 0)
            return false;
    for (int i = 0; i < plan->stages_count; i++)
        for (int j = 0; plan->stages[i].actor == index && j < old->stages_count; j++)
            if (strcmp(plan->stages[i].name, old->stages[j].name) == 0 &&
                strcmp(old->actors[old->stages[j].actor].name, actor->name) == 0 &&
                !s_same_columns(&plan->stages[i], &old->stages[j]))
                return false;
    return true;
}

const char *
verl_objection_to_now(const director_t *self, const change_t *change, char *text, size_t size)
{
    const verl_plan_t *plan = change->difference->after;
    for (int i = 0; i < change->difference->actors_count; i++) {
        const verl_change_item_t *item = &change->difference->actors[i];
        if (item->fate != VERL_FATE_REPLACED)
            continue;
        if (!verl_restartable(&plan->actors[i])) {
            snprintf(text, size, "actor %s keeps state that its unfinished batches need: without --now it hands "
                     "it over", item->name);
            return text;
        }
        for (const revision_t *revision = self->revisions; revision; revision = revision->next)
            if (!s_can_take_over(plan, i, revision->plan)) {
                snprintf(text, size,
                         "actor %s has unfinished batches of revision %" PRId64 ", where it is of another kind or has "
                         "other columns: without --now they are finished as they began",
                         item->name, revision->plan->revision);
                return text;
            }
    }
    return NULL;
}
