// Metrics: weighted means over pieces, extremes, ragged reductions, and how a kind is never guessed from a name.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "actors/rl/metrics.h"

static double
s_value(const verl_metrics_t *metrics, const char *name)
{
    const verl_metric_t *metric = verl_metrics_find(metrics, name);
    cr_assert(metric, "no %s", name);
    return verl_metric_value(metric);
}

Test(metrics, pieces_add_up)
{
    verl_metrics_t one = { 0 }, two = { 0 };
    verl_metrics_add(&one, "a", 6, 2);
    verl_metrics_add(&two, "a", 4, 8);
    verl_metrics_max(&one, "m", 3);
    verl_metrics_max(&two, "m", 5);
    verl_metrics_min(&two, "n", 5);
    cr_assert_eq(verl_metrics_merge(&one, &two), 0);
    cr_assert_float_eq(s_value(&one, "a"), 1, 0);
    cr_assert_float_eq(s_value(&one, "m"), 5, 0);
    cr_assert_float_eq(s_value(&one, "n"), 5, 0);
    cr_assert_null(verl_metrics_find(&one, "b"));
}

Test(metrics, a_name_with_min_in_it_is_a_mean_where_it_was_added_as_one)
{
    verl_metrics_t metrics = { 0 };
    verl_metrics_add(&metrics, "terminal", 1, 1);
    verl_metrics_add(&metrics, "terminal", 3, 1);
    cr_assert_float_eq(s_value(&metrics, "terminal"), 2, 0);
}

Test(metrics, no_weight_is_no_figure)
{
    verl_metrics_t metrics = { 0 };
    cr_assert_eq(verl_metrics_add(&metrics, "a", 0, 0), 0);
    cr_assert_eq(metrics.count, 0);
    cr_assert_eq(verl_metrics_add(NULL, "a", 1, 1), 0);
}

Test(metrics, what_does_not_fit_is_refused)
{
    verl_metrics_t metrics = { 0 };
    char name[128];
    memset(name, 'x', 100);
    name[100] = 0;
    cr_assert_eq(verl_metrics_add(&metrics, name, 1, 1), -1);
    for (int i = 0; i < VERL_METRICS_MOST; i++) {
        snprintf(name, sizeof name, "m%d", i);
        cr_assert_eq(verl_metrics_add(&metrics, name, 1, 1), 0);
    }
    cr_assert_eq(verl_metrics_add(&metrics, "one too many", 1, 1), -1);
    cr_assert_eq(verl_metrics_add(&metrics, "m3", 1, 1), 0);
    cr_assert_eq(verl_metrics_max(&metrics, "m3", 1), -1);
}

Test(metrics, not_a_number_is_not_hidden)
{
    verl_metrics_t metrics = { 0 };
    verl_metrics_of_values(&metrics, "v", (float[]){ 1, NAN, 2 }, 3);
    cr_assert(isnan(s_value(&metrics, "v/mean")) && isnan(s_value(&metrics, "v/max")) &&
              isnan(s_value(&metrics, "v/min")));
}

Test(metrics, values_tokens_and_lengths)
{
    const int64_t offsets[] = { 0, 2, 2, 3 };
    const uint8_t mask[] = { 1, 0, 1 }, truncated[] = { 0, 0, 1 };
    const float values[] = { 1, 100, 4 };
    verl_ragged_t rows = { 3, offsets, mask };
    verl_metrics_t metrics = { 0 };
    verl_metrics_of_values(&metrics, "critic/score", values, 3);
    verl_metrics_of_tokens(&metrics, "critic/advantages", &rows, values);
    verl_metrics_of_lengths(&metrics, "response_length", &rows, truncated);
    cr_assert_float_eq(s_value(&metrics, "critic/score/mean"), 35, 1e-12);
    cr_assert_float_eq(s_value(&metrics, "critic/score/max"), 100, 0);
    cr_assert_float_eq(s_value(&metrics, "critic/advantages/mean"), 2.5, 1e-12);
    cr_assert_float_eq(s_value(&metrics, "critic/advantages/min"), 1, 0);
    cr_assert_float_eq(s_value(&metrics, "response_length/mean"), 1, 1e-12);
    cr_assert_float_eq(s_value(&metrics, "response_length/min"), 0, 0);
    cr_assert_float_eq(s_value(&metrics, "response_length/clip_ratio"), 1.0 / 3, 1e-12);
}

Test(metrics, explained_variance)
{
    const int64_t offsets[] = { 0, 4 };
    const uint8_t mask[] = { 1, 1, 1, 0 };
    const float returns[] = { 1, 2, 3, NAN }, perfect[] = { 1, 2, 3, 0 }, mean[] = { 2, 2, 2, 0 };
    verl_ragged_t rows = { 1, offsets, mask };
    cr_assert_float_eq(verl_explained_variance(&rows, perfect, returns), 1, 1e-12);
    cr_assert_float_eq(verl_explained_variance(&rows, mean, returns), 0, 2e-5);
    cr_assert_eq(verl_explained_variance(&(verl_ragged_t){ 0, offsets, NULL }, perfect, returns), 0);
}
