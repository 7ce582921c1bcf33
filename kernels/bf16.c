// bf16.c: conversions to and from bfloat16.
#include "kernels/bf16.h"
#include <string.h>

static inline uint32_t
s_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// The upper half, rounded; a NaN gets its quiet bit instead, so that rounding cannot carry it into infinity.
static inline uint32_t
s_rounded(float value)
{
    uint32_t bits = s_bits(value);
    uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return ((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : rounded) & 0xffff0000u;
}

void
verl_bf16_from_f32(int64_t count, const float *from, uint16_t *to, int threads)
{
    #pragma omp parallel for simd num_threads(threads) schedule(static) if(threads > 1 && count > 100000)
    for (int64_t i = 0; i < count; i++)
        to[i] = (uint16_t) (s_rounded(from[i]) >> 16);
}

void
verl_f32_from_bf16(int64_t count, const uint16_t *from, float *to, int threads)
{
    #pragma omp parallel for simd num_threads(threads) schedule(static) if(threads > 1 && count > 100000)
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t) from[i] << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

void
verl_bf16_round(int64_t count, const float *from, float *to, int threads)
{
    #pragma omp parallel for simd num_threads(threads) schedule(static) if(threads > 1 && count > 100000)
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = s_rounded(from[i]);
        memcpy(&to[i], &bits, sizeof bits);
    }
}
