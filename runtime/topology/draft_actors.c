// draft_actors.c: [actor.*], and what every actor has: its kind, its devices.
#include <stdio.h>
#include <string.h>
#include "runtime/topology/devices.h"
#include "runtime/topology/draft.h"
#include "runtime/topology/kinds.h"
#include "runtime/topology/nearest.h"
#include "runtime/topology/options.h"
#include "runtime/topology/value.h"

int
verl_draft_find_actor(const verl_draft_t *draft, const char *name)
{
    for (int i = 0; i < draft->actors_count; i++)
        if (strcmp(draft->actors[i].name, name) == 0)
            return i;
    return -1;
}

int
verl_draft_add_actor(verl_draft_t *draft, verl_draft_actor_t actor)
{
    draft->actors = verl_pool_grow(draft->pool, draft->actors, draft->actors_count, sizeof *draft->actors);
    draft->actors[draft->actors_count] = actor;
    return draft->actors_count++;
}

// The name that a plan has for a kind: of the registry, or the absolute path of a shared object. NULL where there is no
// such kind; reported, except that what is no string is left to the check of the keys.
const char *
verl_draft_kind(verl_draft_t *draft, const verl_node_t *node, const verl_kind_t **ret_kind)
{
    *ret_kind = NULL;
    if (node->type != VERL_NODE_STRING)
        return NULL;
    const char *name = node->string;
    bool path = verl_kind_is_path(name);
    if (path && *name != '/')
        name = verl_pool_print(draft->pool, "%s/%s", draft->folder, name);
    verl_error_t error = { "" };
    *ret_kind = verl_kind_find(name, &error);
    if (!*ret_kind) {
        verl_problem_add(&draft->problems, node->at, "%s", error.text);
        return NULL;
    }
    char shown[256];
    return path ? name : verl_pool_copy(draft->pool, verl_kind_shown(*ret_kind, shown, sizeof shown));
}

static const char *
s_devices(verl_draft_t *draft, const char *role, verl_at_t at, const char **ret_role)
{
    verl_nearest_t nearest;
    verl_nearest_init(&nearest, role);
    for (int i = 0; i < draft->roles_count; i++) {
        if (strcmp(draft->roles[i], role) == 0) {
            *ret_role = draft->roles[i];
            return draft->roles_devices[i] ? draft->roles_devices[i] : "cpu";
        }
        verl_nearest_offer(&nearest, draft->roles[i]);
    }
    char devices[4096];
    verl_error_t error = { "" };
    if (verl_devices_looks_like(role)) {
        if (verl_devices_resolve(role, devices, sizeof devices, &error) == 0)
            return verl_pool_copy(draft->pool, devices);
        verl_problem_add(&draft->problems, at, "`mesh`: %s", error.text);
    } else if (nearest.best)
        verl_problem_add(&draft->problems, at, "[mesh] has no role `%s`: did you mean `%s`?", role, nearest.best);
    else
        verl_problem_add(&draft->problems, at,
                         "[mesh] has no role `%s`: `%s = \"cpu\"` there, or `mesh = \"cpu\"` here, would "
                         "be right",
                         role, role);
    return "cpu";
}

// actor->common has been checked; node is where its keys were written.
void
verl_draft_actor_common(verl_draft_t *draft, verl_draft_actor_t *actor, const verl_node_t *node)
{
    verl_error_t error = { "" };
    if (verl_options_fill(verl_actor_table, &actor->common, &actor->keys, &error) != 0)
        verl_problem_add(&draft->problems, actor->at, "%s", error.text);
    bool given = verl_node_get(node, "timeout") && verl_node_get(node, "liveness");
    if (given && actor->keys.timeout > 0 && actor->keys.liveness > actor->keys.timeout)
        verl_problem_add(&draft->problems, verl_draft_at(node, "liveness", actor->at),
                         "`liveness` is %g s, and `timeout` "
                         "would end a handler after %g s already: a liveness of at most that would be right",
                         actor->keys.liveness, actor->keys.timeout);
    actor->devices = "cpu";
    actor->role = NULL;
    if (verl_value_get(&actor->common, "mesh"))
        actor->devices = s_devices(draft, actor->keys.mesh, verl_draft_at(node, "mesh", actor->at), &actor->role);
}

// An option of the work of one of the kind's stages does not belong in [actor.x].
static const char *
s_elsewhere(verl_draft_t *draft, const void *who, const char *key)
{
    const verl_draft_actor_t *actor = who;
    for (int i = 0; i < verl_stage_kind_count(actor->kind); i++)
        if (verl_option_find(actor->kind->stages[i].options, key))
            return verl_pool_print(draft->pool,
                                   "`%s` is an option of what a `%s` stage does: it belongs in [stage.NAME]", key,
                                   actor->kind->stages[i].name);
    if (verl_option_find(verl_stage_table, key))
        return verl_pool_print(draft->pool, "`%s` is a key of stages: it belongs in [stage.NAME]", key);
    return NULL;
}

static void
s_actor(verl_draft_t *draft, const char *name, const verl_node_t *node)
{
    verl_draft_actor_t actor = { .name = name,
                                 .at = node->key_at,
                                 .node = node,
                                 .base = -1,
                                 .options = verl_value_table(),
                                 .common = verl_value_table(),
                                 .devices = "cpu" };
    const char *where = verl_pool_print(draft->pool, "[actor.%s]", name);
    if (node->type != VERL_NODE_TABLE) {
        verl_problem_add(&draft->problems, node->key_at, "`%s` is %s: [actor.%s] must be a table", name,
                         verl_node_type_name(node->type), name);
        actor.node = verl_node_table(draft->pool);
        actor.unsure = true;
        verl_draft_add_actor(draft, actor);
        return;
    }
    verl_draft_name(draft, "an actor", name, node->key_at);
    const verl_node_t *kind = verl_node_get(node, "kind");
    if (!kind && !verl_draft_mistyped(draft, node, where, (const char *[]){ "kind" }, 1))
        verl_problem_add(&draft->problems, node->key_at, "%s names no kind: `kind = \"…\"` would be right", where);
    if (kind)
        actor.kind_name = verl_draft_kind(draft, kind, &actor.kind);
    static const verl_option_t kind_table[] = { { .name = "kind", .type = VERL_OPTION_STRING, .optional = true },
                                                VERL_OPTIONS_END };
    verl_value_t ignored = verl_value_table();
    verl_scope_t scopes[] = { { kind_table, &ignored },
                              { verl_actor_table, &actor.common },
                              { actor.kind ? actor.kind->options : NULL, &actor.options } };
    actor.unsure =
        verl_draft_keys(draft, node, where, scopes, 3, !actor.kind, actor.kind ? s_elsewhere : NULL, &actor) > 0;
    verl_draft_actor_common(draft, &actor, node);
    verl_draft_add_actor(draft, actor);
}

void
verl_draft_actors(verl_draft_t *draft)
{
    const verl_node_t *node = verl_node_get(draft->root, "actor");
    for (int i = 0; node && node->type == VERL_NODE_TABLE && i < node->count; i++)
        s_actor(draft, node->keys[i], node->items[i]);
}
