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
enum { S_NR = 2 * VERL_LANES, S_DEPTH = 256, S_MC = 192, S_NC = 12 * S_NR, S_FEW = 24 };

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

VERL_INLINE verl_vf
s_load(const verl_weight_t *w, int64_t at, int64_t count)
{
    if (w->f32)
        return count >= VERL_LANES ? verl_vf_load(w->f32 + at) : verl_vf_load_some(w->f32 + at, count);
    return count >= VERL_LANES ? verl_vf_load_bf16(w->bf16 + at) : verl_vf_load_bf16_some(w->bf16 + at, count);
}

VERL_INLINE float
s_load_one(const verl_weight_t *w, int64_t at)
{
    return w->f32 ? w->f32[at] : verl_vf_load_bf16_some(w->bf16 + at, 1)[0];
}

// One panel: columns [begin, begin + columns) of rows [d0, d0 + depth) of B; missing columns are 0.
static void
s_pack_rows(const s_gemm_t *g, int64_t d0, int64_t depth, int64_t begin, int64_t columns, float *to)
{
    for (int64_t d = 0; d < depth; d++, to += S_NR) {
        int64_t at = (d0 + d) * g->b.stride + begin;
        verl_vf_store(to, s_load(&g->b, at, columns));
        int64_t rest = columns > VERL_LANES ? columns - VERL_LANES : 0;
        verl_vf_store(to + VERL_LANES, s_load(&g->b, at + VERL_LANES * (rest > 0), rest));
    }
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
    for (int64_t j = 0; j < S_NR; j += 8) {
        int64_t at = (begin + j) * g->b.stride + d0;
        if (j + 8 <= columns && g->b.f32)
            s_pack_eight(&g->b, false, at, depth, to + j);
        else if (j + 8 <= columns)
            s_pack_eight(&g->b, true, at, depth, to + j);
        else
            for (int64_t d = 0; d < depth; d++)
                for (int64_t i = 0; i < 8; i++)
                    to[d * S_NR + j + i] = j + i < columns ? s_load_one(&g->b, at + i * g->b.stride + d) : 0.0f;
    }
}

// Rows [begin, begin + rows) of an A whose rows are adjacent, as panels of S_MR rows, depth by depth.
static void
s_pack_a(const s_gemm_t *g, int64_t d0, int64_t depth, int64_t begin, int64_t rows, float *to)
{
    for (int64_t i = 0; i < rows; i += S_MR) {
        int64_t height = rows - i < S_MR ? rows - i : S_MR;
        for (int64_t d = 0; d < depth; d++, to += S_MR) {
            const float *from = g->a + (d0 + d) * g->depth_step + begin + i;
            if (height == S_MR)
                memcpy(to, from, S_MR * sizeof(float));
            else
                memcpy(to, from, (size_t)height * sizeof(float));
        }
    }
}

// --- One area of C ---

typedef struct {
    int64_t depth;
    const float *a;                         // the area's first row
    int64_t row_step, depth_step, panel_step;
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

// Depth by depth; a panel of B is packed just before its use, and stays in the first-level cache.
static void
s_area(const s_gemm_t *g, const s_area_t *area, float *packed_a)
{
    float packed_b[S_DEPTH * S_NR] __attribute__((aligned(64)));
    for (int64_t d0 = 0; d0 < g->depth || d0 == 0; d0 += S_DEPTH) {
        int64_t depth = g->depth - d0 < S_DEPTH ? g->depth - d0 : S_DEPTH;
        if (packed_a)
            s_pack_a(g, d0, depth, area->row, area->rows, packed_a);
        for (int64_t j = 0; j < area->columns; j += S_NR) {
            int64_t column = area->column + j, columns = area->columns - j < S_NR ? area->columns - j : S_NR;
            (g->b_transposed ? s_pack_columns : s_pack_rows)(g, d0, depth, column, columns, packed_b);
            s_panel_t p = { .depth = depth, .a = packed_a, .row_step = 1, .depth_step = S_MR,
                            .panel_step = depth * S_MR, .b = packed_b, .c = g->c + area->row * g->ldc + column,
                            .ldc = g->ldc, .bias = g->bias && d0 == 0 ? g->bias + column : NULL, .rows = area->rows,
                            .columns = columns, .add = g->add || d0 > 0 };
            if (packed_a) {
                s_panel(&p, 1, S_MR);
            } else {
                p.a = g->a + area->row * g->row_step + d0;
                p.panel_step = S_MR * g->row_step;
                s_panel(&p, g->row_step, 1);
            }
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
    float packed_a[S_DEPTH * S_MC] __attribute__((aligned(64)));
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
    else if (g->depth_step == 1)
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
