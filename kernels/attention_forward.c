// attention_forward.c: attention of tiles of queries, block of keys by block of keys.
#include <math.h>
#include "kernels/attention_private.h"
#include "kernels/linear.h"
#include "kernels/vector.h"

// One head of one tile.
typedef struct {
    const verl_attention_t *shape;
    const verl_attention_plan_t *plan;
    const verl_attention_tile_t *tile;
    const float *q, *k, *v;                 // row 0's vectors of this head
    float *out;                             // likewise
    float top[VERL_ATTENTION_ROWS], sum[VERL_ATTENTION_ROWS];
    float scores[VERL_ATTENTION_ROWS * VERL_ATTENTION_KEYS];
} s_work_t;

// Sets what is masked, and the places up to a whole vector, to minus infinity. Returns the largest of the others.
static float
s_mask(float *score, int64_t keys, int64_t low, int64_t high)
{
    int64_t padded = (keys + VERL_LANES - 1) / VERL_LANES * VERL_LANES;
    for (int64_t j = 0; j < low; j++)
        score[j] = -INFINITY;
    for (int64_t j = high; j < padded; j++)
        score[j] = -INFINITY;
    verl_vf top = verl_vf_all(-INFINITY);
    for (int64_t j = 0; j < padded; j += VERL_LANES)
        top = verl_vf_max(verl_vf_load(score + j), top);
    float best = top[0];
    for (int i = 1; i < VERL_LANES; i++)
        best = top[i] > best ? top[i] : best;
    return best;
}

// Scores become exp(scale * score - top); returns their sum.
static float
s_exponentials(float *score, int64_t keys, float scale, float top)
{
    verl_vf sum = { 0 };
    for (int64_t j = 0; j < keys; j += VERL_LANES) {
        verl_vf p = verl_vf_exp(verl_vf_fma(verl_vf_load(score + j), verl_vf_all(scale), verl_vf_all(-top)));
        verl_vf_store(score + j, p);
        sum += p;
    }
    return verl_vf_sum(sum);
}

static void
s_softmax_row(s_work_t *w, const verl_attention_block_t *block, int64_t i)
{
    float *score = w->scores + i * VERL_ATTENTION_KEYS;
    int64_t low, high, head_dim = w->shape->head_dim, row = w->tile->row + i;
    verl_attention_visible(w->plan, block, row, &low, &high);
    float best = s_mask(score, block->keys, low, high) * w->shape->scale;
    if (low == high) {
        memset(score, 0, (size_t) block->keys * sizeof(float));
        return;
    }
    if (best > w->top[i]) {
        float shrink = expf(w->top[i] - best), *out = w->out + row * w->shape->heads * head_dim;
        for (int64_t d = 0; d < head_dim; d++)
            out[d] *= shrink;
        w->sum[i] *= shrink;
        w->top[i] = best;
    }
    w->sum[i] += s_exponentials(score, block->keys, w->shape->scale, w->top[i]);
}

static void
s_visit(void *context, const verl_attention_block_t *block)
{
    s_work_t *w = context;
    const verl_attention_t *s = w->shape;
    int64_t rows = w->tile->rows, row = w->tile->row, ldo = s->heads * s->head_dim;
    verl_weight_t keys = { .f32 = w->k + block->start * s->ld, .stride = s->ld };
    verl_weight_t values = { .f32 = w->v + block->start * s->ld, .stride = s->ld };
    verl_linear_forward(rows, block->keys, s->head_dim, w->q + row * s->ld, s->ld, keys, NULL, false, w->scores,
                        VERL_ATTENTION_KEYS, 1);
    for (int64_t i = 0; i < rows; i++)
        s_softmax_row(w, block, i);
    verl_linear_backward_input(rows, block->keys, s->head_dim, w->scores, VERL_ATTENTION_KEYS, values, true,
                               w->out + row * ldo, ldo, 1);
}

static void
s_head(s_work_t *w, int64_t head, float *lse)
{
    int64_t head_dim = w->shape->head_dim, heads = w->shape->heads;
    for (int64_t i = 0; i < w->tile->rows; i++) {
        w->top[i] = -INFINITY;
        w->sum[i] = 0;
        memset(w->out + (w->tile->row + i) * heads * head_dim, 0, (size_t) head_dim * sizeof(float));
    }
    verl_attention_blocks(w->plan, w->tile, s_visit, w);
    for (int64_t i = 0; i < w->tile->rows; i++) {
        float *out = w->out + (w->tile->row + i) * heads * head_dim, inverse = 1.0f / w->sum[i];
        for (int64_t d = 0; d < head_dim; d++)
            out[d] *= inverse;
        if (lse)
            lse[(w->tile->row + i) * heads + head] = w->top[i] + logf(w->sum[i]);
    }
}

void
verl_attention_forward(const verl_attention_t *shape, const verl_attention_plan_t *plan, const float *qkv,
                       float *out, float *lse, int threads)
{
    int64_t tasks = plan->tile_count * shape->heads, group = shape->heads / shape->kv_heads, hd = shape->head_dim;
    threads = tasks < 8 ? 1 : threads;
    #pragma omp parallel for num_threads(threads) schedule(dynamic, 4) if(threads > 1)
    for (int64_t task = 0; task < tasks; task++) {
        int64_t head = task % shape->heads;
        s_work_t w;                         // its large arrays are written before they are read
        w.shape = shape, w.plan = plan, w.tile = &plan->tiles[plan->trees[0] + task / shape->heads];
        w.q = qkv + head * hd, w.k = qkv + (shape->heads + head / group) * hd, w.v = w.k + shape->kv_heads * hd;
        w.out = out + head * hd;
        s_head(&w, head, lse);
    }
}
