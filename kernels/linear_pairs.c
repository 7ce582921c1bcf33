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

VERL_INLINE verl_v8
s_dot8(verl_u8 a, verl_u8 b, verl_v8 sum)
{
#if defined(__AVX512BF16__) && defined(__AVX512VL__)
    return (verl_v8) _mm256_dpbf16_ps((__m256) sum, (__m256bh) a, (__m256bh) b);
#else
    sum = verl_v8_fma((verl_v8) (a & 0xffff0000u), (verl_v8) (b & 0xffff0000u), sum);
    return verl_v8_fma((verl_v8) (a << 16), (verl_v8) (b << 16), sum);
#endif
}

VERL_INLINE uint32_t
s_bits(const float *from)
{
    uint32_t bits;
    memcpy(&bits, from, sizeof bits);
    return bits;
}

// --- The register tile ---

VERL_INLINE void
s_tile(int64_t pairs, const uint32_t *a, int64_t row_step, int64_t pair_step, const uint32_t *b, int rows, float *c,
       int64_t ldc, const float *bias, int64_t columns, bool add)
{
    verl_vf sum[S_ROWS][2] = { 0 };
    #pragma GCC unroll 4
    for (int64_t d = 0; d < pairs; d++) {
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
    for (int64_t i = 0; i < area->rows; i++) {
        const float *from = p->a + (area->row + i) * p->row_step + d0;
        for (int64_t d = 0; d + 2 <= depth; d += 2)
            to[i * S_ROW + d / 2] = s_bits(from + d) >> 16 | (s_bits(from + d + 1) & 0xffff0000u);
        if (depth % 2)
            to[i * S_ROW + depth / 2] = s_bits(from + depth - 1) >> 16;
    }
}

// Pair d of `rows` neighbouring rows of an A that lies column by column.
VERL_INLINE void
s_pack_a_pair(const float *first, const float *second, int64_t rows, uint32_t *to)
{
    for (int64_t i = 0; i < rows; i++)
        to[i] = s_bits(first + i) >> 16 | (second ? s_bits(second + i) & 0xffff0000u : 0);
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
    return w->f32 ? s_bits(w->f32 + at) >> 16 : w->bf16[at];
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
s_panel(const s_panel_t *p, int64_t row_step, int64_t pair_step)
{
    const verl_product_out_t *out = &p->out;
    const uint32_t *a = p->a;
    float *c = out->c;
    int64_t left = out->rows;
    for (; left >= S_ROWS; left -= S_ROWS, a += p->panel_step, c += S_ROWS * out->ldc)
        s_tile(p->pairs, a, row_step, pair_step, p->b, S_ROWS, c, out->ldc, out->bias, out->columns, out->add);
    for (; left >= 4; left -= 4, a += 4 * row_step, c += 4 * out->ldc)
        s_tile(p->pairs, a, row_step, pair_step, p->b, 4, c, out->ldc, out->bias, out->columns, out->add);
    for (; left >= 1; left--, a += row_step, c += out->ldc)
        s_tile(p->pairs, a, row_step, pair_step, p->b, 1, c, out->ldc, out->bias, out->columns, out->add);
}

static void
s_group(const verl_product_t *p, const verl_product_area_t *area, int64_t d0, int64_t pairs, const uint32_t *a,
        const uint32_t *b, int64_t column, int64_t columns)
{
    for (int64_t j = 0; j < columns; j += VERL_TILE_OUTS) {
        s_panel_t panel = { .pairs = pairs, .a = a, .b = b + j * pairs,
                            .out = verl_product_out(p, area, d0, column + j, columns - j) };
        if (p->depth_step == 1) {
            panel.panel_step = S_ROWS * S_ROW;
            s_panel(&panel, S_ROW, 1);
        } else {
            panel.panel_step = S_ROWS * pairs;
            s_panel(&panel, 1, S_ROWS);
        }
    }
}

static void
s_area(const verl_product_t *p, const verl_product_area_t *area)
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

// --- One row: the same sums without a panel, so that W streams through the registers ---

VERL_INLINE void
s_row_step(const uint32_t *x, const verl_weight_t *w, int64_t at, verl_v8 *sum)
{
    verl_v8 row[8];
    for (int i = 0; i < 8; i++)
        row[i] = verl_v8_load_pairs(w->bf16 + at + i * w->stride);
    verl_v8_transpose(row);
    for (int i = 0; i < 8; i++)
        *sum = s_dot8(x[i] - (verl_u8){ 0 }, (verl_u8) row[i], *sum);
}

VERL_INLINE void
s_row_pair(uint32_t x, const verl_weight_t *w, int64_t at, bool both, verl_v8 *sum)
{
    verl_u8 column;
    for (int i = 0; i < 8; i++)
        column[i] = w->bf16[at + i * w->stride] | (both ? (uint32_t) w->bf16[at + i * w->stride + 1] << 16 : 0);
    *sum = s_dot8(x - (verl_u8){ 0 }, column, *sum);
}

// Sixteen outputs from column on.
static void
s_row_outs(const verl_product_t *p, int64_t column)
{
    verl_v8 total[2] = { 0 };
    uint32_t x[S_ROW];
    const verl_product_area_t row = { .rows = 1 };
    int64_t first = column * p->b.stride, step = 8 * p->b.stride;
    const char *ahead = (const char *) (p->b.bf16 + first + 2 * step);
    for (int64_t d0 = 0; d0 < p->depth || d0 == 0; d0 += VERL_DEPTH) {
        int64_t depth = p->depth - d0 < VERL_DEPTH ? p->depth - d0 : VERL_DEPTH, d = 0;
        verl_v8 sum[2] = { 0 };
        s_pack_a_rows(p, &row, d0, depth, x);
        for (; d + 16 <= depth; d += 16)
            for (int i = 0; i < 2; i++, ahead += 256) {
                verl_fetch_ahead(ahead);
                s_row_step(x + d / 2, &p->b, first + i * step + d0 + d, &sum[i]);
            }
        for (; d < depth; d += 2)
            for (int i = 0; i < 2; i++)
                s_row_pair(x[d / 2], &p->b, first + i * step + d0 + d, d + 1 < depth, &sum[i]);
        for (int i = 0; i < 2; i++)
            total[i] = verl_product_add_block(p, column + 8 * i, d0, total[i], sum[i]);
    }
    memcpy(p->c + column, total, sizeof total);
}

void
verl_product_area_pairs(const verl_product_t *p, const verl_product_area_t *area)
{
    verl_product_area_t rest = *area;
    if (p->m == 1 && p->b_transposed)
        for (; rest.columns >= 16; rest.column += 16, rest.columns -= 16)
            s_row_outs(p, rest.column);
    if (rest.columns > 0)
        s_area(p, &rest);
}
