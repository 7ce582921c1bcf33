// test_swiglu.c: the gated unit against its formula, and its gradient against differences.
#include "kernels/numbers.h"
#include "kernels/swiglu.h"

static void
s_check(int64_t rows, int64_t n, double scale)
{
    float *x = numbers_new(rows * 2 * n, 1, scale), *h = numbers_zero(rows * n);
    verl_swiglu_forward(rows, n, x, h, 2);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < n; i++) {
            double g = (double) x[row * 2 * n + i], u = (double) x[row * 2 * n + n + i];
            double expected = g / (1 + exp(-g)) * u;
            cr_expect_float_eq(h[row * n + i], expected, 1e-6 + 1e-6 * fabs(expected), "%g %g", g, u);
        }
    free(x), free(h);
}

Test(swiglu, forward)
{
    s_check(1, 1, 1);
    s_check(3, 31, 5);
    s_check(2, 33, 30);
    s_check(1, 8, 300);
    s_check(0, 5, 1);
    s_check(40, 1024, 3);
}

enum { ROWS = 2, N = 13 };

typedef struct {
    float x[ROWS * 2 * N], up[ROWS * N];
} s_case_t;

static double
s_loss(void *context)
{
    const s_case_t *c = context;
    float h[ROWS * N];
    verl_swiglu_forward(ROWS, N, c->x, h, 1);
    return numbers_dot(h, c->up, ROWS * N);
}

Test(swiglu, backward)
{
    s_case_t c;
    float *x = numbers_new(ROWS * 2 * N, 2, 3), *up = numbers_new(ROWS * N, 3, 1);
    memcpy(c.x, x, sizeof c.x);
    memcpy(c.up, up, sizeof c.up);
    verl_swiglu_backward(ROWS, N, c.up, x, 2);
    numbers_check_gradient(c.x, x, ROWS * 2 * N, 1e-2, 2e-3, s_loss, &c, "gate and up");
    free(x), free(up);
}
