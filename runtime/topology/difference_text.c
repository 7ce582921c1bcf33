// difference_text.c: a difference in words and as JSON. See difference.h.
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/topology/difference.h"

static const char *const s_fates[] = { "kept", "changed", "replaced", "added" };

// --- for people ---------------------------------------------------------------------------------------------------

static void
s_print_keys(FILE *out, const verl_key_change_t *keys, int count)
{
    for (int i = 0; i < count; i++) {
        const verl_key_change_t *key = &keys[i];
        fprintf(out, "%s%s ", i ? ", " : "  ", key->key);
        if (!*key->before)
            fprintf(out, "= %s", key->after);
        else
            fprintf(out, "%s -> %s", key->before, *key->after ? key->after : "absent");
    }
}

static const char *
s_state_words(const verl_change_item_t *item)
{
    if (item->fate != VERL_FATE_REPLACED || item->state == VERL_STATE_NONE)
        return "";
    return item->state == VERL_STATE_HANDED ? "  (its state goes to the new one)" : "  (its state begins anew)";
}

static void
s_print_items(FILE *out, const char *what, const verl_change_item_t *items, int count)
{
    for (int i = 0; i < count; i++) {
        if (items[i].fate == VERL_FATE_KEPT)
            continue;
        fprintf(out, "%-8s  %s %s", s_fates[items[i].fate], what, items[i].name);
        s_print_keys(out, items[i].keys, items[i].keys_count);
        fprintf(out, "%s\n", s_state_words(&items[i]));
    }
}

static void
s_print_kept(const verl_difference_t *self, FILE *out)
{
    int count = 0;
    for (int i = 0; i < self->actors_count; i++)
        if (self->actors[i].fate <= VERL_FATE_CHANGED)
            fprintf(out, "%s%s", count++ ? ", " : "goes on   ", self->actors[i].name);
    fputs(count ? "\n" : "", out);
}

void
verl_difference_print(const verl_difference_t *self, FILE *out)
{
    if (self->empty)
        fputs("nothing changes\n", out);
    if (self->run_count) {
        fputs("changed   [run]", out);
        s_print_keys(out, self->run, self->run_count);
        fputc('\n', out);
    }
    s_print_items(out, "actor", self->actors, self->actors_count);
    for (int i = 0; i < self->gone_actors_count; i++)
        fprintf(out, "removed   actor %s\n", self->before->actors[self->gone_actors[i]].name);
    s_print_items(out, "stage", self->stages, self->stages_count);
    for (int i = 0; i < self->gone_stages_count; i++)
        fprintf(out, "removed   stage %s\n", self->before->stages[self->gone_stages[i]].name);
    s_print_kept(self, out);
}

typedef struct words {
    char  *text;
    size_t size, length;
    int    count;
} words_t;

static void
s_append_list(words_t *self, const char *format, va_list arguments)
{
    if (self->length >= self->size)
        return;
    int more = vsnprintf(self->text + self->length, self->size - self->length, format, arguments);
    self->length += more > 0 ? (size_t) more : 0;
}

static void __attribute__((format(printf, 2, 3)))
s_append(words_t *self, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    s_append_list(self, format, arguments);
    va_end(arguments);
}

// One more of the things that are said.
static void __attribute__((format(printf, 2, 3)))
s_say(words_t *self, const char *format, ...)
{
    va_list arguments;
    if (self->count++)
        s_append(self, ", ");
    va_start(arguments, format);
    s_append_list(self, format, arguments);
    va_end(arguments);
}

// "set stage.key=2", or "unset stage.key".
static void
s_say_value(words_t *self, const char *owner, const verl_key_change_t *key)
{
    if (*key->after)
        s_say(self, "set %s.%s=%s", owner, key->key, key->after);
    else
        s_say(self, "unset %s.%s", owner, key->key);
}

// " (threads=2, device unset, begins anew)" behind an actor that goes on or is replaced.
static void
s_say_keys(words_t *self, const verl_change_item_t *actor)
{
    if (actor->fate == VERL_FATE_ADDED)
        return;
    const char *gap = " (";
    for (int i = 0; i < actor->keys_count; i++, gap = ", ")
        s_append(self, "%s%s%s%s", gap, actor->keys[i].key, *actor->keys[i].after ? "=" : " unset",
                 actor->keys[i].after);
    if (actor->state == VERL_STATE_FRESH) {
        s_append(self, "%sbegins anew", gap);
        gap = ", ";
    }
    s_append(self, "%s", *gap == ',' ? ")" : "");
}

// A stage goes with an actor of its name where the actor is named already.
static bool
s_told(const verl_difference_t *self, const char *stage, verl_fate_t fate)
{
    for (int i = 0; i < self->actors_count; i++)
        if (strcmp(self->actors[i].name, stage) == 0 && self->actors[i].fate == fate)
            return true;
    return false;
}

static bool
s_gone_with_actor(const verl_difference_t *self, const char *stage)
{
    for (int i = 0; i < self->gone_actors_count; i++)
        if (strcmp(self->before->actors[self->gone_actors[i]].name, stage) == 0)
            return true;
    return false;
}

const char *
verl_difference_brief(const verl_difference_t *self, char *text, size_t size)
{
    words_t words = { .text = text, .size = size };
    if (size)
        text[0] = 0;
    for (int i = 0; i < self->actors_count; i++)
        if (self->actors[i].fate != VERL_FATE_KEPT) {
            s_say(&words, "%s %s", s_fates[self->actors[i].fate], self->actors[i].name);
            s_say_keys(&words, &self->actors[i]);
        }
    for (int i = 0; i < self->gone_actors_count; i++)
        s_say(&words, "removed %s", self->before->actors[self->gone_actors[i]].name);
    for (int i = 0; i < self->stages_count; i++) {
        const verl_change_item_t *stage = &self->stages[i];
        if (stage->fate == VERL_FATE_ADDED && !s_told(self, stage->name, VERL_FATE_ADDED))
            s_say(&words, "added stage %s", stage->name);
        for (int j = 0; stage->fate == VERL_FATE_CHANGED && j < stage->keys_count; j++)
            if (stage->keys_count == 1 || strncmp(stage->keys[j].key, "uses.", 5) != 0)   // they follow from the rest
                s_say_value(&words, stage->name, &stage->keys[j]);
    }
    for (int i = 0; i < self->gone_stages_count; i++) {
        const char *stage = self->before->stages[self->gone_stages[i]].name;
        if (!s_gone_with_actor(self, stage))
            s_say(&words, "removed stage %s", stage);
    }
    for (int i = 0; words.count == 0 && i < self->run_count; i++)   // else it only follows from the rest
        s_say_value(&words, "run", &self->run[i]);
    if (words.count == 0)
        s_say(&words, "nothing changed");
    return text;
}

// --- for programs -------------------------------------------------------------------------------------------------

static json_t *
s_json_keys(const verl_key_change_t *keys, int count)
{
    json_t *object = json_object();
    for (int i = 0; i < count; i++)
        json_object_set_new(object, keys[i].key, json_pack("[s, s]", keys[i].before, keys[i].after));
    return object;
}

static json_t *
s_json_items(const verl_change_item_t *items, int count)
{
    static const char *const states[] = { "none", "handed", "fresh" };
    json_t *object = json_object();
    for (int i = 0; i < count; i++) {
        if (items[i].fate == VERL_FATE_KEPT)
            continue;
        json_t *item = json_pack("{s:s}", "fate", s_fates[items[i].fate]);
        if (items[i].state != VERL_STATE_NONE)
            json_object_set_new(item, "state", json_string(states[items[i].state]));
        if (items[i].keys_count)
            json_object_set_new(item, "keys", s_json_keys(items[i].keys, items[i].keys_count));
        json_object_set_new(object, items[i].name, item);
    }
    return object;
}

static void
s_json_gone(json_t *object, const char *name)
{
    json_object_set_new(object, name, json_pack("{s:s}", "fate", "removed"));
}

json_t *
verl_difference_json(const verl_difference_t *self)
{
    json_t *actors = s_json_items(self->actors, self->actors_count);
    json_t *stages = s_json_items(self->stages, self->stages_count);
    for (int i = 0; i < self->gone_actors_count; i++)
        s_json_gone(actors, self->before->actors[self->gone_actors[i]].name);
    for (int i = 0; i < self->gone_stages_count; i++)
        s_json_gone(stages, self->before->stages[self->gone_stages[i]].name);
    return json_pack("{s:b, s:o, s:o, s:o}", "empty", self->empty, "run", s_json_keys(self->run, self->run_count),
                     "actors", actors, "stages", stages);
}
