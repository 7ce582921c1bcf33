// value.h: typed values, as options have them: look up, make from a node, write as TOML.
#ifndef VERL_TOPOLOGY_VALUE_H
#define VERL_TOPOLOGY_VALUE_H
#include <stdio.h>
#include "runtime/topology/node.h"
#include "runtime/topology/plan.h"

// The value of a key; NULL where the table has none or is no table.
const verl_value_t *verl_value_get(const verl_value_t *table, const char *key);
// Adds a key that the table does not have yet. The value is copied flat: what it points to must live as long.
void verl_value_put(verl_pool_t *pool, verl_value_t *table, const char *key, verl_value_t value);
verl_value_t verl_value_string(verl_pool_t *pool, const char *text);
verl_value_t verl_value_table(void);
// A copy of a node. A date becomes a string that no option takes.
verl_value_t verl_value_from_node(verl_pool_t *pool, const verl_node_t *node);
// Writes a value as TOML that reads back as the same value, bit for bit.
void verl_value_print(FILE *out, const verl_value_t *value);
// Writes a key, quoted where it has to be; and a string in quotes.
void verl_value_print_key(FILE *out, const char *key);
void verl_value_print_string(FILE *out, const char *text);
// "an integer", "a string", …
const char *verl_value_type_name(verl_value_type_t type);
// The value in a few words for a sentence: 3, "three", [2 items]. Writes at most size bytes.
const char *verl_value_brief(const verl_value_t *value, char *text, size_t size);
#endif
