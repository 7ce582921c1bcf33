// plan_json.h: a plan for programs.
#ifndef VERL_DIRECTOR_PLAN_JSON_H
#define VERL_DIRECTOR_PLAN_JSON_H
#include <jansson.h>
#include "runtime/topology/plan.h"

// {"run", "file", "revision", "steps", "max_in_flight", "max_bytes", "actors": […], "stages": […], "edges": […]}. NULL
// without memory.
json_t *verl_plan_json(const verl_plan_t *plan);
#endif
