// sampler.c: batch id -> record numbers; see sampler.h.
#include <inttypes.h>
#include <stdio.h>

#include "actors/data/random.h"
#include "actors/data/sampler.h"

// Rows that one epoch gives to batches.
static int64_t
s_epoch_rows(const verl_sampler_t *self)
{
    return self->drop_last ? self->records / self->rows * self->rows : self->records;
}

int
verl_sampler_check(const verl_sampler_t *self, char *error, size_t error_size)
{
    if (self->records < 1)
        snprintf(error, error_size, "the data set has no records: give at least one");
    else if (self->rows < 1)
        snprintf(error, error_size, "rows is %" PRId64 ": a batch takes at least 1", self->rows);
    else if (self->epochs < 0)
        snprintf(error, error_size, "epochs is %" PRId64 ": give 0 (no end) or more", self->epochs);
    else if (self->epochs > 0 && self->epochs > INT64_MAX / self->records)
        snprintf(error, error_size, "%" PRId64 " epochs of %" PRId64 " records are more rows than can be counted",
                 self->epochs, self->records);
    else if (self->drop_last && self->rows > self->records)
        snprintf(error, error_size,
                 "a batch takes %" PRId64 " rows but the data set has %" PRId64
                 " records, and drop_last leaves out what does not fill a batch: lower rows or drop_last = false",
                 self->rows, self->records);
    else
        return 0;
    return -1;
}

int64_t
verl_sampler_batches(const verl_sampler_t *self)
{
    if (self->epochs == 0)
        return INT64_MAX;
    int64_t total = s_epoch_rows(self) * self->epochs;
    return total / self->rows + (total % self->rows > 0);
}

int64_t
verl_sampler_rows(const verl_sampler_t *self, int64_t id)
{
    if (id < 0 || id >= verl_sampler_batches(self) || id > INT64_MAX / self->rows - 1)
        return 0;
    if (self->epochs == 0)
        return self->rows;
    int64_t left = s_epoch_rows(self) * self->epochs - id * self->rows;
    return left < self->rows ? left : self->rows;
}

int64_t
verl_sampler_record(const verl_sampler_t *self, int64_t id, int64_t row, int64_t *epoch)
{
    if (row < 0 || row >= verl_sampler_rows(self, id))
        return -1;
    int64_t place = id * self->rows + row;
    int64_t which = place / s_epoch_rows(self), index = place % s_epoch_rows(self);
    if (epoch)
        *epoch = which;
    return self->shuffle ? verl_random_permuted(self->seed, which, self->records, index) : index;
}
