// linear_private.h: one matrix product as linear.c cuts it and as the two kinds of arithmetic carry it out. Private to
// kernels/.
#ifndef VERL_KERNELS_LINEAR_PRIVATE_H
#define VERL_KERNELS_LINEAR_PRIVATE_H
#include "kernels/linear.h"
#include "kernels/vector.h"

// Whether products of bf16 values go by the machine's instruction for two terms at once. Defined as 1 by hand, the
// same sums are computed without that instruction (slowly), which is how the tests reach them on other machines.
#if !defined(VERL_PAIRS) && defined(__AVX512BF16__)
#define VERL_PAIRS 1
#elif !defined(VERL_PAIRS)
#define VERL_PAIRS 0
#endif

// The register tile: rows by outputs; the terms of one block of the sum; rows of one area.
#if VERL_LANES == 16
enum { VERL_TILE_ROWS = 12 };               // 24 accumulators of 32 registers
#else
enum { VERL_TILE_ROWS = 6 };                // 12 of 16
#endif
enum { VERL_TILE_OUTS = 2 * VERL_LANES, VERL_DEPTH = 256, VERL_AREA_ROWS = 192 };

// The terms of a block of a sum over a transposed B, or their pairs, go in turn to this many chains, whose sums are
// added in order. Both a vector along a row of W and a register tile keep that order; with one chain, a single row had
// to turn W.
enum { VERL_CHAINS = 4 };

// C[m, n] = A B + bias. A is read as a[row * row_step + depth * depth_step], one of the steps being 1. B is the weight,
// [depth, n], or [n, depth] where it is transposed.
typedef struct verl_product {
    int64_t m, n, depth;
    const float *a;
    int64_t row_step, depth_step;
    verl_weight_t b;
    bool b_transposed;
    bool pairs;                             // both operands hold bf16 values, and VERL_PAIRS
    const float *bias;                      // [n], or NULL
    float *c;
    int64_t ldc;
    bool add;                               // C += A B
} verl_product_t;

// Part of C: at most VERL_AREA_ROWS rows.
typedef struct verl_product_area {
    int64_t row, rows, column, columns;
} verl_product_area_t;

void verl_product_area_f32(const verl_product_t *p, const verl_product_area_t *area);
void verl_product_area_pairs(const verl_product_t *p, const verl_product_area_t *area);

// For a transposed B and few rows; columns is a multiple of 8.
void verl_product_area_row(const verl_product_t *p, const verl_product_area_t *area);

// Where the tiles of one panel of an area go.
typedef struct verl_product_out {
    float *c;                               // the area's first row
    int64_t ldc;
    const float *bias;
    int64_t rows, columns;
    bool add;
} verl_product_out_t;

// That of the panel at `column` of C, of whose outputs `columns` are left, in the block of the sum that begins at d0.
VERL_INLINE verl_product_out_t
verl_product_out(const verl_product_t *p, const verl_product_area_t *area, int64_t d0, int64_t column, int64_t columns)
{
    return (verl_product_out_t){ .c = p->c + area->row * p->ldc + column,
                                 .ldc = p->ldc,
                                 .bias = p->bias && d0 == 0 ? p->bias + column : NULL,
                                 .rows = area->rows,
                                 .columns = columns < VERL_TILE_OUTS ? columns : VERL_TILE_OUTS,
                                 .add = p->add || d0 > 0 };
}

// Adds what a tile summed up to C, or sets it: `columns` of the VERL_LANES places.
VERL_INLINE void
verl_product_store(float *c, verl_vf sum, const float *bias, int64_t columns, bool add)
{
    if (columns >= VERL_LANES) {
        sum = bias ? sum + verl_vf_load(bias) : sum;
        verl_vf_store(c, add ? verl_vf_load(c) + sum : sum);
    } else if (columns > 0) {
        sum = bias ? sum + verl_vf_load_some(bias, columns) : sum;
        verl_vf_store_some(c, add ? verl_vf_load_some(c, columns) + sum : sum, columns);
    }
}

VERL_INLINE uint32_t
verl_bits(const float *from)
{
    uint32_t bits;
    memcpy(&bits, from, sizeof bits);
    return bits;
}

// Values that are exact in bf16 as pairs of neighbours, each in the place of one float; an odd end gets a zero.
VERL_INLINE void
verl_pairs_pack(const float *from, int64_t count, uint32_t *to)
{
    for (int64_t i = 0; i + 2 <= count; i += 2)
        to[i / 2] = verl_bits(from + i) >> 16 | (verl_bits(from + i + 1) & 0xffff0000u);
    if (count % 2)
        to[count / 2] = verl_bits(from + count - 1) >> 16;
}
#endif
