// linear_pairs.c: an area of a product of bf16 values, two terms of the sum at a time, as AVX512_BF16 has it.
//
// Both operands are packed as pairs of neighbours in the summed dimension (an odd end gets a zero), a pair in the place
// of one float. The instruction adds the second product of a pair, then the first, each in one rounding.
#include "kernels/linear_private.h"

enum {
    S_PAIRS = VERL_DEPTH / 2,
    S_ROWS = 6,                             // of the register tile; gcc keeps what it sums up to 16 registers
    S_GROUP = 4,                            // panels packed at once
    S_ROW = S_PAIRS + 16                    // pairs of a packed row of A
};

VERL_INLINE verl_vf
s_dot(verl_vu a, verl_vu b, verl_vf sum)
{
#if VERL_LANES == 16 && defined(__AVX512BF16__)
    return (verl_vf) _mm512_dpbf16_ps((__m512) sum, (__m512bh) a, (__m512bh) b);
#else
    sum = verl_vf_fma((verl_vf) (a & 0xffff0000u), (verl_vf) (b & 0xffff0000u), sum);
    return verl_vf_fma((verl_vf) (a << 16), (verl_vf) (b << 16), sum);
#endif
}

// --- The register tile ---

// One of `chains` chains of sums: each chains-th pair from the first on.
VERL_INLINE void
s_chain(int64_t pairs, int64_t first, int64_t chains, const uint32_t *a, int64_t row_step, int64_t pair_step,
        const uint32_t *b, int rows, verl_vf (*sum)[2])
{
    #pragma GCC unroll 4
    for (int64_t d = first; d < pairs; d += chains) {
        verl_vu b0, b1;
        memcpy(&b0, b + d * VERL_TILE_OUTS, sizeof b0);
        memcpy(&b1, b + d * VERL_TILE_OUTS + VERL_LANES, sizeof b1);
        #pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            verl_vu av = a[r * row_step + d * pair_step] - (verl_vu){ 0 };
            sum[r][0] = s_dot(av, b0, sum[r][0]);
            sum[r][1] = s_dot(av, b1, sum[r][1]);
        }
    }
}

VERL_INLINE void
s_sum(int64_t pairs, int64_t chains, const uint32_t *a, int64_t row_step, int64_t pair_step, const uint32_t *b,
      int rows, verl_vf (*sum)[2])
{
    s_chain(pairs, 0, chains, a, row_step, pair_step, b, rows, sum);
    for (int64_t first = 1; first < chains; first++) {
        verl_vf chain[S_ROWS][2] = { 0 };
        s_chain(pairs, first, chains, a, row_step, pair_step, b, rows, chain);
        #pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
            for (int h = 0; h < 2; h++)
                sum[r][h] += chain[r][h];
    }
}

VERL_INLINE void
s_tile(int64_t pairs, int64_t chains, const uint32_t *a, int64_t row_step, int64_t pair_step, const uint32_t *b,
       int rows, float *c, int64_t ldc, const float *bias, int64_t columns, bool add)
{
    verl_vf sum[S_ROWS][2] = { 0 };
    s_sum(pairs, chains, a, row_step, pair_step, b, rows, sum);
    #pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        verl_product_store(c + r * ldc, sum[r][0], bias, columns, add);
        verl_product_store(c + r * ldc + VERL_LANES, sum[r][1], bias ? bias + VERL_LANES : NULL, columns - VERL_LANES,
                           add);
    }
}

// --- Packing ---

// Rows of A, each its pairs in order.
static void
s_pack_a_rows(const verl_product_t *p, const verl_product_area_t *area, int64_t d0, int64_t depth, uint32_t *to)
{
    for (int64_t i = 0; i < area->rows; i++)
        verl_pairs_pack(p->a + (area->row + i) * p->row_step + d0, depth, to + i * S_ROW);
}

// Pair d of `rows` neighbouring rows of an A that lies column by column.
VERL_INLINE void
s_pack_a_pair(const float *first, const float *second, int64_t rows, uint32_t *to)
{
    for (int64_t i = 0; i < rows; i++)
        to[i] = verl_bits(first + i) >> 16 | (second ? verl_bits(second + i) & 0xffff0000u : 0);
}

// The rows of such an A as panels of S_ROWS, pair by pair; eight pairs at a time, for the cache's sake.
static void
s_pack_a_columns(const verl_product_t *p, const verl_product_area_t *area, int64_t d0, int64_t depth, uint32_t *to)
{
    int64_t pairs = (depth + 1) / 2;
    for (int64_t start = 0; start < pairs; start += 8)
        for (int64_t i = 0; i < area->rows; i += S_ROWS)
            for (int64_t d = start; d < pairs && d < start + 8; d++) {
                const float *first = p->a + (d0 + 2 * d) * p->depth_step + area->row + i;
                uint32_t *panel = to + i * pairs + d * S_ROWS;
                bool both = 2 * d + 1 < depth;
                if (both && area->rows - i >= S_ROWS)
                    s_pack_a_pair(first, first + p->depth_step, S_ROWS, panel);
                else
                    s_pack_a_pair(first, both ? first + p->depth_step : NULL,
                                  area->rows - i < S_ROWS ? area->rows - i : S_ROWS, panel);
            }
}

VERL_INLINE uint32_t
s_load_one(const verl_weight_t *w, int64_t at)
{
    return w->f32 ? verl_bits(w->f32 + at) >> 16 : w->bf16[at];
}

// VERL_LANES weights as the low halves of their places.
VERL_INLINE verl_vu
s_load(const verl_weight_t *w, int64_t at)
{
    if (w->f32)
        return (verl_vu) verl_vf_load(w->f32 + at) >> 16;
    return (verl_vu) verl_vf_load_bf16(w->bf16 + at) >> 16;
}

// Panels of columns [begin, begin + columns) of B, from two of its rows at a time; missing columns are 0.
static void
s_pack_rows(const verl_product_t *p, int64_t d0, int64_t depth, int64_t begin, int64_t columns, uint32_t *to)
{
    int64_t pairs = (depth + 1) / 2;
    for (int64_t d = 0; d < pairs; d++) {
        int64_t first = (d0 + 2 * d) * p->b.stride + begin, second = first + p->b.stride;
        bool both = 2 * d + 1 < depth;
        for (int64_t j = 0; j < columns; j += VERL_LANES) {
            uint32_t *panel =
                to + j / VERL_TILE_OUTS * VERL_TILE_OUTS * pairs + d * VERL_TILE_OUTS + j % VERL_TILE_OUTS;
            verl_vu v = { 0 };
            if (columns - j >= VERL_LANES)
                v = s_load(&p->b, first + j) | (both ? s_load(&p->b, second + j) << 16 : v);
            else
                for (int64_t i = 0; i < columns - j; i++)
                    v[i] = s_load_one(&p->b, first + j + i) | (both ? s_load_one(&p->b, second + j + i) << 16 : 0);
            memcpy(panel, &v, sizeof v);
        }
        if (columns % VERL_TILE_OUTS > 0 && columns % VERL_TILE_OUTS <= VERL_LANES)
            memset(to + columns / VERL_TILE_OUTS * VERL_TILE_OUTS * pairs + d * VERL_TILE_OUTS + VERL_LANES, 0,
                   VERL_LANES * sizeof *to);
    }
}

// Eight columns of a panel from eight rows of a transposed bf16 B, whose pairs lie side by side already.
static void
s_pack_eight(const verl_weight_t *w, int64_t at, int64_t depth, int64_t outs, uint32_t *to)
{
    int64_t d = 0;
    for (; d + 16 <= depth && outs >= 8; d += 16, to += 8 * VERL_TILE_OUTS) {
        verl_v8 row[8];
        for (int i = 0; i < 8; i++)
            row[i] = verl_v8_load_pairs(w->bf16 + at + i * w->stride + d);
        verl_v8_transpose(row);
        for (int i = 0; i < 8; i++)
            memcpy(to + i * VERL_TILE_OUTS, &row[i], sizeof row[i]);
    }
    for (; d < depth; d += 2, to += VERL_TILE_OUTS)
        for (int64_t i = 0; i < 8; i++) {
            int64_t from = at + i * w->stride + d;
            uint32_t second = i < outs && d + 1 < depth ? s_load_one(w, from + 1) << 16 : 0;
            to[i] = i < outs ? s_load_one(w, from) | second : 0;
        }
}

static void
s_pack_columns(const verl_product_t *p, int64_t d0, int64_t depth, int64_t begin, int64_t columns, uint32_t *to)
{
    int64_t pairs = (depth + 1) / 2;
    for (int64_t j = 0; j < (columns + VERL_TILE_OUTS - 1) / VERL_TILE_OUTS * VERL_TILE_OUTS; j += 8)
        s_pack_eight(&p->b, (begin + j) * p->b.stride + d0, depth, columns - j,
                     to + j / VERL_TILE_OUTS * VERL_TILE_OUTS * pairs + j % VERL_TILE_OUTS);
}

// --- One area of C ---

typedef struct {
    int64_t pairs;
    const uint32_t *a;
    int64_t panel_step;
    const uint32_t *b;
    verl_product_out_t out;
} s_panel_t;

VERL_INLINE void
s_panel(const s_panel_t *p, int64_t chains, int64_t row_step, int64_t pair_step)
{
    const verl_product_out_t *out = &p->out;
    const uint32_t *a = p->a;
    float *c = out->c;
    int64_t left = out->rows;
    for (; left >= S_ROWS; left -= S_ROWS, a += p->panel_step, c += S_ROWS * out->ldc)
        s_tile(p->pairs, chains, a, row_step, pair_step, p->b, S_ROWS, c, out->ldc, out->bias, out->columns, out->add);
    for (; left >= 4; left -= 4, a += 4 * row_step, c += 4 * out->ldc)
        s_tile(p->pairs, chains, a, row_step, pair_step, p->b, 4, c, out->ldc, out->bias, out->columns, out->add);
    for (; left >= 1; left--, a += row_step, c += out->ldc)
        s_tile(p->pairs, chains, a, row_step, pair_step, p->b, 1, c, out->ldc, out->bias, out->columns, out->add);
}

static void
s_group(const verl_product_t *p, const verl_product_area_t *area, int64_t d0, int64_t pairs, const uint32_t *a,
        const uint32_t *b, int64_t column, int64_t columns)
{
    for (int64_t j = 0; j < columns; j += VERL_TILE_OUTS) {
        s_panel_t panel = { .pairs = pairs, .a = a, .b = b + j * pairs,
                            .out = verl_product_out(p, area, d0, column + j, columns - j) };
        panel.panel_step = S_ROWS * (p->depth_step == 1 ? S_ROW : pairs);
        if (p->b_transposed)
            s_panel(&panel, VERL_CHAINS, S_ROW, 1);
        else if (p->depth_step == 1)
            s_panel(&panel, 1, S_ROW, 1);
        else
            s_panel(&panel, 1, 1, S_ROWS);
    }
}

void
verl_product_area_pairs(const verl_product_t *p, const verl_product_area_t *area)
{
    uint32_t packed_a[S_ROW * VERL_AREA_ROWS] __attribute__((aligned(64)));
    uint32_t packed_b[S_PAIRS * VERL_TILE_OUTS * S_GROUP] __attribute__((aligned(64)));
    for (int64_t d0 = 0; d0 < p->depth || d0 == 0; d0 += VERL_DEPTH) {
        int64_t depth = p->depth - d0 < VERL_DEPTH ? p->depth - d0 : VERL_DEPTH;
        (p->depth_step == 1 ? s_pack_a_rows : s_pack_a_columns)(p, area, d0, depth, packed_a);
        for (int64_t j = 0; j < area->columns; j += VERL_TILE_OUTS * S_GROUP) {
            int64_t columns = area->columns - j;
            columns = columns < VERL_TILE_OUTS * S_GROUP ? columns : VERL_TILE_OUTS * S_GROUP;
            (p->b_transposed ? s_pack_columns : s_pack_rows)(p, d0, depth, area->column + j, columns, packed_b);
            s_group(p, area, d0, (depth + 1) / 2, packed_a, packed_b, area->column + j, columns);
        }
    }
}
