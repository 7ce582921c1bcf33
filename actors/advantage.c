// advantage.c: from the scores of a whole batch to one advantage a response token.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <verl.h>
#include "actors/kit/groups.h"
#include "actors/kit/measure.h"
#include "actors/rl/advantage.h"
#include "actors/rl/kl.h"

#define S_ESTIMATORS "grpo|rloo|reinforce_plus_plus|reinforce_plus_plus_baseline|gae|remax|opo|gpg|grpo_passk"

typedef struct {
    int            estimator, kl_kind;
    bool           norm_by_std, whiten, token_rewards;
    double         epsilon, gamma, lambda, kl_coef;
    verl_weights_t scores;
    verl_strings_t values;
} advantage_t;

static const verl_option_t s_options[] = {
    VERL_CHOICE(advantage_t, estimator, "grpo", S_ESTIMATORS, "how an advantage is made of scores",
                .also = "verl:algorithm.adv_estimator openrlhf:--advantage_estimator"),
    VERL_OPTION_OF(WEIGHTS, advantage_t, scores, "columns that are added up to the score of a row, with their weights",
                   .fallback = "[\"score\"]", .also = "trl:reward_weights"),
    VERL_OPTION_OF(STRINGS, advantage_t, values, "gae: columns of critics, whose mean is the value of a token",
                   .fallback = "[\"values\"]"),
    VERL_BOOL(advantage_t, token_rewards, false, "takes token_rewards, one a token, in place of scores"),
    VERL_BOOL(advantage_t, norm_by_std, true, "grpo, grpo_passk: divides by the group's deviation; false is Dr. GRPO",
              .also = "verl:algorithm.norm_adv_by_std_in_grpo trl:scale_rewards"),
    VERL_BOOL(advantage_t, whiten, true, "gae, reinforce_plus_plus: mean 0 and variance 1 over the batch"),
    VERL_REAL(advantage_t, epsilon, 1e-6, 0, 1, "", "added to the deviation that is divided by"),
    VERL_REAL(advantage_t, gamma, 1, 0, 1, "", "discount of a reward for each token before it",
              .also = "verl:algorithm.gamma openrlhf:--gamma"),
    VERL_REAL(advantage_t, lambda, 1, 0, 1, "", "gae: weight of later steps against the critic's values",
              .also = "verl:algorithm.lam openrlhf:--lambd"),
    VERL_REAL(advantage_t, kl_coef, 0, 0, 1e3, "", "penalty in the reward for leaving ref_logprobs",
              .also = "verl:algorithm.kl_ctrl.kl_coef openrlhf:--init_kl_coef"),
    VERL_CHOICE(advantage_t, kl_kind, "k1", "k1|abs|k2|k3", "estimator of that penalty's divergence",
                .also = "verl:algorithm.kl_penalty openrlhf:--kl_estimator"),
    VERL_OPTIONS_END
};

// What one batch is worked with; arrays are owned.
typedef struct {
    int64_t        rows;
    int64_t       *offsets, *group;
    uint8_t       *mask;
    float         *score, *rewards, *values, *baseline;
    verl_metrics_t metrics;
} work_t;

static const verl_estimator_t *
s_estimator(const advantage_t *self)
{
    return verl_estimator_at((size_t) self->estimator);
}

static void
s_declare_values(verl_declaration_t *declaration, const verl_strings_t *values)
{
    char need[300];
    for (int i = 0; i < values->count; i++) {
        snprintf(need, sizeof need, "%s of response_ids", values->items[i]);
        verl_declare_need(declaration, need);
    }
    if (values->count == 0)
        verl_declare_error(declaration, "values", "no column is named: [\"values\"] would be right");
}

static int
s_declare(verl_declaration_t *declaration, const void *state, const void *options)
{
    (void) state;
    const advantage_t *self = options;
    unsigned needs = verl_estimator_needs(s_estimator(self));
    if (needs & VERL_NEEDS_GROUP)
        verl_declare_need(declaration, "group");
    if (needs & VERL_NEEDS_VALUES)
        s_declare_values(declaration, &self->values);
    if (needs & VERL_NEEDS_BASELINE)
        verl_declare_need(declaration, "baseline");
    if (self->token_rewards)
        verl_declare_need(declaration, "token_rewards of response_ids");
    for (int i = 0; !self->token_rewards && i < self->scores.count; i++)
        verl_declare_need(declaration, self->scores.names[i]);
    if (!self->token_rewards && self->scores.count == 0)
        verl_declare_error(declaration, "scores", "no column is named: { score = 1.0 } would be right");
    if (self->kl_coef > 0)
        verl_declare_need(declaration, verl_declare_has_upstream(declaration, "old_logprobs of response_ids")
                                           ? "old_logprobs of response_ids" : "rollout_logprobs of response_ids");
    return 0;
}

// ---------------------------------------------------------------------------------------------------------------
// Inputs

// The weighted sum of the score columns.
static int
s_read_scores(verl_stage_t *stage, const verl_batch_t *in, work_t *work)
{
    const advantage_t *self = verl_stage_options(stage);
    work->score = calloc((size_t) work->rows + 1, sizeof *work->score);
    if (!work->score)
        return verl_fail(stage, "no memory for %lld scores", (long long) work->rows);
    for (int64_t row = 0; row < work->rows; row++) {
        double sum = 0;
        for (int i = 0; i < self->scores.count; i++) {
            const verl_column_t *column = verl_batch_column(in, self->scores.names[i]);
            if (!verl_column_is_number(column))
                return verl_fail(stage, "column %s is not one number a row", column->name);
            sum += self->scores.values[i] * verl_column_number(column, row);
        }
        work->score[row] = (float) sum;
    }
    return 0;
}

static int
s_read_baseline(verl_stage_t *stage, const verl_column_t *column, work_t *work)
{
    if (!verl_column_is_number(column))
        return verl_fail(stage, "column %s is not one number a row", column->name);
    work->baseline = calloc((size_t) work->rows + 1, sizeof *work->baseline);
    if (!work->baseline)
        return verl_fail(stage, "no memory for the baselines of %lld rows", (long long) work->rows);
    for (int64_t row = 0; row < work->rows; row++)
        work->baseline[row] = (float) verl_column_number(column, row);
    return 0;
}

// The group of each row, or the baseline.
static int
s_read_numbers(verl_stage_t *stage, const verl_batch_t *in, work_t *work)
{
    unsigned needs = verl_estimator_needs(s_estimator(verl_stage_options(stage)));
    if (needs & VERL_NEEDS_GROUP) {
        work->group = verl_groups_keys(stage, verl_batch_column(in, "group"));
        return work->group ? 0 : -1;
    }
    return needs & VERL_NEEDS_BASELINE ? s_read_baseline(stage, verl_batch_column(in, "baseline"), work) : 0;
}

// The mean of what the critics say.
static int
s_read_values(verl_stage_t *stage, const verl_batch_t *in, work_t *work)
{
    const verl_strings_t *names = &((const advantage_t *) verl_stage_options(stage))->values;
    work->values = calloc((size_t) work->offsets[work->rows] + 1, sizeof *work->values);
    if (!work->values)
        return verl_fail(stage, "no memory for %lld values", (long long) work->offsets[work->rows]);
    for (int i = 0; i < names->count; i++) {
        float *one = verl_measure_gather(stage, verl_batch_column(in, names->items[i]), work->rows, work->offsets);
        if (!one)
            return -1;
        for (int64_t at = 0; at < work->offsets[work->rows]; at++)
            work->values[at] += one[at] / (float) names->count;
        free(one);
    }
    return 0;
}

static int
s_read_tokens(verl_stage_t *stage, const verl_batch_t *in, work_t *work)
{
    const advantage_t *self = verl_stage_options(stage);
    const verl_column_t *ids = verl_batch_column(in, "response_ids");
    if (!ids->ragged)
        return verl_fail(stage, "column response_ids is not i32[n,*]");
    work->offsets = verl_measure_offsets(stage, ids);
    if (!work->offsets ||
        !verl_measure_mask(stage, verl_batch_column(in, "response_mask"), work->rows, work->offsets, &work->mask))
        return -1;
    if ((verl_estimator_needs(s_estimator(self)) & VERL_NEEDS_VALUES) && s_read_values(stage, in, work) != 0)
        return -1;
    if (self->token_rewards) {
        work->rewards = verl_measure_gather(stage, verl_batch_column(in, "token_rewards"), work->rows, work->offsets);
        return work->rewards ? 0 : -1;
    }
    return s_read_scores(stage, in, work);
}

// Takes kl_coef times the divergence from the reference off the rewards of tokens; scores stay as they are beside them.
static int
s_penalize(verl_stage_t *stage, const verl_batch_t *in, work_t *work)
{
    const advantage_t *self = verl_stage_options(stage);
    static const verl_kl_t kinds[] = { VERL_KL_K1, VERL_KL_ABS, VERL_KL_K2, VERL_KL_K3 };
    if (!(self->kl_coef > 0))
        return 0;
    const verl_column_t *old = verl_batch_column(in, "old_logprobs");
    float *policy = verl_measure_gather(stage, old ? old : verl_batch_column(in, "rollout_logprobs"), work->rows,
                                        work->offsets);
    float *reference = policy ? verl_measure_gather(stage, verl_batch_column(in, "ref_logprobs"), work->rows,
                                                    work->offsets)
                              : NULL;
    float *rewards = malloc(((size_t) work->offsets[work->rows] + 1) * sizeof *rewards);
    int rc = policy && reference ? 0 : -1;
    if (rc == 0 && !rewards)
        rc = verl_fail(stage, "no memory for the rewards of %lld tokens", (long long) work->offsets[work->rows]);
    if (rc == 0) {
        verl_ragged_t rows = { work->rows, work->offsets, work->mask };
        double kl = verl_kl_penalize(kinds[self->kl_kind], self->kl_coef, &rows, policy, reference, work->rewards,
                                     rewards);
        verl_metrics_add(&work->metrics, "actor/reward_kl_penalty", kl, 1);
        verl_metrics_add(&work->metrics, "actor/reward_kl_penalty_coeff", self->kl_coef, 1);
        free(work->rewards);
        work->rewards = rewards;
        rewards = NULL;
    }
    free(policy);
    free(reference);
    free(rewards);
    return rc;
}

// ---------------------------------------------------------------------------------------------------------------
// Outputs

static bool
s_is_flat(const float *sums, const int64_t *members, int64_t count)
{
    for (int64_t i = 1; i < count; i++)
        if (sums[members[i]] != sums[members[0]])
            return false;
    return true;
}

// The share of groups in which all rewards are equal: nothing can be learned from them.
static int
s_measure_groups(verl_stage_t *stage, work_t *work, const float *sums)
{
    verl_groups_t groups;
    double flat = 0;
    int rc = verl_groups_find(work->group, work->rows, &groups);
    if (rc != 0)
        verl_fail(stage, "no memory for the groups of %lld rows", (long long) work->rows);
    for (int64_t i = 0; rc == 0 && i < groups.count; i++)
        flat += s_is_flat(sums, &groups.order[groups.starts[i]], groups.starts[i + 1] - groups.starts[i]);
    verl_metrics_add(&work->metrics, "critic/rewards/zero_std_ratio", flat, (double) groups.count);
    verl_groups_done(&groups);
    return rc;
}

// critic/rewards of rows: what the estimator was given, the penalty taken off.
static int
s_measure_rewards(verl_stage_t *stage, work_t *work)
{
    float *sums = calloc((size_t) work->rows + 1, sizeof *sums);
    if (!sums)
        return verl_fail(stage, "no memory for %lld rewards", (long long) work->rows);
    for (int64_t row = 0; row < work->rows; row++) {
        double sum = work->score ? (double) work->score[row] : 0;
        for (int64_t t = work->offsets[row]; work->rewards && t < work->offsets[row + 1]; t++)
            sum += (double) work->rewards[t];
        sums[row] = (float) sum;
    }
    verl_metrics_of_values(&work->metrics, "critic/rewards", sums, work->rows);
    int rc = work->group ? s_measure_groups(stage, work, sums) : 0;
    free(sums);
    return rc;
}

static int
s_compute(verl_stage_t *stage, work_t *work, verl_batch_t *out)
{
    const advantage_t *self = verl_stage_options(stage);
    char error[1024];
    verl_ragged_t rows = { work->rows, work->offsets, work->mask };
    verl_advantage_options_t how = { .norm_by_std = self->norm_by_std, .whiten = self->whiten,
                                     .epsilon = self->epsilon, .gamma = self->gamma, .lambda = self->lambda };
    verl_advantage_input_t input = { .rows = rows, .score = work->score, .token_rewards = work->rewards,
                                     .group = work->group, .values = work->values, .baseline = work->baseline };
    int64_t *lengths = calloc((size_t) work->rows + 1, sizeof *lengths);
    if (!lengths)
        return verl_fail(stage, "no memory for %lld lengths", (long long) work->rows);
    for (int64_t row = 0; row < work->rows; row++)
        lengths[row] = work->offsets[row + 1] - work->offsets[row];
    float *advantages = verl_batch_add_ragged(out, "advantages", VERL_F32, 1, lengths);
    float *returns = advantages ? verl_batch_add_ragged(out, "returns", VERL_F32, 1, lengths) : NULL;
    free(lengths);
    if (!returns)
        return -1;
    if (verl_advantage_compute(s_estimator(self), &how, &input, advantages, returns, error, sizeof error) != 0)
        return verl_fail(stage, "%s", error);
    verl_metrics_of_tokens(&work->metrics, "critic/advantages", &rows, advantages);
    verl_metrics_of_tokens(&work->metrics, "critic/returns", &rows, returns);
    if (work->values) {
        verl_metrics_of_tokens(&work->metrics, "critic/values", &rows, work->values);
        verl_metrics_add(&work->metrics, "critic/vf_explained_var",
                         verl_explained_variance(&rows, work->values, returns), 1);
    }
    return 0;
}

static void
s_work_done(work_t *work)
{
    free(work->offsets);
    free(work->group);
    free(work->mask);
    free(work->score);
    free(work->rewards);
    free(work->values);
    free(work->baseline);
    free(work);
}

static int
s_advantage(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out)
{
    work_t *work = calloc(1, sizeof *work);
    if (!work)
        return verl_fail(stage, "no memory for a batch's figures");
    work->rows = verl_batch_rows(in);
    int rc = s_read_tokens(stage, in, work);
    if (rc == 0)
        rc = s_read_numbers(stage, in, work);
    if (rc == 0)
        rc = s_penalize(stage, in, work);
    if (rc == 0)
        rc = s_compute(stage, work, out);
    if (rc == 0)
        rc = s_measure_rewards(stage, work);
    if (rc == 0)
        verl_measure_report(stage, &work->metrics);
    s_work_done(work);
    return rc;
}

VERL_KIND(advantage,
    .about = "makes advantages of scores",
    .stages = { { "advantage", s_advantage, .about = "works on a whole batch, so that groups are whole",
                  .options_size = sizeof(advantage_t), .options = s_options,
                  .needs = { "response_ids", "response_mask? of response_ids",
                             "ref_logprobs of response_ids if kl_coef > 0" },
                  .gives = { "advantages:f32[n,*]", "returns:f32[n,*]" }, .declare = s_declare } })
