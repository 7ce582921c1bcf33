// policy.h: the state of a policy and its handlers; actors/policy.c makes a kind of them.
//
// Invariant: lm reads `params`, or, in an actor that is fed by published versions, the version taken last, which stays
// where the runtime mapped it. Handlers of one actor never overlap, so that tape and pack are shared by them.
#ifndef VERL_POLICY_POLICY_H
#define VERL_POLICY_POLICY_H
#include <verl.h>
#include "actors/kit/pack.h"
#include "actors/kit/prompt.h"
#include "actors/lm/model.h"
#include "actors/lm/optimizer.h"
#include "actors/rl/loss.h"

enum { VERL_POLICY_LOAD, VERL_POLICY_RANDOM };

typedef struct verl_policy {
    // Options.
    const char *model, *tokenizer;
    int         dtype, init;
    double      init_std;
    int64_t     init_seed, threads;
    // State.
    verl_lm_config_t    config;
    verl_lm_t          *lm;
    float              *params;             // own; NULL while a published version is used
    float              *gradient;           // of a policy that learns
    verl_lm_optimizer_t optimizer;
    bool                changed;            // the weights are not those that it began with
    verl_lm_tape_t     *tape;
    verl_pack_t         pack;
    verl_prompter_t     prompter;
} verl_policy_t;

// state.c: the life of the state.
int  verl_policy_prepare(verl_stage_t *stage);
void verl_policy_finish(verl_stage_t *stage);
int  verl_policy_begin_update(verl_stage_t *stage);
int  verl_policy_give_weights(verl_stage_t *stage, verl_batch_t *out);
int  verl_policy_take_weights(verl_stage_t *stage, const verl_batch_t *in);
// Where tokenizer files are: the option, or the model.
const char *verl_policy_tokenizer_path(const verl_policy_t *self);

// checkpoint.c: `model/`, a Hugging Face directory, and `optimizer.bin`.
int verl_policy_snapshot(verl_stage_t *stage, const char *directory);
int verl_policy_restore(verl_stage_t *stage, const char *directory);
// Fills self->params with the weights at path. 0, or verl_fail's -1.
int verl_policy_load(verl_stage_t *stage, verl_policy_t *self, const char *path);

// declare.c: what can be said about the model before a start.
int verl_policy_declare_generate(verl_declaration_t *declaration, const void *state, const void *options);
int verl_policy_declare_logprobs(verl_declaration_t *declaration, const void *state, const void *options);
int verl_policy_declare_update(verl_declaration_t *declaration, const void *state, const void *options);

// generate.c
typedef struct verl_policy_generate {
    int64_t        samples, max_new_tokens, top_k, max_cache_bytes;
    double         temperature, top_p;
    int            template, metrics;
    bool           text;
    verl_strings_t stop;
} verl_policy_generate_t;
int verl_policy_run_generate(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out);

// generated.c: the columns and metrics of what was generated.
typedef struct verl_policy_sampled {
    verl_token_ids_t      prompt_ids;       // of all prompts, one behind the other
    int64_t              *prompt_offsets;   // [prompts + 1]
    int64_t               prompts;
    verl_lm_generated_t   generated;
    uint64_t             *keys;             // [prompts * samples]
    int32_t              *stop;             // ids that end a response
    int                   stop_count;
} verl_policy_sampled_t;
int verl_policy_add_generated(verl_stage_t *stage, const verl_batch_t *in, const verl_policy_sampled_t *sampled,
                              bool give_prompts, verl_batch_t *out);

// logprobs.c
typedef struct verl_policy_logprobs {
    int64_t max_tokens;
    bool    entropy;
} verl_policy_logprobs_t;
int verl_policy_run_logprobs(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out);

// update.c: mini-batches and optimizer steps.
typedef struct verl_policy_update {
    double  lr, beta1, beta2, eps, weight_decay, grad_clip, min_lr_ratio;
    int64_t warmup_steps, total_steps, mini_batch, passes, max_tokens;
    int     schedule, loss, loss_agg, kl_kind;
    double  clip_low, clip_high, clip_c, ratio_cap, tau_positive, tau_negative, dro_beta, loss_scale;
    double  kl_coef, entropy_coef;
    bool    shuffle, recompute;
} verl_policy_update_t;
int verl_policy_run_update(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out);

// rate.c: the learning rate.
typedef struct verl_policy_place {
    int64_t batch, batches;                 // of those that the stage works on
    int64_t pass, passes;                   // over the batch
    int64_t turn, groups;                   // of the batch: as many as `turn` are done in this pass
} verl_policy_place_t;
// Of the step that comes after `step` optimizer steps, at this place of the run.
double verl_policy_rate(const verl_policy_update_t *options, int64_t step, const verl_policy_place_t *place);

// learn.c: the gradient of a mini-batch.
typedef struct verl_policy_lesson {
    verl_rows_t          rows;
    const verl_column_t *old_logprobs, *ref_logprobs, *advantages, *is_weights;   // NULL where nobody needs them
    verl_loss_config_t   loss;
} verl_policy_lesson_t;
// The loss that the options describe. 0, or -1 with one sentence.
int  verl_policy_loss_config(const verl_policy_update_t *options, verl_loss_config_t *ret_config, char *error,
                             size_t error_size);
// Reads and checks what the loss needs. 0, or verl_fail's -1 that names column and row. done accepts zeroed memory.
int  verl_policy_lesson_init(verl_policy_lesson_t *self, verl_stage_t *stage, const verl_batch_t *in);
void verl_policy_lesson_done(verl_policy_lesson_t *self);
// Counted tokens, and rows that have any, among order[0 … count).
verl_loss_totals_t verl_policy_totals(const verl_policy_lesson_t *self, const int64_t *order, int64_t count);
// Sets the policy's gradient to that of the rows order[0 … count) as one mini-batch, in as many micro-batches as
// max_tokens makes. metrics may be NULL. 0, or verl_fail's -1.
int verl_policy_gradient(verl_stage_t *stage, const verl_policy_lesson_t *lesson, const int64_t *order, int64_t count,
                         verl_metrics_t *metrics);

// The words of the options loss, loss_agg and kl_kind, as actors/rl knows them.
#define VERL_POLICY_LOSSES "vanilla|gspo|cispo|sapo|gpg|dro|dppo_tv|dppo_kl|geo_mean|sft"
#define VERL_POLICY_AGGS   "token-mean|token-sum|seq-mean-token-sum|seq-mean-token-mean|seq-mean-token-sum-norm"
#define VERL_POLICY_KLS    "k1|abs|k2|k3|k1+|abs+|k3+"
#endif
