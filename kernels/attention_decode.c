// attention_decode.c: attention of one new query a row over cached keys and values.
#include <math.h>
#include "kernels/attention.h"
#include "kernels/vector.h"

enum { S_KEYS = 64 };                       // of one block; a multiple of the lanes

// One head of one row.
typedef struct {
    int64_t head_dim, ld;                   // ld: of the cache
    const float *q;
    float *out, scale, top, sum;
} s_query_t;

static float
s_dot(int64_t n, const float *a, const float *b)
{
    verl_vf sum = { 0 };
    int64_t i = 0;
    for (; i + VERL_LANES <= n; i += VERL_LANES)
        sum = verl_vf_fma(verl_vf_load(a + i), verl_vf_load(b + i), sum);
    if (i < n)
        sum = verl_vf_fma(verl_vf_load_some(a + i, n - i), verl_vf_load_some(b + i, n - i), sum);
    return verl_vf_sum(sum);
}

// out += sum over keys of p[key] * v[key], one chain of multiply-adds for each place.
static void
s_add_values(const s_query_t *s, const float *p, const float *v, int64_t keys)
{
    int64_t i = 0;
    for (; i + 4 * VERL_LANES <= s->head_dim; i += 4 * VERL_LANES) {
        verl_vf sum[4];
        for (int c = 0; c < 4; c++)
            sum[c] = verl_vf_load(s->out + i + c * VERL_LANES);
        for (int64_t j = 0; j < keys; j++)
            for (int c = 0; c < 4; c++)
                sum[c] = verl_vf_fma(verl_vf_all(p[j]), verl_vf_load(v + j * s->ld + i + c * VERL_LANES), sum[c]);
        for (int c = 0; c < 4; c++)
            verl_vf_store(s->out + i + c * VERL_LANES, sum[c]);
    }
    for (; i < s->head_dim; i += VERL_LANES) {
        int64_t count = s->head_dim - i < VERL_LANES ? s->head_dim - i : VERL_LANES;
        verl_vf sum = verl_vf_load_some(s->out + i, count);
        for (int64_t j = 0; j < keys; j++)
            sum = verl_vf_fma(verl_vf_all(p[j]), verl_vf_load_some(v + j * s->ld + i, count), sum);
        verl_vf_store_some(s->out + i, sum, count);
    }
}

static void
s_block(s_query_t *s, const float *k, const float *v, int64_t keys)
{
    float p[S_KEYS], best = -INFINITY;
    for (int64_t j = 0; j < keys; j++) {
        p[j] = s_dot(s->head_dim, s->q, k + j * s->ld) * s->scale;
        best = p[j] > best ? p[j] : best;
    }
    for (int64_t j = keys; j < S_KEYS && j % VERL_LANES; j++)
        p[j] = -INFINITY;
    if (best > s->top) {
        float shrink = expf(s->top - best);
        for (int64_t i = 0; i < s->head_dim; i++)
            s->out[i] *= shrink;
        s->sum *= shrink;
        s->top = best;
    }
    verl_vf sum = { 0 };
    for (int64_t j = 0; j < keys; j += VERL_LANES) {
        verl_vf e = verl_vf_exp(verl_vf_load(p + j) - s->top);
        verl_vf_store(p + j, e);
        sum += e;
    }
    s->sum += verl_vf_sum(sum);
    s_add_values(s, p, v, keys);
}

static void
s_row(const verl_attention_t *shape, const float *q, const verl_span_t spans[2], const float *cache, int64_t head,
      float *out)
{
    int64_t hd = shape->head_dim, kv_head = head / (shape->heads / shape->kv_heads);
    s_query_t s = { .head_dim = hd, .ld = 2 * shape->kv_heads * hd, .q = q + head * hd, .out = out + head * hd,
                    .scale = shape->scale, .top = -INFINITY };
    memset(s.out, 0, (size_t) hd * sizeof(float));
    for (int i = 0; i < 2; i++)
        for (int64_t done = 0; done < spans[i].length; done += S_KEYS) {
            int64_t keys = spans[i].length - done < S_KEYS ? spans[i].length - done : S_KEYS;
            const float *k = cache + (spans[i].start + done) * s.ld + kv_head * hd;
            s_block(&s, k, k + shape->kv_heads * hd, keys);
        }
    for (int64_t i = 0; i < hd; i++)
        s.out[i] /= s.sum;
}

void
verl_attention_decode(const verl_attention_t *shape, int64_t rows, const float *q, int64_t ldq,
                      const verl_span_t (*spans)[2], const float *cache, float *out, int threads)
{
    int64_t tasks = rows * shape->heads, keys = rows > 0 ? spans[0][0].length + spans[0][1].length : 0;
    threads = tasks * keys * shape->head_dim < 50000 ? 1 : threads;
    #pragma omp parallel for num_threads(threads) schedule(static) if(threads > 1)
    for (int64_t task = 0; task < tasks; task++) {
        int64_t row = task / shape->heads;
        s_row(shape, q + row * ldq, spans[row], cache, task % shape->heads, out + row * shape->heads * shape->head_dim);
    }
}
