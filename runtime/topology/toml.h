// toml.h: reads a TOML document into a tree of nodes. The only door to the C++ parser behind it.
#ifndef VERL_TOPOLOGY_TOML_H
#define VERL_TOPOLOGY_TOML_H
#include <stddef.h>
#include "runtime/topology/node.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VERL_TOML_MAX_BYTES (4u << 20) // of a document
#define VERL_TOML_MAX_DOTS  24         // in one key

typedef struct verl_toml_error {
    int line, column; // 0: not at any place
    bool bound;       // it is TOML, but nothing here can hold it
    char text[400];
} verl_toml_error_t;

// Parses size bytes. The tree is in the pool; NULL with what is wrong and where, when the text is no TOML, is larger or
// nested deeper than the bounds, or memory ran out. Stops at the first mistake. Throws nothing.
verl_node_t *verl_toml_parse(const char *text, size_t size, verl_pool_t *pool, verl_toml_error_t *error);

#ifdef __cplusplus
}
#endif
#endif
