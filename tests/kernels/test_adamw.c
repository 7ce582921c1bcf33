// test_adamw.c: the optimizer's pass against its formula in double.
#include "kernels/adamw.h"
#include "kernels/numbers.h"

Test(adamw, steps_as_published)
{
    enum { N = 33 };
    float *p = numbers_new(N, 1, 1), *g = numbers_new(N, 2, 1), *m = numbers_zero(N), *v = numbers_zero(N);
    double x[N], mm[N] = { 0 }, vv[N] = { 0 };
    for (int i = 0; i < N; i++)
        x[i] = (double) p[i];
    for (int step = 1; step <= 20; step++) {
        verl_adamw_t how = { .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .scale = 0.5,
                             .correction1 = 1 - pow(0.9, step), .correction2 = 1 - pow(0.999, step) };
        verl_adamw_step(&how, N, g, m, v, p, 2);
        for (int i = 0; i < N; i++) {
            double d = 0.5 * (double) g[i];
            x[i] -= 0.01 * 0.1 * x[i];
            mm[i] = 0.9 * mm[i] + 0.1 * d;
            vv[i] = 0.999 * vv[i] + 0.001 * d * d;
            x[i] -= 0.01 * (mm[i] / how.correction1) / (sqrt(vv[i] / how.correction2) + 1e-8);
        }
    }
    for (int i = 0; i < N; i++)
        cr_expect_float_eq(p[i], x[i], 2e-6);
    free(p), free(g), free(m), free(v);
}

Test(adamw, sum_of_squares)
{
    const int64_t sizes[] = { 0, 1, 31, 33, 100000, 5000000 };
    for (int i = 0; i < 6; i++) {
        float *x = numbers_new(sizes[i], 3, 1);
        double expected = numbers_dot(x, x, sizes[i]), one = verl_sum_of_squares(sizes[i], x, 1);
        cr_expect_float_eq(one, expected, 1e-9 * (1 + expected));
        cr_expect_eq(verl_sum_of_squares(sizes[i], x, 3), one, "threads change no bit");
        free(x);
    }
}
