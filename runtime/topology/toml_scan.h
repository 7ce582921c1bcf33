// toml_scan.h: looks over a document before the parser does, for what the parser has no bound of its own for.
#ifndef VERL_TOPOLOGY_TOML_SCAN_H
#define VERL_TOPOLOGY_TOML_SCAN_H
#include "runtime/topology/toml.h"

#ifdef __cplusplus
extern "C" {
#endif

// Refuses keys of more than VERL_TOML_MAX_DOTS dots, and more than VERL_NODE_DEPTH brackets inside each other: both
// would become recursion without a bound. Outside of strings and comments it refuses all that is no printable ASCII.
// Returns 0, or -1 with the place.
int verl_toml_scan(const char *text, size_t size, verl_toml_error_t *error);

#ifdef __cplusplus
}
#endif
#endif
