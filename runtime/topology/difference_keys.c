// difference_keys.c: the keys by which two things differ, as the TOML that would say them. See difference_impl.h.
#include "runtime/topology/difference_impl.h"
#include <stdlib.h>
#include <string.h>
#include "runtime/topology/value.h"

static const char *const s_skips[] = { "stop", "skip" };

static char *
s_copy(verl_difference_box_t *self, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = verl_pool_try(&self->pool, size);
    if (copy)
        memcpy(copy, text, size);
    else
        self->failed = true;
    return copy;
}

void
verl_differ(verl_keys_t *keys, const char *key, const char *before, const char *after)
{
    verl_difference_box_t *self = keys->box;
    if (keys->count % 8 == 0) {
        verl_key_change_t *more = verl_pool_try(&self->pool, (size_t) (keys->count + 8) * sizeof *more);
        if (!more) {
            self->failed = true;
            return;
        }
        if (keys->count)
            memcpy(more, keys->items, (size_t) keys->count * sizeof *more);
        keys->items = more;
    }
    keys->items[keys->count++] = (verl_key_change_t) { s_copy(self, key), s_copy(self, before), s_copy(self, after) };
}

// A value as TOML, malloc'ed; "" of NULL.
static char *
s_toml(const verl_value_t *value)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    if (value)
        verl_value_print(out, value);
    if (fclose(out)) {
        free(text);
        return NULL;
    }
    return text;
}

static void
s_values(verl_keys_t *keys, const char *key, const verl_value_t *before, const verl_value_t *after)
{
    char *old = s_toml(before), *new = s_toml(after);
    if (!old || !new)
        keys->box->failed = true;
    else if (strcmp(old, new) != 0)
        verl_differ(keys, key, old, new);
    free(old);
    free(new);
}

void
verl_differ_int(verl_keys_t *keys, const char *key, int64_t before, int64_t after)
{
    verl_value_t old = { .type = VERL_VALUE_INT, .integer = before };
    verl_value_t new = { .type = VERL_VALUE_INT, .integer = after };
    s_values(keys, key, &old, &new);
}

void
verl_differ_real(verl_keys_t *keys, const char *key, double before, double after)
{
    verl_value_t old = { .type = VERL_VALUE_REAL, .real = before }, new = { .type = VERL_VALUE_REAL, .real = after };
    s_values(keys, key, &old, &new);
}

void
verl_differ_text(verl_keys_t *keys, const char *key, const char *before, const char *after)
{
    verl_value_t old = { .type = VERL_VALUE_STRING, .string = (char *) before };
    verl_value_t new = { .type = VERL_VALUE_STRING, .string = (char *) after };
    s_values(keys, key, before ? &old : NULL, after ? &new : NULL);
}

const verl_value_t *
verl_kept_options(const verl_plan_actor_t *before, const verl_plan_actor_t *after, const verl_value_t *options)
{
    static const verl_value_t none = { .type = VERL_VALUE_TABLE };
    return strcmp(before->kind_name, after->kind_name) == 0 ? options : &none;
}

void
verl_differ_options(verl_keys_t *keys, const verl_value_t *before, const verl_value_t *after)
{
    for (int i = 0; i < before->count; i++)
        s_values(keys, before->keys[i], &before->items[i], verl_value_get(after, before->keys[i]));
    for (int i = 0; i < after->count; i++)
        if (!verl_value_get(before, after->keys[i]))
            s_values(keys, after->keys[i], NULL, &after->items[i]);
}

// --- of a stage ----------------------------------------------------------------------------------------------------

static void
s_depends(verl_keys_t *keys, const verl_plan_t *old_plan, const verl_plan_stage_t *before, const verl_plan_t *new_plan,
          const verl_plan_stage_t *after)
{
    const verl_plan_t *plans[] = { old_plan, new_plan };
    const verl_plan_stage_t *stages[] = { before, after };
    char *texts[2] = { NULL, NULL };
    for (int i = 0; i < 2; i++) {
        size_t size;
        FILE *out = open_memstream(&texts[i], &size);
        for (int j = 0; out && j < stages[i]->depends_count; j++) {
            fputs(j ? ", " : "[", out);
            verl_value_print_string(out, plans[i]->stages[stages[i]->depends[j]].name);
        }
        if (out && stages[i]->depends_count)
            fputc(']', out);
        if (!out || fclose(out))
            keys->box->failed = true;
    }
    if (texts[0] && texts[1] && strcmp(texts[0], texts[1]) != 0)
        verl_differ(keys, "depends_on", texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
}

// "reward.score": the stage that a need is met by, and the column there; "" where it is not met.
static const char *
s_met_by(const verl_plan_t *plan, const verl_plan_stage_t *stage, const char *need, char text[256])
{
    text[0] = 0;
    for (int i = 0; i < stage->needs_count; i++)
        if (strcmp(stage->needs[i].name, need) == 0 && stage->needs[i].edge >= 0)
            snprintf(text, 256, "%.120s.%.120s", plan->stages[plan->edges[stage->needs[i].edge].maker].name,
                     stage->needs[i].column);
    return text;
}

static const char *
s_given_as(const verl_plan_stage_t *stage, const char *column)
{
    for (int i = 0; i < stage->gives_count; i++)
        if (strcmp(stage->gives[i], column) == 0)
            return stage->gives_as[i];
    return "";
}

static void
s_columns(verl_keys_t *keys, const verl_plan_t *old_plan, const verl_plan_stage_t *before, const verl_plan_t *new_plan,
          const verl_plan_stage_t *after)
{
    char key[256], old[256], new[256];
    const verl_plan_stage_t *both[] = { after, before };
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < both[side]->needs_count; i++) {
            const char *need = both[side]->needs[i].name;
            s_met_by(old_plan, before, need, old);
            s_met_by(new_plan, after, need, new);
            snprintf(key, sizeof key, "uses.%.200s", need);
            if (strcmp(old, new) != 0 && (side == 0 || !*new))
                verl_differ(keys, key, old, new);
        }
        for (int i = 0; i < both[side]->gives_count; i++) {
            const char *column = both[side]->gives[i];
            const char *was = s_given_as(before, column), *is = s_given_as(after, column);
            snprintf(key, sizeof key, "as.%.200s", column);
            if (strcmp(was, is) != 0 && (side == 0 || !*is))
                verl_differ(keys, key, was, is);
        }
    }
}

static void
s_weights(verl_keys_t *keys, const verl_plan_t *old_plan, const verl_plan_stage_t *before, const verl_plan_t *new_plan,
          const verl_plan_stage_t *after)
{
    const verl_plan_edge_t *old = before->weights_edge >= 0 ? &old_plan->edges[before->weights_edge] : NULL;
    const verl_plan_edge_t *new = after->weights_edge >= 0 ? &new_plan->edges[after->weights_edge] : NULL;
    if (old || new)
        verl_differ_text(keys, "weights", old ? old_plan->stages[old->maker].name : NULL,
                new ? new_plan->stages[new->maker].name : NULL);
    verl_differ_int(keys, "staleness", old ? old->staleness : 0, new ? new->staleness : 0);
}

void
verl_differ_stage(verl_keys_t *keys, const verl_plan_t *old_plan, const verl_plan_stage_t *before,
                  const verl_plan_t *new_plan, const verl_plan_stage_t *after)
{
    verl_differ_text(keys, "actor", old_plan->actors[before->actor].name, new_plan->actors[after->actor].name);
    verl_differ_text(keys, "does", before->does, after->does);
    s_depends(keys, old_plan, before, new_plan, after);
    const verl_value_t *options =
        verl_kept_options(&old_plan->actors[before->actor], &new_plan->actors[after->actor], &before->options);
    verl_differ_options(keys, options, &after->options);
    s_columns(keys, old_plan, before, new_plan, after);
    s_weights(keys, old_plan, before, new_plan, after);
    verl_differ_int(keys, "every", before->span.period, after->span.period);
    verl_differ_int(keys, "begin", before->span.begin, after->span.begin);
    verl_differ_int(keys, "parts", before->parts, after->parts);
    verl_differ_real(keys, "timeout", before->timeout, after->timeout);
    verl_differ_text(keys, "on_error", s_skips[before->on_error], s_skips[after->on_error]);
}
