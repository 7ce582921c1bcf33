// state.c: a policy's weights: loaded or made, given to readers as one flat column, taken from there in place.
#include <stdlib.h>
#include <string.h>
#include "actors/lm/load.h"
#include "actors/lm/vector.h"
#include "actors/policy/policy.h"

const char *
verl_policy_tokenizer_path(const verl_policy_t *self)
{
    return self->tokenizer && *self->tokenizer ? self->tokenizer : self->model;
}

static float *
s_new_vector(int64_t count)
{
    return verl_lm_vector((size_t) count * sizeof(float));
}

int
verl_policy_load(verl_stage_t *stage, verl_policy_t *self, const char *path)
{
    char error[1024];
    const verl_lm_layout_t *layout = verl_lm_layout(self->lm);
    double begin = verl_clock();
    if (!self->params)
        self->params = s_new_vector(layout->total);
    if (!self->params)
        return verl_fail(stage, "no memory for the %lld parameters of '%s'", (long long) layout->total, path);
    if (verl_lm_parameters_load(path, &self->config, layout, self->params, error, sizeof error) != 0)
        return verl_fail(stage, "%s", error);
    if (verl_lm_set_params(self->lm, self->params) != 0)
        return verl_fail(stage, "no memory for the rounded parameters of '%s'", path);
    verl_loaded(stage, "weights", verl_clock() - begin);
    return 0;
}

static int
s_make_random(verl_stage_t *stage, verl_policy_t *self)
{
    const verl_lm_layout_t *layout = verl_lm_layout(self->lm);
    self->params = s_new_vector(layout->total);
    if (!self->params ||
        verl_lm_init_params(&self->config, self->params, self->init_std, (uint64_t) self->init_seed) != 0 ||
        verl_lm_set_params(self->lm, self->params) != 0)
        return verl_fail(stage, "no memory for the %lld parameters of '%s'", (long long) layout->total, self->model);
    return 0;
}

int
verl_policy_prepare(verl_stage_t *stage)
{
    verl_policy_t *self = verl_stage_state(stage);
    char error[1024];
    if (verl_lm_config_load(self->model, &self->config, error, sizeof error) != 0)
        return verl_fail(stage, "%s", error);
    self->lm = verl_lm_new(&self->config, NULL, self->dtype == 1 ? VERL_LM_BF16 : VERL_LM_F32, (int) self->threads,
                           error, sizeof error);
    if (!self->lm)
        return verl_fail(stage, "%s", error);
    self->tape = verl_lm_tape_new();
    if (!self->tape)
        return verl_fail(stage, "no memory for activations");
    if (verl_prompter_init(&self->prompter, verl_policy_tokenizer_path(self), error, sizeof error) != 0)
        return verl_fail(stage, "%s", error);
    return self->init == VERL_POLICY_RANDOM ? s_make_random(stage, self) : verl_policy_load(stage, self, self->model);
}

// What only learning needs.
int
verl_policy_begin_update(verl_stage_t *stage)
{
    verl_policy_t *self = verl_stage_state(stage);
    int64_t total = verl_lm_layout(self->lm)->total;
    if (!self->gradient)
        self->gradient = s_new_vector(total);
    if (!self->gradient || (self->optimizer.count == 0 && verl_lm_optimizer_init(&self->optimizer, total) != 0))
        return verl_fail(stage, "no memory for the gradient and the optimizer's state of %lld parameters",
                         (long long) total);
    return 0;
}

void
verl_policy_finish(verl_stage_t *stage)
{
    verl_policy_t *self = verl_stage_state(stage);
    verl_lm_tape_destroy(&self->tape);
    verl_lm_destroy(&self->lm);
    verl_lm_optimizer_done(&self->optimizer);
    verl_pack_done(&self->pack);
    verl_prompter_done(&self->prompter);
    free(self->params);
    free(self->gradient);
    self->params = self->gradient = NULL;
}

int
verl_policy_give_weights(verl_stage_t *stage, verl_batch_t *out)
{
    const verl_policy_t *self = verl_stage_state(stage);
    int64_t total = verl_lm_layout(self->lm)->total;
    if (verl_batch_set_rows(out, 1) != 0)
        return -1;
    float *params = verl_batch_add(out, "params", VERL_F32, total);
    if (!params)
        return -1;
    memcpy(params, verl_lm_params(self->lm), (size_t) total * sizeof *params);
    return 0;
}

int
verl_policy_take_weights(verl_stage_t *stage, const verl_batch_t *in)
{
    verl_policy_t *self = verl_stage_state(stage);
    int64_t total = verl_lm_layout(self->lm)->total;
    const verl_column_t *params = verl_batch_column(in, "params");
    if (!params || params->ragged || params->dtype != VERL_F32 || params->rows != 1 || params->width != total)
        return verl_fail(stage, "the published weights are not one row of %lld f32, as the model '%s' has them",
                         (long long) total, self->model);
    if (verl_lm_set_params(self->lm, verl_column_f32(params, 0)) != 0)
        return verl_fail(stage, "no memory for the rounded parameters of the published version");
    free(self->params);
    self->params = NULL;
    self->changed = true;
    return 0;
}
