// sampler.h: which records of a data set are batch k. A pure function of its fields and of k, so that a loader keeps
// no cursor: any batch can be made by any incarnation, in any order.
//
// Epoch e is one pass over all records, in file order or in a permutation keyed by (seed, e). Without drop_last the
// batches cut the endless row of epochs into pieces of `rows`, so that a batch may run on into the next epoch; with it
// every epoch gives records / rows whole batches and leaves the rest out. Nothing here allocates or blocks; all
// functions are thread-safe.
#ifndef VERL_DATA_SAMPLER_H
#define VERL_DATA_SAMPLER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct verl_sampler {
    int64_t records; // in the data set, at least 1
    int64_t rows;    // of a batch, at least 1
    int64_t epochs;  // passes over the data; 0: no end
    uint64_t seed;   // of the shuffle; verl_random_key(run's seed, stage's name) keeps stages apart
    bool shuffle;
    bool drop_last; // an epoch ends with its last whole batch
} verl_sampler_t;

// 0 where the fields make sense together; else -1, and error says which one does not and what would be right.
int verl_sampler_check(const verl_sampler_t *self, char *error, size_t error_size);

// How many batches there are: ids 0 .. n-1; INT64_MAX where epochs is 0.
int64_t verl_sampler_batches(const verl_sampler_t *self);

// How many rows batch `id` has: `rows`, fewer in the last one of all, 0 past the end or where id is negative.
int64_t verl_sampler_rows(const verl_sampler_t *self, int64_t id);

// The record that is row `row` of batch `id`, and in *epoch (which may be NULL) its epoch; -1 where there is no such
// row.
int64_t verl_sampler_record(const verl_sampler_t *self, int64_t id, int64_t row, int64_t *epoch);

#endif
