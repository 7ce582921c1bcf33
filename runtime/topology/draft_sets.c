// draft_sets.c: changes to a document before it is checked: --set KEY=VALUE, and a fragment's unset.
#include <string.h>
#include "runtime/topology/draft.h"
#include "runtime/topology/toml.h"

static verl_node_t *
s_parse(verl_draft_t *draft, const char *text, verl_toml_error_t *error)
{
    return verl_toml_parse(text, strlen(text), draft->pool, error);
}

// Digits and no more, of which TOML can hold only so many.
static bool
s_is_number(const char *value)
{
    value += *value == '-' || *value == '+';
    return *value && strspn(value, "0123456789_") == strlen(value);
}

// A value that cannot be read as TOML is a bare word, unless it begins like something in quotes or brackets, or is too
// large a number.
static verl_node_t *
s_read(verl_draft_t *draft, const char *set, const char *equals, verl_toml_error_t *error)
{
    const char *key = verl_pool_copy_n(draft->pool, set, (size_t) (equals - set)), *value = equals + 1;
    verl_node_t *root = *value ? s_parse(draft, verl_pool_print(draft->pool, "%s = %s\n", key, value), error) : NULL;
    if (root || (*value && strchr("[{\"'", *value)) || (s_is_number(value) && strstr(error->text, "64 bits")))
        return root;
    char *quoted = verl_pool_alloc(draft->pool, strlen(value) * 2 + 1), *to = quoted;
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            *to++ = '\\';
        *to++ = *value;
    }
    return s_parse(draft, verl_pool_print(draft->pool, "%s = \"%s\"\n", key, quoted), error);
}

static void
s_set(verl_draft_t *draft, const char *set, int index)
{
    verl_at_t at = { .origin = index };
    const char *equals = strchr(set, '=');
    bool plain = true;
    for (const unsigned char *c = (const unsigned char *) set; *c; c++)
        plain = plain && *c >= 0x20 && *c != 0x7f;
    if (!equals || equals == set || !plain) {
        verl_problem_add(&draft->problems, at,
                         "this is not of the form KEY=VALUE: stage.update.lr=1e-5 would be right");
        return;
    }
    verl_toml_error_t error = { 0 };
    verl_node_t *root = s_read(draft, set, equals, &error);
    if (!root) {
        if (strstr(error.text, "would be right")) {
            verl_problem_add(&draft->problems, at, "%s", error.text);
            return;
        }
        const char *right = "a key such as stage.update.lr and a TOML value, or a bare word,";
        if (s_is_number(equals + 1) && strstr(error.text, "64 bits"))
            right = "a smaller number";
        verl_problem_add(&draft->problems, at, "%s: %s would be right", error.text, right);
        return;
    }
    verl_node_originate(root, index);
    verl_node_merge(draft->pool, draft->root, root);
}

void
verl_draft_sets(verl_draft_t *draft, const char *const *sets, int sets_count)
{
    for (int i = 0; i < sets_count; i++)
        s_set(draft, sets[i], i);
}

// "stage.y.key": follows the names down to the last table, and takes the last name out of it.
static bool
s_unset(verl_draft_t *draft, const char *path)
{
    verl_node_t *table = draft->root;
    for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        table = verl_node_get(table, verl_pool_copy_n(draft->pool, path, (size_t) (dot - path)));
        if (!table)
            return false;
    }
    return verl_node_remove(table, path);
}

void
verl_draft_unset(verl_draft_t *draft, const verl_node_t *unset)
{
    if (unset->type != VERL_NODE_ARRAY) {
        verl_problem_add(&draft->problems, unset->at,
                         "`unset` is %s: an array of names, [\"stage.x\", \"stage.y.key\"], would "
                         "be right",
                         verl_node_type_name(unset->type));
        return;
    }
    for (int i = 0; i < unset->count; i++) {
        const verl_node_t *item = unset->items[i];
        if (item->type != VERL_NODE_STRING)
            verl_problem_add(&draft->problems, item->at,
                             "`unset` has %s in it: a name such as \"stage.x\" would be right",
                             verl_node_type_name(item->type));
        else if (!s_unset(draft, item->string))
            verl_problem_add(&draft->problems, item->at,
                             "there is no `%s` to take away: \"stage.NAME\", \"actor.NAME\" or "
                             "\"stage.NAME.KEY\" of the running topology would be right",
                             item->string);
    }
}
