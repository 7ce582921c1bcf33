// summary.c: see summary.h.
#include "runtime/observe/summary.h"
#include <math.h>
#include <string.h>

double
verl_summary_element(verl_dtype_t dtype, const void *data, int64_t index)
{
    const char *at = (const char *) data + (size_t) index * verl_dtype_bytes(dtype);
    union { int32_t i32; int64_t i64; float f32; uint16_t bf16; uint32_t bits; } value;
    switch (dtype) {
    case VERL_I32: memcpy(&value.i32, at, sizeof value.i32); return value.i32;
    case VERL_I64: memcpy(&value.i64, at, sizeof value.i64); return (double) value.i64;
    case VERL_F32: memcpy(&value.f32, at, sizeof value.f32); return (double) value.f32;
    case VERL_BF16:
        memcpy(&value.bf16, at, sizeof value.bf16);
        value.bits = (uint32_t) value.bf16 << 16;
        return (double) value.f32;
    default: return (double) (unsigned char) *at;
    }
}

static int64_t
s_positions(const verl_column_t *column)
{
    return column->ragged ? column->offsets[column->rows] - column->offsets[0] : column->rows;
}

size_t
verl_summary_data(const verl_column_t *column, const void **ret_data)
{
    size_t bytes = verl_dtype_bytes(column->dtype);
    size_t first = column->ragged ? (size_t) (column->offsets[0] * column->width) : 0;
    *ret_data = (const char *) column->data + first * bytes;
    return (size_t) (s_positions(column) * column->width) * bytes;
}

static void
s_add(verl_summary_t *summary, double value, double *sum)
{
    summary->numbers++;
    if (isnan(value)) {
        summary->nans++;
        return;
    }
    bool first = summary->numbers - summary->nans == 1;
    summary->min = first || value < summary->min ? value : summary->min;
    summary->max = first || value > summary->max ? value : summary->max;
    *sum += value;
}

void
verl_summary_of(const verl_column_t *column, verl_summary_t *ret)
{
    const void *data;
    double sum = 0;
    verl_summary_data(column, &data);
    *ret = (verl_summary_t) { .elements = s_positions(column) * column->width };
    if (column->dtype == VERL_TEXT)
        for (int64_t row = 0; row < column->rows; row++)
            s_add(ret, (double) (column->offsets[row + 1] - column->offsets[row]), &sum);
    else
        for (int64_t i = 0; i < ret->elements; i++)
            s_add(ret, verl_summary_element(column->dtype, data, i), &sum);
    if (ret->numbers > ret->nans)
        ret->mean = sum / (double) (ret->numbers - ret->nans);
}
