// attention_backward.c: gradients of queries, keys and values, from the probabilities computed again.
//
// Keys collect gradients from all rows of their tree, so a task is a whole tree for one key head, and goes through
// its tiles in order. With p the probabilities, dp = d_out v, the scores' gradient is p (dp - d_out . out).
#include <math.h>
#include "kernels/attention_private.h"
#include "kernels/linear.h"
#include "kernels/vector.h"

typedef struct {
    const verl_attention_t *shape;
    const verl_attention_plan_t *plan;
    const verl_attention_tile_t *tile;
    const float *q, *k, *v, *d_out;         // row 0's vectors of this head
    float *d_q, *d_k, *d_v;
    const float *lse;                       // row 0's
    float inner[VERL_ATTENTION_ROWS];       // d_out . out
    float p[VERL_ATTENTION_ROWS * VERL_ATTENTION_KEYS], d_p[VERL_ATTENTION_ROWS * VERL_ATTENTION_KEYS];
} s_work_t;

// Scores become probabilities, and d_p the gradient of the unscaled scores; both 0 where masked.
static void
s_row(s_work_t *w, const verl_attention_block_t *block, int64_t i)
{
    float *p = w->p + i * VERL_ATTENTION_KEYS, *d = w->d_p + i * VERL_ATTENTION_KEYS, scale = w->shape->scale;
    int64_t low, high, row = w->tile->row + i;
    verl_vf lse = verl_vf_all(-w->lse[row * w->shape->heads]);
    verl_attention_visible(w->plan, block, row, &low, &high);
    for (int64_t j = 0; j < high; j += VERL_LANES) {
        int64_t count = block->keys - j < VERL_LANES ? block->keys - j : VERL_LANES;
        verl_vf pj = verl_vf_exp(verl_vf_fma(verl_vf_load_some(p + j, count), verl_vf_all(scale), lse));
        verl_vf dj = pj * (verl_vf_load_some(d + j, count) - w->inner[i]) * scale;
        verl_vf_store_some(p + j, pj, count);
        verl_vf_store_some(d + j, dj, count);
    }
    for (int64_t j = 0; j < low; j++)
        p[j] = d[j] = 0;
    for (int64_t j = high; j < block->keys; j++)
        p[j] = d[j] = 0;
}

static void
s_visit(void *context, const verl_attention_block_t *block)
{
    s_work_t *w = context;
    const verl_attention_t *s = w->shape;
    int64_t rows = w->tile->rows, row = w->tile->row, hd = s->head_dim, ld = s->ld, ldo = s->heads * hd;
    int64_t keys = block->keys, at = block->start * ld;
    const float *q = w->q + row * ld, *d_out = w->d_out + row * ldo;
    verl_weight_t k = { .f32 = w->k + at, .stride = ld }, v = { .f32 = w->v + at, .stride = ld };
    verl_linear_forward(rows, keys, hd, q, ld, k, NULL, false, w->p, VERL_ATTENTION_KEYS, 1);
    verl_linear_forward(rows, keys, hd, d_out, ldo, v, NULL, false, w->d_p, VERL_ATTENTION_KEYS, 1);
    for (int64_t i = 0; i < rows; i++)
        s_row(w, block, i);
    verl_linear_backward_weight(rows, keys, hd, w->p, VERL_ATTENTION_KEYS, d_out, ldo, false, w->d_v + at, ld, 1);
    verl_linear_backward_weight(rows, keys, hd, w->d_p, VERL_ATTENTION_KEYS, q, ld, false, w->d_k + at, ld, 1);
    verl_linear_backward_input(rows, keys, hd, w->d_p, VERL_ATTENTION_KEYS, k, true, w->d_q + row * ld, ld, 1);
}

static void
s_inner(s_work_t *w, const float *out)
{
    int64_t hd = w->shape->head_dim, ldo = w->shape->heads * hd;
    for (int64_t i = 0; i < w->tile->rows; i++) {
        const float *o = out + (w->tile->row + i) * ldo, *d = w->d_out + (w->tile->row + i) * ldo;
        verl_vf sum = { 0 };
        for (int64_t j = 0; j < hd; j += VERL_LANES) {
            int64_t count = hd - j < VERL_LANES ? hd - j : VERL_LANES;
            sum = verl_vf_fma(verl_vf_load_some(o + j, count), verl_vf_load_some(d + j, count), sum);
        }
        w->inner[i] = verl_vf_sum(sum);
    }
}

typedef struct {
    const float *qkv, *out, *lse, *d_out;
    float *d_qkv;
} s_arrays_t;

static void
s_clear(const verl_attention_t *s, const verl_attention_tile_t *tile, int64_t kv_head, float *d_qkv)
{
    int64_t group = s->heads / s->kv_heads, hd = s->head_dim;
    for (int64_t row = tile->row; row < tile->row + tile->rows; row++) {
        float *d = d_qkv + row * s->ld;
        memset(d + kv_head * group * hd, 0, (size_t) (group * hd) * sizeof(float));
        memset(d + (s->heads + kv_head) * hd, 0, (size_t) hd * sizeof(float));
        memset(d + (s->heads + s->kv_heads + kv_head) * hd, 0, (size_t) hd * sizeof(float));
    }
}

static void
s_tree(const verl_attention_t *s, const verl_attention_plan_t *plan, int64_t tree, int64_t kv_head,
       const s_arrays_t *a)
{
    int64_t group = s->heads / s->kv_heads, hd = s->head_dim, k = (s->heads + kv_head) * hd, v = k + s->kv_heads * hd;
    for (int64_t t = plan->trees[tree]; t < plan->trees[tree + 1]; t++)
        s_clear(s, &plan->tiles[t], kv_head, a->d_qkv);
    for (int64_t t = plan->trees[tree]; t < plan->trees[tree + 1]; t++)
        for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
            s_work_t w;
            w.shape = s, w.plan = plan, w.tile = &plan->tiles[t];
            w.q = a->qkv + head * hd, w.k = a->qkv + k, w.v = a->qkv + v, w.d_out = a->d_out + head * hd;
            w.d_q = a->d_qkv + head * hd, w.d_k = a->d_qkv + k, w.d_v = a->d_qkv + v, w.lse = a->lse + head;
            s_inner(&w, a->out + head * hd);
            verl_attention_blocks(plan, w.tile, s_visit, &w);
        }
}

void
verl_attention_backward(const verl_attention_t *shape, const verl_attention_plan_t *plan, const float *qkv,
                        const float *out, const float *lse, const float *d_out, float *d_qkv, int threads)
{
    int64_t tasks = plan->tree_count * shape->kv_heads;
    const s_arrays_t arrays = { .qkv = qkv, .out = out, .lse = lse, .d_out = d_out, .d_qkv = d_qkv };
    threads = tasks < 2 ? 1 : threads;
    #pragma omp parallel for num_threads(threads) schedule(dynamic) if(threads > 1)
    for (int64_t task = 0; task < tasks; task++)
        s_tree(shape, plan, task / shape->kv_heads, task % shape->kv_heads, &arrays);
}
