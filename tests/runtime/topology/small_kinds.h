// small_kinds.h: kinds with the shape of those that we ship and handlers that do nothing, for tests of topologies.
#ifndef TESTS_TOPOLOGY_SMALL_KINDS_H
#define TESTS_TOPOLOGY_SMALL_KINDS_H
#include <verl.h>

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
    VERL_INT(work_options_t, rows, 1, 1, 16777216, "rows", "rows of a batch"),
    VERL_INT(work_options_t, bytes, 8, 1, 4294967296, "bytes", "payload of a row"), VERL_OPTIONS_END
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
    int64_t mini_batch;
} update_t;
static const verl_option_t s_policy_options[] = { VERL_STRING(policy_t, model, "tiny", "model directory",
                                                              .also = "verl:actor.model.path trl:model_name_or_path",
                                                              .of_weights = true),
                                                  VERL_OPTIONS_END };
static const verl_option_t s_generate_options[] = { VERL_INT(generate_t, samples, 1, 1, 1024, "",
                                                             "responses for each prompt",
                                                             .also = "verl:rollout.n trl:num_generations"),
                                                    VERL_OPTIONS_END };
static const verl_option_t s_update_options[] = {
    VERL_REAL(update_t, lr, 1e-4, 0, 1, "", "learning rate", .also = "verl:actor.optim.lr trl:learning_rate"),
    VERL_REAL(update_t, kl_coef, 0, 0, 100, "", "weight of the KL term"),
    VERL_INT(update_t, mini_batch, 0, 0, 1e12, "rows", "for each step; 0: the whole batch"), VERL_OPTIONS_END
};

static int
s_update_declare(verl_declaration_t *declaration, const void *state, const void *options)
{
    (void) state;
    verl_declare_divides(declaration, "mini_batch", ((const update_t *) options)->mini_batch);
    return 0;
}

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
                        .writes_weights = true, .declare = s_update_declare } })

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

typedef struct {
    bool strict;
} pupil_t;
static const verl_option_t s_pupil_options[] = { VERL_BOOL(pupil_t, strict, false, "wants marks"), VERL_OPTIONS_END };
VERL_KIND(pupil, .about = "learns from responses", .state_size = sizeof(pupil_t), .options = s_pupil_options,
          .stages = { { "learn", s_handle, .needs = { "response_ids", "group?", "old_logprobs? of response_ids",
                                                      "marks of response_ids if strict" } } })

typedef struct {
    const char *function;
    verl_strings_t reads;
} script_t;
static const verl_option_t s_script_options[] = {
    VERL_OPTION_OF(STRING, script_t, function, "which of the file's functions it is", .optional = true),
    VERL_OPTION_OF(STRINGS, script_t, reads, "columns that it reads", .optional = true), VERL_OPTIONS_END
};

static int
s_script_declare(verl_declaration_t *declaration, const void *state, const void *options)
{
    (void) state;
    const script_t *self = options;
    for (int i = 0; i < self->reads.count; i++)
        verl_declare_need(declaration, self->reads.items[i]);
    return 0;
}

typedef struct {
    const char *file;
} script_file_t;
static const verl_option_t s_script_file[] = { VERL_STRING(script_file_t, file, "", "file"), VERL_OPTIONS_END };

VERL_KIND(script, .about = "calls a function of a file", .state_size = sizeof(script_file_t), .options = s_script_file,
          .stages = { { "call", s_handle, .options_size = sizeof(script_t), .options = s_script_options,
                        .gives = { "said:text" }, .declare = s_script_declare } })

static const verl_kind_t *const s_kinds[] = { &verl_kind_synthetic,
                                              &verl_kind_loader,
                                              &verl_kind_policy,
                                              &verl_kind_critic,
                                              &verl_kind_rule_reward,
                                              &verl_kind_advantage,
                                              &verl_kind_filter,
                                              &verl_kind_recorder,
                                              &verl_kind_pupil,
                                              &verl_kind_script,
                                              NULL };
#endif
