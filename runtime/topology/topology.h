// topology.h: from a topology file to the plan of a run, or to everything that is wrong with it.
#ifndef VERL_TOPOLOGY_H
#define VERL_TOPOLOGY_H
#include <stdio.h>
#include "runtime/topology/kinds.h"
#include "runtime/topology/plan.h"
#include "runtime/topology/problems.h"

// Reads a file, puts `sets` ("stage.update.lr=1e-5": the value is TOML, a bare word a string) over it and checks all of
// it. Returns the plan, which verl_plan_destroy frees, or NULL with every mistake in ret_errors, sorted by place; the
// caller frees those with verl_topology_errors_done. Kinds have to be registered before. Reads files that the topology
// names; changes nothing; safe from any thread.
verl_plan_t *
verl_topology_load(const char *path, const char *const *sets, int sets_count, verl_topology_errors_t *ret_errors);

// The same of a text in memory. path is what errors call it, and relative paths in it are relative to its folder.
verl_plan_t *verl_topology_load_text(const char *text, size_t size, const char *path, const char *const *sets,
                                     int sets_count, verl_topology_errors_t *ret_errors);

// The same with a fragment merged into it, key by key, before the sets: the whole topology that a change makes. In the
// fragment, `unset = ["stage.x", "stage.y.key"]` takes away; mistakes in it are reported under its own path. Where the
// two are in different folders, relative paths in the fragment's strings are relative to the topology.
verl_plan_t *
verl_topology_load_change(const char *text, size_t size, const char *path, const char *fragment, size_t fragment_size,
                          const char *fragment_path, verl_topology_errors_t *ret_errors);

// Writes a plan as a topology, with every option, defaults too, and absolute paths; loading it gives the same plan, but
// for lines and columns. Returns 0, or -1 where out has an error.
int verl_topology_write_resolved(const verl_plan_t *plan, FILE *out);
#endif
