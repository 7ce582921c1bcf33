// draft_run.c: the sections of a topology, [run] and [mesh].
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/topology/devices.h"
#include "runtime/topology/draft.h"
#include "runtime/topology/nearest.h"
#include "runtime/topology/value.h"

// What stands in a mistyped section is checked with the one that was meant, so that nothing follows from the mistake.
static void
s_move_section(verl_draft_t *draft, const char *name, verl_node_t *node, const char *meant)
{
    verl_node_t *section = verl_node_table(draft->pool);
    node->whole = false;
    verl_node_put(draft->pool, section, meant, node);
    verl_node_remove(draft->root, name);
    verl_node_merge(draft->pool, draft->root, section);
}

static void
s_unknown_section(verl_draft_t *draft, const char *name, verl_node_t *node, const char *near)
{
    int keys = 0;
    if (verl_draft_foreign(draft, node, name, &keys) == keys && keys > 0)
        return;
    if (near)
        verl_problem_add(&draft->problems, node->key_at, "there is no section `%s`: did you mean `%s`?", name, near);
    else
        verl_problem_add(&draft->problems, node->key_at,
                         "there is no section `%s`: a topology has [run], [mesh], [actor.NAME] "
                         "and [stage.NAME]",
                         name);
    if (near && node->type == VERL_NODE_TABLE)
        s_move_section(draft, name, node, near);
}

static void
s_check_sections(verl_draft_t *draft)
{
    static const char *const known[] = { "run", "mesh", "actor", "stage" };
    const verl_node_t *root = draft->root;
    for (int i = root->count - 1; i >= 0; i--) {
        verl_nearest_t nearest;
        verl_nearest_init(&nearest, root->keys[i]);
        bool there = false;
        for (size_t s = 0; s < sizeof known / sizeof *known; s++) {
            verl_nearest_offer(&nearest, known[s]);
            there = there || strcmp(known[s], root->keys[i]) == 0;
        }
        if (there && root->items[i]->type != VERL_NODE_TABLE)
            verl_problem_add(&draft->problems, root->items[i]->key_at, "`%s` is %s: it must be a table", root->keys[i],
                             verl_node_type_name(root->items[i]->type));
        else if (!there)
            s_unknown_section(draft, root->keys[i], root->items[i], nearest.best);
    }
}

// The file's name without folder and ending, with what no name may have made into '-'.
static const char *
s_name_of_file(verl_draft_t *draft)
{
    const char *slash = strrchr(draft->file, '/');
    char *name = verl_pool_copy(draft->pool, slash ? slash + 1 : draft->file);
    char *dot = strrchr(name, '.');
    if (dot && dot != name)
        *dot = '\0';
    for (unsigned char *c = (unsigned char *) name; *c; c++)
        if (!(isalnum(*c) && *c < 0x80) && !strchr("._-", *c))
            *c = '-';
    if (strlen(name) > 64)
        name[64] = '\0';
    return *name && *name != '.' ? name : "run";
}

// A run's name becomes a directory's.
static void
s_check_run_name(verl_draft_t *draft, const char *name, verl_at_t at)
{
    bool good = *name && strlen(name) <= 64 && *name != '.' && *name != '-';
    for (const unsigned char *c = (const unsigned char *) name; *c; c++)
        good = good && *c < 0x80 && (isalnum(*c) || strchr("._-", *c));
    if (!good)
        verl_problem_add(&draft->problems, at,
                         "`name` is \"%.100s\", and a directory is named after it: at most 64 letters, "
                         "digits, '.', '_' and '-' would be right",
                         name);
}

static void
s_run(verl_draft_t *draft)
{
    const verl_node_t *node = verl_node_get(draft->root, "run");
    if (!node || node->type != VERL_NODE_TABLE)
        node = verl_node_table(draft->pool);
    verl_value_t values = verl_value_table();
    verl_scope_t scope = { .table = verl_run_table, .values = &values };
    verl_draft_keys(draft, node, "[run]", &scope, 1, false, NULL, NULL);
    verl_error_t error = { "" };
    if (verl_options_fill(verl_run_table, &values, &draft->run, &error) != 0)
        verl_problem_add(&draft->problems, node->key_at, "%s", error.text);
    draft->run_steps = verl_node_get(node, "steps") != NULL;
    draft->run_in_flight = verl_value_get(&values, "max_in_flight") != NULL;
    draft->run_bytes = verl_value_get(&values, "max_bytes") != NULL;
    draft->steps = draft->run.steps;
    if (verl_value_get(&values, "name"))
        s_check_run_name(draft, draft->run.name, verl_draft_at(node, "name", node->at));
    else
        draft->run.name = s_name_of_file(draft);
}

// VERL_ACTOR_GPUS for the role "actor"; NULL where it is not set. It counts when a run begins: a change finds the
// devices that were settled then.
static const char *
s_override(const char *role, char *variable, size_t size)
{
    snprintf(variable, size, "VERL_%s_GPUS", role);
    for (unsigned char *c = (unsigned char *) variable; *c; c++)
        *c = isalnum(*c) && *c < 0x80 ? (unsigned char) toupper(*c) : '_';
    return getenv(variable);
}

// [0, 1, 2, 3] as text.
static const char *
s_role_text(verl_draft_t *draft, const char *role, const verl_node_t *node)
{
    if (node->type == VERL_NODE_STRING)
        return node->string;
    char *text = NULL;
    for (int i = 0; node->type == VERL_NODE_ARRAY && i < node->count; i++) {
        const verl_node_t *item = node->items[i];
        if (item->type != VERL_NODE_INT || item->integer < 0 || item->integer > 65535) {
            verl_problem_add(&draft->problems, item->at,
                             "the devices of `%s` have something in them that is no number of a "
                             "device: [0, 1] would be right",
                             role);
            return NULL;
        }
        text = text ? verl_pool_print(draft->pool, "%s,%d", text, (int) item->integer)
                    : verl_pool_print(draft->pool, "cuda:%d", (int) item->integer);
    }
    if (!text)
        verl_problem_add(&draft->problems, node->at,
                         "the devices of `%s` are %s: \"cuda:0-3\", [0, 1, 2, 3], \"cpu\" or "
                         "\"auto\" would be right",
                         role, node->type == VERL_NODE_ARRAY ? "an empty array" : verl_node_type_name(node->type));
    return text;
}

static void
s_role(verl_draft_t *draft, const char *role, const verl_node_t *node)
{
    char variable[128], devices[4096];
    verl_error_t error = { "" };
    const char *override = draft->lives ? NULL : s_override(role, variable, sizeof variable);
    const char *text = s_role_text(draft, role, node);
    const char *whose = verl_pool_print(draft->pool, "the devices of `%s`", role);
    if (text && verl_draft_name(draft, "a role", role, node->key_at) && override) {
        text = override;
        whose = verl_pool_print(draft->pool, "%s, which %s are taken from", variable, whose);
    }
    char *resolved = NULL;
    if (text && verl_devices_resolve(text, devices, sizeof devices, &error) == 0)
        resolved = verl_pool_copy(draft->pool, devices);
    else if (text)
        verl_problem_add(&draft->problems, node->at, "%s: %s", whose, error.text);
    draft->roles[draft->roles_count] = verl_pool_copy(draft->pool, role);
    draft->roles_devices[draft->roles_count++] = resolved;
}

static void
s_mesh(verl_draft_t *draft)
{
    const verl_node_t *node = verl_node_get(draft->root, "mesh");
    if (!node || node->type != VERL_NODE_TABLE)
        return;
    draft->roles = verl_pool_array(draft->pool, (size_t) node->count, sizeof *draft->roles);
    draft->roles_devices = verl_pool_array(draft->pool, (size_t) node->count, sizeof *draft->roles_devices);
    for (int i = 0; i < node->count; i++)
        s_role(draft, node->keys[i], node->items[i]);
}

void
verl_draft_run(verl_draft_t *draft)
{
    s_check_sections(draft);
    s_run(draft);
    s_mesh(draft);
}
