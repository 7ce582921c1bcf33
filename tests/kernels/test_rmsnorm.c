// test_rmsnorm.c: the norm against its formula, and its gradients against differences.
#include "kernels/numbers.h"
#include "kernels/rmsnorm.h"

static void
s_check_forward(int64_t n)
{
    enum { ROWS = 3 };
    float *x = numbers_new(ROWS * n, 1, 2), *w = numbers_new(n, 2, 1), *y = numbers_zero(ROWS * n);
    verl_rmsnorm_forward(ROWS, 1, n, 1e-5, x, n, w, y, n, 2);
    for (int64_t row = 0; row < ROWS; row++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += (double) x[row * n + i] * (double) x[row * n + i];
        for (int64_t i = 0; i < n; i++) {
            double expected = (double) x[row * n + i] / sqrt(sum / (double) n + 1e-5) * (double) w[i];
            cr_expect_float_eq(y[row * n + i], expected, 2e-6, "n %lld, [%lld]", (long long) n, (long long) i);
        }
    }
    free(x), free(w), free(y);
}

Test(rmsnorm, forward)
{
    const int64_t sizes[] = { 1, 31, 33, 128 };
    for (int i = 0; i < 4; i++)
        s_check_forward(sizes[i]);
}

enum { ROWS = 2, GROUPS = 3, N = 11, LD = GROUPS * N + 2 };

typedef struct {
    float x[ROWS * LD], w[N], up[ROWS * LD];
} s_case_t;

static double
s_loss(void *context)
{
    const s_case_t *c = context;
    float y[ROWS * LD] = { 0 };
    verl_rmsnorm_forward(ROWS, GROUPS, N, 1e-3, c->x, LD, c->w, y, LD, 1);
    double sum = 0;
    for (int row = 0; row < ROWS; row++)
        sum += numbers_dot(y + row * LD, c->up + row * LD, GROUPS * N);
    return sum;
}

Test(rmsnorm, backward)
{
    s_case_t c;
    float *x = numbers_new(ROWS * LD, 4, 1), *w = numbers_new(N, 5, 1), *up = numbers_new(ROWS * LD, 6, 1);
    memcpy(c.x, x, sizeof c.x);
    memcpy(c.w, w, sizeof c.w);
    memcpy(c.up, up, sizeof c.up);
    float dx[ROWS * LD] = { 0 }, dw[N] = { 0 };
    verl_rmsnorm_backward(ROWS, GROUPS, N, 1e-3, c.x, LD, c.w, c.up, LD, true, dx, LD, 2);
    verl_rmsnorm_backward_weight(ROWS, GROUPS, N, 1e-3, c.x, LD, c.up, LD, dw);
    numbers_check_gradient(c.x, dx, ROWS * LD, 1e-2, 2e-3, s_loss, &c, "dx");
    numbers_check_gradient(c.w, dw, N, 1e-2, 2e-3, s_loss, &c, "dw");
    float in_place[ROWS * LD];
    memcpy(in_place, c.up, sizeof in_place);
    verl_rmsnorm_backward(ROWS, GROUPS, N, 1e-3, c.x, LD, c.w, in_place, LD, false, in_place, LD, 2);
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < GROUPS * N; i++)
            cr_expect_float_eq(in_place[row * LD + i], dx[row * LD + i], 1e-6);
    free(x), free(w), free(up);
}
