// difference.c: see difference.h. Actors and stages are compared by name.
#include "runtime/topology/difference_impl.h"
#include <stdlib.h>
#include <string.h>
#include "runtime/topology/nearest.h"
#include "runtime/topology/options.h"

static const char *const s_places[] = { "process", "thread" };
static const char *const s_failures[] = { "stop", "restart", "ignore" };

// --- [run] --------------------------------------------------------------------------------------------------------

static void
s_compare_run(verl_difference_box_t *self)
{
    const verl_plan_t *before = self->difference.before, *after = self->difference.after;
    verl_keys_t keys = { .box = self };
    verl_differ_int(&keys, "max_in_flight", before->max_in_flight, after->max_in_flight);
    self->difference.run = keys.items;
    self->difference.run_count = keys.count;
}

// What is the run's for its whole life: other files, figures or promises follow from it.
static int
s_check_run(verl_difference_box_t *self, verl_error_t *error)
{
    const verl_plan_t *before = self->difference.before, *after = self->difference.after;
    verl_keys_t keys = { .box = self };
    verl_differ_text(&keys, "name", before->name, after->name);
    verl_differ_int(&keys, "steps", before->steps, after->steps);
    verl_differ_int(&keys, "seed", (int64_t) before->seed, (int64_t) after->seed);
    verl_differ_int(&keys, "max_bytes", before->max_bytes, after->max_bytes);
    verl_differ_int(&keys, "save_every", before->save_every, after->save_every);
    verl_differ_int(&keys, "keep", before->keep, after->keep);
    verl_differ_real(&keys, "drain_timeout", before->drain_timeout, after->drain_timeout);
    verl_differ_text(&keys, "script", before->script ? before->script : "", after->script ? after->script : "");
    if (self->failed || keys.count == 0)
        return 0;
    const verl_key_change_t *key = &keys.items[0];
    bool ends = strcmp(key->key, "steps") == 0;
    return verl_error_set(error, "[run] %s cannot change from %s to %s while the run lives: %s", key->key, key->before,
                          key->after, ends ? "leave it, and see that no source ends earlier than the run"
                                           : "leave it, or begin a new run");
}

// --- actors -------------------------------------------------------------------------------------------------------

static const verl_plan_actor_t *
s_actor_of(const verl_plan_t *plan, const char *name, int *ret_index)
{
    for (*ret_index = 0; *ret_index < plan->actors_count; ++*ret_index)
        if (strcmp(plan->actors[*ret_index].name, name) == 0)
            return &plan->actors[*ret_index];
    *ret_index = -1;
    return NULL;
}

static const verl_plan_stage_t *
s_stage_of(const verl_plan_t *plan, const char *name, int *ret_index)
{
    for (*ret_index = 0; *ret_index < plan->stages_count; ++*ret_index)
        if (strcmp(plan->stages[*ret_index].name, name) == 0)
            return &plan->stages[*ret_index];
    *ret_index = -1;
    return NULL;
}

// Does it differ in what decides the weights that it begins with? Those are asked for, so no others are handed over.
static bool
s_begins_otherwise(const verl_kind_t *kind, const verl_keys_t *keys)
{
    for (int i = 0; i < keys->count; i++) {
        const verl_option_t *option = verl_option_find(kind->options, keys->items[i].key);
        if (option && option->of_weights)
            return true;
    }
    return false;
}

static verl_state_fate_t
s_state(const verl_plan_actor_t *before, const verl_plan_actor_t *after, const verl_keys_t *keys, bool fed)
{
    const verl_kind_t *kind = after->kind;
    bool elsewhere = kind && kind->start && !kind->snapshot;    // such as in a file, with which a successor goes on
    if (!kind || elsewhere || fed || (!kind->keeps_state && !kind->snapshot))
        return VERL_STATE_NONE;
    bool same_kind = strcmp(before->kind_name, after->kind_name) == 0;
    bool handed = kind->snapshot && kind->restore && same_kind && !s_begins_otherwise(kind, keys);
    return handed ? VERL_STATE_HANDED : VERL_STATE_FRESH;
}

static void
s_compare_actor(verl_difference_box_t *self, verl_change_item_t *item, const verl_plan_actor_t *after)
{
    const verl_plan_actor_t *before = s_actor_of(self->difference.before, after->name, &item->before);
    const verl_plan_t *plan = self->difference.after;
    bool fed = verl_plan_is_fed(plan, (int) (after - plan->actors));
    verl_keys_t keys = { .box = self };
    item->name = after->name;
    if (!before) {
        item->fate = VERL_FATE_ADDED;
        verl_differ_text(&keys, "kind", NULL, after->kind_name);
    } else {
        verl_differ_text(&keys, "kind", before->kind_name, after->kind_name);
        verl_differ_options(&keys, verl_kept_options(before, after, &before->options), &after->options);
        verl_differ_text(&keys, "mesh", before->devices, after->devices);
        verl_differ_text(&keys, "place", s_places[before->place], s_places[after->place]);
        verl_differ_int(&keys, "replicas", before->replicas, after->replicas);
        verl_differ_text(&keys, "on_failure", s_failures[before->on_failure], s_failures[after->on_failure]);
        bool fresh = keys.count > 0 || item->asked;
        verl_differ_real(&keys, "timeout", before->timeout, after->timeout);         // these two are the director's
        verl_differ_real(&keys, "liveness", before->liveness, after->liveness);
        item->fate = fresh ? VERL_FATE_REPLACED : keys.count ? VERL_FATE_CHANGED : VERL_FATE_KEPT;
        item->state = fresh ? s_state(before, after, &keys, fed) : VERL_STATE_NONE;
    }
    item->keys = keys.items;
    item->keys_count = keys.count;
}

// --- stages --------------------------------------------------------------------------------------------------------

static void
s_compare_stage(verl_difference_box_t *self, verl_change_item_t *item, const verl_plan_stage_t *after)
{
    const verl_plan_t *old_plan = self->difference.before, *new_plan = self->difference.after;
    const verl_plan_stage_t *before = s_stage_of(old_plan, after->name, &item->before);
    verl_keys_t keys = { .box = self };
    item->name = after->name;
    item->fate = VERL_FATE_ADDED;
    if (!before) {
        verl_differ_text(&keys, "actor", NULL, new_plan->actors[after->actor].name);
    } else {
        verl_differ_stage(&keys, old_plan, before, new_plan, after);
        item->fate = keys.count ? VERL_FATE_CHANGED : VERL_FATE_KEPT;
    }
    item->keys = keys.items;
    item->keys_count = keys.count;
}

// --- all of it ----------------------------------------------------------------------------------------------------

static int
s_swap(verl_difference_box_t *self, const char *const *names, int count, verl_error_t *error)
{
    const verl_plan_t *after = self->difference.after;
    for (int i = 0; i < count; i++) {
        int actor, stage;
        verl_nearest_t nearest;
        s_actor_of(after, names[i], &actor);
        s_stage_of(after, names[i], &stage);
        if (actor < 0 && stage >= 0)
            actor = after->stages[stage].actor;
        if (actor >= 0) {
            self->difference.actors[actor].asked = true;
            continue;
        }
        verl_nearest_init(&nearest, names[i]);
        for (int j = 0; j < after->actors_count; j++)
            verl_nearest_offer(&nearest, after->actors[j].name);
        for (int j = 0; j < after->stages_count; j++)
            verl_nearest_offer(&nearest, after->stages[j].name);
        return verl_error_set(error, "no actor or stage is called \"%.100s\"%s%s%s", names[i],
                              nearest.best ? ": did you mean \"" : ": verl-spy graph shows which there are",
                              nearest.best ? nearest.best : "", nearest.best ? "\"?" : "");
    }
    return 0;
}

static void
s_gone(verl_difference_t *self)
{
    int ignored;
    for (int i = 0; i < self->before->actors_count; i++)
        if (!s_actor_of(self->after, self->before->actors[i].name, &ignored))
            self->gone_actors[self->gone_actors_count++] = i;
    for (int i = 0; i < self->before->stages_count; i++)
        if (!s_stage_of(self->after, self->before->stages[i].name, &ignored))
            self->gone_stages[self->gone_stages_count++] = i;
}

static bool
s_is_empty(const verl_difference_t *self)
{
    if (self->run_count || self->gone_actors_count || self->gone_stages_count)
        return false;
    for (int i = 0; i < self->actors_count; i++)
        if (self->actors[i].fate != VERL_FATE_KEPT)
            return false;
    for (int i = 0; i < self->stages_count; i++)
        if (self->stages[i].fate != VERL_FATE_KEPT)
            return false;
    return true;
}

static bool
s_room(verl_difference_box_t *self)
{
    verl_difference_t *difference = &self->difference;
    size_t item = sizeof *difference->actors, index = sizeof *difference->gone_actors;
    difference->actors_count = difference->after->actors_count;
    difference->stages_count = difference->after->stages_count;
    difference->actors = verl_pool_try(&self->pool, (size_t) difference->actors_count * item + 1);
    difference->stages = verl_pool_try(&self->pool, (size_t) difference->stages_count * item + 1);
    difference->gone_actors = verl_pool_try(&self->pool, (size_t) difference->before->actors_count * index + 1);
    difference->gone_stages = verl_pool_try(&self->pool, (size_t) difference->before->stages_count * index + 1);
    return difference->actors && difference->stages && difference->gone_actors && difference->gone_stages;
}

verl_difference_t *
verl_difference_new(const verl_plan_t *before, const verl_plan_t *after, const char *const *swap, int swap_count,
                    verl_error_t *error)
{
    verl_difference_box_t *self = calloc(1, sizeof *self);
    verl_difference_t *difference = self ? &self->difference : NULL;
    if (!self) {
        verl_error_set(error, "out of memory");
        return NULL;
    }
    difference->before = before;
    difference->after = after;
    self->failed = !s_room(self);
    int refused = self->failed ? 0 : s_check_run(self, error) || s_swap(self, swap, swap_count, error) ? -1 : 0;
    if (!self->failed && !refused) {
        s_compare_run(self);
        for (int i = 0; i < after->actors_count; i++)
            s_compare_actor(self, &difference->actors[i], &after->actors[i]);
        for (int i = 0; i < after->stages_count; i++)
            s_compare_stage(self, &difference->stages[i], &after->stages[i]);
        s_gone(difference);
        difference->empty = s_is_empty(difference);
    }
    if (self->failed)
        verl_error_set(error, "out of memory");
    if (self->failed || refused)
        verl_difference_destroy(&difference);
    return difference;
}

void
verl_difference_destroy(verl_difference_t **difference_p)
{
    if (!*difference_p)
        return;
    verl_difference_box_t *self = (verl_difference_box_t *) *difference_p;
    *difference_p = NULL;
    verl_pool_done(&self->pool);
    free(self);
}
