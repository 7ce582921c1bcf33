// random.c: Philox4x32-10 streams and permutations; see random.h.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "actors/data/random.h"

#define MULTIPLIER_0   0xD2511F53u // the constants of Philox4x32
#define MULTIPLIER_1   0xCD9E8D57u
#define WEYL_0         0x9E3779B9u
#define WEYL_1         0xBB67AE85u
#define ROUNDS         10
#define FEISTEL_ROUNDS 8

void
verl_random_block(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p0 = (uint64_t) MULTIPLIER_0 * c0;
        uint64_t p1 = (uint64_t) MULTIPLIER_1 * c2;
        c0 = (uint32_t) (p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t) (p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t) p1;
        c3 = (uint32_t) p0;
        k0 += WEYL_0;
        k1 += WEYL_1;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

// A bijection of 64 bits in which every input bit reaches every output bit (the finalizer of splitmix64).
static uint64_t
s_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

uint64_t
verl_random_key(uint64_t seed, const char *name)
{
    uint64_t key = s_mix(seed + 0x9E3779B97F4A7C15u);
    for (const char *at = name ? name : ""; *at; at++)
        key = s_mix(key ^ (uint64_t) (unsigned char) *at) + 0x9E3779B97F4A7C15u;
    return s_mix(key);
}

verl_random_t
verl_random_stream(uint64_t seed, const char *stage, int64_t batch, int64_t row)
{
    uint64_t key = verl_random_key(seed, stage);
    uint64_t high = ((uint64_t) batch >> 32) << 32 | (uint64_t) row >> 32;
    if (high)
        key = s_mix(key ^ s_mix(high));
    return (verl_random_t){
        .key = { (uint32_t) key, (uint32_t) (key >> 32) },
        .counter = { 0, 0, (uint32_t) row, (uint32_t) batch },
        .used = 4,
    };
}

uint64_t
verl_random_u64(verl_random_t *self)
{
    if (self->used >= 4) {
        verl_random_block(self->counter, self->key, self->block);
        self->counter[1] += ++self->counter[0] == 0;
        self->used = 0;
    }
    uint64_t low = self->block[self->used], high = self->block[self->used + 1];
    self->used += 2;
    return high << 32 | low;
}

double
verl_random_uniform(verl_random_t *self)
{
    return (double) (verl_random_u64(self) >> 11) * 0x1p-53;
}

double
verl_random_normal(verl_random_t *self)
{
    double radius = sqrt(-2 * log(1 - verl_random_uniform(self)));
    return radius * cos(6.283185307179586476925 * verl_random_uniform(self));
}

uint64_t
verl_random_below(verl_random_t *self, uint64_t bound)
{
    if (bound == 0)
        return 0;
    uint64_t unfair = -bound % bound; // 2^64 mod bound: so many values would come once too often
    uint64_t bits;
    do
        bits = verl_random_u64(self);
    while (bits < unfair);
    return bits % bound;
}

void
verl_random_permutation(uint64_t seed, int64_t epoch, int64_t *items, int64_t count)
{
    verl_random_t stream = verl_random_stream(seed, "permutation", epoch, 0);
    for (int64_t i = 0; i < count; i++) {
        int64_t j = (int64_t) verl_random_below(&stream, (uint64_t) i + 1);
        items[i] = items[j];
        items[j] = i;
    }
}

static uint64_t
s_feistel(uint64_t value, int half, uint64_t key)
{
    uint64_t mask = ((uint64_t) 1 << half) - 1;
    uint64_t left = value >> half, right = value & mask;
    for (uint64_t round = 0; round < FEISTEL_ROUNDS; round++) {
        uint64_t next = left ^ (s_mix(key + round * 0x9E3779B97F4A7C15u + s_mix(right + 1)) & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

int64_t
verl_random_permuted(uint64_t seed, int64_t epoch, int64_t count, int64_t index)
{
    uint64_t key = s_mix(verl_random_key(seed, "permuted") ^ s_mix((uint64_t) epoch));
    int half = 1;
    while (half < 31 && (uint64_t) count > (uint64_t) 1 << (2 * half))
        half++;
    uint64_t value = (uint64_t) index;
    do
        value = s_feistel(value, half, key);
    while (value >= (uint64_t) count);
    return (int64_t) value;
}
