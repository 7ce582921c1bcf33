// value_loss.c: the clipped squared error of a critic; declared in loss.h.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "actors/rl/loss.h"

typedef struct sums {
    double loss, clipped, values, tokens;
} sums_t;

// max of the two squared errors, halved; *slope gets its derivative by v, *clipped whether the clipped one is larger.
static double
s_token(double v, double target, double low, double high, double *slope, int *clipped)
{
    double bounded = v < low ? low : v > high ? high : v;
    double plain = (v - target) * (v - target), held = (bounded - target) * (bounded - target);
    *clipped = held > plain;
    *slope = *clipped ? 0 : v - target;
    return 0.5 * (*clipped ? held : plain);
}

static int
s_check(const verl_value_config_t *config, const verl_ragged_t *rows, const float *values, const float *old_values,
        const float *returns, const verl_loss_totals_t *totals, char *error, size_t error_size)
{
    verl_loss_totals_t here = { 0, 0 };
    if (verl_ragged_check(rows, error, error_size))
        return -1;
    verl_loss_count(rows, &here);
    if ((int) config->agg < 0 || config->agg >= VERL_AGG_KINDS)
        snprintf(error, error_size, "no such aggregation: take one of the list");
    else if (!(config->clip > 0))
        snprintf(error, error_size, "the clip of values is %g: give more than 0", config->clip);
    else if (!(config->scale > 0) && config->agg == VERL_AGG_SEQ_MEAN_TOKEN_SUM_NORM)
        snprintf(error, error_size, "loss scale is %g: seq-mean-token-sum-norm divides by it, give one above 0",
                 config->scale);
    else if (here.tokens > 0 && (!values || !returns))
        snprintf(error, error_size, "the loss of a critic needs values and returns");
    else if (totals->tokens < here.tokens || totals->rows < here.rows)
        snprintf(error, error_size,
                 "the totals of the mini-batch are %" PRId64 " tokens in %" PRId64 " rows, but this "
                 "part alone has %" PRId64 " in %" PRId64 ": count all parts",
                 totals->tokens, totals->rows, here.tokens, here.rows);
    else
        return verl_ragged_finite(rows, "the value", values, error, error_size) ||
                       verl_ragged_finite(rows, "the old value", old_values, error, error_size) ||
                       verl_ragged_finite(rows, "the return", returns, error, error_size)
                   ? -1
                   : 0;
    return -1;
}

int
verl_value_loss_eval(const verl_value_config_t *config, const verl_ragged_t *rows, const float *values,
                     const float *old_values, const float *returns, const verl_loss_totals_t *totals, float *d_values,
                     double *loss, verl_metrics_t *metrics, char *error, size_t error_size)
{
    sums_t sums = { 0 };
    if (s_check(config, rows, values, old_values, returns, totals, error, error_size))
        return -1;
    for (int64_t row = 0; row < rows->rows; row++) {
        double weight = verl_agg_weight(config->agg, config->scale, totals, rows, row);
        for (int64_t t = rows->offsets[row]; t < rows->offsets[row + 1]; t++) {
            d_values[t] = 0;
            if (!verl_ragged_counts(rows, t))
                continue;
            double old = old_values ? (double) old_values[t] : 0, clip = old_values ? config->clip : INFINITY, slope;
            int clipped;
            sums.loss +=
                weight * s_token((double) values[t], (double) returns[t], old - clip, old + clip, &slope, &clipped);
            d_values[t] = (float) (weight * slope);
            sums.clipped += clipped;
            sums.values += (double) values[t];
            sums.tokens++;
        }
    }
    if (loss)
        *loss += sums.loss;
    double share = totals->tokens > 0 ? sums.tokens / (double) totals->tokens : 0;
    if (verl_metrics_add(metrics, "critic/vf_loss", sums.loss, share) == 0 &&
        verl_metrics_add(metrics, "critic/vf_clipfrac", sums.clipped, sums.tokens) == 0 &&
        verl_metrics_add(metrics, "critic/vpred_mean", sums.values, sums.tokens) == 0)
        return 0;
    snprintf(error, error_size, "the table of metrics is full: it holds %d", VERL_METRICS_MOST);
    return -1;
}
