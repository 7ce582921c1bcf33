// declare.c: what can be said about a policy's stages before a start: columns that depend on options, the model's
// files, the id space of its tokenizer. Looks at headers only.
#include <unistd.h>
#include "actors/lm/load.h"
#include "actors/policy/policy.h"

#define LEARNER_VECTORS 4                   // weights, gradient and the two of AdamW
#define COLDEST 1e-4                        // a temperature below this makes log-probabilities overflow
#define CROWD   64                          // threads that any machine may be asked for, …
#define CROWDED 16                          // … or so many for each processor

// Whether vectors of the size of the weights fit into this machine's memory at all.
static void
s_look_at_memory(verl_declaration_t *declaration, const verl_policy_t *self, const verl_lm_config_t *config,
                 int vectors)
{
    verl_lm_layout_t layout = { 0 };
    double memory = (double) sysconf(_SC_PHYS_PAGES) * (double) sysconf(_SC_PAGESIZE);
    if (verl_lm_layout_init(&layout, config) != 0)
        return;
    double bytes = (double) layout.total * sizeof(float) * vectors;
    if (memory > 0 && bytes > memory)
        verl_declare_error(declaration, "model", "'%s' has %lld parameters, which take %.3g GiB here, and this machine "
                           "has %.3g GiB of memory: a smaller model would be right", self->model,
                           (long long) layout.total, bytes / (1 << 30), memory / (1 << 30));
    verl_lm_layout_done(&layout);
}

static void
s_look_at_threads(verl_declaration_t *declaration, const verl_policy_t *self)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (self->threads > CROWD && self->threads > CROWDED * processors)
        verl_declare_error(declaration, "threads", "is %lld, and this machine has %ld processors: 0, all of them, would "
                           "be right", (long long) self->threads, processors);
}

// The model's shape and its files; `vectors` of the size of its weights are kept. false: something is wrong, and was
// said.
static bool
s_look_at_model(verl_declaration_t *declaration, const verl_policy_t *self, int vectors, verl_lm_config_t *config)
{
    char error[1024];
    s_look_at_threads(declaration, self);
    if (verl_lm_config_load(self->model, config, error, sizeof error) != 0) {
        verl_declare_error(declaration, "model", "%s", error);
        return false;
    }
    if (self->init == VERL_POLICY_LOAD && !verl_lm_has_weights(self->model)) {
        verl_declare_error(declaration, "model",
                           "'%s' has no weights: a model.safetensors there, or init = \"random\", "
                           "would be right",
                           self->model);
        return false;
    }
    if (self->init == VERL_POLICY_LOAD && verl_lm_parameters_check(self->model, config, error, sizeof error) != 0) {
        verl_declare_error(declaration, "model", "%s", error);
        return false;
    }
    s_look_at_memory(declaration, self, config, vectors);
    return true;
}

// Ids of both columns are the tokenizer's; needed: it has to be there. false: it is not, and that was said.
static bool
s_look_at_tokenizer(verl_declaration_t *declaration, const verl_policy_t *self, const verl_lm_config_t *config,
                    bool needed)
{
    char error[1024], space[VERL_SPACE_SIZE];
    const char *path = verl_policy_tokenizer_path(self);
    if (verl_prompter_space(path, space, error, sizeof error) == 0) {
        int64_t stray = verl_prompter_stray_id(path, config->vocab_size);
        if (stray >= 0)
            verl_declare_error(declaration, self->tokenizer && *self->tokenizer ? "tokenizer" : "model",
                               "the tokenizer of '%s' makes the id %lld, and the vocabulary of '%s' ends at "
                               "%lld: the model's own tokenizer would be right", path, (long long) stray, self->model,
                               (long long) config->vocab_size - 1);
        verl_declare_space(declaration, "prompt_ids", space, path);
        verl_declare_space(declaration, "response_ids", space, path);
        return true;
    }
    if (needed)
        verl_declare_error(declaration, self->tokenizer && *self->tokenizer ? "tokenizer" : "model", "%s", error);
    return !needed;
}

static void
s_look_at_stops(verl_declaration_t *declaration, const verl_policy_t *self, const verl_strings_t *stop)
{
    char error[1024];
    const char *path = verl_policy_tokenizer_path(self);
    verl_tokenizer_t *tokenizer = stop->count > 0 ? verl_tokenizer_open(path, error, sizeof error) : NULL;
    for (int i = 0; tokenizer && i < stop->count; i++)
        if (verl_prompter_one_token(tokenizer, stop->items[i]) < 0)
            verl_declare_error(declaration, "stop", "\"%s\" is not one token of '%s': a response ends at whole tokens",
                               stop->items[i], path);
    verl_tokenizer_close(&tokenizer);
}

static void
s_look_at_template(verl_declaration_t *declaration, const verl_policy_t *self)
{
    char error[1024];
    if (verl_prompter_check_template(verl_policy_tokenizer_path(self), error, sizeof error) != 0)
        verl_declare_error(declaration, "template", "%s", error);
}

int
verl_policy_declare_generate(verl_declaration_t *declaration, const void *state, const void *options)
{
    const verl_policy_t *self = state;
    const verl_policy_generate_t *work = options;
    bool ids = verl_declare_has_upstream(declaration, "prompt_ids");
    verl_declare_need(declaration, ids ? "prompt_ids" : "prompt");
    if (!ids)
        verl_declare_give(declaration, "prompt_ids:i32[n,*]");
    if (ids && work->template != VERL_TEMPLATE_NONE)
        verl_declare_error(declaration, "template", "the prompts come as ids, which have their template already: "
                           "template = \"chat\" belongs to the stage that makes prompt_ids");
    if (work->temperature > 0 && work->temperature < COLDEST)
        verl_declare_error(declaration, "temperature", "is %g: 0 (always the likeliest token), or at least %g, would "
                           "be right", work->temperature, COLDEST);
    verl_lm_config_t config;
    if (!s_look_at_model(declaration, self, 1, &config))
        return 0;
    if (work->max_new_tokens >= config.max_positions)
        verl_declare_error(declaration, "max_new_tokens",
                           "is %lld, which leaves no room for a prompt in the context of "
                           "%lld of '%s': less would be right",
                           (long long) work->max_new_tokens, (long long) config.max_positions, self->model);
    if (!s_look_at_tokenizer(declaration, self, &config, !ids || work->text || work->stop.count > 0))
        return 0;
    s_look_at_stops(declaration, self, &work->stop);
    if (!ids && work->template != VERL_TEMPLATE_NONE)
        s_look_at_template(declaration, self);
    return 0;
}

// What is the same for stages that are given responses.
static int
s_look(verl_declaration_t *declaration, const verl_policy_t *self, int vectors)
{
    verl_lm_config_t config;
    if (s_look_at_model(declaration, self, vectors, &config))
        s_look_at_tokenizer(declaration, self, &config, false);
    return 0;
}

int
verl_policy_declare_logprobs(verl_declaration_t *declaration, const void *state, const void *options)
{
    (void) options;
    return s_look(declaration, state, 1);
}

// A step of AdamW multiplies weights by 1 - lr * weight_decay: from 1 on they would grow, each with its sign
// changed.
static void
s_look_at_decay(verl_declaration_t *declaration, const verl_policy_update_t *work)
{
    if (work->lr * work->weight_decay >= 1)
        verl_declare_error(declaration, "weight_decay", "is %g, and times lr = %g that is %g, by which every step "
                           "would shrink the weights: less than 1 would be right", work->weight_decay, work->lr,
                           work->lr * work->weight_decay);
}

// An option that is given and counts for nothing. (min_lr_ratio, total_steps and kl_kind may: schedule = "constant" and
// kl_coef = 0 are how a schedule and a penalty are put out of use for a while.)
static void
s_look_at_scale(verl_declaration_t *declaration, const verl_policy_update_t *work, const verl_loss_config_t *loss)
{
    if (loss->agg != VERL_AGG_SEQ_MEAN_TOKEN_SUM_NORM && (work->loss_scale < 1 || work->loss_scale > 1))
        verl_declare_error(declaration, "loss_scale", "is %g, and only loss_agg = \"seq-mean-token-sum-norm\" divides "
                           "by it: that loss_agg, or no loss_scale, would be right", work->loss_scale);
}

int
verl_policy_declare_update(verl_declaration_t *declaration, const void *state, const void *options)
{
    char error[512];
    verl_loss_config_t loss;
    if (verl_policy_loss_config(options, &loss, error, sizeof error) != 0) {
        verl_declare_error(declaration, NULL, "%s", error);
    } else {
        unsigned needs = verl_policy_loss_needs(loss.loss);
        bool old = verl_declare_has_upstream(declaration, "old_logprobs of response_ids");
        if (needs & VERL_NEEDS_OLD_LP)
            verl_declare_need(declaration, old ? "old_logprobs of response_ids" : "rollout_logprobs of response_ids");
        if ((needs & VERL_NEEDS_OLD_LP) && old)
            verl_declare_need(declaration, "rollout_logprobs? of response_ids");       // to compare the two
        if (needs & VERL_NEEDS_ADVANTAGES)
            verl_declare_need(declaration, "advantages of response_ids");
        if (needs != 0)
            verl_declare_need(declaration, "is_weights? of response_ids");
        s_look_at_scale(declaration, options, &loss);
    }
    s_look_at_decay(declaration, options);
    verl_declare_divides(declaration, "mini_batch", ((const verl_policy_update_t *) options)->mini_batch);
    return s_look(declaration, state, LEARNER_VECTORS);
}
