// vector.h: the vector type of this machine and the few operations on it that the kernels share.
//
// Private to kernels/. Sums over lanes go in one fixed order, so that a result depends on its own inputs only.
#ifndef VERL_KERNELS_VECTOR_H
#define VERL_KERNELS_VECTOR_H
#include <stdint.h>
#include <string.h>
#if defined(__FMA__)
#include <immintrin.h>
#endif

#if !defined(VERL_LANES) && defined(__AVX512F__)
#define VERL_LANES 16
#elif !defined(VERL_LANES)
#define VERL_LANES 8
#endif
// All of this is inlined, so how vectors are passed where the machine has none as wide does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"
#define VERL_INLINE static inline __attribute__((always_inline, unused))

typedef float    verl_vf __attribute__((vector_size(VERL_LANES * 4)));
typedef int32_t  verl_vi __attribute__((vector_size(VERL_LANES * 4)));
typedef uint32_t verl_vu __attribute__((vector_size(VERL_LANES * 4)));
typedef uint16_t verl_vh __attribute__((vector_size(VERL_LANES * 2)));

VERL_INLINE verl_vf
verl_vf_load(const float *from)
{
    verl_vf v;
    memcpy(&v, from, sizeof v);
    return v;
}

VERL_INLINE void
verl_vf_store(float *to, verl_vf v)
{
    memcpy(to, &v, sizeof v);
}

// a * b + c in one rounding wherever the machine has it. The compiler's own contraction leaves some chains out, and a
// sum must be the same in every tile.
VERL_INLINE verl_vf
verl_vf_fma(verl_vf a, verl_vf b, verl_vf c)
{
#if VERL_LANES == 16 && defined(__AVX512F__)
    return (verl_vf) _mm512_fmadd_ps((__m512) a, (__m512) b, (__m512) c);
#elif VERL_LANES == 8 && defined(__FMA__)
    return (verl_vf) _mm256_fmadd_ps((__m256) a, (__m256) b, (__m256) c);
#else
    return a * b + c;
#endif
}

VERL_INLINE verl_vf
verl_vf_all(float value)
{
    return value - (verl_vf){ 0 };
}

// The first count lanes, the others 0.
VERL_INLINE verl_vf
verl_vf_load_some(const float *from, int64_t count)
{
    verl_vf v = { 0 };
    memcpy(&v, from, (size_t) count * sizeof(float));
    return v;
}

VERL_INLINE void
verl_vf_store_some(float *to, verl_vf v, int64_t count)
{
    memcpy(to, &v, (size_t) count * sizeof(float));
}

VERL_INLINE verl_vf
verl_vf_from_bf16(verl_vh h)
{
    return (verl_vf) (__builtin_convertvector(h, verl_vu) << 16);
}

VERL_INLINE verl_vf
verl_vf_load_bf16(const uint16_t *from)
{
    verl_vh h;
    memcpy(&h, from, sizeof h);
    return verl_vf_from_bf16(h);
}

VERL_INLINE verl_vf
verl_vf_load_bf16_some(const uint16_t *from, int64_t count)
{
    verl_vh h = { 0 };
    memcpy(&h, from, (size_t) count * sizeof(uint16_t));
    return verl_vf_from_bf16(h);
}

VERL_INLINE float
verl_vf_sum(verl_vf v)
{
    typedef float half_t __attribute__((vector_size(VERL_LANES * 2)));
    half_t low, high;
    memcpy(&low, &v, sizeof low);
    memcpy(&high, (const char *) &v + sizeof low, sizeof high);
    half_t h = low + high;
#if VERL_LANES == 16
    typedef float quad_t __attribute__((vector_size(16)));
    quad_t l4, h4;
    memcpy(&l4, &h, sizeof l4);
    memcpy(&h4, (const char *) &h + sizeof l4, sizeof h4);
    l4 += h4;
    return (l4[0] + l4[2]) + (l4[1] + l4[3]);
#else
    return (h[0] + h[2]) + (h[1] + h[3]);
#endif
}

VERL_INLINE verl_vf
verl_vf_select(verl_vi condition, verl_vf yes, verl_vf no)
{
    return (verl_vf) ((condition & (verl_vi) yes) | (~condition & (verl_vi) no));
}

VERL_INLINE verl_vf
verl_vf_max(verl_vf a, verl_vf b)
{
    return verl_vf_select(a > b, a, b);
}

// Eight floats, whatever the width of the machine's vectors: the unit of transposition.
typedef float    verl_v8 __attribute__((vector_size(32)));
typedef uint32_t verl_u8 __attribute__((vector_size(32)));

VERL_INLINE verl_v8
verl_v8_load(const float *from)
{
    verl_v8 v;
    memcpy(&v, from, sizeof v);
    return v;
}

VERL_INLINE void
verl_v8_store(float *to, verl_v8 v)
{
    memcpy(to, &v, sizeof v);
}

// Sixteen bf16 as eight pairs, each pair in the place of one float.
VERL_INLINE verl_v8
verl_v8_load_pairs(const uint16_t *from)
{
    verl_v8 v;
    memcpy(&v, from, sizeof v);
    return v;
}

VERL_INLINE verl_v8
verl_v8_first_of_pairs(verl_v8 pairs)
{
    return (verl_v8) ((verl_u8)pairs << 16);
}

VERL_INLINE verl_v8
verl_v8_second_of_pairs(verl_v8 pairs)
{
    return (verl_v8) ((verl_u8)pairs & 0xffff0000u);
}

// row[i][j] becomes row[j][i].
VERL_INLINE void
verl_v8_transpose(verl_v8 row[8])
{
    verl_v8 t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shufflevector(row[i], row[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = __builtin_shufflevector(row[i], row[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            u[i + 2 * j] = __builtin_shufflevector(t[i + j], t[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            u[i + 2 * j + 1] = __builtin_shufflevector(t[i + j], t[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        row[i] = __builtin_shufflevector(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        row[i + 4] = __builtin_shufflevector(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

// Four floats: the chains of a sum over a row of W.
typedef float    verl_v4 __attribute__((vector_size(16)));
typedef uint32_t verl_u4 __attribute__((vector_size(16)));

VERL_INLINE verl_v4
verl_v4_fma(verl_v4 a, verl_v4 b, verl_v4 c)
{
#if defined(__FMA__)
    return (verl_v4) _mm_fmadd_ps((__m128) a, (__m128) b, (__m128) c);
#else
    return a * b + c;
#endif
}

// row[i][j] becomes row[j][i].
VERL_INLINE void
verl_v4_transpose(verl_v4 row[4])
{
    verl_v4 t[4];
    for (int i = 0; i < 4; i += 2) {
        t[i] = __builtin_shufflevector(row[i], row[i + 1], 0, 4, 1, 5);
        t[i + 1] = __builtin_shufflevector(row[i], row[i + 1], 2, 6, 3, 7);
    }
    for (int i = 0; i < 2; i++) {
        row[2 * i] = __builtin_shufflevector(t[i], t[i + 2], 0, 1, 4, 5);
        row[2 * i + 1] = __builtin_shufflevector(t[i], t[i + 2], 2, 3, 6, 7);
    }
}

// e^x to about 2 units in the last place: 2^n * p(r) with r in [-ln 2 / 2, ln 2 / 2] (the Cephes polynomial). Below
// -87.3 it is 0, above 88.3 infinity; NaN stays NaN.
VERL_INLINE verl_vf
verl_vf_exp(verl_vf x)
{
    verl_vf low = verl_vf_all(-87.33654f), high = verl_vf_all(88.37626f), y = x;
    y = verl_vf_select(y < low, low, y);
    y = verl_vf_select(y > high, high, y);
    verl_vf shifter = verl_vf_all(12582912.0f);         // 1.5 * 2^23: adding it rounds to an integer
    verl_vf n = verl_vf_fma(y, verl_vf_all(1.44269504088896341f), shifter);
    verl_vi exponent = (verl_vi) n << 23;
    n -= shifter;
    y = verl_vf_fma(n, verl_vf_all(-0.693359375f), y);
    y = verl_vf_fma(n, verl_vf_all(2.12194440e-4f), y);
    verl_vf p = verl_vf_fma(y, verl_vf_all(1.9875691500e-4f), verl_vf_all(1.3981999507e-3f));
    p = verl_vf_fma(p, y, verl_vf_all(8.3334519073e-3f));
    p = verl_vf_fma(p, y, verl_vf_all(4.1665795894e-2f));
    p = verl_vf_fma(p, y, verl_vf_all(1.6666665459e-1f));
    p = verl_vf_fma(p, y, verl_vf_all(5.0000001201e-1f));
    p = verl_vf_fma(p * y, y, y) + verl_vf_all(1.0f);
    verl_vf r = (verl_vf) ((verl_vi) p + exponent);
    r = verl_vf_select(x < low, (verl_vf){ 0 }, r);
    return verl_vf_select(x > high, verl_vf_all(__builtin_inff()), r);
}
#endif
