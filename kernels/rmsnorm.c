// rmsnorm.c: root-mean-square normalisation. The inverse root is computed again in backward instead of being stored.
#include "kernels/rmsnorm.h"
#include <math.h>
#include "kernels/vector.h"

static float
s_inverse_root(int64_t n, double eps, const float *x)
{
    verl_vf sum = { 0 };
    int64_t i = 0;
    for (; i + VERL_LANES <= n; i += VERL_LANES) {
        verl_vf v = verl_vf_load(x + i);
        sum = verl_vf_fma(v, v, sum);
    }
    if (i < n) {
        verl_vf v = verl_vf_load_some(x + i, n - i);
        sum = verl_vf_fma(v, v, sum);
    }
    return (float) (1.0 / sqrt((double) verl_vf_sum(sum) / (double) n + eps));
}

void
verl_rmsnorm_forward(int64_t rows, int64_t groups, int64_t n, double eps, const float *x, int64_t ldx,
                     const float *w, float *y, int64_t ldy, int threads)
{
    threads = rows * groups * n < 50000 ? 1 : threads;
    #pragma omp parallel for num_threads(threads) schedule(static) if(threads > 1)
    for (int64_t row = 0; row < rows; row++)
        for (int64_t g = 0; g < groups; g++) {
            const float *from = x + row * ldx + g * n;
            float *to = y + row * ldy + g * n, inverse = s_inverse_root(n, eps, from);
            for (int64_t i = 0; i < n; i++)
                to[i] = from[i] * inverse * w[i];
        }
}

// dx = r (dy w - x r^2 mean(dy w x)), r the inverse root.
static void
s_backward_one(int64_t n, double eps, const float *x, const float *w, const float *dy, bool add, float *dx)
{
    float r = s_inverse_root(n, eps, x);
    verl_vf sum = { 0 };
    int64_t i = 0;
    for (; i + VERL_LANES <= n; i += VERL_LANES)
        sum = verl_vf_fma(verl_vf_load(dy + i) * verl_vf_load(w + i), verl_vf_load(x + i), sum);
    if (i < n)
        sum = verl_vf_fma(verl_vf_load_some(dy + i, n - i) * verl_vf_load_some(w + i, n - i),
                          verl_vf_load_some(x + i, n - i), sum);
    float c = verl_vf_sum(sum) * r * r / (float) n;
    if (add)
        for (i = 0; i < n; i++)
            dx[i] += r * (dy[i] * w[i] - x[i] * c);
    else
        for (i = 0; i < n; i++)
            dx[i] = r * (dy[i] * w[i] - x[i] * c);
}

void
verl_rmsnorm_backward_weight(int64_t rows, int64_t groups, int64_t n, double eps, const float *x, int64_t ldx,
                             const float *dy, int64_t lddy, float *dw)
{
    for (int64_t row = 0; row < rows; row++)
        for (int64_t g = 0; g < groups; g++) {
            const float *xs = x + row * ldx + g * n, *ds = dy + row * lddy + g * n;
            float r = s_inverse_root(n, eps, xs);
            for (int64_t i = 0; i < n; i++)
                dw[i] += ds[i] * xs[i] * r;
        }
}

void
verl_rmsnorm_backward(int64_t rows, int64_t groups, int64_t n, double eps, const float *x, int64_t ldx,
                      const float *w, const float *dy, int64_t lddy, bool add, float *dx, int64_t lddx, int threads)
{
    threads = rows * groups * n < 50000 ? 1 : threads;
    #pragma omp parallel for num_threads(threads) schedule(static) if(threads > 1)
    for (int64_t row = 0; row < rows; row++)
        for (int64_t g = 0; g < groups; g++)
            s_backward_one(n, eps, x + row * ldx + g * n, w, dy + row * lddy + g * n, add, dx + row * lddx + g * n);
}
