// backward.c: gradients of all parameters from the gradient of the hidden states.
//
// Layer by layer from the last: first the gradient's way down through the layer, where threads take whole chunks of
// rows; then the gradients of its parameters, each a sum over all rows in order, where threads take blocks of outputs.
// What is cheap is computed again (norms, the gated unit, with TRAIN_RECOMPUTE a whole layer).
#include <string.h>
#include "actors/lm/model_private.h"
#include "kernels/embedding.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"

// --- Down through a layer, on one chunk ---

typedef struct {
    const verl_lm_t *lm;
    const verl_lm_tape_t *tape;
    int64_t layer;
    int64_t row, rows;
    int threads;
} s_way_t;

// Rows of the chunk in an array of so many floats a row.
static float *
s_at(const s_way_t *w, float *array, int64_t width)
{
    return array + w->row * width;
}

// dx = dy W for one of the layer's products.
static void
s_through(const s_way_t *w, int product, int64_t inputs, int64_t lddy, const float *dy, float *dx)
{
    verl_lm_piece_t pieces[3];
    int count = verl_lm_pieces(w->lm, w->layer, product, pieces);
    for (int i = 0; i < count; i++) {
        verl_linear_backward_input(w->rows, pieces[i].outputs, inputs, dy, lddy,
                                   verl_lm_weight(w->lm, pieces[i].weight, inputs), i > 0, dx, inputs, w->threads);
        dy += pieces[i].outputs;
    }
}

// d_x as a product takes it: rounded.
static const float *
s_keep_rounded(const s_way_t *w, float *kept)
{
    int64_t hidden = w->lm->config.hidden_size;
    memcpy(s_at(w, kept, hidden), s_at(w, w->tape->d_x, hidden), (size_t) (w->rows * hidden) * sizeof(float));
    verl_lm_round(w->lm, w->rows * hidden, s_at(w, kept, hidden), w->threads);
    return s_at(w, kept, hidden);
}

static void
s_normed_again(const s_way_t *w, int64_t offset, float *x, float *normed)
{
    int64_t hidden = w->lm->config.hidden_size;
    verl_rmsnorm_forward(w->rows, 1, hidden, w->lm->config.norm_eps, s_at(w, x, hidden), hidden,
                         w->lm->params + offset, s_at(w, normed, hidden), hidden, w->threads);
    verl_lm_round(w->lm, w->rows * hidden, s_at(w, normed, hidden), w->threads);
}

// d_x += what comes through a norm of x.
static void
s_through_norm(const s_way_t *w, int64_t offset, float *x, float *d_normed)
{
    int64_t hidden = w->lm->config.hidden_size;
    verl_rmsnorm_backward(w->rows, 1, hidden, w->lm->config.norm_eps, s_at(w, x, hidden), hidden,
                          w->lm->params + offset, s_at(w, d_normed, hidden), hidden, true,
                          s_at(w, w->tape->d_x, hidden), hidden, w->threads);
}

static void
s_feed_forward(const s_way_t *w)
{
    const verl_lm_tape_t *t = w->tape;
    const verl_lm_record_t *r = &t->records[w->layer];
    int64_t inner = w->lm->config.intermediate_size, hidden = w->lm->config.hidden_size;
    int64_t norm = w->lm->layout.layer[w->layer].post_norm;
    float *gate_up = s_at(w, r->gate_up, 2 * inner), *h = s_at(w, t->h, inner), *d_h = s_at(w, t->d_h, inner);
    verl_swiglu_forward(w->rows, inner, gate_up, h, w->threads);
    verl_lm_round(w->lm, w->rows * inner, h, w->threads);
    s_through(w, VERL_LM_DOWN, inner, hidden, s_keep_rounded(w, t->d_down), d_h);
    verl_swiglu_backward(w->rows, inner, d_h, gate_up, w->threads);
    verl_lm_round(w->lm, w->rows * 2 * inner, gate_up, w->threads);
    s_normed_again(w, norm, r->middle, t->normed_middle);
    s_through(w, VERL_LM_GATE_UP, hidden, 2 * inner, gate_up, s_at(w, t->d_normed_middle, hidden));
    s_through_norm(w, norm, r->middle, t->d_normed_middle);
}

// Queries and keys back through their rotation and norm, in place; what the norms' weights need is kept.
static void
s_unrotate(const s_way_t *w, float *d_qkv)
{
    const verl_lm_config_t *c = &w->lm->config;
    const verl_lm_layer_layout_t *l = &w->lm->layout.layer[w->layer];
    int64_t ld = verl_lm_qkv_width(c), query = verl_lm_query_width(c), raw = (c->heads + c->kv_heads) * c->head_dim;
    verl_rope_apply(w->rows, c->heads + c->kv_heads, c->head_dim, d_qkv, ld, w->tape->positions + w->row,
                    w->lm->rope_table, true, w->threads);
    if (!c->qk_norm)
        return;
    const float *q = s_at(w, w->tape->records[w->layer].qk_raw, raw);
    float *kept = s_at(w, w->tape->d_rotated, raw), *dk = d_qkv + query;
    for (int64_t row = 0; row < w->rows; row++)
        memcpy(kept + row * raw, d_qkv + row * ld, (size_t) raw * sizeof(float));
    verl_rmsnorm_backward(w->rows, c->heads, c->head_dim, c->norm_eps, q, raw, w->lm->params + l->q_norm, d_qkv, ld,
                          false, d_qkv, ld, w->threads);
    verl_rmsnorm_backward(w->rows, c->kv_heads, c->head_dim, c->norm_eps, q + query, raw, w->lm->params + l->k_norm,
                          dk, ld, false, dk, ld, w->threads);
}

static void
s_attention(const s_way_t *w, const verl_attention_plan_t *plan)
{
    const verl_lm_config_t *c = &w->lm->config;
    const verl_lm_tape_t *t = w->tape;
    const verl_lm_record_t *r = &t->records[w->layer];
    const verl_attention_t shape = verl_lm_attention_shape(c);
    int64_t hidden = c->hidden_size, ld = verl_lm_qkv_width(c), query = verl_lm_query_width(c);
    int64_t norm = w->lm->layout.layer[w->layer].input_norm;
    float *d_qkv = s_at(w, t->d_qkv, ld);
    s_through(w, VERL_LM_OUT, query, hidden, s_keep_rounded(w, t->d_o), s_at(w, t->d_attention, query));
    verl_attention_backward(&shape, plan, r->qkv, r->attention, r->lse, t->d_attention, t->d_qkv, w->threads);
    s_unrotate(w, d_qkv);
    verl_lm_round(w->lm, w->rows * ld, d_qkv, w->threads);
    s_normed_again(w, norm, r->x, t->normed);
    s_through(w, VERL_LM_QKV, hidden, ld, d_qkv, s_at(w, t->d_normed, hidden));
    s_through_norm(w, norm, r->x, t->d_normed);
}

static void
s_chunk_down(const verl_lm_t *lm, const verl_lm_tape_t *t, const verl_lm_chunk_t *chunk, int64_t layer, int threads)
{
    const s_way_t way = { .lm = lm, .tape = t, .layer = layer, .row = chunk->row, .rows = chunk->rows,
                          .threads = threads };
    if (t->mode == VERL_LM_TRAIN_RECOMPUTE)
        verl_lm_layer_forward(lm, t, chunk, layer, t->d_down, threads);
    s_feed_forward(&way);
    s_attention(&way, &chunk->plan);
}

// --- The gradients of a layer's parameters ---

enum { S_BLOCK = 96, S_SUMS = 18 };         // outputs of one task; most sums of one layer

// One sum over rows: of a matrix, or (x NULL) of a bias, or (groups > 0) of a norm's weight.
typedef struct {
    const float *dy, *x;
    int64_t lddy, ldx, outputs, inputs, groups;
    float *gradient;
} s_sum_t;

typedef struct {
    s_sum_t sums[S_SUMS];
    int count;
} s_sums_t;

static void
s_add_product(s_sums_t *s, const verl_lm_t *lm, int64_t layer, int product, int64_t inputs, int64_t lddy,
              const float *dy, const float *x, float *gradient)
{
    verl_lm_piece_t pieces[3];
    int count = verl_lm_pieces(lm, layer, product, pieces);
    for (int i = 0; i < count; i++) {
        const verl_lm_piece_t *p = &pieces[i];
        s->sums[s->count++] = (s_sum_t){ .dy = dy, .x = x, .lddy = lddy, .ldx = inputs, .outputs = p->outputs,
                                         .inputs = inputs, .gradient = gradient + p->weight };
        if (p->bias >= 0)
            s->sums[s->count++] = (s_sum_t){ .dy = dy, .lddy = lddy, .outputs = p->outputs,
                                             .gradient = gradient + p->bias };
        dy += p->outputs;
    }
}

static void
s_add_norm(s_sums_t *s, int64_t groups, int64_t width, const float *dy, int64_t lddy, const float *x, int64_t ldx,
           float *gradient)
{
    s->sums[s->count++] = (s_sum_t){ .dy = dy, .x = x, .lddy = lddy, .ldx = ldx, .outputs = width, .groups = groups,
                                     .gradient = gradient };
}

static void
s_collect(s_sums_t *s, const verl_lm_t *lm, const verl_lm_tape_t *t, int64_t layer, float *gradient)
{
    const verl_lm_config_t *c = &lm->config;
    const verl_lm_layer_layout_t *l = &lm->layout.layer[layer];
    const verl_lm_record_t *r = &t->records[layer];
    int64_t hidden = c->hidden_size, inner = c->intermediate_size, query = verl_lm_query_width(c), d = c->head_dim;
    int64_t raw = (c->heads + c->kv_heads) * d;
    s->count = 0;
    s_add_product(s, lm, layer, VERL_LM_GATE_UP, hidden, 2 * inner, r->gate_up, t->normed_middle, gradient);
    s_add_product(s, lm, layer, VERL_LM_DOWN, inner, hidden, t->d_down, t->h, gradient);
    s_add_product(s, lm, layer, VERL_LM_QKV, hidden, verl_lm_qkv_width(c), t->d_qkv, t->normed, gradient);
    s_add_product(s, lm, layer, VERL_LM_OUT, query, hidden, t->d_o, r->attention, gradient);
    s_add_norm(s, 1, hidden, t->d_normed_middle, hidden, r->middle, hidden, gradient + l->post_norm);
    s_add_norm(s, 1, hidden, t->d_normed, hidden, r->x, hidden, gradient + l->input_norm);
    if (c->qk_norm) {
        s_add_norm(s, c->heads, d, t->d_rotated, raw, r->qk_raw, raw, gradient + l->q_norm);
        s_add_norm(s, c->kv_heads, d, t->d_rotated + query, raw, r->qk_raw + query, raw, gradient + l->k_norm);
    }
}

// Matrices are cut into blocks of outputs; the others are one task each.
static int64_t
s_tasks(const s_sum_t *s)
{
    return s->inputs > 0 ? (s->outputs + S_BLOCK - 1) / S_BLOCK : 1;
}

static void
s_task(const verl_lm_t *lm, const s_sum_t *s, int64_t task, int64_t rows)
{
    int64_t first = task * S_BLOCK, outputs = s->outputs - first < S_BLOCK ? s->outputs - first : S_BLOCK;
    if (s->groups > 0)
        verl_rmsnorm_backward_weight(rows, s->groups, s->outputs, lm->config.norm_eps, s->x, s->ldx, s->dy, s->lddy,
                                     s->gradient);
    else if (s->inputs > 0)
        verl_linear_backward_weight(rows, outputs, s->inputs, s->dy + first, s->lddy, s->x, s->ldx,
                                    lm->dtype == VERL_LM_BF16, s->gradient + first * s->inputs, s->inputs, 1);
    else
        verl_linear_backward_bias(rows, s->outputs, s->dy, s->lddy, s->gradient);
}

static void
s_layer_parameters(const verl_lm_t *lm, const verl_lm_tape_t *t, int64_t layer, float *gradient)
{
    s_sums_t s;
    int64_t before[S_SUMS + 1] = { 0 };
    s_collect(&s, lm, t, layer, gradient);
    for (int i = 0; i < s.count; i++)
        before[i + 1] = before[i] + s_tasks(&s.sums[i]);
    #pragma omp parallel for num_threads(lm->threads) schedule(dynamic) if(lm->threads > 1)
    for (int64_t task = 0; task < before[s.count]; task++) {
        int which = 0;
        while (task >= before[which + 1])
            which++;
        s_task(lm, &s.sums[which], task - before[which], t->rows);
    }
}

// ---

static void
s_final_norm(const verl_lm_t *lm, const verl_lm_tape_t *t, float *gradient)
{
    int64_t hidden = lm->config.hidden_size, offset = lm->layout.final_norm;
    verl_rmsnorm_backward(t->rows, 1, hidden, lm->config.norm_eps, t->last, hidden, lm->params + offset, t->d_hidden,
                          hidden, false, t->d_x, hidden, lm->threads);
    verl_rmsnorm_backward_weight(t->rows, 1, hidden, lm->config.norm_eps, t->last, hidden, t->d_hidden, hidden,
                                 gradient + offset);
}

int
verl_lm_backward(verl_lm_t *lm, verl_lm_tape_t *t, float *gradient, char *error, size_t error_size)
{
    if (t->rows == 0 || t->mode == VERL_LM_SCORE || t->backward_done)
        return verl_lm_fail(error, error_size, "model: backward needs a forward in a TRAIN mode before it, one each");
    t->backward_done = true;
    s_final_norm(lm, t, gradient);
    for (int64_t layer = lm->config.layers - 1; layer >= 0; layer--) {
        #pragma omp parallel for num_threads(lm->threads) schedule(dynamic) if(t->chunk_count > 1)
        for (int64_t i = 0; i < t->chunk_count; i++)
            s_chunk_down(lm, t, &t->chunks[i], layer, t->chunk_count > 1 ? 1 : lm->threads);
        s_layer_parameters(lm, t, layer, gradient);
    }
    verl_embedding_backward(t->rows, lm->config.hidden_size, t->tokens, t->d_x, gradient + lm->layout.embedding);
    return 0;
}
