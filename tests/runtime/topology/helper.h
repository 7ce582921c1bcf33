// helper.h: loading a topology with an expectation, and finding things in its plan.
#ifndef TESTS_TOPOLOGY_HELPER_H
#define TESTS_TOPOLOGY_HELPER_H
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/topology/topology.h"
#include "small_kinds.h"

#define RUN    "[run]\nsteps = 10\n"               // 2 lines
#define SOURCE "[stage.src]\nkind = 'synthetic'\n" // 2 lines
// A whole GRPO run: 22 lines behind RUN.
#define GRPO                                                                      \
    "[actor.policy]\nkind = 'policy'\n"                                           \
    "[stage.prompts]\nkind = 'loader'\nfiles = ['/dev/null']\nrows = 4\n"         \
    "[stage.generate]\nactor = 'policy'\ndepends_on = ['prompts']\nsamples = 8\n" \
    "[stage.reward]\nkind = 'rule-reward'\ndepends_on = ['generate']\n"           \
    "[stage.advantage]\nkind = 'advantage'\ndepends_on = ['reward']\n"            \
    "[stage.update]\nactor = 'policy'\ndepends_on = ['advantage']\nlr = 1e-4\n"

static inline void
s_register(void)
{
    verl_error_t error = { "" };
    cr_assert(verl_kind_register_all(s_kinds, &error) == 0, "%s", error.text);
}

static inline void
s_print(const verl_topology_errors_t *errors)
{
    for (int i = 0; i < errors->count; i++)
        fprintf(stderr, "  said: %s\n", errors->items[i]);
}

static inline verl_plan_t *
s_load(const char *text, const char *set, verl_topology_errors_t *errors)
{
    s_register();
    return verl_topology_load_text(text, strlen(text), "t.toml", &set, set ? 1 : 0, errors);
}

// A plan, since nothing is wrong with the text.
static inline verl_plan_t *
s_good(const char *text)
{
    verl_topology_errors_t errors;
    verl_plan_t *plan = s_load(text, NULL, &errors);
    s_print(&errors);
    cr_assert_not_null(plan);
    return plan;
}

// Exactly one mistake, at "line:" or "line:column:", whose sentence has all of some words ("a|b|c").
static inline void
s_one_mistake_set(const char *text, const char *set, const char *where, const char *words)
{
    verl_topology_errors_t errors;
    verl_plan_t *plan = s_load(text, set, &errors);
    s_print(&errors);
    cr_assert_null(plan);
    cr_assert(errors.count == 1, "%d errors instead of 1", errors.count);
    cr_assert(strncmp(errors.items[0], where, strlen(where)) == 0, "expected %s", where);
    char *copy = strdup(words);
    for (char *word = strtok(copy, "|"); word; word = strtok(NULL, "|"))
        cr_assert(strstr(errors.items[0], word) != NULL, "expected '%s'", word);
    free(copy);
    verl_topology_errors_done(&errors);
}

static inline void
s_one_mistake(const char *text, const char *where, const char *words)
{
    s_one_mistake_set(text, NULL, where, words);
}

static inline int
s_stage_index(const verl_plan_t *plan, const char *name)
{
    for (int i = 0; i < plan->stages_count; i++)
        if (strcmp(plan->stages[i].name, name) == 0)
            return i;
    cr_assert(0, "no stage %s", name);
    return -1;
}

static inline const verl_plan_stage_t *
s_stage(const verl_plan_t *plan, const char *name)
{
    return &plan->stages[s_stage_index(plan, name)];
}

static inline const verl_plan_need_t *
s_need(const verl_plan_t *plan, const char *stage, const char *name)
{
    const verl_plan_stage_t *self = s_stage(plan, stage);
    for (int i = 0; i < self->needs_count; i++)
        if (strcmp(self->needs[i].name, name) == 0)
            return &self->needs[i];
    cr_assert(0, "no need %s in %s", name, stage);
    return NULL;
}

// The name of the stage that makes what a stage needs; "" where it is optional and absent.
static inline const char *
s_maker(const verl_plan_t *plan, const char *stage, const char *name)
{
    const verl_plan_need_t *need = s_need(plan, stage, name);
    return need->edge < 0 ? "" : plan->stages[plan->edges[need->edge].maker].name;
}

// The edge from one stage to another, of data or of weights; NULL: none.
static inline const verl_plan_edge_t *
s_edge(const verl_plan_t *plan, const char *maker, const char *reader, bool weights)
{
    for (int i = 0; i < plan->edges_count; i++)
        if (plan->edges[i].maker == s_stage_index(plan, maker) &&
            plan->edges[i].reader == s_stage_index(plan, reader) && plan->edges[i].weights == weights)
            return &plan->edges[i];
    return NULL;
}
#endif
