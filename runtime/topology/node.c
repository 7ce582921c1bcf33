// node.c: see node.h.
#include "runtime/topology/node.h"
#include <string.h>

const char *
verl_node_type_name(verl_node_type_t type)
{
    static const char *const names[] = { "a boolean", "an integer", "a real number", "a string",
                                         "an array",  "a table",    "a date" };
    return names[type];
}

static int
s_find(const verl_node_t *table, const char *key)
{
    if (!table || table->type != VERL_NODE_TABLE)
        return -1;
    for (int i = 0; i < table->count; i++)
        if (strcmp(table->keys[i], key) == 0)
            return i;
    return -1;
}

verl_node_t *
verl_node_get(const verl_node_t *table, const char *key)
{
    int i = s_find(table, key);
    return i < 0 ? NULL : table->items[i];
}

void
verl_node_put(verl_pool_t *pool, verl_node_t *table, const char *key, verl_node_t *value)
{
    int i = s_find(table, key);
    if (i >= 0) {
        table->items[i] = value;
        return;
    }
    size_t count = (size_t) table->count;
    verl_node_t **items = verl_pool_array(pool, count + 1, sizeof(verl_node_t *));
    char **keys = verl_pool_array(pool, count + 1, sizeof *keys);
    if (count) {
        memcpy(items, table->items, count * sizeof(verl_node_t *));
        memcpy(keys, table->keys, count * sizeof *keys);
    }
    items[count] = value;
    keys[count] = verl_pool_copy(pool, key);
    table->items = items;
    table->keys = keys;
    table->count++;
}

bool
verl_node_remove(verl_node_t *table, const char *key)
{
    int i = s_find(table, key);
    if (i < 0)
        return false;
    table->count--;
    for (; i < table->count; i++) {
        table->items[i] = table->items[i + 1];
        table->keys[i] = table->keys[i + 1];
    }
    return true;
}

void
verl_node_merge(verl_pool_t *pool, verl_node_t *into, verl_node_t *from)
{
    for (int i = 0; i < from->count; i++) {
        verl_node_t *old = verl_node_get(into, from->keys[i]), *new = from->items[i];
        bool both = old && old->type == VERL_NODE_TABLE && new->type == VERL_NODE_TABLE && !new->whole;
        if (both)
            verl_node_merge(pool, old, new);
        else
            verl_node_put(pool, into, from->keys[i], new);
    }
}

void
verl_node_originate(verl_node_t *node, int origin)
{
    node->at.origin = node->key_at.origin = origin;
    for (int i = 0; i < node->count; i++)
        verl_node_originate(node->items[i], origin);
}

verl_node_t *
verl_node_table(verl_pool_t *pool)
{
    verl_node_t *node = verl_pool_alloc(pool, sizeof *node);
    node->type = VERL_NODE_TABLE;
    node->at = node->key_at = (verl_at_t){ .origin = -1, .line = 1, .column = 1 };
    return node;
}
