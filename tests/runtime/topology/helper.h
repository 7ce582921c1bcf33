// helper.h: small kinds for the tests of topologies, and loading a text with an expectation.
#ifndef TESTS_TOPOLOGY_HELPER_H
#define TESTS_TOPOLOGY_HELPER_H
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <verl.h>
#include "runtime/topology/topology.h"

static int
s_handle(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out)
{
    (void) stage;
    (void) in;
    (void) out;
    return 0;
}

static int
s_weights_out(verl_stage_t *stage, verl_batch_t *out)
{
    (void) stage;
    (void) out;
    return 0;
}

static int
s_weights_in(verl_stage_t *stage, const verl_batch_t *in)
{
    (void) stage;
    (void) in;
    return 0;
}

typedef struct {
    double busy_ms;
    int64_t rows, bytes;
} work_options_t;
static const verl_option_t s_work_options[] = {
    VERL_REAL(work_options_t, busy_ms, 0, 0, 1e9, "ms", "time that a batch takes"),
    VERL_INT(work_options_t, rows, 1, 1, 1000000, "rows", "rows of a batch"),
    VERL_INT(work_options_t, bytes, 8, 1, 1000000, "bytes", "payload of a row"), VERL_OPTIONS_END
};

static int
s_work_declare(verl_declaration_t *declaration, const void *state, const void *options)
{
    (void) state;
    (void) options;
    if (!verl_declare_has_upstream(declaration, "id"))
        verl_declare_give(declaration, "id:i64[n]");
    return 0;
}

VERL_KIND(synthetic, .about = "takes time",
          .stages = { { "work", s_handle, .options_size = sizeof(work_options_t), .options = s_work_options,
                        .by_row = true, .gives = { "payload:u8[n, bytes]" }, .declare = s_work_declare } })

typedef struct {
    verl_strings_t files;
    int64_t rows, epochs;
    const char *tokenizer;
} load_options_t;
static const verl_option_t s_load_options[] = {
    VERL_OPTION_OF(PATHS, load_options_t, files, "files with a record a line", .must_exist = true),
    VERL_INT(load_options_t, rows, 32, 1, 1000000, "rows", "prompts of a batch",
             .also = "verl:data.train_batch_size trl:per_device_train_batch_size"),
    VERL_INT(load_options_t, epochs, 0, 0, 1000000, "epochs", "times that the data is read; 0: without end"),
    VERL_STRING(load_options_t, tokenizer, NULL, "tokenizer", .optional = true), VERL_OPTIONS_END
};

// Ten batches an epoch.
static int
s_load_declare(verl_declaration_t *declaration, const void *state, const void *options)
{
    const load_options_t *self = options;
    (void) state;
    if (self->files.count == 0)
        verl_declare_error(declaration, "files", "no file is named: one at least would be right");
    if (self->epochs > 0)
        verl_declare_batches(declaration, self->epochs * 10);
    if (*self->tokenizer) {
        verl_declare_give(declaration, "prompt_ids:i32[n,*]");
        verl_declare_space(declaration, "prompt_ids", self->tokenizer, self->tokenizer);
    }
    return 0;
}

VERL_KIND(loader, .about = "reads records",
          .stages = { { "load", s_handle, .options_size = sizeof(load_options_t), .options = s_load_options,
                        .source_only = true, .gives = { "id:i64[n]", "prompt:text", "answer:text" },
                        .declare = s_load_declare } })

typedef struct {
    const char *model;
} policy_t;
typedef struct {
    int64_t samples;
} generate_t;
typedef struct {
    double lr, kl_coef;
} update_t;
static const verl_option_t s_policy_options[] = { VERL_STRING(policy_t, model, "tiny", "model directory",
                                                              .also = "verl:actor.model.path trl:model_name_or_path"),
                                                  VERL_OPTIONS_END };
static const verl_option_t s_generate_options[] = { VERL_INT(generate_t, samples, 1, 1, 1024, "",
                                                             "responses for each prompt",
                                                             .also = "verl:rollout.n trl:num_generations"),
                                                    VERL_OPTIONS_END };
static const verl_option_t s_update_options[] = {
    VERL_REAL(update_t, lr, 1e-4, 0, 1, "", "learning rate", .also = "verl:actor.optim.lr trl:learning_rate"),
    VERL_REAL(update_t, kl_coef, 0, 0, 100, "", "weight of the KL term"), VERL_OPTIONS_END
};

static int
s_generate_declare(verl_declaration_t *declaration, const void *state, const void *options)
{
    const policy_t *self = state;
    (void) options;
    verl_declare_space(declaration, "prompt_ids", self->model, self->model);
    return 0;
}

VERL_KIND(policy, .about = "a model that writes and learns", .state_size = sizeof(policy_t),
          .options = s_policy_options, .keeps_state = true, .give_weights = s_weights_out, .take_weights = s_weights_in,
          .stages = { { "generate", s_handle, .options_size = sizeof(generate_t), .options = s_generate_options,
                        .needs = { "prompt", "prompt_ids?" },
                        .gives = { "response:text", "response_ids:i32[n,*]", "group:i64[n]" }, .maps = true,
                        .by_row = true, .reads_weights = true, .declare = s_generate_declare },
                      { "logprobs", s_handle, .needs = { "response_ids" }, .gives = { "logprobs:f32[n,*]" },
                        .by_row = true, .reads_weights = true },
                      { "update", s_handle, .options_size = sizeof(update_t), .options = s_update_options,
                        .needs = { "advantages", "response_ids", "ref_logprobs if kl_coef > 0" },
                        .writes_weights = true } })

VERL_KIND(critic, .about = "a model that values", .keeps_state = true,
          .stages = { { "values", s_handle, .needs = { "response_ids" }, .gives = { "values:f32[n,*]" },
                        .reads_weights = true },
                      { "update", s_handle, .needs = { "values" }, .writes_weights = true } })

typedef struct {
    int rule;
} rule_t;
static const verl_option_t s_rule_options[] = {
    VERL_CHOICE(rule_t, rule, "exact", "exact|contains", "what counts as right"), VERL_OPTIONS_END
};
VERL_KIND(rule_reward, .about = "scores by a rule", .state_size = sizeof(rule_t), .options = s_rule_options,
          .stages = {
              { "score", s_handle, .needs = { "response", "answer" }, .gives = { "score:f32[n]" }, .by_row = true } })

typedef struct {
    int estimator;
    verl_weights_t scores;
} advantage_t;
static const verl_option_t s_advantage_options[] = { VERL_CHOICE(advantage_t, estimator, "grpo", "grpo|gae",
                                                                 "how scores become advantages"),
                                                     { .name = "scores",
                                                       .type = VERL_OPTION_WEIGHTS,
                                                       .offset = offsetof(advantage_t, scores),
                                                       .fallback = "{ score = 1.0 }",
                                                       .about = "columns that are added up" },
                                                     VERL_OPTIONS_END };
VERL_KIND(advantage, .about = "advantages from scores", .state_size = sizeof(advantage_t),
          .options = s_advantage_options,
          .stages = { { "estimate", s_handle, .needs = { "*scores", "group?", "values if estimator = gae" },
                        .gives = { "advantages:f32[n,*]" } } })

VERL_KIND(filter, .about = "keeps some rows",
          .stages = { { "keep", s_handle, .needs = { "score" }, .maps = true, .by_row = true } })

typedef struct {
    verl_strings_t columns;
    const char *file;
} record_t;
static const verl_option_t s_record_options[] = {
    VERL_OPTION_OF(STRINGS, record_t, columns, "columns that are written"),
    VERL_STRING(record_t, file, "record.jsonl", "file in the run directory"), VERL_OPTIONS_END
};
VERL_KIND(recorder, .about = "writes columns", .keeps_state = true, .state_size = sizeof(record_t),
          .options = s_record_options, .stages = { { "record", s_handle, .needs = { "*columns" } } })

static const verl_kind_t *const s_kinds[] = { &verl_kind_synthetic, &verl_kind_loader,      &verl_kind_policy,
                                              &verl_kind_critic,    &verl_kind_rule_reward, &verl_kind_advantage,
                                              &verl_kind_filter,    &verl_kind_recorder,    NULL };

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
