// metrics.h: named figures of a step, gathered in pieces.
//
// A mean is kept as (sum, weight), so that micro-batches and ranks add up to the figure of the whole in any split. How
// a figure is reduced is said where it is added, never guessed from its name. Order is that of first addition.
#ifndef VERL_RL_METRICS_H
#define VERL_RL_METRICS_H
#include <stddef.h>
#include <stdint.h>

#include "actors/rl/ragged.h"

#define VERL_METRICS_MOST 96
#define VERL_METRIC_NAME  72

typedef enum { VERL_METRIC_MEAN, VERL_METRIC_MAX, VERL_METRIC_MIN } verl_metric_kind_t;

typedef struct verl_metric {
    char name[VERL_METRIC_NAME];
    verl_metric_kind_t kind;
    double sum; // of weighted values; the extreme itself where the kind is MAX or MIN
    double weight;
} verl_metric_t;

// Zero it to begin. Holds no memory of its own; copies by assignment.
typedef struct verl_metrics {
    verl_metric_t items[VERL_METRICS_MOST];
    size_t count;
} verl_metrics_t;

// Add to a mean: sum of values times weights, and sum of weights. Nothing happens where weight is 0.
// -1 where the table is full or the name too long or of another kind, and nothing is added; NULL self: 0.
int verl_metrics_add(verl_metrics_t *self, const char *name, double sum, double weight);

// Raise a maximum, lower a minimum. NaN stays once it came. Returns as above.
int verl_metrics_max(verl_metrics_t *self, const char *name, double value);
int verl_metrics_min(verl_metrics_t *self, const char *name, double value);

// Adds all of `other`, as if its values had been added here. Returns as above.
int verl_metrics_merge(verl_metrics_t *self, const verl_metrics_t *other);

// The figure: sum / weight of a mean, or the extreme.
double verl_metric_value(const verl_metric_t *metric);

// The metric of this name; NULL where there is none.
const verl_metric_t *verl_metrics_find(const verl_metrics_t *self, const char *name);

// Adds prefix/mean, prefix/max, prefix/min of count values. Nothing where count is 0.
int verl_metrics_of_values(verl_metrics_t *self, const char *prefix, const float *values, int64_t count);

// The same of the counted tokens of ragged rows, for instance of critic/advantages.
int verl_metrics_of_tokens(verl_metrics_t *self, const char *prefix, const verl_ragged_t *rows, const float *values);

// The same of the lengths of rows in tokens (counted or not), and prefix/clip_ratio: the share of rows for which
// truncated (one byte a row, may be NULL) is not 0.
int
verl_metrics_of_lengths(verl_metrics_t *self, const char *prefix, const verl_ragged_t *rows, const uint8_t *truncated);

// 1 - var(returns - values) / (var(returns) + 1e-5) over counted tokens, population variances: 1 is a perfect critic,
// 0 one that knows the mean only. 0 where there is no token.
double verl_explained_variance(const verl_ragged_t *rows, const float *values, const float *returns);

#endif
