// loss.c: aggregation, KL and entropy terms, checks and metrics around the formulas of policy_losses.c; see loss.h.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actors/rl/loss.h"
#include "actors/rl/policy_losses.h"

static const char *const s_agg_names[VERL_AGG_KINDS] = {
    [VERL_AGG_TOKEN_MEAN] = "token-mean",
    [VERL_AGG_TOKEN_SUM] = "token-sum",
    [VERL_AGG_SEQ_MEAN_TOKEN_SUM] = "seq-mean-token-sum",
    [VERL_AGG_SEQ_MEAN_TOKEN_MEAN] = "seq-mean-token-mean",
    [VERL_AGG_SEQ_MEAN_TOKEN_SUM_NORM] = "seq-mean-token-sum-norm",
};

// One evaluation: its inputs, its outputs, its scratch (of the longest row), its sums.
typedef struct work {
    const verl_loss_config_t *config;
    const verl_loss_rows_t *part;
    const verl_loss_totals_t *totals;
    float *d_lp, *d_entropy;
    double *loss, *slope;
    loss_notes_t notes;
    double pg, kl, entropy;            // weighted: parts of the loss
    double tokens, moved, entropy_sum; // counted tokens; sums over them
} work_t;

int
verl_agg_find(const char *name)
{
    for (int kind = 0; kind < VERL_AGG_KINDS; kind++)
        if (strcmp(s_agg_names[kind], name) == 0)
            return kind;
    return -1;
}

const char *
verl_agg_name(int kind)
{
    return kind >= 0 && kind < VERL_AGG_KINDS ? s_agg_names[kind] : NULL;
}

void
verl_loss_count(const verl_ragged_t *rows, verl_loss_totals_t *totals)
{
    for (int64_t row = 0; row < rows->rows; row++) {
        int64_t length = verl_ragged_length(rows, row);
        totals->tokens += length;
        totals->rows += length > 0;
    }
}

double
verl_agg_weight(verl_agg_t agg, double scale, const verl_loss_totals_t *totals, const verl_ragged_t *rows, int64_t row)
{
    int64_t length = verl_ragged_length(rows, row);
    double n = (double) totals->tokens, g = (double) totals->rows;
    if (length == 0)
        return 0;
    switch (agg) {
    case VERL_AGG_TOKEN_SUM:
        return 1;
    case VERL_AGG_SEQ_MEAN_TOKEN_SUM:
        return 1 / g;
    case VERL_AGG_SEQ_MEAN_TOKEN_MEAN:
        return 1 / (g * ((double) length + 1e-8));
    case VERL_AGG_SEQ_MEAN_TOKEN_SUM_NORM:
        return 1 / (g * scale);
    default:
        return 1 / n;
    }
}

verl_loss_config_t
verl_loss_defaults(void)
{
    return (verl_loss_config_t){
        .loss = verl_policy_loss_find("vanilla"),
        .agg = VERL_AGG_TOKEN_MEAN,
        .scale = 1,
        .clip_low = 0.2,
        .clip_high = 0.2,
        .clip_c = 3,
        .ratio_cap = 20,
        .tau_positive = 1,
        .tau_negative = 1.05,
        .kl = VERL_KL_K3,
    };
}

int
verl_loss_check(const verl_loss_config_t *config, char *error, size_t error_size)
{
    const char *name = config->loss->name;
    if ((int) config->agg < 0 || config->agg >= VERL_AGG_KINDS || (int) config->kl < 0 || config->kl >= VERL_KL_KINDS)
        snprintf(error, error_size, "no such aggregation or KL estimator: take one of the lists");
    else if (!(config->scale > 0) && config->agg == VERL_AGG_SEQ_MEAN_TOKEN_SUM_NORM)
        snprintf(error, error_size, "loss scale is %g: seq-mean-token-sum-norm divides by it, give one above 0",
                 config->scale);
    else if (!(config->clip_low >= 0 && config->clip_high >= 0))
        snprintf(error, error_size, "clip is %g below and %g above: give 0 or more", config->clip_low,
                 config->clip_high);
    else if (!(config->clip_c > 1) && strcmp(name, "vanilla") == 0)
        snprintf(error, error_size, "clip_c is %g: the dual clip needs more than 1 (3 is usual)", config->clip_c);
    else if (!(config->dro_beta > 0) && strcmp(name, "dro") == 0)
        snprintf(error, error_size, "dro_beta is %g: dro needs more than 0", config->dro_beta);
    else if (!(config->tau_positive > 0 && config->tau_negative > 0))
        snprintf(error, error_size, "tau is %g and %g: give more than 0", config->tau_positive, config->tau_negative);
    else if (!(config->ratio_cap > 0))
        snprintf(error, error_size, "ratio_cap is %g: give more than 0", config->ratio_cap);
    else if (!isfinite(config->kl_coef) || !isfinite(config->entropy_coef))
        snprintf(error, error_size, "kl_coef is %g and entropy_coef %g: give finite numbers", config->kl_coef,
                 config->entropy_coef);
    else
        return 0;
    return -1;
}

static int
s_check_totals(const verl_ragged_t *rows, const verl_loss_totals_t *totals, char *error, size_t error_size)
{
    verl_loss_totals_t here = { 0, 0 };
    verl_loss_count(rows, &here);
    if (totals->tokens >= here.tokens && totals->rows >= here.rows)
        return 0;
    snprintf(error, error_size,
             "the totals of the mini-batch are %" PRId64 " tokens in %" PRId64 " rows, but this part "
             "alone has %" PRId64 " in %" PRId64 ": count all parts",
             totals->tokens, totals->rows, here.tokens, here.rows);
    return -1;
}

static int
s_check_columns(const verl_loss_config_t *config, const verl_loss_rows_t *part, char *error, size_t error_size)
{
    unsigned needs = config->loss->needs;
    const char *name = config->loss->name;
    if (!part->lp)
        snprintf(error, error_size, "%s needs log-probabilities", name);
    else if (needs & VERL_NEEDS_OLD_LP && !part->old_lp)
        snprintf(error, error_size, "%s needs old_logprobs (or rollout_logprobs)", name);
    else if (needs & VERL_NEEDS_ADVANTAGES && !part->advantages)
        snprintf(error, error_size, "%s needs advantages", name);
    else if (config->kl_coef != 0 && !part->ref_lp)
        snprintf(error, error_size, "kl_coef is %g, which needs ref_logprobs", config->kl_coef);
    else if (config->entropy_coef != 0 && !part->entropy)
        snprintf(error, error_size, "entropy_coef is %g, which needs the entropy of each token", config->entropy_coef);
    else if (part->is_weights && !config->loss->weighable)
        snprintf(error, error_size, "%s takes no is_weights: leave them out, or choose vanilla", name);
    else
        return 0;
    return -1;
}

static int
s_check_part(const verl_loss_config_t *config, const verl_loss_rows_t *part, const verl_loss_totals_t *totals,
             char *error, size_t error_size)
{
    const verl_ragged_t *rows = &part->rows;
    if (verl_loss_check(config, error, error_size) || verl_ragged_check(rows, error, error_size))
        return -1;
    if (verl_ragged_tokens(rows) > 0 && s_check_columns(config, part, error, error_size))
        return -1;
    unsigned needs = config->loss->needs;
    const struct {
        const char *name;
        const float *values;
    } columns[] = {
        { "the log-probability", part->lp },
        { "the old log-probability", needs & VERL_NEEDS_OLD_LP ? part->old_lp : NULL },
        { "the advantage", needs & VERL_NEEDS_ADVANTAGES ? part->advantages : NULL },
        { "the reference log-probability", config->kl_coef != 0 ? part->ref_lp : NULL },
        { "the importance weight", part->is_weights },
        { "the entropy", part->entropy },
    };
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        if (verl_ragged_finite(rows, columns[i].name, columns[i].values, error, error_size))
            return -1;
    return s_check_totals(rows, totals, error, error_size);
}

// The gradient and the sums of token t, which has the weight `weight` for KL and entropy, and pg_weight for the loss.
static void
s_token(work_t *self, int64_t t, double loss, double slope, double pg_weight, double weight)
{
    const verl_loss_config_t *config = self->config;
    const verl_loss_rows_t *part = self->part;
    double scaled = pg_weight * (part->is_weights ? (double) part->is_weights[t] : 1), gradient = scaled * slope;
    self->pg += scaled * loss;
    self->tokens++;
    if (config->loss->needs & VERL_NEEDS_OLD_LP)
        self->moved += (double) part->old_lp[t] - (double) part->lp[t];
    if (config->kl_coef != 0) {
        double kl_slope, kl = verl_kl_estimate(config->kl, (double) part->lp[t], (double) part->ref_lp[t], &kl_slope);
        self->kl += weight * kl;
        gradient += config->kl_coef * weight * kl_slope;
    }
    if (part->entropy) {
        self->entropy_sum += (double) part->entropy[t];
        self->entropy += weight * (double) part->entropy[t];
    }
    self->d_lp[t] = (float) gradient;
    if (self->d_entropy)
        self->d_entropy[t] = (float) (-config->entropy_coef * weight);
}

static void
s_row(work_t *self, int64_t index)
{
    const verl_loss_rows_t *part = self->part;
    const verl_loss_config_t *config = self->config;
    int64_t begin = part->rows.offsets[index], count = part->rows.offsets[index + 1] - begin;
    loss_row_t row = {
        .count = count,
        .mask = part->rows.mask ? part->rows.mask + begin : NULL,
        .lp = part->lp + begin,
        .old_lp = part->old_lp ? part->old_lp + begin : NULL,
        .advantages = part->advantages ? part->advantages + begin : NULL,
    };
    double weight = verl_agg_weight(config->agg, config->scale, self->totals, &part->rows, index), pg_weight = weight;
    if (config->loss->agg >= 0)
        pg_weight = verl_agg_weight((verl_agg_t) config->loss->agg, 1, self->totals, &part->rows, index);
    config->loss->of_row(config, &row, self->loss, self->slope, &self->notes);
    for (int64_t i = 0; i < count; i++) {
        if (verl_ragged_counts(&part->rows, begin + i)) {
            s_token(self, begin + i, self->loss[i], self->slope[i], pg_weight, weight);
            continue;
        }
        self->d_lp[begin + i] = 0;
        if (self->d_entropy)
            self->d_entropy[begin + i] = 0;
    }
}

// A part's losses weigh as much as its share of the tokens, so that those of a whole mini-batch weigh 1 together.
static int
s_report(const work_t *self, verl_metrics_t *metrics)
{
    const verl_loss_config_t *config = self->config;
    double share = self->totals->tokens > 0 ? self->tokens / (double) self->totals->tokens : 0;
    int status = verl_metrics_add(metrics, "actor/pg_loss", self->pg, share);
    if (config->loss->clips)
        status |= verl_metrics_add(metrics, "actor/pg_clipfrac", self->notes.clipped, self->tokens);
    if (strcmp(config->loss->name, "vanilla") == 0)
        status |= verl_metrics_add(metrics, "actor/pg_clipfrac_lower", self->notes.clipped_low, self->tokens);
    if (config->loss->needs & VERL_NEEDS_OLD_LP)
        status |= verl_metrics_add(metrics, "actor/ppo_kl", self->moved, self->tokens);
    if (self->part->entropy)
        status |= verl_metrics_add(metrics, "actor/entropy", self->entropy_sum, self->tokens);
    if (config->entropy_coef != 0)
        status |= verl_metrics_add(metrics, "actor/entropy_loss", self->entropy, share);
    if (config->kl_coef != 0) {
        status |= verl_metrics_add(metrics, "actor/kl_loss", self->kl, share);
        status |= verl_metrics_add(metrics, "actor/kl_coef", config->kl_coef * share, share);
    }
    return status;
}

// Room for the longest row: two numbers a token.
static double *
s_scratch(const verl_ragged_t *rows, int64_t *longest)
{
    *longest = 0;
    for (int64_t row = 0; row < rows->rows; row++)
        if (rows->offsets[row + 1] - rows->offsets[row] > *longest)
            *longest = rows->offsets[row + 1] - rows->offsets[row];
    return calloc((size_t) *longest * 2 + 1, sizeof(double));
}

int
verl_loss_eval(const verl_loss_config_t *config, const verl_loss_rows_t *part, const verl_loss_totals_t *totals,
               float *d_lp, float *d_entropy, double *loss, verl_metrics_t *metrics, char *error, size_t error_size)
{
    work_t self = { .config = config, .part = part, .totals = totals, .d_lp = d_lp, .d_entropy = d_entropy };
    int64_t longest;
    if (s_check_part(config, part, totals, error, error_size))
        return -1;
    double *scratch = s_scratch(&part->rows, &longest);
    if (!scratch) {
        snprintf(error, error_size, "no memory for a row of %" PRId64 " tokens: free some", longest);
        return -1;
    }
    self.loss = scratch;
    self.slope = scratch + longest;
    for (int64_t row = 0; row < part->rows.rows; row++)
        if (part->rows.offsets[row + 1] > part->rows.offsets[row])
            s_row(&self, row);
    free(scratch);
    if (loss)
        *loss += self.pg + config->kl_coef * self.kl - config->entropy_coef * self.entropy;
    if (s_report(&self, metrics) == 0)
        return 0;
    snprintf(error, error_size, "the table of metrics is full: it holds %d", VERL_METRICS_MOST);
    return -1;
}
