// linear.c: y = x W^T, dx = dy W and dW += dy^T x as one matrix product over packed panels and a register tile.
//
// C[m, n] = A B over blocks of S_DEPTH in the summed dimension; within a block each element is one chain of fused
// multiply-adds in order, and blocks are added in order. Tiles of C are independent tasks. So neither threads, nor
// tile sizes, nor the number of rows change a bit of any element.
#include "kernels/linear.h"
#include "kernels/vector.h"

#if VERL_LANES == 16
enum { S_MR = 12 };                         // 24 accumulators of 32 registers
#else
enum { S_MR = 6 };                          // 12 of 16
#endif
enum { S_NR = 2 * VERL_LANES, S_DEPTH = 256, S_MC = 192, S_NC = 24 * S_NR, S_FEW = 24, S_GROUP = 4,
       S_ROW = S_DEPTH + 16 };

// A is read as a[row * row_step + depth * depth_step], one of the steps being 1. B is the weight, [depth, n], or
// [n, depth] where it is transposed.
typedef struct {
    int64_t m, n, depth;
    const float *a;
    int64_t row_step, depth_step;
    verl_weight_t b;
    bool b_transposed;
    const float *bias;                      // [n], or NULL
    float *c;
    int64_t ldc;
    bool add;                               // C += A B
} s_gemm_t;

typedef struct {
    int64_t row, rows, column, columns;     // of C
} s_area_t;

// --- The register tile ---

VERL_INLINE void
s_micro(int64_t depth, const float *a, int64_t row_step, int64_t depth_step, const float *b, int rows,
        verl_vf (*sum)[2])
{
    #pragma GCC unroll 4
    for (int64_t d = 0; d < depth; d++) {
        verl_vf b0 = verl_vf_load(b + d * S_NR), b1 = verl_vf_load(b + d * S_NR + VERL_LANES);
        #pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            verl_vf av = verl_vf_all(a[r * row_step + d * depth_step]);
            sum[r][0] = verl_vf_fma(av, b0, sum[r][0]);
            sum[r][1] = verl_vf_fma(av, b1, sum[r][1]);
        }
    }
}

VERL_INLINE void
s_store(float *c, verl_vf sum, const float *bias, int64_t columns, bool add)
{
    if (columns >= VERL_LANES) {
        sum = bias ? sum + verl_vf_load(bias) : sum;
        verl_vf_store(c, add ? verl_vf_load(c) + sum : sum);
    } else if (columns > 0) {
        sum = bias ? sum + verl_vf_load_some(bias, columns) : sum;
        verl_vf_store_some(c, add ? verl_vf_load_some(c, columns) + sum : sum, columns);
    }
}

VERL_INLINE void
s_tile(int64_t depth, const float *a, int64_t row_step, int64_t depth_step, const float *b, int rows, float *c,
       int64_t ldc, const float *bias, int64_t columns, bool add)
{
    verl_vf sum[S_MR][2] = { 0 };
    #pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
        __builtin_prefetch(c + r * ldc, 1);
    s_micro(depth, a, row_step, depth_step, b, rows, sum);
    if (columns >= S_NR && !bias) {
        #pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            float *to = c + r * ldc;
            verl_vf_store(to, add ? verl_vf_load(to) + sum[r][0] : sum[r][0]);
            verl_vf_store(to + VERL_LANES, add ? verl_vf_load(to + VERL_LANES) + sum[r][1] : sum[r][1]);
        }
        return;
    }
    for (int r = 0; r < rows; r++) {
        s_store(c + r * ldc, sum[r][0], bias, columns, add);
        s_store(c + r * ldc + VERL_LANES, sum[r][1], bias ? bias + VERL_LANES : NULL, columns - VERL_LANES, add);
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
    for (; j + S_NR <= columns; j += S_NR, to += step) {
        const int64_t later = at + j + 8 * w->stride;               // rows are too far apart for the machine to guess
        __builtin_prefetch(bf16 ? (const void *) (w->bf16 + later) : (const void *) (w->f32 + later));
        for (int64_t h = 0; h < S_NR; h += VERL_LANES)
            verl_vf_store(to + h, bf16 ? verl_vf_load_bf16(w->bf16 + at + j + h) : verl_vf_load(w->f32 + at + j + h));
    }
    for (int64_t i = 0; j < columns && i < S_NR; i++)
        to[i] = j + i < columns ? s_load_one(w, at + j + i) : 0.0f;
}

// Panels of columns [begin, begin + columns) of rows [d0, d0 + depth) of B, side by side, so that a row is read as far
// as it goes.
static void
s_pack_rows(const s_gemm_t *g, int64_t d0, int64_t depth, int64_t begin, int64_t columns, float *to)
{
    int64_t at = d0 * g->b.stride + begin;
    for (int64_t d = 0; d < depth; d++, at += g->b.stride)
        if (g->b.f32)
            s_pack_row(&g->b, false, at, columns, to + d * S_NR, depth * S_NR);
        else
            s_pack_row(&g->b, true, at, columns, to + d * S_NR, depth * S_NR);
}

// Eight columns of the panel from eight rows of a transposed B; bf16 goes through the transposition in pairs.
VERL_INLINE void
s_pack_eight(const verl_weight_t *w, bool bf16, int64_t at, int64_t depth, float *to)
{
    int64_t d = 0, block = bf16 ? 16 : 8;
    for (; d + block <= depth; d += block, to += block * S_NR) {
        verl_v8 row[8];
        for (int i = 0; i < 8; i++) {
            int64_t from = at + i * w->stride + d;
            row[i] = bf16 ? verl_v8_load_pairs(w->bf16 + from) : verl_v8_load(w->f32 + from);
        }
        verl_v8_transpose(row);
        for (int i = 0; i < 8; i++) {
            if (!bf16) {
                verl_v8_store(to + i * S_NR, row[i]);
                continue;
            }
            verl_v8_store(to + 2 * i * S_NR, verl_v8_first_of_pairs(row[i]));
            verl_v8_store(to + (2 * i + 1) * S_NR, verl_v8_second_of_pairs(row[i]));
        }
    }
    for (; d < depth; d++, to += S_NR)
        for (int i = 0; i < 8; i++)
            to[i] = s_load_one(w, at + i * w->stride + d);
}

static void
s_pack_columns(const s_gemm_t *g, int64_t d0, int64_t depth, int64_t begin, int64_t columns, float *to)
{
    for (int64_t j = 0; j < (columns + S_NR - 1) / S_NR * S_NR; j += 8) {
        int64_t at = (begin + j) * g->b.stride + d0;
        float *panel = to + j / S_NR * S_NR * depth + j % S_NR;
        if (j + 8 <= columns && g->b.f32)
            s_pack_eight(&g->b, false, at, depth, panel);
        else if (j + 8 <= columns)
            s_pack_eight(&g->b, true, at, depth, panel);
        else
            for (int64_t d = 0; d < depth; d++)
                for (int64_t i = 0; i < 8; i++)
                    panel[d * S_NR + i] = j + i < columns ? s_load_one(&g->b, at + i * g->b.stride + d) : 0.0f;
    }
}

// Rows [begin, begin + rows) of an A whose rows are adjacent, as panels of S_MR rows, depth by depth. Eight depths at a
// time, so that both what is read and what is written stays in the first-level cache.
static void
s_pack_a_columns(const s_gemm_t *g, int64_t d0, int64_t depth, int64_t begin, int64_t rows, float *to)
{
    for (int64_t first = 0; first < depth; first += 8) {
        int64_t last = first + 8 < depth ? first + 8 : depth;
        for (int64_t i = 0; i < rows; i += S_MR) {
            int64_t height = rows - i < S_MR ? rows - i : S_MR;
            for (int64_t d = first; d < last; d++) {
                const float *from = g->a + (d0 + d) * g->depth_step + begin + i;
                float *panel = to + i * depth + d * S_MR;
                if (height == S_MR)
                    memcpy(panel, from, S_MR * sizeof(float));
                else
                    memcpy(panel, from, (size_t) height * sizeof(float));
            }
        }
    }
}

// Rows of an A that lies row by row, closer together: rows a power of two apart would fall into one set of the cache.
static void
s_pack_a_rows(const s_gemm_t *g, int64_t d0, int64_t depth, int64_t begin, int64_t rows, float *to)
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
    float *c;
    int64_t ldc;
    const float *bias;
    int64_t rows, columns;
    bool add;
} s_panel_t;

VERL_INLINE void
s_panel(const s_panel_t *p, int64_t row_step, int64_t depth_step)
{
    const float *a = p->a;
    float *c = p->c;
    int64_t left = p->rows;
    for (; left >= S_MR; left -= S_MR, a += p->panel_step, c += S_MR * p->ldc)
        s_tile(p->depth, a, row_step, depth_step, p->b, S_MR, c, p->ldc, p->bias, p->columns, p->add);
#define S_REST(n)                                                                                            \
    for (; left >= n; left -= n, a += n * row_step, c += n * p->ldc)                                          \
        s_tile(p->depth, a, row_step, depth_step, p->b, n, c, p->ldc, p->bias, p->columns, p->add)
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
s_prepare_rows(const s_gemm_t *g, const s_area_t *area, int64_t d0, int64_t depth, float *packed)
{
    if (g->depth_step != 1) {
        s_pack_a_columns(g, d0, depth, area->row, area->rows, packed);
        return (s_rows_t){ packed, 1, S_MR, depth * S_MR };
    }
    if (!packed)
        return (s_rows_t){ g->a + area->row * g->row_step + d0, g->row_step, 1, S_MR * g->row_step };
    s_pack_a_rows(g, d0, depth, area->row, area->rows, packed);
    return (s_rows_t){ packed, S_ROW, 1, S_MR * S_ROW };
}

// One packed group of panels against the area's rows.
static void
s_group(const s_gemm_t *g, const s_area_t *area, int64_t d0, int64_t depth, const s_rows_t *rows, const float *packed_b,
        int64_t column, int64_t columns)
{
    for (int64_t j = 0; j < columns; j += S_NR) {
        s_panel_t p = { .depth = depth, .a = rows->a, .panel_step = rows->panel_step, .b = packed_b + j * depth,
                        .c = g->c + area->row * g->ldc + column + j, .ldc = g->ldc,
                        .bias = g->bias && d0 == 0 ? g->bias + column + j : NULL, .rows = area->rows,
                        .columns = columns - j < S_NR ? columns - j : S_NR, .add = g->add || d0 > 0 };
        if (rows->row_step == 1 && rows->depth_step == S_MR)
            s_panel(&p, 1, S_MR);
        else if (rows->row_step == S_ROW)
            s_panel(&p, S_ROW, 1);
        else
            s_panel(&p, rows->row_step, 1);
    }
}

// Depth by depth; panels of B are packed just before their use, a few at a time.
static void
s_area(const s_gemm_t *g, const s_area_t *area, float *packed_a)
{
    float packed_b[S_DEPTH * S_NR * S_GROUP] __attribute__((aligned(64)));
    int64_t group = g->b_transposed ? S_NR : S_NR * S_GROUP;
    for (int64_t d0 = 0; d0 < g->depth || d0 == 0; d0 += S_DEPTH) {
        int64_t depth = g->depth - d0 < S_DEPTH ? g->depth - d0 : S_DEPTH;
        s_rows_t rows = s_prepare_rows(g, area, d0, depth, packed_a);
        for (int64_t j = 0; j < area->columns; j += group) {
            int64_t columns = area->columns - j < group ? area->columns - j : group;
            (g->b_transposed ? s_pack_columns : s_pack_rows)(g, d0, depth, area->column + j, columns, packed_b);
            s_group(g, area, d0, depth, &rows, packed_b, area->column + j, columns);
        }
    }
}

// --- One row: the same sums without a panel, so that W streams through the registers ---

// The next 8 (f32) or 16 (bf16) of the sum, for eight outputs.
VERL_INLINE void
s_row_step(const float *x, const verl_weight_t *w, bool bf16, int64_t at, verl_v8 *sum)
{
    verl_v8 row[8];
    for (int i = 0; i < 8; i++)
        row[i] = bf16 ? verl_v8_load_pairs(w->bf16 + at + i * w->stride) : verl_v8_load(w->f32 + at + i * w->stride);
    verl_v8_transpose(row);
    for (int i = 0; i < 8; i++) {
        if (!bf16) {
            *sum = verl_v8_fma(x[i] - (verl_v8){ 0 }, row[i], *sum);
            continue;
        }
        *sum = verl_v8_fma(x[2 * i] - (verl_v8){ 0 }, verl_v8_first_of_pairs(row[i]), *sum);
        *sum = verl_v8_fma(x[2 * i + 1] - (verl_v8){ 0 }, verl_v8_second_of_pairs(row[i]), *sum);
    }
}

VERL_INLINE void
s_row_one(const float *x, const verl_weight_t *w, int64_t at, verl_v8 *sum)
{
    verl_v8 column;
    for (int i = 0; i < 8; i++)
        column[i] = s_load_one(w, at + i * w->stride);
    *sum = verl_v8_fma(*x - (verl_v8){ 0 }, column, *sum);
}

// Groups of eight outputs, from column on; two at once hide each other's latency.
VERL_INLINE void
s_row_groups(const s_gemm_t *g, bool bf16, int groups, int64_t column)
{
    verl_v8 total[2] = { 0 };
    int64_t first = column * g->b.stride, step = 8 * g->b.stride;
    for (int64_t d0 = 0; d0 < g->depth || d0 == 0; d0 += S_DEPTH) {
        int64_t end = g->depth - d0 < S_DEPTH ? g->depth : d0 + S_DEPTH, d = d0;
        verl_v8 sum[2] = { 0 };
        int64_t block = bf16 ? 16 : 8;
        for (; d + block <= end; d += block)
            for (int i = 0; i < groups; i++)
                s_row_step(g->a + d, &g->b, bf16, first + i * step + d, &sum[i]);
        for (; d < end; d++)
            for (int i = 0; i < groups; i++)
                s_row_one(g->a + d, &g->b, first + i * step + d, &sum[i]);
        for (int i = 0; i < groups; i++) {
            const int64_t at = column + 8 * i;
            sum[i] = g->bias && d0 == 0 ? sum[i] + verl_v8_load(g->bias + at) : sum[i];
            sum[i] = g->add && d0 == 0 ? verl_v8_load(g->c + at) + sum[i] : sum[i];
            total[i] = d0 == 0 ? sum[i] : total[i] + sum[i];
        }
    }
    for (int i = 0; i < groups; i++)
        memcpy(g->c + column + 8 * i, &total[i], sizeof total[i]);
}

static void
s_row_area(const s_gemm_t *g, const s_area_t *area)
{
    int64_t column = area->column, end = area->column + area->columns;
    for (; column + 16 <= end; column += 16)
        if (g->b.f32)
            s_row_groups(g, false, 2, column);
        else
            s_row_groups(g, true, 2, column);
    s_area_t rest = { .row = area->row, .rows = 1, .column = column, .columns = end - column };
    if (column < end)
        s_area(g, &rest, NULL);
}

static void
s_packed_area(const s_gemm_t *g, const s_area_t *area)
{
    float packed_a[S_ROW * S_MC] __attribute__((aligned(64)));
    s_area(g, area, packed_a);
}

typedef struct {
    int64_t mc, nc, down, across;
} s_cut_t;

// Areas shrink until each thread has some; a few rows take one panel at a time, so that W is read as it lies.
static s_cut_t
s_cut(const s_gemm_t *g, int threads)
{
    s_cut_t cut = { .mc = S_MC, .nc = g->m <= S_FEW ? S_NR : S_NC };
    for (;;) {
        cut.down = (g->m + cut.mc - 1) / cut.mc;
        cut.across = (g->n + cut.nc - 1) / cut.nc;
        if (threads <= 1 || cut.down * cut.across >= 2 * threads)
            return cut;
        if (cut.nc > S_NR)
            cut.nc = (cut.nc / 2 + S_NR - 1) / S_NR * S_NR;
        else if (cut.mc > 2 * S_MR)
            cut.mc = (cut.mc / 2 + S_MR - 1) / S_MR * S_MR;
        else
            return cut;
    }
}

static void
s_task(const s_gemm_t *g, const s_cut_t *cut, int64_t task)
{
    int64_t row = task % cut->down * cut->mc, column = task / cut->down * cut->nc;
    s_area_t area = { .row = row, .rows = g->m - row < cut->mc ? g->m - row : cut->mc,
                      .column = column, .columns = g->n - column < cut->nc ? g->n - column : cut->nc };
    if (g->m == 1 && g->b_transposed)
        s_row_area(g, &area);
    else if (g->depth_step == 1 && (area.rows <= S_MR || area.columns < 4 * S_NR))
        s_area(g, &area, NULL);
    else
        s_packed_area(g, &area);
}

static void
s_gemm(const s_gemm_t *g, int threads)
{
    if (g->m <= 0 || g->n <= 0 || (g->depth <= 0 && g->add))
        return;
    threads = g->m * g->n * g->depth < 100000 ? 1 : threads;
    s_cut_t cut = s_cut(g, threads);
    int64_t tasks = cut.down * cut.across;
    if (threads <= 1) {
        for (int64_t task = 0; task < tasks; task++)
            s_task(g, &cut, task);
        return;
    }
    #pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t task = 0; task < tasks; task++)
        s_task(g, &cut, task);
}

void
verl_linear_forward(int64_t m, int64_t n, int64_t k, const float *x, int64_t ldx, verl_weight_t w, const float *bias,
                    bool add, float *y, int64_t ldy, int threads)
{
    s_gemm_t g = { .m = m, .n = n, .depth = k, .a = x, .row_step = ldx, .depth_step = 1, .b = w,
                   .b_transposed = true, .bias = bias, .c = y, .ldc = ldy, .add = add };
    s_gemm(&g, threads);
}

void
verl_linear_backward_input(int64_t m, int64_t n, int64_t k, const float *dy, int64_t lddy, verl_weight_t w, bool add,
                           float *dx, int64_t lddx, int threads)
{
    s_gemm_t g = { .m = m, .n = k, .depth = n, .a = dy, .row_step = lddy, .depth_step = 1, .b = w, .c = dx,
                   .ldc = lddx, .add = add };
    s_gemm(&g, threads);
}

void
verl_linear_backward_weight(int64_t m, int64_t n, int64_t k, const float *dy, int64_t lddy, const float *x,
                            int64_t ldx, float *dw, int64_t lddw, int threads)
{
    s_gemm_t g = { .m = n, .n = k, .depth = m, .a = dy, .row_step = 1, .depth_step = lddy,
                   .b = { .f32 = x, .stride = ldx }, .c = dw, .ldc = lddw, .add = true };
    s_gemm(&g, threads);
}

void
verl_linear_backward_bias(int64_t m, int64_t n, const float *dy, int64_t lddy, float *dbias)
{
    for (int64_t row = 0; row < m; row++)
        for (int64_t out = 0; out < n; out++)
            dbias[out] += dy[row * lddy + out];
}
