// kinds.h: the actor kinds that this program knows: its own, registered at its start, and shared objects by path.
//
// Invariant: a kind in the list has passed verl_kind_check, and stays until the program ends. Safe from any thread.
#ifndef VERL_TOPOLOGY_KINDS_H
#define VERL_TOPOLOGY_KINDS_H
#include "runtime/topology/plan.h"

// Adds the kinds of a NULL-terminated list, such as the verl_kinds that the build makes. One that is registered already
// is left alone. Returns 0, or -1 with what is wrong with the first one that is wrong; the others are registered.
int verl_kind_register_all(const verl_kind_t *const *kinds, verl_error_t *error);

// How many there are, and each: in the order of their registration. NULL past the end.
int verl_kind_count(void);
const verl_kind_t *verl_kind_at(int index);

// A kind that is registered, or a shared object that is loaded already; NULL without a word where it is not.
const verl_kind_t *verl_kind_known(const char *name);

// Checks that a kind is whole: names, handlers, option tables with defaults that they accept, columns that can be read.
int verl_kind_check(const verl_kind_t *kind, verl_error_t *error);

// The handler of a name (dashes and underscores are the same); NULL where the kind has none.
const verl_stage_kind_t *verl_stage_kind_find(const verl_kind_t *kind, const char *name);
// The only handler of a kind, where its option `function` says which of many things it does (of a Lua file, say); NULL:
// of another kind.
const verl_stage_kind_t *verl_stage_kind_function(const verl_kind_t *kind);
int verl_stage_kind_count(const verl_kind_t *kind);
// The name in a topology: dashes for underscores. Writes at most size bytes.
const char *verl_kind_shown(const verl_kind_t *kind, char *text, size_t size);
bool verl_kind_is_path(const char *name);
#endif
