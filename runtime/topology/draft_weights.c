// draft_weights.c: with whose weights, and how old ones, a stage works.
//
// Stages of one actor share its weights in place. A stage that may be behind gets an actor of its own here, of the same
// kind with the same state, which is fed by published versions: `actor.stage`.
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/topology/draft.h"
#include "runtime/topology/value.h"

static bool
s_writes(const verl_draft_stage_t *stage)
{
    return stage->handler && stage->handler->writes_weights;
}

// The first stage that updates the weights of an actor; -1: none does.
static int
s_first_writer(const verl_draft_t *draft, int actor)
{
    for (int i = 0; i < draft->stages_count; i++)
        if (draft->stages[i].actor == actor && s_writes(&draft->stages[i]))
            return i;
    return -1;
}

// The same, reported where there is none.
static int
s_writer_of(verl_draft_t *draft, const verl_draft_stage_t *stage, verl_at_t at)
{
    int writer = s_first_writer(draft, stage->actor);
    if (writer < 0)
        verl_problem_add(&draft->problems, at,
                         "`%s` may be behind with its weights, but no stage of the actor `%s` updates "
                         "them: no staleness, or `weights = \"STAGE\"` that says whose they are, would be right",
                         stage->name, draft->actors[stage->actor].name);
    return writer;
}

// The stage that `weights` names; -1, reported, where it will not do.
static int
s_writer_named(verl_draft_t *draft, const verl_draft_stage_t *stage, const verl_node_t *node)
{
    if (node->type != VERL_NODE_STRING)
        return -1;
    int writer = verl_draft_find_stage(draft, node->string);
    const char *near = writer < 0 ? verl_draft_nearest_stage(draft, node->string) : NULL;
    if (writer < 0 && draft->lives && node->at.origin == -1)
        verl_problem_add(&draft->problems, node->at,
                         "`%s` works with the weights of `%s`, which would be gone: to take away `%s` with it, or before "
                         "it, would be right", stage->name, node->string, stage->name);
    else if (writer < 0 && near)
        verl_problem_add(&draft->problems, node->at, "there is no stage `%s`: did you mean `%s`?", node->string, near);
    else if (writer < 0)
        verl_problem_add(&draft->problems, node->at,
                         "there is no stage `%s` whose weights `%s` could work with: the name of "
                         "a stage that updates weights would be right",
                         node->string, stage->name);
    if (writer < 0 || !draft->stages[writer].handler)
        return -1;
    if (!s_writes(&draft->stages[writer])) {
        verl_problem_add(&draft->problems, node->at,
                         "`%s` updates no weights: the name of a stage that does would be right", node->string);
        return -1;
    }
    return writer;
}

// Two ways to write one path are one.
static bool
s_is_same(const verl_option_t *option, const verl_value_t *a, const verl_value_t *b)
{
    char one[PATH_MAX], other[PATH_MAX];
    if (!a || !b || a->type != b->type)
        return a == b;
    if (a->type != VERL_VALUE_STRING)
        return a->boolean == b->boolean && a->integer == b->integer && a->real == b->real;
    bool paths = option->type == VERL_OPTION_PATH && realpath(a->string, one) && realpath(b->string, other);
    return strcmp(paths ? one : a->string, paths ? other : b->string) == 0;
}

static const char *
s_shown(verl_draft_t *draft, const verl_value_t *value)
{
    char text[100];
    if (value && value->type == VERL_VALUE_STRING)
        return verl_pool_print(draft->pool, "\"%s\"", value->string);
    return value ? verl_pool_copy(draft->pool, verl_value_brief(value, text, sizeof text)) : "none";
}

// Before the first update a reader works with what it began with itself: that has to be what the writer began with.
static bool
s_begin_alike(verl_draft_t *draft, int reader, int writer)
{
    const verl_draft_actor_t *to = &draft->actors[reader], *from = &draft->actors[writer];
    for (const verl_option_t *option = to->kind->options; option && option->name; option++) {
        const verl_value_t *mine = verl_value_get(&to->options, option->name);
        const verl_value_t *its = verl_value_get(&from->options, option->name);
        if (!option->of_weights || to->unsure || from->unsure || s_is_same(option, mine, its))
            continue;
        verl_problem_add(&draft->problems, verl_draft_at(to->node, option->name, to->at),
                         "`%s` begins with %s = %s, and `%s`, whose weights it works with, with %s: the same in both "
                         "would be right",
                         to->name, option->name, s_shown(draft, mine), from->name, s_shown(draft, its));
        return false;
    }
    return true;
}

// Can the one kind take what the other gives? A program takes whatever columns come.
static bool
s_agree(verl_draft_t *draft, const verl_draft_stage_t *stage, int writer, verl_at_t at)
{
    const verl_kind_t *to = draft->actors[stage->actor].kind, *from = draft->actors[draft->stages[writer].actor].kind;
    if (to != from && !to->external)
        verl_problem_add(&draft->problems, at,
                         "`%s` is of kind `%s` and `%s` of kind `%s`, and weights go only from a kind "
                         "to itself: a writer of the same kind would be right",
                         stage->name, to->name, draft->stages[writer].name, from->name);
    else if (!from->give_weights || !(to->take_weights || to->external))
        verl_problem_add(&draft->problems, at,
                         "kind `%s` does not publish its weights: %s would be right", from->name,
                         to->external ? "a stage of a kind that does" : "staleness 0, in the same actor,");
    else
        return to->external || s_begin_alike(draft, stage->actor, draft->stages[writer].actor);
    return false;
}

// An actor of its own for a stage that is fed by versions: what the stage says about actors goes before what the shared
// one has.
static void
s_derive(verl_draft_t *draft, verl_draft_stage_t *stage)
{
    int base = stage->actor;
    verl_draft_actor_t actor = draft->actors[base];
    actor.name = verl_pool_print(draft->pool, "%s.%s", actor.name, stage->name);
    actor.at = stage->at;
    actor.base = base;
    actor.own = false;
    actor.stages = 1;
    actor.node = stage->node;
    verl_value_t given = verl_value_table(), common = verl_value_table();
    verl_scope_t scope = { .table = verl_actor_table, .values = &given };
    verl_draft_keys(draft, stage->node, stage->name, &scope, 1, true, NULL, NULL);
    for (int i = 0; i < actor.common.count; i++) {
        const char *key = actor.common.keys[i];
        const verl_value_t *own = verl_node_get(stage->node, key) ? verl_value_get(&given, key) : NULL;
        verl_value_put(draft->pool, &common, key, own ? *own : actor.common.items[i]);
    }
    if (verl_node_get(stage->node, "mesh") && !verl_value_get(&common, "mesh") && verl_value_get(&given, "mesh"))
        verl_value_put(draft->pool, &common, "mesh", *verl_value_get(&given, "mesh"));
    actor.common = common;
    const char *devices = actor.devices, *role = actor.role;
    verl_draft_actor_common(draft, &actor, stage->node);
    if (!verl_node_get(stage->node, "mesh")) {
        actor.devices = devices;
        actor.role = role;
    }
    draft->actors[base].stages--;
    stage->actor = verl_draft_add_actor(draft, actor);
}

static void
s_bind(verl_draft_t *draft, verl_draft_stage_t *stage)
{
    const verl_node_t *weights = verl_node_get(stage->node, "weights"),
                      *stale = verl_node_get(stage->node, "staleness");
    if (!stage->handler || (!weights && !stale))
        return;
    verl_at_t at = weights ? weights->at : stale->at;
    const char *key = weights ? "weights" : "staleness";
    if (verl_problem_at(&draft->problems, at))
        return;
    if (s_writes(stage) || !stage->handler->reads_weights) {
        verl_problem_add(&draft->problems, at,
                         "`%s` %s: `%s` is for stages that only work with weights, so leaving it out "
                         "would be right",
                         stage->name, s_writes(stage) ? "updates the weights itself" : "works without weights", key);
        return;
    }
    int writer = weights ? s_writer_named(draft, stage, weights) : s_writer_of(draft, stage, at);
    if (writer < 0)
        return;
    bool shared = draft->stages[writer].actor == stage->actor;
    if ((shared && stage->keys.staleness == 0) || !s_agree(draft, stage, writer, at))
        return;
    stage->weights_from = writer;
    if (shared)
        s_derive(draft, stage);
}

// Do two stages work with the same versions?
static bool
s_same_versions(const verl_draft_stage_t *a, const verl_draft_stage_t *b)
{
    return a->weights_from == b->weights_from && (a->weights_from < 0 || a->keys.staleness == b->keys.staleness);
}

// Why a stage that takes versions cannot share its actor with another one; NULL: it can.
static const char *
s_quarrel(verl_draft_t *draft, const verl_draft_stage_t *stage, const verl_draft_stage_t *other)
{
    const char *writer = draft->stages[stage->weights_from].name;
    if (s_writes(other))
        return verl_pool_print(
            draft->pool,
            "`%s` takes the weights of `%s` into an actor whose own weights `%s` updates: an actor of "
            "its own for `%s` would be right",
            stage->name, writer, other->name, stage->name);
    if (!other->handler->reads_weights || s_same_versions(stage, other) || draft->actors[stage->actor].kind->external)
        return NULL;                        // a program has a version for each of its stages
    return verl_pool_print(draft->pool,
                           "`%s` and `%s` share the weights of one actor, so they have to work with the same versions: "
                           "the same `weights` and `staleness` in both, or an actor for each, would be right",
                           stage->name, other->name);
}

// Of two stages that both take versions, the first one complains.
static void
s_check_shared(verl_draft_t *draft, int index)
{
    const verl_draft_stage_t *stage = &draft->stages[index];
    for (int i = 0; i < draft->stages_count; i++) {
        const verl_draft_stage_t *other = &draft->stages[i];
        bool told = i < index && other->weights_from >= 0;
        bool shares = i != index && other->actor == stage->actor && other->handler;
        const char *quarrel = shares && !told ? s_quarrel(draft, stage, other) : NULL;
        if (!quarrel)
            continue;
        verl_at_t at = verl_draft_at(stage->node, "staleness", stage->at);
        verl_problem_add(&draft->problems, verl_draft_at(stage->node, "weights", at), "%s", quarrel);
        return;
    }
}

// Versions are numbered by the batches of one writer: those of two would overtake each other, in no order that lasts.
static void
s_check_writer(verl_draft_t *draft, int index)
{
    const verl_draft_stage_t *stage = &draft->stages[index];
    int first = s_writes(stage) ? s_first_writer(draft, stage->actor) : index;
    if (first != index)
        verl_problem_add(&draft->problems, stage->at,
                         "`%s` and `%s` both update the weights of the actor `%s`, and which comes first would be left "
                         "to time: one stage that does, or an actor for each, would be right",
                         draft->stages[first].name, stage->name, draft->actors[stage->actor].name);
}

void
verl_draft_weights(verl_draft_t *draft)
{
    for (int i = 0; i < draft->stages_count; i++)
        if (draft->stages[i].actor >= 0)
            s_check_writer(draft, i);
    for (int i = 0; i < draft->stages_count; i++)
        if (draft->stages[i].actor >= 0)
            s_bind(draft, &draft->stages[i]);
    for (int i = 0; i < draft->stages_count; i++)
        if (draft->stages[i].weights_from >= 0)
            s_check_shared(draft, i);
}
