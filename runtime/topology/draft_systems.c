// draft_systems.c: where a key belongs that stands elsewhere: ours, or one of another system, which the options of
// every table name in `also`.
#include <stdio.h>
#include <string.h>
#include "runtime/topology/draft.h"
#include "runtime/topology/kinds.h"
#include "runtime/topology/nearest.h"

// Does a name end with the parts of another: actor_rollout_ref.rollout.n with rollout.n?
static bool
s_ends_with(const char *name, const char *parts)
{
    size_t whole = strlen(name), length = strlen(parts);
    bool part = whole > length && name[whole - length - 1] == '.';
    return (whole == length || part) && verl_same_name(name + whole - length, parts);
}

const char *
verl_draft_system(const verl_option_t *option, const char *key, char *system, size_t size)
{
    for (const char *at = option->also; at && *at;) {
        size_t length = strcspn(at, " "), name = strcspn(at, ":");
        char text[256];
        if (name < length && length - name - 1 < sizeof text) {
            snprintf(text, sizeof text, "%.*s", (int) (length - name - 1), at + name + 1);
            const char *whole = text + strspn(text, "-"), *written = key + strspn(key, "-");
            if (s_ends_with(whole, written) || (strchr(whole, '.') && s_ends_with(written, whole))) {
                snprintf(system, size, "%.*s", (int) name, at);
                return system;
            }
        }
        at += length;
        at += strspn(at, " ");
    }
    return NULL;
}

const char *
verl_draft_named(verl_draft_t *draft, const verl_option_t *first, const char *key)
{
    const char *names = verl_pool_print(draft->pool, "`%s`", first->name);
    char system[32];
    for (const verl_option_t *option = first + 1; option->name; option++)
        if (verl_draft_system(option, key, system, sizeof system))
            names = verl_pool_print(draft->pool, "%s and `%s`", names, option->name);
    return names;
}

typedef struct search {
    verl_draft_t *draft;
    const char *key;
    bool systems; // looks for keys of other systems; else for ours
    const char *answer;
} search_t;

static bool
s_look(search_t *self, const verl_option_t *table, const char *where)
{
    char system[32];
    for (const verl_option_t *option = table; option && option->name && !self->answer; option++)
        if (!self->systems && strcmp(option->name, self->key) == 0)
            self->answer = verl_pool_print(self->draft->pool, "`%s` is a key of %s: there it would be right", self->key,
                                           where);
        else if (self->systems && verl_draft_system(option, self->key, system, sizeof system))
            self->answer =
                verl_pool_print(self->draft->pool, "`%s` is the name that %s has for it: here it is %s in %s", self->key,
                                system, verl_draft_named(self->draft, option, self->key), where);
    return self->answer;
}

static void
s_look_in_kind(search_t *self, const verl_kind_t *kind)
{
    char shown[256];
    int stages = verl_stage_kind_count(kind);
    const char *name = verl_kind_shown(kind, shown, sizeof shown), *one = stages == 1 ? "a stage" : "an actor";
    s_look(self, kind->options, verl_pool_print(self->draft->pool, "%s of kind `%s`", one, name));
    for (int s = 0; s < stages && !self->answer; s++) {
        const char *does =
            verl_pool_print(self->draft->pool, "a stage that does `%s` of kind `%s`", kind->stages[s].name, name);
        if (stages == 1)
            does = verl_pool_print(self->draft->pool, "a stage of kind `%s`", name);
        s_look(self, kind->stages[s].options, does);
    }
}

static const char *
s_answer(search_t *self)
{
    const verl_kind_t *kind;
    s_look(self, verl_run_table, "[run]");
    s_look(self, verl_stage_table, "[stage.NAME]");
    s_look(self, verl_actor_table, "[actor.NAME]");
    for (int k = 0; !self->answer && (kind = verl_kind_at(k)); k++)
        s_look_in_kind(self, kind);
    return self->answer;
}

// The last part of many names, and of none in particular.
static bool
s_says_little(const char *key)
{
    return strcmp(key, "name") == 0 || strcmp(key, "path") == 0;
}

const char *
verl_draft_ours(verl_draft_t *draft, const char *key)
{
    search_t ours = { .draft = draft, .key = key }, theirs = { .draft = draft, .key = key, .systems = true };
    const char *answer = s_answer(&ours);
    return answer || s_says_little(key) ? answer : s_answer(&theirs);
}

int
verl_draft_foreign(verl_draft_t *draft, const verl_node_t *node, const char *path, int *ret_keys)
{
    int answered = 0;
    if (node->type != VERL_NODE_TABLE) {
        const char *ours = verl_draft_ours(draft, path);
        ++*ret_keys;
        if (ours)
            verl_problem_add(&draft->problems, node->key_at, "%s", ours);
        return ours ? 1 : 0;
    }
    for (int i = 0; i < node->count; i++)
        answered += verl_draft_foreign(draft, node->items[i],
                                       verl_pool_print(draft->pool, "%s.%s", path, node->keys[i]), ret_keys);
    return answered;
}
