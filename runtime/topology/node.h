// node.h: a TOML document as a tree in which every key and every value knows where it was written.
//
// Invariant: a tree lives in a pool and is at most VERL_NODE_DEPTH deep; items of a table stand in the order of the
// file.
#ifndef VERL_TOPOLOGY_NODE_H
#define VERL_TOPOLOGY_NODE_H
#include <stdbool.h>
#include <stdint.h>
#include "runtime/topology/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VERL_NODE_DEPTH 48

typedef enum verl_node_type {
    VERL_NODE_BOOL,
    VERL_NODE_INT,
    VERL_NODE_REAL,
    VERL_NODE_STRING,
    VERL_NODE_ARRAY,
    VERL_NODE_TABLE,
    VERL_NODE_DATE
} verl_node_type_t;

// A place in the file, or in an argument of the command line.
typedef struct verl_at {
    int origin;       // -1: the file; -2: the fragment of a change; else which --set
    int line, column; // from 1; of a --set they mean nothing
} verl_at_t;

typedef struct verl_node {
    verl_node_type_t type;
    bool whole; // an inline table: when merged, it replaces instead of being merged
    bool boolean;
    int64_t integer;
    double real;
    char *string;
    int count; // of an array or a table
    struct verl_node **items;
    char **keys;      // of a table
    verl_at_t at;     // of the value
    verl_at_t key_at; // of its key; of an item of an array: of the value
} verl_node_t;

// "an integer", "a string", … as an error names it.
const char *verl_node_type_name(verl_node_type_t type);
// The value of a key; NULL where absent, or where table is NULL or no table.
verl_node_t *verl_node_get(const verl_node_t *table, const char *key);
// Puts a value under a key, in place of what was there.
void verl_node_put(verl_pool_t *pool, verl_node_t *table, const char *key, verl_node_t *value);
// Takes a key away; false where it was not there.
bool verl_node_remove(verl_node_t *table, const char *key);
// Key by key: what `from` has replaces what `into` has; two tables are merged, unless the new one is inline. `from`
// becomes part of `into`.
void verl_node_merge(verl_pool_t *pool, verl_node_t *into, verl_node_t *from);
// Gives every place of a tree an origin.
void verl_node_originate(verl_node_t *node, int origin);
// An empty table.
verl_node_t *verl_node_table(verl_pool_t *pool);

#ifdef __cplusplus
}
#endif
#endif
