// times.c: how the stages of a run spent their time, whatever incarnations and revisions they went through.
#include "runtime/director/director_impl.h"

static void
s_add(times_t *sum, const times_t *times)
{
    for (int i = 0; i < VERL_TIMES; i++)
        sum->ns[i] += times->ns[i];
    sum->batches += times->batches;
}

static void
s_keep(director_t *self, const char *stage, const times_t *times)
{
    spent_t *spent = self->spent;
    while (spent && strcmp(spent->stage, stage) != 0)
        spent = spent->next;
    if (!spent) {
        spent = calloc(1, sizeof *spent);
        if (!spent || !(spent->stage = strdup(stage))) {
            free(spent);
            return;                         // without memory the closing table misses some
        }
        spent->next = self->spent;
        self->spent = spent;
    }
    s_add(&spent->times, times);
}

void
verl_keep_slot_times(director_t *self, const revision_t *revision, slot_t *slot)
{
    for (int i = 0; i < revision->plan->stages_count; i++) {
        if (revision->plan->stages[i].actor == slot->actor)
            s_keep(self, revision->plan->stages[i].name, &slot->times[i]);
        slot->times[i] = (times_t) { 0 };
    }
}

void
verl_keep_times(director_t *self, const revision_t *revision)
{
    for (int i = 0; i < revision->slots_count; i++)
        verl_keep_slot_times(self, revision, &revision->slots[i]);
}

void
verl_stage_times(const director_t *self, const char *stage, times_t *sum)
{
    *sum = (times_t) { 0 };
    for (const spent_t *spent = self->spent; spent; spent = spent->next)
        if (strcmp(spent->stage, stage) == 0)
            s_add(sum, &spent->times);
    for (const revision_t *revision = self->revisions; revision; revision = revision->next)
        for (int i = 0; i < revision->plan->stages_count; i++)
            for (int j = 0; j < revision->slots_count && strcmp(revision->plan->stages[i].name, stage) == 0; j++)
                if (revision->slots[j].actor == revision->plan->stages[i].actor)
                    s_add(sum, &revision->slots[j].times[i]);
}

void
verl_times(const director_t *self, const char *stage, verl_stage_times_t *ret)
{
    times_t sum;
    int64_t all = 0;
    verl_stage_times(self, stage, &sum);
    for (int i = 0; i < VERL_STATES; i++)
        all += sum.ns[i];
    double whole = all > 0 ? (double) all : 1;
    *ret = (verl_stage_times_t) {
        .batches = sum.batches,
        .busy = (double) sum.ns[0] / whole, .waiting_data = (double) (sum.ns[1] + sum.ns[5]) / whole,
        .waiting_weights = (double) sum.ns[2] / whole, .blocked = (double) sum.ns[3] / whole,
        .waiting_worker = (double) sum.ns[4] / whole, .moving = (double) sum.ns[6] / whole, .busy_seconds = (double) sum.ns[0] / 1e9,
        .handoff_us = verl_ledger_handoff(self->ledger, stage),
    };
    snprintf(ret->name, sizeof ret->name, "%s", stage);
}

static int
s_add_name(const char ***names_p, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp((*names_p)[i], name) == 0)
            return count;
    const char **names = realloc(*names_p, ((size_t) count + 1) * sizeof *names);
    if (!names)
        return count;
    *names_p = names;
    names[count] = name;
    return count + 1;
}

int
verl_stage_names(const director_t *self, const char ***ret_names)
{
    int count = 0;
    *ret_names = NULL;
    for (const revision_t *revision = self->revisions; revision; revision = revision->next)
        for (int i = 0; i < revision->plan->stages_count; i++)
            count = s_add_name(ret_names, count, revision->plan->stages[i].name);
    for (const spent_t *spent = self->spent; spent; spent = spent->next)
        count = s_add_name(ret_names, count, spent->stage);
    return count;
}
