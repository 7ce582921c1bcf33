// measure.h: figures gathered in a verl_metrics_t, handed to the runtime as metrics of the batch.
#ifndef VERL_KIT_MEASURE_H
#define VERL_KIT_MEASURE_H
#include <verl.h>
#include "actors/rl/metrics.h"

// Every figure under its name; means with their weight, so that the parts of a batch add up to the whole.
void verl_measure_report(verl_stage_t *stage, const verl_metrics_t *metrics);

// A number of a fixed column of one number a row, of any type of number.
double verl_column_number(const verl_column_t *column, int64_t row);
bool   verl_column_is_number(const verl_column_t *column);

// A column of truth values, one a response token, as bytes: NULL where there is none. false: no memory, or a type that
// has no truth, or a row without one place for each token (offsets); verl_fail was called. The caller frees *ret_mask.
bool verl_measure_mask(verl_stage_t *stage, const verl_column_t *column, int64_t rows, const int64_t *offsets,
                       uint8_t **ret_mask);

// [rows + 1] positions before each row of a ragged column as it is seen; NULL without memory (verl_fail was called).
int64_t *verl_measure_offsets(verl_stage_t *stage, const verl_column_t *column);

// The values of a ragged f32 column as it is seen, rows behind each other; NULL with verl_fail's reason: no memory, or
// another type, or lengths that are not those of offsets. The caller frees it.
float *verl_measure_gather(verl_stage_t *stage, const verl_column_t *column, int64_t rows, const int64_t *offsets);
#endif
