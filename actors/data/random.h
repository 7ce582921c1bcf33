// random.h: random numbers that are a function of what they are for, never of when or where they were drawn.
//
// A stream is named by (seed, stage, batch, row); two streams of different names never share a block while batch and
// row are below 2^32. The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011): a keyed bijection of a 128-bit counter, so that a stream starts anywhere at no cost.
// Nothing here blocks, allocates or keeps hidden state; a stream belongs to one thread at a time.
#ifndef VERL_DATA_RANDOM_H
#define VERL_DATA_RANDOM_H
#include <stdint.h>

typedef struct verl_random {
    uint32_t key[2];     // of (seed, stage)
    uint32_t counter[4]; // block number (low, high), row, batch
    uint32_t block[4];   // the words of the current block
    int used;            // words of it already given; 4: make the next block
} verl_random_t;

// One Philox4x32-10 block: 4 words from a counter and a key. The source of everything below.
void verl_random_block(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

// A 64-bit key of (seed, name), for what needs a seed of its own; name may be NULL.
uint64_t verl_random_key(uint64_t seed, const char *name);

// The stream of (seed, stage, batch, row), at its start; stage may be NULL.
verl_random_t verl_random_stream(uint64_t seed, const char *stage, int64_t batch, int64_t row);

// The next 64 random bits.
uint64_t verl_random_u64(verl_random_t *self);

// The next real, uniform in [0, 1), a multiple of 2^-53.
double verl_random_uniform(verl_random_t *self);

// The next real of the standard normal distribution (Box-Muller; takes two uniforms).
double verl_random_normal(verl_random_t *self);

// The next integer, uniform in [0, bound) without bias; 0 where bound is 0.
uint64_t verl_random_below(verl_random_t *self, uint64_t bound);

// Fills items[count] with a uniform permutation of 0..count-1 (Fisher-Yates), keyed by (seed, epoch).
void verl_random_permutation(uint64_t seed, int64_t epoch, int64_t *items, int64_t count);

// Where `index` goes in a pseudo-random permutation of 0..count-1 keyed by (seed, epoch), in O(1) time and memory: a
// balanced Feistel network over the next power of four, walked until it lands inside. index must be in [0, count).
int64_t verl_random_permuted(uint64_t seed, int64_t epoch, int64_t count, int64_t index);

#endif
