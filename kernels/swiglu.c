// swiglu.c: the gated unit of the feed-forward part.
#include "kernels/swiglu.h"
#include "kernels/vector.h"

VERL_INLINE verl_vf
s_sigmoid(verl_vf x)
{
    return 1.0f / (1.0f + verl_vf_exp(-x));
}

VERL_INLINE verl_vf
s_load(const float *from, int64_t count)
{
    return count >= VERL_LANES ? verl_vf_load(from) : verl_vf_load_some(from, count);
}

VERL_INLINE void
s_store(float *to, verl_vf v, int64_t count)
{
    if (count >= VERL_LANES)
        verl_vf_store(to, v);
    else
        verl_vf_store_some(to, v, count);
}

void
verl_swiglu_forward(int64_t rows, int64_t n, const float *gate_up, float *h, int threads)
{
    threads = rows * n < 20000 ? 1 : threads;
    #pragma omp parallel for num_threads(threads) schedule(static) if(threads > 1)
    for (int64_t row = 0; row < rows; row++) {
        const float *gate = gate_up + row * 2 * n, *up = gate + n;
        for (int64_t i = 0; i < n; i += VERL_LANES) {
            verl_vf g = s_load(gate + i, n - i);
            s_store(h + row * n + i, g * s_sigmoid(g) * s_load(up + i, n - i), n - i);
        }
    }
}

void
verl_swiglu_backward(int64_t rows, int64_t n, const float *dh, float *gate_up, int threads)
{
    threads = rows * n < 20000 ? 1 : threads;
    #pragma omp parallel for num_threads(threads) schedule(static) if(threads > 1)
    for (int64_t row = 0; row < rows; row++) {
        float *gate = gate_up + row * 2 * n, *up = gate + n;
        for (int64_t i = 0; i < n; i += VERL_LANES) {
            verl_vf g = s_load(gate + i, n - i), u = s_load(up + i, n - i), d = s_load(dh + row * n + i, n - i);
            verl_vf s = s_sigmoid(g);
            s_store(gate + i, d * u * s * (1.0f + g * (1.0f - s)), n - i);
            s_store(up + i, d * g * s, n - i);
        }
    }
}
