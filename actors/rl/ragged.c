// ragged.c: checks of ragged rows; see ragged.h.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "actors/rl/ragged.h"

int
verl_ragged_check(const verl_ragged_t *self, char *error, size_t error_size)
{
    if (self->rows < 0 || (self->rows > 0 && (!self->offsets || self->offsets[0] != 0))) {
        snprintf(error, error_size, "%" PRId64 " rows without offsets that begin with 0: give rows + 1 offsets",
                 self->rows);
        return -1;
    }
    for (int64_t row = 0; row < self->rows; row++)
        if (self->offsets[row + 1] < self->offsets[row]) {
            snprintf(error, error_size,
                     "row %" PRId64 " ends at token %" PRId64 ", before it begins at %" PRId64 ": offsets never fall",
                     row, self->offsets[row + 1], self->offsets[row]);
            return -1;
        }
    return 0;
}

int
verl_ragged_finite(const verl_ragged_t *self, const char *name, const float *values, char *error, size_t error_size)
{
    for (int64_t row = 0; values && row < self->rows; row++)
        for (int64_t t = self->offsets[row]; t < self->offsets[row + 1]; t++)
            if (verl_ragged_counts(self, t) && !isfinite(values[t])) {
                snprintf(error, error_size,
                         "%s of row %" PRId64 ", token %" PRId64 " is %g: it has to be a finite number", name, row,
                         t - self->offsets[row], (double) values[t]);
                return -1;
            }
    return 0;
}

int64_t
verl_ragged_length(const verl_ragged_t *self, int64_t row)
{
    int64_t begin = self->offsets[row], end = self->offsets[row + 1], length = 0;
    if (!self->mask)
        return end - begin;
    for (int64_t t = begin; t < end; t++)
        length += self->mask[t] != 0;
    return length;
}
