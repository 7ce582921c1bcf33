// declare.c: what can be said about a policy's stages before a start: columns that depend on options, the model's
// files, the id space of its tokenizer. Looks at headers only.
#include "actors/lm/load.h"
#include "actors/policy/policy.h"

// The model's shape. false: it is wrong, and that was said.
static bool
s_look_at_model(verl_declaration_t *declaration, const verl_policy_t *self, verl_lm_config_t *config)
{
    char error[1024];
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
    return true;
}

// Ids of both columns are the tokenizer's; needed: it has to be there. false: it is not, and that was said.
static bool
s_look_at_tokenizer(verl_declaration_t *declaration, const verl_policy_t *self, bool needed)
{
    char error[1024], space[VERL_SPACE_SIZE];
    const char *path = verl_policy_tokenizer_path(self);
    if (verl_prompter_space(path, space, error, sizeof error) == 0) {
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
    verl_lm_config_t config;
    if (!s_look_at_model(declaration, self, &config))
        return 0;
    if (work->max_new_tokens >= config.max_positions)
        verl_declare_error(declaration, "max_new_tokens",
                           "is %lld, which leaves no room for a prompt in the context of "
                           "%lld of '%s': less would be right",
                           (long long) work->max_new_tokens, (long long) config.max_positions, self->model);
    if (s_look_at_tokenizer(declaration, self, !ids || work->text || work->stop.count > 0))
        s_look_at_stops(declaration, self, &work->stop);
    return 0;
}

int
verl_policy_declare_logprobs(verl_declaration_t *declaration, const void *state, const void *options)
{
    verl_lm_config_t config;
    (void) options;
    if (s_look_at_model(declaration, state, &config))
        s_look_at_tokenizer(declaration, state, false);
    return 0;
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
        bool old = verl_declare_has_upstream(declaration, "old_logprobs");
        if (needs & VERL_NEEDS_OLD_LP)
            verl_declare_need(declaration, old ? "old_logprobs" : "rollout_logprobs");
        if ((needs & VERL_NEEDS_OLD_LP) && old)
            verl_declare_need(declaration, "rollout_logprobs?");       // to compare the two
        if (needs & VERL_NEEDS_ADVANTAGES)
            verl_declare_need(declaration, "advantages");
        if (needs != 0)
            verl_declare_need(declaration, "is_weights?");
    }
    return verl_policy_declare_logprobs(declaration, state, options);
}
