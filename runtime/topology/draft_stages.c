// draft_stages.c: [stage.*]: the actor that each runs in, its handler, its options, and what it depends on.
#include <stdlib.h>
#include <string.h>
#include "runtime/topology/draft.h"
#include "runtime/topology/kinds.h"
#include "runtime/topology/nearest.h"
#include "runtime/topology/options.h"
#include "runtime/topology/value.h"

#define S_SOME 8 // stages that are named where one is looked for

int
verl_draft_find_stage(const verl_draft_t *draft, const char *name)
{
    for (int i = 0; i < draft->stages_count; i++)
        if (strcmp(draft->stages[i].name, name) == 0)
            return i;
    return -1;
}

const char *
verl_draft_nearest_stage(const verl_draft_t *draft, const char *name)
{
    verl_nearest_t nearest;
    verl_nearest_init(&nearest, name);
    for (int i = 0; i < draft->stages_count; i++)
        verl_nearest_offer(&nearest, draft->stages[i].name);
    return nearest.best;
}

// A stage with a kind has an actor for itself, of its own name.
static void
s_make_actor(verl_draft_t *draft, verl_draft_stage_t *stage, const verl_node_t *kind)
{
    int other = verl_draft_find_actor(draft, stage->name);
    if (other >= 0) {
        verl_problem_add(&draft->problems, kind->key_at,
                         "the stage `%s` names a kind, so its own actor would be called "
                         "`%s`, but there is [actor.%s]: `actor = \"%s\"` here, or another name, would be right",
                         stage->name, stage->name, stage->name, stage->name);
        return;
    }
    verl_draft_actor_t actor = { .name = stage->name,
                                 .at = stage->at,
                                 .node = stage->node,
                                 .base = -1,
                                 .own = true,
                                 .options = verl_value_table(),
                                 .common = verl_value_table(),
                                 .devices = "cpu" };
    actor.kind_name = verl_draft_kind(draft, kind, &actor.kind);
    stage->actor = verl_draft_add_actor(draft, actor);
}

// Does a table have keys that belong to a kind, and none that belongs to another?
static bool
s_is_of_kind(const verl_node_t *node, const verl_kind_t *kind)
{
    int known = 0, other = 0;
    for (int i = 0; i < node->count; i++) {
        const char *key = node->keys[i];
        bool its = verl_option_find(kind->options, key);
        for (int s = 0; s < verl_stage_kind_count(kind); s++)
            its = its || verl_option_find(kind->stages[s].options, key);
        bool shared = verl_option_find(verl_stage_table, key) || verl_option_find(verl_actor_table, key);
        known += its;
        other += !its && !shared;
    }
    return known > 0 && other == 0;
}

// The first kind whose options a stage without a kind has; "…" where its keys are nobody's.
static const char *
s_likely_kind(verl_draft_t *draft, const verl_node_t *node)
{
    const verl_kind_t *kind;
    char shown[256];
    for (int k = 0; (kind = verl_kind_at(k)); k++)
        if (s_is_of_kind(node, kind))
            return verl_pool_copy(draft->pool, verl_kind_shown(kind, shown, sizeof shown));
    return "…";
}

// The first stages that there are: "`src`, `mid`, …"; NULL: none.
static const char *
s_some_stages(verl_draft_t *draft, const verl_draft_stage_t *besides)
{
    const char *list = NULL;
    for (int i = 0, count = 0; i < draft->stages_count && count <= S_SOME; i++)
        if (&draft->stages[i] != besides && draft->stages[i].at.origin == -1) {
            const char *more = count++ < S_SOME ? verl_pool_print(draft->pool, "`%s`", draft->stages[i].name) : "…";
            list = list ? verl_pool_print(draft->pool, "%s, %s", list, more) : more;
        }
    return list;
}

static void
s_no_actor(verl_draft_t *draft, const verl_draft_stage_t *stage)
{
    const char *where = verl_pool_print(draft->pool, "[stage.%s]", stage->name);
    if (verl_problem_at(&draft->problems, stage->at) ||
        verl_draft_mistyped(draft, stage->node, where, (const char *[]){ "kind", "actor" }, 2))
        return;
    verl_nearest_t nearest;
    verl_nearest_init(&nearest, stage->name);
    for (int i = 0; stage->at.origin != -1 && i < draft->stages_count; i++)
        if (&draft->stages[i] != stage)
            verl_nearest_offer(&nearest, draft->stages[i].name);
    if (nearest.best)
        verl_problem_add(&draft->problems, stage->at, "there is no stage `%s`: did you mean `%s`?", stage->name,
                         nearest.best);
    else if (stage->at.origin != -1 && s_some_stages(draft, stage)) // it may be meant to be a new one, or not
        verl_problem_add(&draft->problems, stage->at,
                         "there is no stage `%s` (there are %s), and a new one would need `kind = \"%s\"` for an actor of "
                         "its own, or `actor`", stage->name, s_some_stages(draft, stage),
                         s_likely_kind(draft, stage->node));
    else
        verl_problem_add(&draft->problems, stage->at,
                         "%s names neither a kind nor an actor: `kind = \"%s\"` for an "
                         "actor of its own, or `actor = \"…\"` for one of [actor.NAME], would be right",
                         where, s_likely_kind(draft, stage->node));
}

static void
s_add_stage(verl_draft_t *draft, const char *name, verl_node_t *node)
{
    verl_draft_stage_t *stage = &draft->stages[draft->stages_count++];
    *stage = (verl_draft_stage_t){ .name = name,
                                   .at = node->key_at,
                                   .node = node,
                                   .actor = -1,
                                   .weights_from = -1,
                                   .batches = -1,
                                   .lacks = -1,
                                   .options = verl_value_table(),
                                   .rows_of = -1,
                                   .parts_of = -1 };
    if (node->type != VERL_NODE_TABLE) {
        verl_problem_add(&draft->problems, node->key_at, "`%s` is %s: [stage.%s] must be a table", name,
                         verl_node_type_name(node->type), name);
        stage->node = verl_node_table(draft->pool);
        return;
    }
    verl_draft_name(draft, "a stage", name, node->key_at);
    const verl_node_t *kind = verl_node_get(node, "kind"), *actor = verl_node_get(node, "actor");
    if (kind && actor)
        verl_problem_add(&draft->problems, actor->key_at,
                         "[stage.%s] names both an actor and a kind: `actor` for one that "
                         "several stages share, or `kind` for one of its own, would be right",
                         name);
    else if (kind)
        s_make_actor(draft, stage, kind);
}

// The actor of a stage that names one. A stage's own actor has a name too.
static void
s_find_actor(verl_draft_t *draft, verl_draft_stage_t *stage, const verl_node_t *node)
{
    if (node->type != VERL_NODE_STRING)
        return;
    stage->actor = verl_draft_find_actor(draft, node->string);
    if (stage->actor >= 0)
        return;
    verl_nearest_t nearest;
    verl_nearest_init(&nearest, node->string);
    for (int i = 0; i < draft->actors_count; i++)
        verl_nearest_offer(&nearest, draft->actors[i].name);
    if (nearest.best)
        verl_problem_add(&draft->problems, node->at, "there is no actor `%s`: did you mean `%s`?", node->string,
                         nearest.best);
    else
        verl_problem_add(&draft->problems, node->at, "there is no actor `%s`: [actor.%s] with a kind would be right",
                         node->string, node->string);
}

static const char *
s_list_handlers(verl_draft_t *draft, const verl_kind_t *kind)
{
    char *list = NULL;
    for (int i = 0; i < verl_stage_kind_count(kind); i++)
        list = list ? verl_pool_print(draft->pool, "%s, \"%s\"", list, kind->stages[i].name)
                    : verl_pool_print(draft->pool, "\"%s\"", kind->stages[i].name);
    return list;
}

// What a stage of a kind with an option `function` does is that function, unless it is called as the handler is.
static void
s_take_function(verl_draft_t *draft, const verl_draft_stage_t *stage, const verl_kind_t *kind)
{
    verl_node_t *node = verl_node_get(verl_node_get(draft->root, "stage"), stage->name);
    verl_node_t *does = verl_node_get(node, "does"), *function = verl_node_get(node, "function");
    if (!verl_stage_kind_function(kind) || !does || verl_stage_kind_find(kind, does->string))
        return;
    bool other = function && function->type == VERL_NODE_STRING && strcmp(function->string, does->string) != 0;
    if (other)
        verl_problem_add(&draft->problems, does->at,
                         "`does` is \"%.100s\" and `function` is \"%.100s\", which are two names for one thing: one of "
                         "them would be right",
                         does->string, function->string);
    if (!function)
        verl_node_put(draft->pool, node, "function", does);
    verl_node_remove(node, "does");
}

static void
s_find_handler(verl_draft_t *draft, verl_draft_stage_t *stage)
{
    const verl_kind_t *kind = stage->actor >= 0 ? draft->actors[stage->actor].kind : NULL;
    const verl_node_t *does = verl_node_get(stage->node, "does");
    if (!kind || (does && does->type != VERL_NODE_STRING))
        return;
    s_take_function(draft, stage, kind);
    does = verl_node_get(stage->node, "does");
    stage->handler = verl_stage_kind_find(kind, does ? does->string : stage->name);
    if (!stage->handler && !does && verl_stage_kind_count(kind) == 1)
        stage->handler = &kind->stages[0];
    if (stage->handler)
        return;
    char shown[256];
    verl_kind_shown(kind, shown, sizeof shown);
    const char *list = s_list_handlers(draft, kind);
    verl_nearest_t nearest;
    verl_nearest_init(&nearest, does ? does->string : stage->name);
    for (int i = 0; i < verl_stage_kind_count(kind); i++)
        verl_nearest_offer(&nearest, kind->stages[i].name);
    if (does && nearest.best)
        verl_problem_add(&draft->problems, does->at, "kind `%s` does no `%s`: did you mean `%s`?", shown, does->string,
                         nearest.best);
    else if (does)
        verl_problem_add(&draft->problems, does->at, "kind `%s` does no `%s`: it does %s", shown, does->string, list);
    else
        verl_problem_add(&draft->problems, stage->at,
                         "`%s` is nothing that kind `%s` does: `does = ` one of %s would be "
                         "right",
                         stage->name, shown, list);
}

typedef struct elsewhere {
    const verl_draft_stage_t *stage;
    const verl_draft_actor_t *actor;
} elsewhere_t;

// A key that is an option of the actor's state, or of another handler of the kind.
static const char *
s_elsewhere(verl_draft_t *draft, const void *who, const char *key)
{
    const elsewhere_t *self = who;
    const verl_kind_t *kind = self->actor->kind;
    if (verl_option_find(kind->options, key) || verl_option_find(verl_actor_table, key))
        return verl_pool_print(draft->pool,
                               "`%s` belongs to the actor that the stages share: in [actor.%s] it would be "
                               "right",
                               key, self->actor->name);
    for (int i = 0; i < verl_stage_kind_count(kind); i++)
        if (verl_option_find(kind->stages[i].options, key))
            return verl_pool_print(draft->pool,
                                   "`%s` is an option of a stage that does `%s`, and `%s` does `%s`: there it "
                                   "would be right",
                                   key, kind->stages[i].name, self->stage->name, self->stage->handler->name);
    return NULL;
}

// Does the stage get an actor of its own because it may be behind with its weights?
static bool
s_is_stale(const verl_draft_stage_t *stage)
{
    const verl_node_t *staleness = verl_node_get(stage->node, "staleness");
    return verl_node_get(stage->node, "actor") && staleness && staleness->type == VERL_NODE_INT &&
           staleness->integer > 0;
}

static void
s_fill_keys(verl_draft_t *draft, verl_draft_stage_t *stage, const verl_value_t *values)
{
    verl_error_t error = { "" };
    if (verl_options_fill(verl_stage_table, values, &stage->keys, &error) != 0)
        verl_problem_add(&draft->problems, stage->at, "%s", error.text);
    verl_options_done(verl_stage_table, &stage->keys);
    double shared = stage->actor >= 0 ? draft->actors[stage->actor].keys.timeout : 0;
    stage->timeout = verl_value_get(values, "timeout") ? stage->keys.timeout : shared;
}

static void
s_check_keys(verl_draft_t *draft, verl_draft_stage_t *stage)
{
    verl_draft_actor_t *actor = stage->actor >= 0 ? &draft->actors[stage->actor] : NULL;
    bool known = actor && stage->handler, own = actor && actor->own && actor->node == stage->node;
    verl_value_t values = verl_value_table(), ignored = verl_value_table();
    verl_scope_t scopes[4] = { { verl_stage_table, &values } };
    int count = 1;
    if (known)
        scopes[count++] = (verl_scope_t){ stage->handler->options, &stage->options };
    if (own) {
        scopes[count++] = (verl_scope_t){ verl_actor_table, &actor->common };
        scopes[count++] = (verl_scope_t){ actor->kind ? actor->kind->options : NULL, &actor->options };
    } else if (s_is_stale(stage))
        scopes[count++] = (verl_scope_t){ verl_actor_table, &ignored };
    const char *where = verl_pool_print(draft->pool, "[stage.%s]", stage->name);
    elsewhere_t who = { .stage = stage, .actor = actor };
    int mistakes = verl_draft_keys(draft, stage->node, where, scopes, count, !known, known ? s_elsewhere : NULL, &who);
    stage->unsure = !known || mistakes > 0 || (!own && actor->unsure);
    if (own) {
        actor->unsure = mistakes > 0;
        verl_draft_actor_common(draft, actor, stage->node);
    }
    s_fill_keys(draft, stage, &values);
}

// The stages that run in an actor: "`generate` or `update`". NULL: none, or there is no such actor.
static const char *
s_stages_of_actor(verl_draft_t *draft, const verl_draft_stage_t *besides, const char *name)
{
    const char *list = NULL;
    int actor = verl_draft_find_actor(draft, name);
    for (int i = 0; actor >= 0 && i < draft->stages_count; i++)
        if (draft->stages[i].actor == actor && &draft->stages[i] != besides)
            list = verl_pool_print(draft->pool, "%s%s`%s`", list ? list : "", list ? " or " : "",
                                   draft->stages[i].name);
    return list;
}

// The first stage whose kind always gives a column; NULL: none.
static const char *
s_stage_of_column(verl_draft_t *draft, const verl_draft_stage_t *besides, const char *column)
{
    for (int i = 0; i < draft->stages_count; i++) {
        const verl_stage_kind_t *handler = draft->stages[i].handler;
        for (int g = 0; handler && &draft->stages[i] != besides && g < VERL_MAX_COLUMNS && handler->gives[g]; g++) {
            size_t length = strcspn(handler->gives[g], ":");
            if (strlen(column) == length && strncmp(handler->gives[g], column, length) == 0)
                return draft->stages[i].name;
        }
    }
    return NULL;
}

static void
s_no_stage(verl_draft_t *draft, const verl_draft_stage_t *stage, const verl_node_t *item)
{
    const char *name = item->string, *of_actor = s_stages_of_actor(draft, stage, name);
    const char *near = verl_draft_nearest_stage(draft, name), *giver = s_stage_of_column(draft, stage, name);
    if (strncmp(name, "stage.", 6) == 0 && verl_draft_find_stage(draft, name + 6) >= 0)
        near = name + 6;
    if (draft->lives && item->at.origin == -1)
        verl_problem_add(&draft->problems, item->at,
                         "`%s` depends on `%s`, which would be gone: to take away `%s` with it, or before it, would be "
                         "right", stage->name, name, stage->name);
    else if (!*name)
        verl_problem_add(&draft->problems, item->at,
                         "`depends_on` has an empty string in it: the name of a stage would be right");
    else if (of_actor)
        verl_problem_add(&draft->problems, item->at,
                         "`%s` is an actor, and `%s` can depend only on stages: %s, which run in it, would be right",
                         name, stage->name, of_actor);
    else if (near)
        verl_problem_add(&draft->problems, item->at, "there is no stage `%s`: did you mean `%s`?", name, near);
    else if (giver)
        verl_problem_add(&draft->problems, item->at,
                         "`%s` is a column, and `%s` can depend only on stages: `%s`, which gives it, would be right",
                         name, stage->name, giver);
    else
        verl_problem_add(&draft->problems, item->at,
                         "there is no stage `%s` for `%s` to depend on: [stage.%s] would be "
                         "right",
                         name, stage->name, name);
}

static void
s_depend(verl_draft_t *draft, verl_draft_stage_t *stage, const verl_node_t *item)
{
    if (item->type != VERL_NODE_STRING)
        return; // reported with the keys
    int other = verl_draft_find_stage(draft, item->string);
    if (other < 0) {
        stage->unsure = true;
        s_no_stage(draft, stage, item);
        return;
    }
    for (int i = 0; i < stage->deps_count; i++)
        if (stage->deps[i] == other) {
            verl_problem_add(&draft->problems, item->at, "`%s` stands twice in depends_on: once would be right",
                             item->string);
            return;
        }
    stage->deps[stage->deps_count] = other;
    stage->deps_node[stage->deps_count++] = item;
}

static void
s_depends(verl_draft_t *draft, verl_draft_stage_t *stage)
{
    const verl_node_t *node = verl_node_get(stage->node, "depends_on");
    int count = node && node->type == VERL_NODE_ARRAY ? node->count : 0;
    stage->deps = verl_pool_array(draft->pool, (size_t) count, sizeof *stage->deps);
    stage->deps_node = verl_pool_array(draft->pool, (size_t) count, sizeof(verl_node_t *));
    for (int i = 0; i < count; i++)
        s_depend(draft, stage, node->items[i]);
    if (node && node->type != VERL_NODE_ARRAY)
        stage->unsure = true;
    if (!stage->handler)
        return;
    if (stage->handler->source_only && count > 0) {
        verl_problem_add(&draft->problems, node->at, "`%s` is a source, which depends on nothing: leave depends_on out",
                         stage->name);
        stage->deps_count = 0;
    }
    bool rootless = stage->handler->maps && count == 0;
    stage->unsure = stage->unsure || rootless;
    if (rootless)
        verl_problem_add(&draft->problems, stage->at,
                         "`%s` makes new rows of those that it is given, and it depends on "
                         "nothing that gives any: depends_on would be right",
                         stage->name);
}

// An actor that no stage runs in would be started for nothing.
static void
s_check_used(verl_draft_t *draft)
{
    bool sure = true;
    for (int i = 0; i < draft->stages_count; i++) {
        sure = sure && draft->stages[i].actor >= 0;
        if (draft->stages[i].actor >= 0)
            draft->actors[draft->stages[i].actor].stages++;
    }
    for (int i = 0; i < draft->actors_count && sure; i++)
        if (draft->actors[i].stages == 0)
            verl_problem_add(&draft->problems, draft->actors[i].at,
                             "no stage runs in the actor `%s`: a stage with `actor = "
                             "\"%s\"`, or no [actor.%s], would be right",
                             draft->actors[i].name, draft->actors[i].name, draft->actors[i].name);
}

void
verl_draft_stages(verl_draft_t *draft)
{
    const verl_node_t *node = verl_node_get(draft->root, "stage");
    int count = node && node->type == VERL_NODE_TABLE ? node->count : 0;
    if (node && node->type != VERL_NODE_TABLE)
        return; // reported with the sections
    if (count == 0 || count > VERL_STAGES_MAX) {
        verl_problem_add(&draft->problems, node ? node->at : draft->root->at,
                         "the topology has %d stages: from 1 to %d "
                         "would be right, each in [stage.NAME]",
                         count, VERL_STAGES_MAX);
        return;
    }
    draft->stages = verl_pool_array(draft->pool, (size_t) count, sizeof *draft->stages);
    for (int i = 0; i < count; i++)
        s_add_stage(draft, node->keys[i], node->items[i]);
    for (int i = 0; i < count; i++) {
        verl_draft_stage_t *stage = &draft->stages[i];
        const verl_node_t *kind = verl_node_get(stage->node, "kind"), *actor = verl_node_get(stage->node, "actor");
        if (!kind && actor)
            s_find_actor(draft, stage, actor);
        else if (!kind)
            s_no_actor(draft, stage);
        s_find_handler(draft, stage);
        stage->by_row = stage->handler && stage->handler->by_row;
        stage->maps = stage->handler && stage->handler->maps;
    }
    // a stage with an actor of its own first: others may run in that actor
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < count; i++)
            if ((verl_node_get(draft->stages[i].node, "kind") != NULL) == (pass == 0))
                s_check_keys(draft, &draft->stages[i]);
    for (int i = 0; i < count; i++)
        s_depends(draft, &draft->stages[i]);
    s_check_used(draft);
}
