// summary.h: a column in six numbers: how many elements it has, and of these the NaNs, the least, the greatest, the
// mean.
#ifndef VERL_OBSERVE_SUMMARY_H
#define VERL_OBSERVE_SUMMARY_H
#include <stddef.h>
#include <stdint.h>
#include "runtime/include/verl.h"

typedef struct verl_summary {
    int64_t elements;                       // that the column stores; of text: bytes
    int64_t numbers, nans;                  // looked at (of text: its rows' lengths in bytes), and NaN of these
    double  min, max, mean;                 // of those that are no NaN; 0 where there are none
} verl_summary_t;

// Of the stored rows of a made or unpacked column. Reads all of it: O(elements), on the calling thread.
void verl_summary_of(const verl_column_t *column, verl_summary_t *ret);
// Bytes of the column's elements, and where they begin.
size_t verl_summary_data(const verl_column_t *column, const void **ret_data);
// The i-th element as a number.
double verl_summary_element(verl_dtype_t dtype, const void *data, int64_t index);
#endif
