// adamw.c: the optimizer's pass over memory.
#include "kernels/adamw.h"
#include <math.h>

enum { S_CHUNK = 4096, S_CHUNKS = 1024 };

static double
s_chunk(int64_t count, const float *x)
{
    double sum = 0;
    #pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += (double) x[i] * (double) x[i];
    return sum;
}

// A chunk is one sum; chunks are added in order, S_CHUNKS at a time.
double
verl_sum_of_squares(int64_t count, const float *x, int threads)
{
    double total = 0, part[S_CHUNKS];
    for (int64_t start = 0; start < count; start += (int64_t) S_CHUNK * S_CHUNKS) {
        int64_t chunks = (count - start + S_CHUNK - 1) / S_CHUNK;
        chunks = chunks < S_CHUNKS ? chunks : S_CHUNKS;
        #pragma omp parallel for num_threads(threads) schedule(static) if(threads > 1 && chunks > 16)
        for (int64_t c = 0; c < chunks; c++) {
            int64_t at = start + c * S_CHUNK;
            part[c] = s_chunk(count - at < S_CHUNK ? count - at : S_CHUNK, x + at);
        }
        for (int64_t c = 0; c < chunks; c++)
            total += part[c];
    }
    return total;
}

void
verl_adamw_step(const verl_adamw_t *how, int64_t count, const float *gradient, float *m, float *v,
                float *params, int threads)
{
    const float b1 = (float) how->beta1, b2 = (float) how->beta2, c1 = (float) (1 - how->beta1);
    const float c2 = (float) (1 - how->beta2), size = (float) (how->lr / how->correction1), eps = (float) how->eps;
    const float root = (float) (1 / sqrt(how->correction2)), decay = (float) (1 - how->lr * how->weight_decay);
    const float scale = (float) how->scale;
    #pragma omp parallel for simd num_threads(threads) schedule(static) if(threads > 1 && count > 30000)
    for (int64_t i = 0; i < count; i++) {
        float g = gradient[i] * scale;
        m[i] = b1 * m[i] + c1 * g;
        v[i] = b2 * v[i] + c2 * g * g;
        params[i] = params[i] * decay - size * m[i] / (sqrtf(v[i]) * root + eps);
    }
}
