// linear.c: y = x W^T, dx = dy W and dW += dy^T x as one matrix product, cut into areas that threads share out.
//
// C[m, n] = A B over blocks of VERL_DEPTH in the summed dimension. Within a block each element of dx and dW is one
// chain in order, and of y VERL_CHAINS chains, added in order; so are blocks. Areas of C are independent tasks. So
// neither threads, nor the size of areas, nor the number of rows change a bit of any element.
#include "kernels/linear_private.h"

enum {
    S_COLUMNS = 24 * VERL_TILE_OUTS,        // of an area
    S_FEW = 24,                             // rows that are so few that packing W is the cost
    S_STREAMED = 3                          // so few that reading W is
};

typedef struct {
    int64_t mc, nc, down, across;
} s_cut_t;

static bool
s_streams(const verl_product_t *g)
{
    return g->b_transposed && g->m <= S_STREAMED;
}

// Two areas a thread, each as wide as can be.
static s_cut_t
s_cut_streams(const verl_product_t *g, int threads)
{
    int64_t areas = threads <= 1 ? 1 : 2 * threads, nc = (g->n + 8 * areas - 1) / (8 * areas) * 8;
    return (s_cut_t){ .mc = g->m, .nc = nc, .down = 1, .across = (g->n + nc - 1) / nc };
}

// Areas shrink until each thread has some; a few rows take one panel at a time, so that W is read as it lies.
static s_cut_t
s_cut(const verl_product_t *g, int threads)
{
    if (s_streams(g))
        return s_cut_streams(g, threads);
    s_cut_t cut = { .mc = VERL_AREA_ROWS, .nc = g->m <= S_FEW ? VERL_TILE_OUTS : S_COLUMNS };
    for (;;) {
        cut.down = (g->m + cut.mc - 1) / cut.mc;
        cut.across = (g->n + cut.nc - 1) / cut.nc;
        if (threads <= 1 || cut.down * cut.across >= 2 * threads)
            return cut;
        if (cut.nc > VERL_TILE_OUTS)
            cut.nc = (cut.nc / 2 + VERL_TILE_OUTS - 1) / VERL_TILE_OUTS * VERL_TILE_OUTS;
        else if (cut.mc > 2 * VERL_TILE_ROWS)
            cut.mc = (cut.mc / 2 + VERL_TILE_ROWS - 1) / VERL_TILE_ROWS * VERL_TILE_ROWS;
        else
            return cut;
    }
}

static void
s_task(const verl_product_t *g, const s_cut_t *cut, int64_t task)
{
    int64_t row = task % cut->down * cut->mc, column = task / cut->down * cut->nc;
    verl_product_area_t area = { .row = row, .rows = g->m - row < cut->mc ? g->m - row : cut->mc,
                      .column = column, .columns = g->n - column < cut->nc ? g->n - column : cut->nc };
    if (s_streams(g)) {
        verl_product_area_t streamed = area;
        streamed.columns -= streamed.columns % 8;
        verl_product_area_row(g, &streamed);
        area.column += streamed.columns;
        area.columns -= streamed.columns;
    }
    if (area.columns > 0)
        (g->pairs ? verl_product_area_pairs : verl_product_area_f32)(g, &area);
}

static void
s_gemm(const verl_product_t *g, int threads)
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
    verl_product_t g = { .m = m, .n = n, .depth = k, .a = x, .row_step = ldx, .depth_step = 1, .b = w,
                   .b_transposed = true, .pairs = VERL_PAIRS && !w.f32, .bias = bias, .c = y, .ldc = ldy, .add = add };
    s_gemm(&g, threads);
}

void
verl_linear_backward_input(int64_t m, int64_t n, int64_t k, const float *dy, int64_t lddy, verl_weight_t w, bool add,
                           float *dx, int64_t lddx, int threads)
{
    verl_product_t g = { .m = m, .n = k, .depth = n, .a = dy, .row_step = lddy, .depth_step = 1, .b = w,
                   .pairs = VERL_PAIRS && !w.f32, .c = dx, .ldc = lddx, .add = add };
    s_gemm(&g, threads);
}

void
verl_linear_backward_weight(int64_t m, int64_t n, int64_t k, const float *dy, int64_t lddy, const float *x,
                            int64_t ldx, bool bf16, float *dw, int64_t lddw, int threads)
{
    verl_product_t g = { .m = n, .n = k, .depth = m, .a = dy, .row_step = 1, .depth_step = lddy,
                   .b = { .f32 = x, .stride = ldx }, .pairs = VERL_PAIRS && bf16, .c = dw, .ldc = lddw, .add = true };
    s_gemm(&g, threads);
}

void
verl_linear_backward_bias(int64_t m, int64_t n, const float *dy, int64_t lddy, float *dbias)
{
    for (int64_t row = 0; row < m; row++)
        for (int64_t out = 0; out < n; out++)
            dbias[out] += dy[row * lddy + out];
}
