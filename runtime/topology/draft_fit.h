// draft_fit.h: a change written as people write topologies, over a topology as verl_topology_write_resolved writes it.
#ifndef VERL_DRAFT_FIT_H
#define VERL_DRAFT_FIT_H
#include "runtime/topology/draft.h"

// Before the fragment is merged into draft->root. In a resolved topology every stage names its actor, also one of its
// own; a fragment may still speak of such a stage with the keys of its actor, give it another kind, or take it away.
void verl_draft_fit(verl_draft_t *draft, verl_node_t *fragment);
// After it was merged: an actor that had stages and has none any more goes too. `had`: verl_draft_fit_actors before.
verl_node_t *verl_draft_fit_actors(verl_draft_t *draft);
void verl_draft_fit_orphans(verl_draft_t *draft, const verl_node_t *had);
#endif
