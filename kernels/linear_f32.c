// linear_f32.c: an area of a product in f32 arithmetic, over packed panels and a register tile. bf16 weights are
// widened while they are packed.
#include "kernels/linear_private.h"

enum { S_GROUP = 4, S_ROW = VERL_DEPTH + 16 };  // panels packed at once; floats of a packed row of A

// --- The register tile ---

// One of `chains` chains of sums: each chains-th term from the first on.
VERL_INLINE void
s_chain(int64_t depth, int64_t first, int64_t chains, const float *a, int64_t row_step, int64_t depth_step,
        const float *b, int rows, verl_vf (*sum)[2])
{
    #pragma GCC unroll 4
    for (int64_t d = first; d < depth; d += chains) {
        verl_vf b0 = verl_vf_load(b + d * VERL_TILE_OUTS), b1 = verl_vf_load(b + d * VERL_TILE_OUTS + VERL_LANES);
        #pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            verl_vf av = verl_vf_all(a[r * row_step + d * depth_step]);
            sum[r][0] = verl_vf_fma(av, b0, sum[r][0]);
            sum[r][1] = verl_vf_fma(av, b1, sum[r][1]);
        }
    }
}

VERL_INLINE void
s_sum(int64_t depth, int64_t chains, const float *a, int64_t row_step, int64_t depth_step, const float *b, int rows,
      verl_vf (*sum)[2])
{
    s_chain(depth, 0, chains, a, row_step, depth_step, b, rows, sum);
    for (int64_t first = 1; first < chains; first++) {
        verl_vf chain[VERL_TILE_ROWS][2] = { 0 };
        s_chain(depth, first, chains, a, row_step, depth_step, b, rows, chain);
        #pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
            for (int h = 0; h < 2; h++)
                sum[r][h] += chain[r][h];
    }
}

VERL_INLINE void
s_tile(int64_t depth, int64_t chains, const float *a, int64_t row_step, int64_t depth_step, const float *b, int rows,
       float *c, int64_t ldc, const float *bias, int64_t columns, bool add)
{
    verl_vf sum[VERL_TILE_ROWS][2] = { 0 };
    #pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
        __builtin_prefetch(c + r * ldc, 1);
    s_sum(depth, chains, a, row_step, depth_step, b, rows, sum);
    if (columns >= VERL_TILE_OUTS && !bias) {
        #pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            float *to = c + r * ldc;
            verl_vf_store(to, add ? verl_vf_load(to) + sum[r][0] : sum[r][0]);
            verl_vf_store(to + VERL_LANES, add ? verl_vf_load(to + VERL_LANES) + sum[r][1] : sum[r][1]);
        }
        return;
    }
    for (int r = 0; r < rows; r++) {
        verl_product_store(c + r * ldc, sum[r][0], bias, columns, add);
        verl_product_store(c + r * ldc + VERL_LANES, sum[r][1], bias ? bias + VERL_LANES : NULL, columns - VERL_LANES,
                           add);
    }
}

// --- Packing ---

VERL_INLINE float
s_load_one(const verl_weight_t *w, int64_t at)
{
    return w->f32 ? w->f32[at] : verl_vf_load_bf16_some(w->bf16 + at, 1)[0];
}

// Part of a row of B into its panels, `step` floats apart; missing columns are 0.
VERL_INLINE void
s_pack_row(const verl_weight_t *w, bool bf16, int64_t at, int64_t columns, float *to, int64_t step)
{
    int64_t j = 0;
    for (; j + VERL_TILE_OUTS <= columns; j += VERL_TILE_OUTS, to += step) {
        const int64_t later = at + j + 8 * w->stride;               // rows are too far apart for the machine to guess
        __builtin_prefetch(bf16 ? (const void *) (w->bf16 + later) : (const void *) (w->f32 + later));
        for (int64_t h = 0; h < VERL_TILE_OUTS; h += VERL_LANES)
            verl_vf_store(to + h, bf16 ? verl_vf_load_bf16(w->bf16 + at + j + h) : verl_vf_load(w->f32 + at + j + h));
    }
    for (int64_t i = 0; j < columns && i < VERL_TILE_OUTS; i++)
        to[i] = j + i < columns ? s_load_one(w, at + j + i) : 0.0f;
}

// Panels of columns [begin, begin + columns) of rows [d0, d0 + depth) of B, side by side, so that a row is read as far
// as it goes.
static void
s_pack_rows(const verl_product_t *g, int64_t d0, int64_t depth, int64_t begin, int64_t columns, float *to)
{
    int64_t at = d0 * g->b.stride + begin;
    for (int64_t d = 0; d < depth; d++, at += g->b.stride)
        if (g->b.f32)
            s_pack_row(&g->b, false, at, columns, to + d * VERL_TILE_OUTS, depth * VERL_TILE_OUTS);
        else
            s_pack_row(&g->b, true, at, columns, to + d * VERL_TILE_OUTS, depth * VERL_TILE_OUTS);
}

// Eight columns of the panel from eight rows of a transposed B; bf16 goes through the transposition in pairs.
VERL_INLINE void
s_pack_eight(const verl_weight_t *w, bool bf16, int64_t at, int64_t depth, float *to)
{
    int64_t d = 0, block = bf16 ? 16 : 8;
    for (; d + block <= depth; d += block, to += block * VERL_TILE_OUTS) {
        verl_v8 row[8];
        for (int i = 0; i < 8; i++) {
            int64_t from = at + i * w->stride + d;
            row[i] = bf16 ? verl_v8_load_pairs(w->bf16 + from) : verl_v8_load(w->f32 + from);
        }
        verl_v8_transpose(row);
        for (int i = 0; i < 8; i++) {
            if (!bf16) {
                verl_v8_store(to + i * VERL_TILE_OUTS, row[i]);
                continue;
            }
            verl_v8_store(to + 2 * i * VERL_TILE_OUTS, verl_v8_first_of_pairs(row[i]));
            verl_v8_store(to + (2 * i + 1) * VERL_TILE_OUTS, verl_v8_second_of_pairs(row[i]));
        }
    }
    for (; d < depth; d++, to += VERL_TILE_OUTS)
        for (int i = 0; i < 8; i++)
            to[i] = s_load_one(w, at + i * w->stride + d);
}

static void
s_pack_columns(const verl_product_t *g, int64_t d0, int64_t depth, int64_t begin, int64_t columns, float *to)
{
    for (int64_t j = 0; j < (columns + VERL_TILE_OUTS - 1) / VERL_TILE_OUTS * VERL_TILE_OUTS; j += 8) {
        int64_t at = (begin + j) * g->b.stride + d0;
        float *panel = to + j / VERL_TILE_OUTS * VERL_TILE_OUTS * depth + j % VERL_TILE_OUTS;
        if (j + 8 <= columns && g->b.f32)
            s_pack_eight(&g->b, false, at, depth, panel);
        else if (j + 8 <= columns)
            s_pack_eight(&g->b, true, at, depth, panel);
        else
            for (int64_t d = 0; d < depth; d++)
                for (int64_t i = 0; i < 8; i++)
                    panel[d * VERL_TILE_OUTS + i] =
                        j + i < columns ? s_load_one(&g->b, at + i * g->b.stride + d) : 0.0f;
    }
}

// Rows [begin, begin + rows) of an A whose rows are adjacent, as panels of VERL_TILE_ROWS rows, depth by depth. Eight
// depths at a time, so that both what is read and what is written stays in the first-level cache.
static void
s_pack_a_columns(const verl_product_t *g, int64_t d0, int64_t depth, int64_t begin, int64_t rows, float *to)
{
    for (int64_t first = 0; first < depth; first += 8) {
        int64_t last = first + 8 < depth ? first + 8 : depth;
        for (int64_t i = 0; i < rows; i += VERL_TILE_ROWS) {
            int64_t height = rows - i < VERL_TILE_ROWS ? rows - i : VERL_TILE_ROWS;
            for (int64_t d = first; d < last; d++) {
                const float *from = g->a + (d0 + d) * g->depth_step + begin + i;
                float *panel = to + i * depth + d * VERL_TILE_ROWS;
                if (height == VERL_TILE_ROWS)
                    memcpy(panel, from, VERL_TILE_ROWS * sizeof(float));
                else
                    memcpy(panel, from, (size_t) height * sizeof(float));
            }
        }
    }
}

// Rows of an A that lies row by row, closer together: rows a power of two apart would fall into one set of the cache.
static void
s_pack_a_rows(const verl_product_t *g, int64_t d0, int64_t depth, int64_t begin, int64_t rows, float *to)
{
    for (int64_t i = 0; i < rows; i++)
        memcpy(to + i * S_ROW, g->a + (begin + i) * g->row_step + d0, (size_t) depth * sizeof(float));
}

// --- One area of C ---

typedef struct {
    int64_t depth;
    const float *a;                         // the area's first row
    int64_t panel_step;
    const float *b;                         // one panel
    verl_product_out_t out;
} s_panel_t;

VERL_INLINE void
s_panel(const s_panel_t *p, int64_t chains, int64_t row_step, int64_t depth_step)
{
    const verl_product_out_t *out = &p->out;
    const float *a = p->a;
    float *c = out->c;
    int64_t left = out->rows;
    for (; left >= VERL_TILE_ROWS; left -= VERL_TILE_ROWS, a += p->panel_step, c += VERL_TILE_ROWS * out->ldc)
        s_tile(p->depth, chains, a, row_step, depth_step, p->b, VERL_TILE_ROWS, c, out->ldc, out->bias, out->columns,
               out->add);
#define S_REST(n)                                                                                            \
    for (; left >= n; left -= n, a += n * row_step, c += n * out->ldc)                                        \
        s_tile(p->depth, chains, a, row_step, depth_step, p->b, n, c, out->ldc, out->bias, out->columns, out->add)
#if VERL_LANES == 16
    S_REST(6);
#endif
    S_REST(4);
    S_REST(2);
    S_REST(1);
#undef S_REST
}

// How the rows of A are read: as they lie, or packed.
typedef struct {
    const float *a;
    int64_t row_step, depth_step, panel_step;
} s_rows_t;

static s_rows_t
s_prepare_rows(const verl_product_t *g, const verl_product_area_t *area, int64_t d0, int64_t depth, float *packed)
{
    if (g->depth_step != 1) {
        s_pack_a_columns(g, d0, depth, area->row, area->rows, packed);
        return (s_rows_t){ packed, 1, VERL_TILE_ROWS, depth * VERL_TILE_ROWS };
    }
    if (!packed)
        return (s_rows_t){ g->a + area->row * g->row_step + d0, g->row_step, 1, VERL_TILE_ROWS * g->row_step };
    s_pack_a_rows(g, d0, depth, area->row, area->rows, packed);
    return (s_rows_t){ packed, S_ROW, 1, VERL_TILE_ROWS * S_ROW };
}

// One packed group of panels against the area's rows.
static void
s_group(const verl_product_t *g, const verl_product_area_t *area, int64_t d0, int64_t depth, const s_rows_t *rows,
        const float *packed_b, int64_t column, int64_t columns)
{
    for (int64_t j = 0; j < columns; j += VERL_TILE_OUTS) {
        s_panel_t p = { .depth = depth,
                        .a = rows->a,
                        .panel_step = rows->panel_step,
                        .b = packed_b + j * depth,
                        .out = verl_product_out(g, area, d0, column + j, columns - j) };
        if (g->b_transposed && rows->row_step == S_ROW)
            s_panel(&p, VERL_CHAINS, S_ROW, 1);
        else if (g->b_transposed)
            s_panel(&p, VERL_CHAINS, rows->row_step, 1);
        else if (rows->row_step == 1 && rows->depth_step == VERL_TILE_ROWS)
            s_panel(&p, 1, 1, VERL_TILE_ROWS);
        else
            s_panel(&p, 1, rows->row_step, 1);
    }
}

// Depth by depth; panels of B are packed just before their use, a few at a time.
static void
s_area(const verl_product_t *g, const verl_product_area_t *area, float *packed_a)
{
    float packed_b[VERL_DEPTH * VERL_TILE_OUTS * S_GROUP] __attribute__((aligned(64)));
    int64_t group = g->b_transposed ? VERL_TILE_OUTS : VERL_TILE_OUTS * S_GROUP;
    for (int64_t d0 = 0; d0 < g->depth || d0 == 0; d0 += VERL_DEPTH) {
        int64_t depth = g->depth - d0 < VERL_DEPTH ? g->depth - d0 : VERL_DEPTH;
        s_rows_t rows = s_prepare_rows(g, area, d0, depth, packed_a);
        for (int64_t j = 0; j < area->columns; j += group) {
            int64_t columns = area->columns - j < group ? area->columns - j : group;
            (g->b_transposed ? s_pack_columns : s_pack_rows)(g, d0, depth, area->column + j, columns, packed_b);
            s_group(g, area, d0, depth, &rows, packed_b, area->column + j, columns);
        }
    }
}

static void
s_packed_area(const verl_product_t *g, const verl_product_area_t *area)
{
    float packed_a[S_ROW * VERL_AREA_ROWS] __attribute__((aligned(64)));
    s_area(g, area, packed_a);
}

void
verl_product_area_f32(const verl_product_t *g, const verl_product_area_t *area)
{
    if (g->depth_step == 1 && (area->rows <= VERL_TILE_ROWS || area->columns < 4 * VERL_TILE_OUTS))
        s_area(g, area, NULL);
    else
        s_packed_area(g, area);
}
