// advantage.c: the table of estimators, and what they share: checks, groups, rewards of rows, whitening.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actors/rl/advantage.h"
#include "actors/rl/estimators.h"
#include "actors/rl/groups.h"

static const verl_estimator_t s_estimators[] = {
    { .name = "grpo",
      .about = "score minus the mean of its group, divided by the group's deviation (norm_by_std = false:"
               " Dr. GRPO)",
      .needs = VERL_NEEDS_GROUP,
      .of_group = verl_group_grpo },
    { .name = "rloo",
      .about = "score minus the mean of the other samples of its group",
      .needs = VERL_NEEDS_GROUP,
      .of_group = verl_group_rloo },
    { .name = "reinforce_plus_plus",
      .about = "discounted rewards that follow, whitened over the batch",
      .of_row = verl_row_reinforce,
      .whiten = true },
    { .name = "reinforce_plus_plus_baseline",
      .about = "score minus the mean of its group, whitened over the batch",
      .needs = VERL_NEEDS_GROUP,
      .of_group = verl_group_baseline,
      .whiten = true },
    { .name = "gae",
      .about = "generalised advantage estimation from a critic's values, whitened over the batch",
      .needs = VERL_NEEDS_VALUES,
      .of_row = verl_row_gae,
      .whiten = true,
      .everywhere = true },
    { .name = "remax",
      .about = "rewards that follow, minus the score of the greedy response",
      .needs = VERL_NEEDS_BASELINE,
      .of_row = verl_row_remax },
    { .name = "opo",
      .about = "score minus the mean of its group weighted by length",
      .needs = VERL_NEEDS_GROUP,
      .of_group = verl_group_opo },
    { .name = "gpg",
      .about = "score minus the mean of its group, scaled by rows / rows with a score other than 0",
      .needs = VERL_NEEDS_GROUP,
      .of_group = verl_group_gpg },
    { .name = "grpo_passk",
      .about = "only the best sample of a group, by its distance to the second best",
      .needs = VERL_NEEDS_GROUP,
      .least = 2,
      .of_group = verl_group_passk },
};

// One computation.
typedef struct work {
    const verl_estimator_t *estimator;
    const verl_advantage_options_t *options;
    const verl_advantage_input_t *input;
    double *score;     // [rows]
    double *advantage; // [tokens]
    double *returns;   // [tokens]
    char *error;
    size_t error_size;
} work_t;

verl_advantage_options_t
verl_advantage_defaults(void)
{
    return (verl_advantage_options_t){ .norm_by_std = true, .whiten = true, .epsilon = 1e-6, .gamma = 1, .lambda = 1 };
}

const verl_estimator_t *
verl_estimator_at(size_t i)
{
    return i < sizeof s_estimators / sizeof s_estimators[0] ? &s_estimators[i] : NULL;
}

const verl_estimator_t *
verl_estimator_find(const char *name)
{
    for (size_t i = 0; verl_estimator_at(i); i++)
        if (strcmp(s_estimators[i].name, name) == 0)
            return &s_estimators[i];
    return NULL;
}

const char *
verl_estimator_name(const verl_estimator_t *estimator)
{
    return estimator->name;
}

const char *
verl_estimator_about(const verl_estimator_t *estimator)
{
    return estimator->about;
}

unsigned
verl_estimator_needs(const verl_estimator_t *estimator)
{
    return estimator->needs;
}

static int
s_check_scores(const work_t *self)
{
    const verl_advantage_input_t *input = self->input;
    verl_ragged_t all = { input->rows.rows, input->rows.offsets, NULL };
    for (int64_t row = 0; input->score && row < all.rows; row++)
        if (!isfinite(input->score[row])) {
            snprintf(self->error, self->error_size, "the score of row %" PRId64 " is %g: it has to be a finite number",
                     row, (double) input->score[row]);
            return -1;
        }
    for (int64_t row = 0; self->estimator->needs & VERL_NEEDS_BASELINE && row < all.rows; row++)
        if (!isfinite(input->baseline[row])) {
            snprintf(self->error, self->error_size,
                     "the baseline of row %" PRId64 " is %g: it has to be a finite number", row,
                     (double) input->baseline[row]);
            return -1;
        }
    if (verl_ragged_finite(&all, "the reward", input->token_rewards, self->error, self->error_size))
        return -1;
    const float *values = self->estimator->needs & VERL_NEEDS_VALUES ? input->values : NULL;
    return verl_ragged_finite(&input->rows, "the value", values, self->error, self->error_size);
}

static int
s_check(const work_t *self)
{
    const verl_advantage_input_t *input = self->input;
    const char *name = self->estimator->name;
    unsigned needs = self->estimator->needs;
    if (verl_ragged_check(&input->rows, self->error, self->error_size))
        return -1;
    if (!input->score && !input->token_rewards)
        snprintf(self->error, self->error_size, "%s: give scores of rows, rewards of tokens, or both", name);
    else if (needs & VERL_NEEDS_GROUP && !input->group)
        snprintf(self->error, self->error_size, "%s needs the group of each row, which generate gives", name);
    else if (needs & VERL_NEEDS_VALUES && !input->values)
        snprintf(self->error, self->error_size, "%s needs values, which a critic gives", name);
    else if (needs & VERL_NEEDS_BASELINE && !input->baseline)
        snprintf(self->error, self->error_size, "%s needs a baseline: the score of the greedy response", name);
    else
        return s_check_scores(self);
    return -1;
}

static void
s_sum_scores(work_t *self)
{
    const verl_advantage_input_t *input = self->input;
    for (int64_t row = 0; row < input->rows.rows; row++) {
        self->score[row] = input->score ? (double) input->score[row] : 0;
        for (int64_t t = input->rows.offsets[row]; input->token_rewards && t < input->rows.offsets[row + 1]; t++)
            self->score[row] += (double) input->token_rewards[t];
    }
}

static int
s_compare_doubles(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return x < y ? -1 : x > y;
}

// Mean and deviation of a group. The sums run over sorted scores, so that they do not depend on the order of rows.
static void
s_measure(group_t *group, double *sorted)
{
    double n = (double) group->count, sum = 0, squares = 0;
    memcpy(sorted, group->score, (size_t) group->count * sizeof *sorted);
    qsort(sorted, (size_t) group->count, sizeof *sorted, s_compare_doubles);
    for (int64_t i = 0; i < group->count; i++)
        sum += sorted[i];
    group->mean = sum / n;
    for (int64_t i = 0; i < group->count; i++)
        squares += (sorted[i] - group->mean) * (sorted[i] - group->mean);
    group->deviation = group->count > 1 ? sqrt(squares / (n - 1)) : 0;
}

static void
s_spread(work_t *self, int64_t row, double value)
{
    const verl_ragged_t *rows = &self->input->rows;
    for (int64_t t = rows->offsets[row]; t < rows->offsets[row + 1]; t++)
        self->advantage[t] = self->returns[t] = verl_ragged_counts(rows, t) ? value : 0;
}

// One group: members[count] are its rows; scratch has room for 4 * count.
static int
s_group(work_t *self, const int64_t *members, int64_t count, double alpha, double *scratch)
{
    double *score = scratch, *length = scratch + count, *sorted = scratch + 2 * count, *advantage = scratch + 3 * count;
    if (count < self->estimator->least) {
        snprintf(self->error, self->error_size,
                 "%s: the group of row %" PRId64 " has %" PRId64 " sample: give samples = %" PRId64 " or more",
                 self->estimator->name, members[0], count, self->estimator->least);
        return -1;
    }
    for (int64_t i = 0; i < count; i++) {
        score[i] = self->score[members[i]];
        length[i] = (double) verl_ragged_length(&self->input->rows, members[i]);
    }
    group_t group = { .count = count, .score = score, .length = length, .alpha = alpha };
    s_measure(&group, sorted);
    self->estimator->of_group(&group, self->options, advantage);
    for (int64_t i = 0; i < count; i++)
        s_spread(self, members[i], advantage[i]);
    return 0;
}

static int
s_groups(work_t *self)
{
    int64_t rows = self->input->rows.rows, live = 0;
    verl_groups_t groups;
    double *scratch = calloc((size_t) rows * 4 + 1, sizeof *scratch);
    int status = verl_groups_find(self->input->group, rows, &groups) || !scratch ? -1 : 0;
    if (status)
        snprintf(self->error, self->error_size, "no memory for %" PRId64 " rows: free some", rows);
    for (int64_t row = 0; row < rows && status == 0; row++)
        live += self->score[row] != 0;
    double alpha = (double) rows / (double) (live > 0 ? live : 1);
    for (int64_t i = 0; i < groups.count && status == 0; i++) {
        int64_t begin = groups.starts[i];
        status = s_group(self, &groups.order[begin], groups.starts[i + 1] - begin, alpha, scratch);
    }
    verl_groups_done(&groups);
    free(scratch);
    return status;
}

// The rewards of one row's tokens; a score stands on the last counted token.
static void
s_row_rewards(const work_t *self, int64_t row, double *reward)
{
    const verl_advantage_input_t *input = self->input;
    int64_t begin = input->rows.offsets[row], last = -1;
    for (int64_t t = begin; t < input->rows.offsets[row + 1]; t++) {
        reward[t - begin] = input->token_rewards ? (double) input->token_rewards[t] : 0;
        if (verl_ragged_counts(&input->rows, t))
            last = t - begin;
    }
    if (input->score && last >= 0)
        reward[last] += (double) input->score[row];
}

static int
s_rows(work_t *self)
{
    const verl_advantage_input_t *input = self->input;
    double *reward = calloc((size_t) verl_ragged_tokens(&input->rows) + 1, sizeof *reward);
    if (!reward) {
        snprintf(self->error, self->error_size, "no memory for the rewards of tokens: free some");
        return -1;
    }
    for (int64_t i = 0; i < input->rows.rows; i++) {
        int64_t begin = input->rows.offsets[i];
        s_row_rewards(self, i, reward);
        row_t row = {
            .count = input->rows.offsets[i + 1] - begin,
            .mask = input->rows.mask ? input->rows.mask + begin : NULL,
            .reward = reward,
            .values = input->values ? input->values + begin : NULL,
            .baseline = input->baseline ? (double) input->baseline[i] : 0,
        };
        self->estimator->of_row(&row, self->options, self->advantage + begin, self->returns + begin);
    }
    free(reward);
    return 0;
}

// Mean 0 and variance 1 over the counted tokens: (x - mean) / sqrt(unbiased variance + 1e-8). Fewer than two tokens
// have no variance: they are centred only.
static void
s_whiten(work_t *self)
{
    const verl_ragged_t *rows = &self->input->rows;
    int64_t tokens = verl_ragged_tokens(rows);
    double n = 0, sum = 0, squares = 0;
    for (int64_t t = 0; t < tokens; t++)
        if (verl_ragged_counts(rows, t))
            n++, sum += self->advantage[t];
    double mean = sum / (n + 1e-8);
    for (int64_t t = 0; t < tokens; t++)
        if (verl_ragged_counts(rows, t))
            squares += (self->advantage[t] - mean) * (self->advantage[t] - mean);
    double scale = n > 1 ? 1 / sqrt(squares / (n + 1e-8) * n / (n - 1) + 1e-8) : 1;
    for (int64_t t = 0; t < tokens; t++) {
        int keep = self->estimator->everywhere || verl_ragged_counts(rows, t);
        self->advantage[t] = keep ? (self->advantage[t] - mean) * scale : 0;
    }
}

static int
s_compute(work_t *self, float *advantages, float *returns)
{
    int64_t tokens = verl_ragged_tokens(&self->input->rows);
    s_sum_scores(self);
    if (self->estimator->of_group ? s_groups(self) : s_rows(self))
        return -1;
    if (self->estimator->whiten && self->options->whiten)
        s_whiten(self);
    // An advantage that is the same for a whole row is its return as well; token estimators give returns of their own.
    const double *result = self->estimator->of_group ? self->advantage : self->returns;
    for (int64_t t = 0; t < tokens; t++) {
        advantages[t] = (float) self->advantage[t];
        if (returns)
            returns[t] = (float) result[t];
    }
    return 0;
}

int
verl_advantage_compute(const verl_estimator_t *estimator, const verl_advantage_options_t *options,
                       const verl_advantage_input_t *input, float *advantages, float *returns, char *error,
                       size_t error_size)
{
    work_t self = {
        .estimator = estimator, .options = options, .input = input, .error = error, .error_size = error_size
    };
    if (s_check(&self))
        return -1;
    size_t tokens = (size_t) verl_ragged_tokens(&input->rows);
    self.score = calloc((size_t) input->rows.rows + 1, sizeof *self.score);
    self.advantage = calloc(tokens + 1, sizeof *self.advantage);
    self.returns = calloc(tokens + 1, sizeof *self.returns);
    int status = -1;
    if (self.score && self.advantage && self.returns)
        status = s_compute(&self, advantages, returns);
    else
        snprintf(error, error_size, "no memory for the advantages of %zu tokens: free some", tokens);
    free(self.score);
    free(self.advantage);
    free(self.returns);
    return status;
}
