// draft_fit.c: see draft_fit.h. Nothing is checked here: what cannot be understood stays where it is, and the passes
// behind say what is wrong with it.
#include "runtime/topology/draft_fit.h"
#include <string.h>
#include "runtime/topology/kinds.h"
#include "runtime/topology/options.h"
#include "runtime/topology/value.h"

typedef struct fit {
    verl_draft_t            *draft;
    const char              *name;          // of a stage, and of its actor
    verl_node_t             *stage, *actor; // of the topology
    verl_node_t             *change;        // the stage's, of the fragment
    const verl_kind_t       *kind;          // as it will be; NULL: not known
    const verl_stage_kind_t *handler;
} fit_t;

static verl_node_t *
s_section(const verl_node_t *root, const char *section, const char *name)
{
    verl_node_t *node = verl_node_get(verl_node_get(root, section), name);
    return node && node->type == VERL_NODE_TABLE ? node : NULL;
}

static const char *
s_text(const verl_node_t *table, const char *key)
{
    const verl_node_t *node = verl_node_get(table, key);
    return node && node->type == VERL_NODE_STRING ? node->string : NULL;
}

static const verl_kind_t *
s_kind(verl_draft_t *draft, const char *name)
{
    verl_error_t ignored = { "" };
    if (!name)
        return NULL;
    if (verl_kind_is_path(name) && *name != '/')
        name = verl_pool_print(draft->pool, "%s/%s", draft->folder, name);
    return verl_kind_find(name, &ignored);
}

// A stage that has an actor of its own name to itself.
static bool
s_own(const verl_draft_t *draft, const char *name, verl_node_t **ret_stage, verl_node_t **ret_actor)
{
    *ret_stage = s_section(draft->root, "stage", name);
    *ret_actor = s_section(draft->root, "actor", name);
    const char *actor = s_text(*ret_stage, "actor");
    return *ret_actor && actor && strcmp(actor, name) == 0;
}

// Takes away the keys that neither the table nor `besides` has: what another kind called its options.
static void
s_strip(verl_node_t *node, const verl_option_t *table, const char *besides)
{
    for (int i = node->count - 1; i >= 0; i--)
        if (!verl_option_find(table, node->keys[i]) && strcmp(node->keys[i], besides) != 0)
            verl_node_remove(node, node->keys[i]);
}

static void
s_strip_stage(verl_node_t *stage)
{
    s_strip(stage, verl_stage_table, "kind");
    verl_node_remove(stage, "does");
}

static void
s_find_handler(fit_t *self)
{
    const char *does = s_text(self->change, "does");
    if (!does)
        does = s_text(self->stage, "does");
    if (!self->kind)
        return;
    self->handler = verl_stage_kind_find(self->kind, does ? does : self->name);
    if (!self->handler && verl_stage_kind_count(self->kind) == 1)
        self->handler = &self->kind->stages[0];
}

static bool
s_is_actors(const fit_t *self, const char *key)
{
    if (strcmp(key, "kind") == 0)
        return true;
    if (verl_option_find(verl_stage_table, key) || (self->handler && verl_option_find(self->handler->options, key)))
        return false;
    return verl_option_find(verl_actor_table, key) || (self->kind && verl_option_find(self->kind->options, key));
}

static void
s_fit(fit_t *self, verl_node_t *fragment)
{
    verl_pool_t *pool = self->draft->pool;
    const char *kind = s_text(self->change, "kind");
    const verl_kind_t *before = s_kind(self->draft, s_text(self->actor, "kind"));
    self->kind = kind ? s_kind(self->draft, kind) : before;
    if (kind && self->kind && self->kind != before) {
        s_strip(self->actor, verl_actor_table, "kind");
        s_strip_stage(self->stage);
    }
    s_find_handler(self);
    verl_node_t *actors = verl_node_get(fragment, "actor"), *mine = s_section(fragment, "actor", self->name);
    for (int i = 0; i < self->change->count; i++) {
        char *key = self->change->keys[i];
        if (!s_is_actors(self, key))
            continue;
        if (!actors || actors->type != VERL_NODE_TABLE)
            verl_node_put(pool, fragment, "actor", actors = verl_node_table(pool));
        if (!mine)
            verl_node_put(pool, actors, self->name, mine = verl_node_table(pool));
        verl_node_put(pool, mine, key, self->change->items[i]);
        verl_node_remove(self->change, key);
        i--;
    }
}

// A stage moves to another actor, perhaps of another kind.
static void
s_fit_move(verl_draft_t *draft, const verl_node_t *fragment, verl_node_t *stage, const verl_node_t *change)
{
    const char *from = s_text(stage, "actor"), *to = s_text(change, "actor");
    if (!from || !to || strcmp(from, to) == 0)
        return;
    const char *kind = s_text(s_section(fragment, "actor", to), "kind");
    if (!kind)
        kind = s_text(s_section(draft->root, "actor", to), "kind");
    const verl_kind_t *after = s_kind(draft, kind);
    if (after && after != s_kind(draft, s_text(s_section(draft->root, "actor", from), "kind")))
        s_strip_stage(stage);
}

// What it is said to do replaces the function that it had, which the running topology has under that key.
static void
s_fit_function(verl_draft_t *draft, const verl_node_t *fragment, verl_node_t *stage, verl_node_t *change)
{
    verl_node_t *does = verl_node_get(change, "does");
    const char *actor = s_text(change, "actor"), *name = s_text(change, "kind");
    if (!does || does->type != VERL_NODE_STRING || verl_node_get(change, "function"))
        return;
    if (!actor)
        actor = s_text(stage, "actor");
    if (!name && actor)
        name = s_text(s_section(fragment, "actor", actor), "kind");
    if (!name && actor)
        name = s_text(s_section(draft->root, "actor", actor), "kind");
    const verl_kind_t *kind = s_kind(draft, name);
    if (!kind || !verl_stage_kind_function(kind))
        return;
    if (verl_stage_kind_find(kind, does->string)) {
        verl_node_remove(stage, "function");
        return;
    }
    verl_node_put(draft->pool, change, "function", does);
    verl_node_remove(change, "does");
}

static bool
s_is_stale(const verl_node_t *stage)
{
    const verl_node_t *staleness = stage ? verl_node_get(stage, "staleness") : NULL;
    return staleness && staleness->type == VERL_NODE_INT && staleness->integer > 0;
}

// A stage whose weights may be stale no longer has no actor of its own any more, and not its keys. change: keys that it
// is given now; NULL: none.
static void
s_strip_actor(verl_node_t *stage, const verl_node_t *change)
{
    for (const verl_option_t *option = verl_actor_table; option->name; option++)
        if (!verl_option_find(verl_stage_table, option->name) && !(change && verl_node_get(change, option->name)))
            verl_node_remove(stage, option->name);
}

static void
s_fit_staleness(verl_node_t *stage, const verl_node_t *change)
{
    if (s_is_stale(stage) && verl_node_get(change, "staleness") && !s_is_stale(change))
        s_strip_actor(stage, change);
}

// "stage.x.key" where the key is the actor's, or is the staleness that gave the stage an actor of its own.
static void
s_fit_unset(verl_draft_t *draft, verl_node_t *item)
{
    verl_node_t *stage, *actor;
    if (item->type != VERL_NODE_STRING || strncmp(item->string, "stage.", 6) != 0)
        return;
    const char *name = item->string + 6, *dot = strchr(name, '.');
    if (!dot)
        return;
    bool own = s_own(draft, verl_pool_copy_n(draft->pool, name, (size_t) (dot - name)), &stage, &actor);
    if (strcmp(dot + 1, "staleness") == 0 && s_is_stale(stage))
        s_strip_actor(stage, NULL);
    if (strcmp(dot + 1, "does") == 0 && stage && verl_node_get(stage, "function"))
        item->string = verl_pool_print(draft->pool, "stage.%.*s.function", (int) (dot - name), name);
    if (!own)
        return;
    if (!verl_node_get(stage, dot + 1) && verl_node_get(actor, dot + 1))
        item->string = verl_pool_print(draft->pool, "actor.%s", name);
}

// A key of [run] as a plan would hold it; false: wrong, which is reported elsewhere.
static bool
s_run_value(verl_draft_t *draft, const char *key, const verl_node_t *node, verl_value_t *ret_value)
{
    const verl_option_t *option = verl_option_find(verl_run_table, key);
    verl_option_fault_t ignored;
    if (!option || !node || node->type == VERL_NODE_DATE)
        return false;
    verl_value_t given = verl_value_from_node(draft->pool, node);
    return verl_option_check(option, &given, draft->pool, draft->folder, ret_value, &ignored) == 0;
}

// What is the run's for its whole life is told with all other mistakes. See difference.c, which knows what follows.
static void
s_check_run(verl_draft_t *draft, const verl_node_t *fragment)
{
    const verl_node_t *had = verl_node_get(draft->root, "run"), *run = verl_node_get(fragment, "run");
    for (int i = 0; run && run->type == VERL_NODE_TABLE && i < run->count; i++) {
        const char *key = run->keys[i];
        verl_value_t before, after;
        if (strcmp(key, "max_in_flight") == 0 || !s_run_value(draft, key, verl_node_get(had, key), &before) ||
            !s_run_value(draft, key, run->items[i], &after))
            continue;
        bool same = before.type == VERL_VALUE_STRING ? strcmp(before.string, after.string) == 0
                                                     : before.integer == after.integer && before.real == after.real;
        char from[100], to[100];
        if (!same)
            verl_problem_add(&draft->problems, run->items[i]->at,
                             "[run] %s cannot change from %s to %s while the run lives: leave it, or begin a new run",
                             key, verl_value_brief(&before, from, sizeof from),
                             verl_value_brief(&after, to, sizeof to));
    }
}

// A section or a stage is merged key by key, also where it is written inline.
static void
s_merge_inline(verl_node_t *fragment)
{
    static const char *const sections[] = { "run", "mesh", "actor", "stage" };
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        verl_node_t *section = verl_node_get(fragment, sections[i]);
        if (!section)
            continue;
        section->whole = false;
        for (int j = 0; j < section->count; j++)
            section->items[j]->whole = false;
    }
}

void
verl_draft_fit(verl_draft_t *draft, verl_node_t *fragment)
{
    s_merge_inline(fragment);
    s_check_run(draft, fragment);
    const verl_node_t *stages = verl_node_get(fragment, "stage"), *unset = verl_node_get(fragment, "unset");
    for (int i = 0; stages && stages->type == VERL_NODE_TABLE && i < stages->count; i++) {
        fit_t self = { .draft = draft, .name = stages->keys[i], .change = stages->items[i] };
        bool own = s_own(draft, self.name, &self.stage, &self.actor);
        if (!self.stage || self.change->type != VERL_NODE_TABLE)
            continue;
        if (own && !verl_node_get(self.change, "actor"))
            s_fit(&self, fragment);
        s_fit_move(draft, fragment, self.stage, self.change);
        s_fit_function(draft, fragment, self.stage, self.change);
        s_fit_staleness(self.stage, self.change);
    }
    for (int i = 0; unset && unset->type == VERL_NODE_ARRAY && i < unset->count; i++)
        s_fit_unset(draft, unset->items[i]);
}

verl_node_t *
verl_draft_fit_actors(verl_draft_t *draft)
{
    verl_node_t *had = verl_node_table(draft->pool);
    const verl_node_t *stages = verl_node_get(draft->root, "stage");
    for (int i = 0; stages && stages->type == VERL_NODE_TABLE && i < stages->count; i++) {
        const char *actor = s_text(stages->items[i], "actor");
        if (actor)
            verl_node_put(draft->pool, had, actor, stages->items[i]);
    }
    return had;
}

void
verl_draft_fit_orphans(verl_draft_t *draft, const verl_node_t *had)
{
    verl_node_t *actors = verl_node_get(draft->root, "actor");
    const verl_node_t *has = verl_draft_fit_actors(draft);
    for (int i = 0; actors && actors->type == VERL_NODE_TABLE && i < had->count; i++)
        if (!verl_node_get(has, had->keys[i]))
            verl_node_remove(actors, had->keys[i]);
}
