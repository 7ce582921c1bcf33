// checked.h: a topology as a command line names it, and what is said to programs (--json) of topologies and of kinds.
#ifndef VERL_CHECKED_H
#define VERL_CHECKED_H
#include <stdio.h>
#include "runtime/topology/topology.h"

// What mistakes are reported under: the path itself, "standard input" for "-", "pipe" for one as the shell makes it for
// <(…), which is read though it is no file.
const char *verl_checked_name(const char *path);

// As verl_topology_load. What is no file has its relative paths from the current directory. May block on a pipe.
verl_plan_t *verl_checked_load(const char *path, const char *const *sets, int sets_count,
                               verl_topology_errors_t *ret_errors);

// One line of JSON: {"ok": true, "topology", "stages", "actors"}, or, where `errors` say that it is wrong, {"ok": false,
// "topology", "errors": [{"file", "line", "column", "text"}…]}; an error without a place has its text alone. Returns -1
// where `out` has an error.
int verl_checked_print(const char *path, const verl_plan_t *plan, const verl_topology_errors_t *errors, FILE *out);

// --plan: what verl_plan_json says, in a line. Returns -1 where `out` has an error.
int verl_checked_plan(const verl_plan_t *plan, FILE *out);

// --kinds: {"kind", "about", "keeps_state", "stages": [names]}, a line each. Returns -1 where `out` has an error.
int verl_checked_kinds(FILE *out);
#endif
