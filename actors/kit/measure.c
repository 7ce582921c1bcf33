// measure.c: see measure.h.
#include "actors/kit/measure.h"
#include <stdlib.h>
#include <string.h>

void
verl_measure_report(verl_stage_t *stage, const verl_metrics_t *metrics)
{
    for (size_t i = 0; i < metrics->count; i++) {
        const verl_metric_t *metric = &metrics->items[i];
        if (metric->kind == VERL_METRIC_MEAN)
            verl_metric_weighted(stage, metric->name, verl_metric_value(metric), metric->weight);
        else
            verl_metric(stage, metric->name, verl_metric_value(metric));
    }
}

bool
verl_column_is_number(const verl_column_t *column)
{
    return !column->ragged && column->width == 1 && column->dtype != VERL_TEXT && column->dtype != VERL_BF16;
}

double
verl_column_number(const verl_column_t *column, int64_t row)
{
    const void *at = verl_column_at(column, row);
    switch (column->dtype) {
    case VERL_F32: return (double) *(const float *) at;
    case VERL_I64: return (double) *(const int64_t *) at;
    case VERL_I32: return (double) *(const int32_t *) at;
    default:       return (double) *(const uint8_t *) at;
    }
}

int64_t *
verl_measure_offsets(verl_stage_t *stage, const verl_column_t *column)
{
    int64_t *offsets = malloc((size_t) (column->rows + 1) * sizeof *offsets);
    if (!offsets) {
        verl_fail(stage, "no memory for %lld rows", (long long) column->rows);
        return NULL;
    }
    offsets[0] = 0;
    for (int64_t row = 0; row < column->rows; row++)
        offsets[row + 1] = offsets[row] + verl_column_length(column, row);
    return offsets;
}

// 0 where the column has one place for each token.
static int
s_check(verl_stage_t *stage, const verl_column_t *column, int64_t rows, const int64_t *offsets)
{
    for (int64_t row = 0; row < rows; row++)
        if (verl_column_length(column, row) != offsets[row + 1] - offsets[row])
            return verl_fail(stage, "row %lld: %s has %lld places, and the response %lld tokens", (long long) row,
                             column->name, (long long) verl_column_length(column, row),
                             (long long) (offsets[row + 1] - offsets[row]));
    return 0;
}

bool
verl_measure_mask(verl_stage_t *stage, const verl_column_t *column, int64_t rows, const int64_t *offsets,
                  uint8_t **ret_mask)
{
    *ret_mask = NULL;
    if (!column)
        return true;
    if (!column->ragged || column->width != 1 ||
        (column->dtype != VERL_U8 && column->dtype != VERL_I32 && column->dtype != VERL_I64))
        return verl_fail(stage, "column %s is not u8[n,*]", column->name) == 0;
    if (s_check(stage, column, rows, offsets) != 0)
        return false;
    uint8_t *mask = malloc((size_t) offsets[rows] + 1);
    if (!mask)
        return verl_fail(stage, "no memory for a mask of %lld tokens", (long long) offsets[rows]) == 0;
    for (int64_t row = 0; row < rows; row++) {
        const void *from = verl_column_at(column, row);
        uint8_t *to = mask + offsets[row];
        for (int64_t t = 0; t < offsets[row + 1] - offsets[row]; t++)
            to[t] = column->dtype == VERL_U8    ? ((const uint8_t *) from)[t] != 0
                    : column->dtype == VERL_I32 ? ((const int32_t *) from)[t] != 0
                                                : ((const int64_t *) from)[t] != 0;
    }
    *ret_mask = mask;
    return true;
}

float *
verl_measure_gather(verl_stage_t *stage, const verl_column_t *column, int64_t rows, const int64_t *offsets)
{
    if (!column->ragged || column->width != 1 || column->dtype != VERL_F32) {
        verl_fail(stage, "column %s is not f32[n,*]", column->name);
        return NULL;
    }
    if (s_check(stage, column, rows, offsets) != 0)
        return NULL;
    float *values = malloc(((size_t) offsets[rows] + 1) * sizeof *values);
    if (!values)
        verl_fail(stage, "no memory for %lld values of %s", (long long) offsets[rows], column->name);
    for (int64_t row = 0; values && row < rows; row++)
        memcpy(values + offsets[row], verl_column_f32(column, row),
               (size_t) (offsets[row + 1] - offsets[row]) * sizeof *values);
    return values;
}
