// linear_row.c: y = x W^T for so few rows that reading W is the cost: W streams through the registers as it lies.
//
// Eight outputs at a time, far apart, because the machine fetches distant streams well and neighbouring rows badly
// (they share pages). The lanes of a vector are the chains of one output.
#include "kernels/linear_private.h"

enum { S_OUTS = 8, S_TERMS = 8 };           // at once

typedef enum { S_F32, S_BF16, S_PAIRS } s_kind_t;

// S_TERMS terms of a row: two for each chain, or a pair for each in `first`.
typedef struct {
    verl_v4 first, second;
} s_terms_t;

// From memory: floats, bf16 or pairs of bf16.
VERL_INLINE s_terms_t
s_load(s_kind_t kind, const void *from)
{
    typedef uint16_t halves_t __attribute__((vector_size(16)));
    s_terms_t terms = { 0 };
    halves_t halves, zero = { 0 };
    if (kind == S_F32) {
        memcpy(&terms.first, from, sizeof terms.first);
        memcpy(&terms.second, (const char *) from + sizeof terms.first, sizeof terms.second);
        return terms;
    }
    memcpy(&halves, from, sizeof halves);
    if (kind == S_PAIRS)
        return (s_terms_t){ .first = (verl_v4) halves };
    return (s_terms_t){ (verl_v4) __builtin_shufflevector(zero, halves, 0, 8, 1, 9, 2, 10, 3, 11),
                        (verl_v4) __builtin_shufflevector(zero, halves, 4, 12, 5, 13, 6, 14, 7, 15) };
}

VERL_INLINE verl_v4
s_dot(verl_v4 a, verl_v4 b, verl_v4 sum)
{
#if defined(__AVX512BF16__) && defined(__AVX512VL__)
    return (verl_v4) _mm_dpbf16_ps((__m128) sum, (__m128bh) a, (__m128bh) b);
#else
    verl_u4 x = (verl_u4) a, w = (verl_u4) b;
    sum = verl_v4_fma((verl_v4) (x & 0xffff0000u), (verl_v4) (w & 0xffff0000u), sum);
    return verl_v4_fma((verl_v4) (x << 16), (verl_v4) (w << 16), sum);
#endif
}

VERL_INLINE verl_v4
s_add(s_kind_t kind, s_terms_t x, s_terms_t w, verl_v4 sum)
{
    if (kind == S_PAIRS)
        return s_dot(x.first, w.first, sum);
    return verl_v4_fma(x.second, w.second, verl_v4_fma(x.first, w.first, sum));
}

// The same with the first `count` terms only, so that no chain gets a zero that a register tile does not add.
VERL_INLINE verl_v4
s_add_some(s_kind_t kind, s_terms_t x, s_terms_t w, int64_t count, verl_v4 sum)
{
    const int64_t first = kind == S_PAIRS ? (count + 1) / 2 : count < VERL_CHAINS ? count : VERL_CHAINS;
    verl_v4 all = kind == S_PAIRS ? s_dot(x.first, w.first, sum) : verl_v4_fma(x.first, w.first, sum);
    memcpy(&sum, &all, (size_t) first * sizeof(float));
    if (kind == S_PAIRS || count <= VERL_CHAINS)
        return sum;
    all = verl_v4_fma(x.second, w.second, sum);
    memcpy(&sum, &all, (size_t) (count - VERL_CHAINS) * sizeof(float));
    return sum;
}

VERL_INLINE const void *
s_weight(s_kind_t kind, const verl_weight_t *w, int64_t at)
{
    return kind == S_F32 ? (const void *) (w->f32 + at) : (const void *) (w->bf16 + at);
}

// The chains over `depth` terms of x and of W from `at` on, for outputs that are `apart` elements of W apart. x is
// floats, or packed pairs with zeros behind them.
VERL_INLINE void
s_chains(s_kind_t kind, const float *x, const verl_weight_t *w, int64_t at, int64_t apart, int64_t depth,
         verl_v4 sum[S_OUTS])
{
    const s_kind_t x_kind = kind == S_PAIRS ? S_PAIRS : S_F32;
    const size_t size = kind == S_F32 ? sizeof(float) : sizeof(uint16_t);
    int64_t d = 0;
    for (; d + S_TERMS <= depth; d += S_TERMS, x += kind == S_PAIRS ? S_TERMS / 2 : S_TERMS) {
        s_terms_t xs = s_load(x_kind, x);
        #pragma GCC unroll 8
        for (int i = 0; i < S_OUTS; i++)
            sum[i] = s_add(kind, xs, s_load(kind, s_weight(kind, w, at + i * apart + d)), sum[i]);
    }
    if (d == depth)
        return;
    float rest[S_TERMS] = { 0 };
    memcpy(rest, x, kind == S_PAIRS ? sizeof rest / 2 : (size_t) (depth - d) * sizeof *x);
    s_terms_t xs = s_load(x_kind, rest);
    for (int i = 0; i < S_OUTS; i++) {
        memset(rest, 0, sizeof rest);
        memcpy(rest, s_weight(kind, w, at + i * apart + d), (size_t) (depth - d) * size);
        sum[i] = s_add_some(kind, xs, s_load(kind, rest), depth - d, sum[i]);
    }
}

// The chains of eight outputs, added in order.
VERL_INLINE verl_v8
s_join(verl_v4 sum[S_OUTS])
{
    verl_v8 all;
    for (int i = 0; i < S_OUTS; i += 4) {
        verl_v4_transpose(sum + i);
        verl_v4 total = ((sum[i] + sum[i + 1]) + sum[i + 2]) + sum[i + 3];
        memcpy((char *) &all + (size_t) i * sizeof(float), &total, sizeof total);
    }
    return all;
}

// Every apart-th float from `from` on.
VERL_INLINE verl_v8
s_gather(const float *from, int64_t apart)
{
    verl_v8 v;
    for (int i = 0; i < S_OUTS; i++)
        v[i] = from[i * apart];
    return v;
}

// Outputs of a row, every apart-th from column on.
VERL_INLINE void
s_outs(const verl_product_t *p, s_kind_t kind, int64_t row, int64_t column, int64_t apart)
{
    float *c = p->c + row * p->ldc + column;
    uint32_t pairs[VERL_DEPTH / 2 + S_TERMS];
    verl_v8 total = { 0 };
    for (int64_t d0 = 0; d0 < p->depth || d0 == 0; d0 += VERL_DEPTH) {
        int64_t depth = p->depth - d0 < VERL_DEPTH ? p->depth - d0 : VERL_DEPTH;
        const float *x = p->a + row * p->row_step + d0;
        if (kind == S_PAIRS) {
            memset(pairs + depth / 2, 0, S_TERMS * sizeof *pairs);
            verl_pairs_pack(x, depth, pairs);
        }
        verl_v4 sum[S_OUTS] = { 0 };
        s_chains(kind, kind == S_PAIRS ? (const void *) pairs : x, &p->b, column * p->b.stride + d0,
                 apart * p->b.stride, depth, sum);
        verl_v8 block = s_join(sum);
        if (d0 == 0 && p->bias)
            block += s_gather(p->bias + column, apart);
        if (d0 == 0 && p->add)
            block = s_gather(c, apart) + block;
        total = d0 == 0 ? block : total + block;
    }
    for (int i = 0; i < S_OUTS; i++)
        c[i * apart] = total[i];
}

VERL_INLINE void
s_area(const verl_product_t *p, const verl_product_area_t *area, s_kind_t kind)
{
    int64_t apart = area->columns / S_OUTS;
    for (int64_t j = 0; j < apart; j++)
        for (int64_t row = area->row; row < area->row + area->rows; row++)
            s_outs(p, kind, row, area->column + j, apart);
}

void
verl_product_area_row(const verl_product_t *p, const verl_product_area_t *area)
{
    if (p->pairs)
        s_area(p, area, S_PAIRS);
    else if (p->b.f32)
        s_area(p, area, S_F32);
    else
        s_area(p, area, S_BF16);
}
