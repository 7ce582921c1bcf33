// plan_box.h: a plan together with the pool that holds all of it. For those who make plans, not for those who use them.
#ifndef VERL_TOPOLOGY_PLAN_BOX_H
#define VERL_TOPOLOGY_PLAN_BOX_H
#include "runtime/topology/plan.h"
#include "runtime/topology/pool.h"

// An empty plan with a pool of its own, freed by verl_plan_destroy; NULL without memory.
verl_plan_t *verl_plan_new(void);
verl_pool_t *verl_plan_pool(verl_plan_t *plan);
// Fills in the edges of each stage, in the order of their ids, from the edges themselves. Inside of verl_pool_run.
void verl_plan_link(verl_plan_t *plan);
#endif
