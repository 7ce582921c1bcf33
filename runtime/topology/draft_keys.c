// draft_keys.c: the keys of one table against option tables: unknown ones, types, ranges, files, what is missing.
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "runtime/topology/draft.h"
#include "runtime/topology/nearest.h"
#include "runtime/topology/options.h"
#include "runtime/topology/value.h"

verl_at_t
verl_draft_at(const verl_node_t *node, const char *key, verl_at_t fallback)
{
    const verl_node_t *value = verl_node_get(node, key);
    return value ? value->at : fallback;
}

verl_at_t
verl_draft_key_at(const verl_node_t *node, const char *key, verl_at_t fallback)
{
    const verl_node_t *value = verl_node_get(node, key);
    return value ? value->key_at : fallback;
}

bool
verl_draft_name(verl_draft_t *draft, const char *what, const char *name, verl_at_t at)
{
    bool good = *name && strlen(name) <= 64 && *name != '-';
    for (const unsigned char *c = (const unsigned char *) name; *c; c++)
        good = good && *c < 0x80 && (isalnum(*c) || *c == '_' || *c == '-');
    if (!good)
        verl_problem_add(&draft->problems, at,
                         "`%.100s` cannot be the name of %s: at most 64 letters, digits, _ and -%s would be right", name,
                         what, *name == '-' ? ", which no name begins with," : "");
    return good;
}

// Is a key a word for what an option takes that has to be given: `path`, for `files`?
static bool
s_means(const verl_option_t *option, const char *key)
{
    bool paths = option->type == VERL_OPTION_PATH || option->type == VERL_OPTION_PATHS;
    return strcmp(key, "path") == 0 && paths && !option->optional && !option->fallback;
}

// "it must be ours" in one sentence, for a key that none of the scopes has.
static void
s_unknown(verl_draft_t *draft, const verl_node_t *value, const char *key, const char *where, const verl_scope_t *scopes,
          int scopes_count, const char *hint)
{
    verl_nearest_t nearest;
    verl_nearest_init(&nearest, key);
    for (int i = 0; i < scopes_count; i++)
        for (const verl_option_t *option = scopes[i].table; option && option->name; option++) {
            char system[32];
            if (verl_draft_system(option, key, system, sizeof system)) {
                verl_problem_add(&draft->problems, value->key_at,
                                 "`%s` is the name that %s has for it: here it is %s", key, system,
                                 verl_draft_named(draft, option, key));
                return;
            }
            verl_nearest_offer(&nearest, option->name);
            if (!nearest.best && s_means(option, key))
                nearest.best = option->name;
        }
    int keys = 0;
    if (hint && (!nearest.best || nearest.distance > 0))
        verl_problem_add(&draft->problems, value->key_at, "%s", hint);
    else if (!nearest.best && verl_draft_foreign(draft, value, key, &keys) > 0)
        return;
    else if (nearest.best)
        verl_problem_add(&draft->problems, value->key_at, "there is no key `%s` in %s: did you mean `%s`?", key, where,
                         nearest.best);
    else
        verl_problem_add(&draft->problems, value->key_at,
                         "there is no key `%s` in %s: `verl-run --help %s` lists the "
                         "keys that there are",
                         key, where, strcmp(where, "[run]") == 0 ? "run" : "KIND");
}

bool
verl_draft_mistyped(verl_draft_t *draft, const verl_node_t *node, const char *where, const char *const *names,
                    int names_count)
{
    for (int i = 0; i < node->count; i++) {
        const char *key = node->keys[i];
        verl_nearest_t nearest;
        verl_nearest_init(&nearest, strcmp(key, "type") == 0 ? "kind" : key);
        for (int n = 0; n < names_count; n++)
            verl_nearest_offer(&nearest, names[n]);
        if (!nearest.best || verl_draft_ours(draft, key))
            continue;
        verl_problem_add(&draft->problems, node->items[i]->key_at, "there is no key `%s` in %s: did you mean `%s`?",
                         key, where, nearest.best);
        return true;
    }
    return false;
}

// Was an unknown key probably meant to be this option? Then that it is missing says nothing new.
static bool
s_was_mistyped(const verl_node_t *node, const verl_option_t *option, const verl_scope_t *scopes, int scopes_count)
{
    for (int i = 0; i < node->count; i++) {
        bool known = false;
        for (int s = 0; s < scopes_count; s++)
            known = known || verl_option_find(scopes[s].table, node->keys[i]);
        verl_nearest_t nearest;
        verl_nearest_init(&nearest, node->keys[i]);
        verl_nearest_offer(&nearest, option->name);
        char system[32];
        if (!known && (nearest.best || s_means(option, node->keys[i]) ||
                       verl_draft_system(option, node->keys[i], system, sizeof system)))
            return true;
    }
    return false;
}

static int
s_check(verl_draft_t *draft, const verl_option_t *option, const verl_node_t *node, verl_value_t *values)
{
    verl_value_t given = verl_value_from_node(draft->pool, node), value;
    verl_option_fault_t fault = { .item = -1 };
    int rc = -1;
    if (node->type == VERL_NODE_DATE)
        verl_error_set(&fault.error, "is a date: no option takes one");
    else
        rc = verl_option_check(option, &given, draft->pool, draft->folder, &value, &fault);
    if (rc == 0) {
        verl_value_put(draft->pool, values, option->name, value);
        return 0;
    }
    const verl_node_t *at = fault.item >= 0 && fault.item < node->count ? node->items[fault.item] : node;
    verl_problem_add(&draft->problems, at->at, "`%s` %s", option->name, fault.error.text);
    return 1;
}

// `as` and `uses` take a string or a table, and have a check of their own.
static bool
s_is_special(const verl_option_t *option)
{
    const verl_option_t *as = verl_option_find(verl_stage_table, "as"),
                        *uses = verl_option_find(verl_stage_table, "uses");
    return option == as || option == uses;
}

static int
s_defaults(verl_draft_t *draft, const verl_node_t *node, const char *where, const verl_scope_t *scopes,
           int scopes_count, int scope)
{
    int mistakes = 0;
    for (const verl_option_t *option = scopes[scope].table; option && option->name; option++) {
        if (verl_value_get(scopes[scope].values, option->name))
            continue;
        verl_value_t value;
        verl_option_fault_t fault;
        bool given = verl_node_get(node, option->name) != NULL;
        if (verl_option_default(option, draft->pool, draft->folder, &value, &fault) == 1)
            verl_value_put(draft->pool, scopes[scope].values, option->name, value);
        else if (!option->optional && !given) {
            mistakes++;
            if (!s_was_mistyped(node, option, scopes, scopes_count))
                verl_problem_add(&draft->problems, node->key_at, "%s has no `%s` (%s): `%s = …` would be right", where,
                                 option->name, option->about ? option->about : "", option->name);
        }
    }
    return mistakes;
}

int
verl_draft_keys(verl_draft_t *draft, const verl_node_t *node, const char *where, const verl_scope_t *scopes,
                int scopes_count, bool lax, verl_elsewhere_t elsewhere, const void *who)
{
    int mistakes = 0;
    for (int i = 0; i < node->count; i++) {
        bool known = false;
        for (int s = 0; s < scopes_count; s++) {
            const verl_option_t *option = verl_option_find(scopes[s].table, node->keys[i]);
            known = known || option;
            if (option && !s_is_special(option))
                mistakes += s_check(draft, option, node->items[i], scopes[s].values);
        }
        if (known || lax)
            continue;
        const char *hint = elsewhere ? elsewhere(draft, who, node->keys[i]) : NULL;
        s_unknown(draft, node->items[i], node->keys[i], where, scopes, scopes_count, hint);
        mistakes++;
    }
    for (int s = 0; s < scopes_count; s++)
        mistakes += s_defaults(draft, node, where, scopes, scopes_count, s);
    return mistakes;
}
