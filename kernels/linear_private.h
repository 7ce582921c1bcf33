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

// Four lines of the rows that come next: a step of one row over eight outputs reads as much of its own.
VERL_INLINE void
verl_fetch_ahead(const char *from)
{
    for (int line = 0; line < 4; line++)
        __builtin_prefetch(from + 64 * line, 0, 2);
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

// The same for eight outputs of one row at the end of block d0 of the sum; total is what the blocks before gave.
VERL_INLINE verl_v8
verl_product_add_block(const verl_product_t *p, int64_t column, int64_t d0, verl_v8 total, verl_v8 sum)
{
    sum = p->bias && d0 == 0 ? sum + verl_v8_load(p->bias + column) : sum;
    sum = p->add && d0 == 0 ? verl_v8_load(p->c + column) + sum : sum;
    return d0 == 0 ? sum : total + sum;
}
#endif
