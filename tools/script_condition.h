// script_condition.h: "actor/ppo_kl > 0.1 and step >= 20": a condition on the metrics of a step.
//
//     condition   both { "or" both }
//     both        one { "and" one }
//     one         "not" one | "(" condition ")" | value compares value
//     compares    > >= < <= == !=
//     value       a number, the name of a metric, or step
//
// A metric that the step has not is unknown, and so is what is compared with it: unknown is neither true nor false. No
// function blocks; a condition belongs to one thread at a time.
#ifndef VERL_SCRIPT_CONDITION_H
#define VERL_SCRIPT_CONDITION_H
#include <stdbool.h>
#include "runtime/base/error.h"

typedef struct verl_condition_tree verl_condition_tree_t;

// The value of a metric; false where there is none. name lives as long as the condition.
typedef bool (*verl_metric_lookup_t)(void *context, const char *name, double *ret_value);

// NULL with one sentence that says where in the text something is wrong.
verl_condition_tree_t *verl_condition_parse(const char *text, verl_error_t *error);
void                   verl_condition_destroy(verl_condition_tree_t **condition_p);
// Is it true? What is unknown is not. It remembers which of its metrics were there.
bool verl_condition_true(verl_condition_tree_t *condition, verl_metric_lookup_t lookup, void *context);
// A metric that was not there at any of these questions; NULL: all were, at one or another. Lives with the condition.
const char *verl_condition_unmet(const verl_condition_tree_t *condition);
#endif
