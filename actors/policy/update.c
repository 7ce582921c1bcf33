// update.c: one batch of learning: passes over it, mini-batches of whole groups, one optimizer step for each.
//
// The weights change only in optimizer steps, and a step with a gradient that is not finite is refused, naming the row:
// the weights are then those of the last good step.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "actors/data/random.h"
#include "actors/kit/groups.h"
#include "actors/kit/measure.h"
#include "actors/policy/policy.h"

typedef struct {
    verl_policy_lesson_t lesson;
    verl_groups_t        groups;
    int64_t             *turn;              // [groups] the order that they come in
    int64_t             *order;             // [rows] of the mini-batch that is learned
    verl_metrics_t       metrics;
} update_t;

// ---------------------------------------------------------------------------------------------------------------
// Groups and mini-batches

// Without a column `group`, rows belong together that share a prompt with the row before them.
static int64_t *
s_prompt_keys(verl_stage_t *stage, const verl_rows_t *rows)
{
    int64_t *keys = calloc((size_t) rows->count + 1, sizeof *keys);
    if (!keys)
        verl_fail(stage, "no memory for the groups of %lld rows", (long long) rows->count);
    for (int64_t row = 1; keys && row < rows->count; row++)
        keys[row] = verl_rows_same_prompt(rows, row, row - 1) ? keys[row - 1] : row;
    return keys;
}

static int
s_find_groups(update_t *self, verl_stage_t *stage, const verl_batch_t *in)
{
    const verl_column_t *group = verl_batch_column(in, "group");
    const verl_rows_t *rows = &self->lesson.rows;
    int64_t *keys = group ? verl_groups_keys(stage, group) : s_prompt_keys(stage, rows);
    if (!keys)
        return -1;
    int rc = verl_groups_find(keys, rows->count, &self->groups);
    free(keys);
    self->turn = calloc((size_t) rows->count + 1, sizeof *self->turn);
    self->order = calloc((size_t) rows->count + 1, sizeof *self->order);
    if (rc != 0 || !self->turn || !self->order)
        return verl_fail(stage, "no memory for %lld rows", (long long) rows->count);
    return 0;
}

// The next mini-batch: whole groups from *turn on until it has mini_batch rows. Returns its number of rows.
static int64_t
s_next(update_t *self, int64_t mini_batch, int64_t *turn)
{
    int64_t count = 0;
    const verl_groups_t *groups = &self->groups;
    while (*turn < groups->count && (mini_batch == 0 || count < mini_batch)) {
        int64_t group = self->turn[(*turn)++];
        for (int64_t i = groups->starts[group]; i < groups->starts[group + 1]; i++)
            self->order[count++] = groups->order[i];
    }
    return count;
}

static void
s_order_groups(update_t *self, verl_stage_t *stage, int64_t batch, int64_t pass)
{
    const verl_policy_update_t *options = verl_stage_options(stage);
    for (int64_t group = 0; group < self->groups.count; group++)
        self->turn[group] = group;
    if (options->shuffle)
        verl_random_permutation(verl_random_key(verl_stage_seed(stage), "mini_batches"),
                                batch * options->passes + pass, self->turn, self->groups.count);
}

// ---------------------------------------------------------------------------------------------------------------
// Steps

// The learning rate of the mini-batch that begins with the turn'th group.
static double
s_rate(verl_stage_t *stage, const update_t *self, int64_t pass, int64_t turn)
{
    const verl_policy_t *policy = verl_stage_state(stage);
    const verl_policy_update_t *options = verl_stage_options(stage);
    verl_policy_place_t place = {
        .batch = verl_stage_ordinal(stage), .batches = verl_stage_batches(stage),
        .pass = pass, .passes = options->passes, .turn = turn, .groups = self->groups.count,
    };
    return verl_policy_rate(options, policy->optimizer.step, &place);
}

static bool
s_is_finite(const float *vector, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(vector[i]))
            return false;
    return true;
}

// Says which row it was that made a gradient that is not finite.
static int
s_accuse(verl_stage_t *stage, update_t *self, int64_t count, const char *reason)
{
    const verl_policy_t *policy = verl_stage_state(stage);
    for (int64_t i = 0; i < count; i++) {
        if (verl_policy_totals(&self->lesson, &self->order[i], 1).tokens == 0)
            continue;
        if (verl_policy_gradient(stage, &self->lesson, &self->order[i], 1, NULL) != 0)
            return -1;
        if (!s_is_finite(policy->gradient, verl_lm_layout(policy->lm)->total))
            return verl_fail(stage, "row %lld: its gradient is not finite (%s); the weights are unchanged by this step",
                             (long long) self->order[i], reason);
    }
    return verl_fail(stage,
                     "the gradient of a mini-batch of %lld rows from row %lld on is not finite (%s); the weights "
                     "are unchanged by this step",
                     (long long) count, (long long) self->order[0], reason);
}

static int
s_step(verl_stage_t *stage, update_t *self, int64_t count, double rate)
{
    verl_policy_t *policy = verl_stage_state(stage);
    const verl_policy_update_t *options = verl_stage_options(stage);
    verl_adamw_options_t how = { .lr = rate, .beta1 = options->beta1, .beta2 = options->beta2,
                                 .eps = options->eps, .weight_decay = options->weight_decay,
                                 .max_norm = options->grad_clip };
    char error[512];
    double norm = 0;
    if (verl_policy_gradient(stage, &self->lesson, self->order, count, &self->metrics) != 0)
        return -1;
    if (verl_lm_optimizer_step(&policy->optimizer, &policy->config, verl_lm_layout(policy->lm), &how, policy->params,
                               policy->gradient, (int) policy->threads, &norm, error, sizeof error) != 0)
        return s_accuse(stage, self, count, error);
    policy->changed = true;
    if (verl_lm_weights_changed(policy->lm) != 0)
        return verl_fail(stage, "no memory for the rounded parameters");
    verl_metrics_add(&self->metrics, "actor/grad_norm", norm, 1);
    verl_metrics_add(&self->metrics, "actor/lr", how.lr, 1);
    return 0;
}

// Returns the number of steps taken, or -1.
static int64_t
s_pass(verl_stage_t *stage, update_t *self, int64_t batch, int64_t pass)
{
    const verl_policy_update_t *options = verl_stage_options(stage);
    int64_t turn = 0, steps = 0;
    s_order_groups(self, stage, batch, pass);
    while (turn < self->groups.count) {
        double rate = s_rate(stage, self, pass, turn);
        int64_t count = s_next(self, options->mini_batch, &turn);
        if (verl_policy_totals(&self->lesson, self->order, count).tokens == 0) {
            verl_log(stage, "batch %lld: a mini-batch of %lld rows has no token to learn from and is left out",
                     (long long) batch, (long long) count);
            continue;
        }
        if (s_step(stage, self, count, rate) != 0)
            return -1;
        steps++;
        double done = ((double) pass + (double) turn / (double) self->groups.count) / (double) options->passes;
        if (done < 1 && verl_progress(stage, done))
            return -1;
    }
    return steps;
}

// ---------------------------------------------------------------------------------------------------------------
// The handler

// Imitation is no policy gradient: the same figures under the names that supervised training has.
static void
s_report(verl_stage_t *stage, update_t *self)
{
    static const char *const names[][2] = { { "actor/pg_loss", "train/loss" }, { "actor/grad_norm", "train/grad_norm" },
                                            { "actor/lr", "train/lr" },        { "actor/entropy", "train/entropy" } };
    double tokens = 0;
    bool imitates = verl_policy_loss_needs(self->lesson.loss.loss) == 0;
    for (size_t i = 0; imitates && i < self->metrics.count; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (strcmp(self->metrics.items[i].name, names[k][0]) == 0)
                memcpy(self->metrics.items[i].name, names[k][1], strlen(names[k][1]) + 1);
    for (int64_t row = 0; row < self->lesson.rows.count; row++)
        tokens += (double) (verl_column_length(self->lesson.rows.prompt_ids, row) +
                            verl_rows_length(&self->lesson.rows, row));
    verl_metrics_add(&self->metrics, "perf/total_num_tokens", tokens, 1);
    verl_measure_report(stage, &self->metrics);
}

// How far the learner's own log-probabilities (old_logprobs) are from those of the rollout, which other arithmetic
// made: the difference of probabilities, and the mean of the log-ratio.
static int
s_compare(verl_stage_t *stage, update_t *self, const verl_batch_t *in)
{
    const verl_column_t *ours = verl_batch_column(in, "old_logprobs"),
                        *theirs = verl_batch_column(in, "rollout_logprobs");
    const verl_rows_t *rows = &self->lesson.rows;
    double count = 0, sum = 0, most = 0, kl = 0;
    if (!ours || !theirs)
        return 0;
    if (verl_rows_check_aligned(rows, stage, ours) != 0 || verl_rows_check_aligned(rows, stage, theirs) != 0)
        return -1;
    for (int64_t row = 0; row < rows->count; row++) {
        const float *a = verl_column_f32(ours, row), *b = verl_column_f32(theirs, row);
        for (int64_t t = 0; t < verl_rows_length(rows, row); t++) {
            if (!verl_rows_is_masked_in(rows, row, t))
                continue;
            double apart = fabs(exp((double) a[t]) - exp((double) b[t]));
            most = apart > most ? apart : most;
            sum += apart;
            kl += (double) b[t] - (double) a[t];
            count++;
        }
    }
    if (count > 0) {
        verl_metrics_add(&self->metrics, "training/rollout_probs_diff_mean", sum / count, 1);
        verl_metrics_add(&self->metrics, "training/rollout_probs_diff_max", most, 1);
        verl_metrics_add(&self->metrics, "rollout_corr/kl", kl / count, 1);
    }
    return 0;
}

static int
s_update(verl_stage_t *stage, update_t *self, const verl_batch_t *in)
{
    const verl_policy_t *policy = verl_stage_state(stage);
    const verl_policy_update_t *options = verl_stage_options(stage);
    if (!policy->params || !policy->gradient)
        return verl_fail(stage,
                         "the weights of this actor are another's published version, which cannot be updated here");
    if (verl_policy_lesson_init(&self->lesson, stage, in) != 0 || s_find_groups(self, stage, in) != 0 ||
        s_compare(stage, self, in) != 0)
        return -1;
    int64_t steps = 0;
    for (int64_t pass = 0; pass < options->passes; pass++) {
        int64_t taken = s_pass(stage, self, verl_batch_id(in), pass);
        if (taken < 0)
            return -1;
        steps += taken;
    }
    if (steps == 0)
        return verl_fail(stage,
                         "none of the %lld rows has a token to learn from: every response is empty or masked out",
                         (long long) self->lesson.rows.count);
    s_report(stage, self);
    return 0;
}

int
verl_policy_run_update(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out)
{
    (void) out;
    update_t *self = calloc(1, sizeof *self);
    if (!self)
        return verl_fail(stage, "no memory for a batch's figures");
    int rc = s_update(stage, self, in);
    verl_policy_lesson_done(&self->lesson);
    verl_groups_done(&self->groups);
    free(self->turn);
    free(self->order);
    free(self);
    return rc;
}
