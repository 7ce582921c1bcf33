// learn.c: the gradient of one mini-batch. It is cut into micro-batches by tokens; the weights of tokens come from the
// totals of the whole mini-batch, so that the cut changes nothing but the order of sums.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "actors/policy/policy.h"

// ---------------------------------------------------------------------------------------------------------------
// The lesson

// The index'th word of a list "a|b|c".
static const char *
s_item(const char *list, int index, char *name, size_t size)
{
    for (; index > 0 && list; index--) {
        list = strchr(list, '|');
        list = list ? list + 1 : NULL;
    }
    size_t length = list ? strcspn(list, "|") : 0;
    if (length >= size)
        length = size - 1;
    memcpy(name, list ? list : "", length);
    name[length] = '\0';
    return name;
}

int
verl_policy_loss_config(const verl_policy_update_t *options, verl_loss_config_t *ret_config, char *error,
                        size_t error_size)
{
    char name[64];
    verl_loss_config_t config = verl_loss_defaults();
    config.loss = verl_policy_loss_find(s_item(VERL_POLICY_LOSSES, options->loss, name, sizeof name));
    if (!config.loss) {
        snprintf(error, error_size, "there is no loss '%s'", name);
        return -1;
    }
    config.agg = (verl_agg_t) verl_agg_find(s_item(VERL_POLICY_AGGS, options->loss_agg, name, sizeof name));
    config.kl = (verl_kl_t) verl_kl_find(s_item(VERL_POLICY_KLS, options->kl_kind, name, sizeof name));
    config.scale = options->loss_scale;
    config.clip_low = options->clip_low;
    config.clip_high = options->clip_high;
    config.clip_c = options->clip_c;
    config.ratio_cap = options->ratio_cap;
    config.tau_positive = options->tau_positive;
    config.tau_negative = options->tau_negative;
    config.dro_beta = options->dro_beta;
    config.kl_coef = options->kl_coef;
    config.entropy_coef = options->entropy_coef;
    *ret_config = config;
    return verl_loss_check(&config, error, error_size);
}

// One finite f32 for each counted token.
static int
s_check_column(verl_policy_lesson_t *self, verl_stage_t *stage, const verl_column_t *column)
{
    if (!column)
        return 0;
    if (verl_rows_check_aligned(&self->rows, stage, column) != 0)
        return -1;
    for (int64_t row = 0; row < self->rows.count; row++) {
        const float *value = verl_column_f32(column, row);
        for (int64_t t = 0; t < verl_rows_length(&self->rows, row); t++)
            if (!isfinite(value[t]) && verl_rows_is_masked_in(&self->rows, row, t))
                return verl_fail(stage,
                                 "row %lld: %s is %g at token %lld; finite numbers are what a gradient is made of",
                                 (long long) row, column->name, (double) value[t], (long long) t);
    }
    return 0;
}

int
verl_policy_lesson_init(verl_policy_lesson_t *self, verl_stage_t *stage, const verl_batch_t *in)
{
    const verl_policy_t *policy = verl_stage_state(stage);
    char error[512];
    *self = (verl_policy_lesson_t) { 0 };
    if (verl_policy_loss_config(verl_stage_options(stage), &self->loss, error, sizeof error) != 0)
        return verl_fail(stage, "%s", error);
    if (verl_rows_init(&self->rows, stage, in, &policy->config) != 0)
        return -1;
    unsigned needs = verl_policy_loss_needs(self->loss.loss);
    if (needs & VERL_NEEDS_OLD_LP) {
        self->old_logprobs = verl_batch_column(in, "old_logprobs");
        if (!self->old_logprobs)
            self->old_logprobs = verl_batch_column(in, "rollout_logprobs");
        if (!self->old_logprobs)
            return verl_fail(stage, "there is neither a column old_logprobs nor rollout_logprobs");
    }
    if (needs & VERL_NEEDS_ADVANTAGES)
        self->advantages = verl_batch_column(in, "advantages");
    if (self->loss.kl_coef > 0)
        self->ref_logprobs = verl_batch_column(in, "ref_logprobs");
    self->is_weights = verl_batch_column(in, "is_weights");
    return s_check_column(self, stage, self->old_logprobs) || s_check_column(self, stage, self->advantages) ||
                   s_check_column(self, stage, self->ref_logprobs) || s_check_column(self, stage, self->is_weights)
               ? -1
               : 0;
}

void
verl_policy_lesson_done(verl_policy_lesson_t *self)
{
    verl_rows_done(&self->rows);
}

verl_loss_totals_t
verl_policy_totals(const verl_policy_lesson_t *self, const int64_t *order, int64_t count)
{
    verl_loss_totals_t totals = { 0 };
    for (int64_t i = 0; i < count; i++) {
        int64_t tokens = 0;
        for (int64_t t = 0; t < verl_rows_length(&self->rows, order[i]); t++)
            tokens += verl_rows_is_masked_in(&self->rows, order[i], t);
        totals.tokens += tokens;
        totals.rows += tokens > 0;
    }
    return totals;
}

// ---------------------------------------------------------------------------------------------------------------
// One micro-batch

// Its arrays: by response token in the order of its rows, and by pick.
typedef struct {
    int64_t  tokens, picks;
    float   *lp, *entropy, *old_lp, *ref_lp, *advantages, *is_weights, *d_lp, *d_entropy;
    float   *pick_lp, *pick_entropy, *pick_d_lp, *pick_d_entropy;
    uint8_t *mask;
    float   *memory;
} micro_t;

static int
s_micro_init(micro_t *self, const verl_pack_t *pack, int64_t rows)
{
    *self = (micro_t) { .tokens = pack->starts[rows], .picks = pack->pick_count };
    size_t tokens = (size_t) self->tokens, picks = (size_t) self->picks;
    self->memory = calloc(8 * tokens + 4 * picks + 1, sizeof *self->memory);
    self->mask = calloc(tokens + 1, sizeof *self->mask);
    if (!self->memory || !self->mask)
        return -1;
    float **arrays[] = { &self->lp, &self->entropy, &self->old_lp, &self->ref_lp, &self->advantages, &self->is_weights,
                         &self->d_lp, &self->d_entropy, &self->pick_lp, &self->pick_entropy, &self->pick_d_lp,
                         &self->pick_d_entropy };
    float *at = self->memory;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        *arrays[i] = at;
        at += i < 8 ? tokens : picks;
    }
    return 0;
}

static void
s_micro_done(micro_t *self)
{
    free(self->memory);
    free(self->mask);
}

static void
s_gather(float *to, const verl_column_t *column, const int64_t *order, int64_t count, const int64_t *starts)
{
    for (int64_t i = 0; column && i < count; i++)
        memcpy(to + starts[i], verl_column_f32(column, order[i]), (size_t) (starts[i + 1] - starts[i]) * sizeof *to);
}

static void
s_fill(micro_t *self, const verl_policy_lesson_t *lesson, const verl_pack_t *pack, const int64_t *order, int64_t count)
{
    s_gather(self->old_lp, lesson->old_logprobs, order, count, pack->starts);
    s_gather(self->ref_lp, lesson->ref_logprobs, order, count, pack->starts);
    s_gather(self->advantages, lesson->advantages, order, count, pack->starts);
    s_gather(self->is_weights, lesson->is_weights, order, count, pack->starts);
    for (int64_t i = 0; i < self->picks; i++) {
        self->mask[pack->places[i]] = 1;
        self->lp[pack->places[i]] = self->pick_lp[i];
        self->entropy[pack->places[i]] = self->pick_entropy[i];
    }
}

static int
s_eval(micro_t *self, const verl_policy_lesson_t *lesson, const verl_pack_t *pack, int64_t count,
       const verl_loss_totals_t *totals, verl_metrics_t *metrics, char *error, size_t error_size)
{
    bool old = lesson->old_logprobs, ref = lesson->ref_logprobs, weighted = lesson->is_weights;
    verl_loss_rows_t part = {
        .rows = { count, pack->starts, self->mask }, .lp = self->lp, .old_lp = old ? self->old_lp : NULL,
        .ref_lp = ref ? self->ref_lp : NULL, .advantages = self->advantages,
        .is_weights = weighted ? self->is_weights : NULL, .entropy = self->entropy,
    };
    if (verl_loss_eval(&lesson->loss, &part, totals, self->d_lp, self->d_entropy, NULL, metrics, error, error_size) !=
        0)
        return -1;
    for (int64_t i = 0; i < self->picks; i++) {
        self->pick_d_lp[i] = self->d_lp[pack->places[i]];
        self->pick_d_entropy[i] = self->d_entropy[pack->places[i]];
    }
    return 0;
}

static int
s_learn(verl_policy_t *policy, verl_lm_mode_t mode, const verl_policy_lesson_t *lesson, const int64_t *order,
        int64_t count, const verl_loss_totals_t *totals, verl_metrics_t *metrics, char *error, size_t error_size)
{
    verl_pack_t *pack = &policy->pack;
    verl_lm_t *lm = policy->lm;
    micro_t micro;
    int rc = s_micro_init(&micro, pack, count);
    if (rc != 0)
        snprintf(error, error_size, "no memory for %lld tokens", (long long) micro.tokens);
    if (rc == 0)
        rc = verl_lm_forward(lm, policy->tape, mode, &pack->batch, error, error_size);
    if (rc == 0)
        rc = verl_lm_logprobs(lm, policy->tape, pack->picks, pack->pick_count, micro.pick_lp, micro.pick_entropy, error,
                              error_size);
    if (rc == 0) {
        s_fill(&micro, lesson, pack, order, count);
        rc = s_eval(&micro, lesson, pack, count, totals, metrics, error, error_size);
    }
    if (rc == 0)
        rc = verl_lm_logprobs_backward(lm, policy->tape, pack->picks, pack->pick_count, micro.pick_d_lp,
                                       lesson->loss.entropy_coef != 0 ? micro.pick_d_entropy : NULL, policy->gradient,
                                       error, error_size);
    if (rc == 0)
        rc = verl_lm_backward(lm, policy->tape, policy->gradient, error, error_size);
    s_micro_done(&micro);
    return rc;
}

int
verl_policy_gradient(verl_stage_t *stage, const verl_policy_lesson_t *lesson, const int64_t *order, int64_t count,
                     verl_metrics_t *metrics)
{
    verl_policy_t *policy = verl_stage_state(stage);
    const verl_policy_update_t *options = verl_stage_options(stage);
    verl_lm_mode_t mode = options->recompute ? VERL_LM_TRAIN_RECOMPUTE : VERL_LM_TRAIN;
    verl_loss_totals_t totals = verl_policy_totals(lesson, order, count);
    char error[1024];
    memset(policy->gradient, 0, (size_t) verl_lm_layout(policy->lm)->total * sizeof *policy->gradient);
    for (int64_t from = 0; from < count;) {
        const int64_t *part = order + from;
        int64_t taken = verl_pack_take(&lesson->rows, part, count - from, options->max_tokens, true);
        if (verl_pack_build(&policy->pack, &lesson->rows, part, taken, true) != 0)
            return verl_fail(stage, "no memory to pack %lld rows", (long long) taken);
        if (policy->pack.pick_count > 0 &&
            s_learn(policy, mode, lesson, part, taken, &totals, metrics, error, sizeof error) != 0)
            return verl_fail(stage, "in a micro-batch of %lld rows, from row %lld to row %lld: %s", (long long) taken,
                             (long long) part[0], (long long) part[taken - 1], error);
        from += taken;
        if (from < count && verl_progress(stage, (double) from / (double) count))
            return -1;
    }
    return 0;
}
