// backward.c: gradients of all parameters from the gradient of the hidden states.
//
// What is cheap is computed again (norms, the gated unit, with TRAIN_RECOMPUTE a whole layer), so that a layer keeps
// only what no product gives back.
#include <string.h>
#include "actors/lm/model_private.h"
#include "kernels/embedding.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"

// One product's share: weights and biases from dy and x, and dx. dy is rounded by the caller.
static void
s_product(const verl_lm_t *lm, int64_t layer, int product, int64_t rows, int64_t inputs, int64_t lddy,
          const float *dy, const float *x, float *dx, float *gradient)
{
    verl_lm_piece_t pieces[3];
    int count = verl_lm_pieces(lm, layer, product, pieces);
    for (int i = 0; i < count; i++) {
        const verl_lm_piece_t *p = &pieces[i];
        verl_linear_backward_weight(rows, p->outputs, inputs, dy, lddy, x, inputs, gradient + p->weight, inputs,
                                    lm->threads);
        if (p->bias >= 0)
            verl_linear_backward_bias(rows, p->outputs, dy, lddy, gradient + p->bias);
        verl_linear_backward_input(rows, p->outputs, inputs, dy, lddy, verl_lm_weight(lm, p->weight, inputs), i > 0,
                                   dx, inputs, lm->threads);
        dy += p->outputs;
    }
}

// d_x as products take it: itself, or a rounded copy.
static const float *
s_rounded(const verl_lm_t *lm, verl_lm_tape_t *t)
{
    int64_t count = t->rows * lm->config.hidden_size;
    if (lm->dtype == VERL_LM_F32)
        return t->d_x;
    memcpy(t->d_y, t->d_x, (size_t)count * sizeof(float));
    verl_lm_round(lm, count, t->d_y, lm->threads);
    return t->d_y;
}

static void
s_norm(const verl_lm_t *lm, verl_lm_tape_t *t, int64_t offset, const float *x, float *gradient)
{
    int64_t hidden = lm->config.hidden_size;
    verl_rmsnorm_backward(t->rows, 1, hidden, lm->config.norm_eps, x, hidden, lm->params + offset, t->d_normed,
                          hidden, true, t->d_x, hidden, gradient + offset, lm->threads);
}

static void
s_normed_again(const verl_lm_t *lm, verl_lm_tape_t *t, int64_t offset, const float *x)
{
    int64_t hidden = lm->config.hidden_size;
    verl_rmsnorm_forward(t->rows, 1, hidden, lm->config.norm_eps, x, hidden, lm->params + offset, t->normed, hidden,
                         lm->threads);
    verl_lm_round(lm, t->rows * hidden, t->normed, lm->threads);
}

static void
s_feed_forward(const verl_lm_t *lm, verl_lm_tape_t *t, int64_t layer, float *gradient)
{
    const verl_lm_config_t *c = &lm->config;
    const verl_lm_record_t *r = &t->records[layer];
    int64_t inner = c->intermediate_size, hidden = c->hidden_size, rows = t->rows;
    verl_swiglu_forward(rows, inner, r->gate_up, t->h, lm->threads);
    verl_lm_round(lm, rows * inner, t->h, lm->threads);
    s_product(lm, layer, VERL_LM_DOWN, rows, inner, hidden, s_rounded(lm, t), t->h, t->d_h, gradient);
    verl_swiglu_backward(rows, inner, t->d_h, r->gate_up, lm->threads);
    verl_lm_round(lm, rows * 2 * inner, r->gate_up, lm->threads);
    s_normed_again(lm, t, lm->layout.layer[layer].post_norm, r->middle);
    s_product(lm, layer, VERL_LM_GATE_UP, rows, hidden, 2 * inner, r->gate_up, t->normed, t->d_normed, gradient);
    s_norm(lm, t, lm->layout.layer[layer].post_norm, r->middle, gradient);
}

static void
s_unrotate(const verl_lm_t *lm, verl_lm_tape_t *t, int64_t layer, float *gradient)
{
    const verl_lm_config_t *c = &lm->config;
    const verl_lm_layer_layout_t *l = &lm->layout.layer[layer];
    int64_t ld = verl_lm_qkv_width(c), query = verl_lm_query_width(c), raw = (c->heads + c->kv_heads) * c->head_dim;
    const float *q = t->records[layer].qk_raw, *k = q + query;
    float *dq = t->d_qkv, *dk = t->d_qkv + query;
    verl_rope_apply(t->rows, c->heads + c->kv_heads, c->head_dim, t->d_qkv, ld, t->positions, lm->rope_table, true,
                    lm->threads);
    if (!c->qk_norm)
        return;
    verl_rmsnorm_backward(t->rows, c->heads, c->head_dim, c->norm_eps, q, raw, lm->params + l->q_norm, dq, ld, false,
                          dq, ld, gradient + l->q_norm, lm->threads);
    verl_rmsnorm_backward(t->rows, c->kv_heads, c->head_dim, c->norm_eps, k, raw, lm->params + l->k_norm, dk, ld,
                          false, dk, ld, gradient + l->k_norm, lm->threads);
}

static void
s_attention(const verl_lm_t *lm, verl_lm_tape_t *t, int64_t layer, float *gradient)
{
    const verl_lm_config_t *c = &lm->config;
    const verl_lm_record_t *r = &t->records[layer];
    const verl_attention_t shape = verl_lm_attention_shape(c);
    int64_t hidden = c->hidden_size, rows = t->rows, ld = verl_lm_qkv_width(c);
    s_product(lm, layer, VERL_LM_OUT, rows, verl_lm_query_width(c), hidden, s_rounded(lm, t), r->attention,
              t->d_attention, gradient);
    verl_attention_backward(&shape, &t->plan, r->qkv, r->attention, r->lse, t->d_attention, t->d_qkv, lm->threads);
    s_unrotate(lm, t, layer, gradient);
    verl_lm_round(lm, rows * ld, t->d_qkv, lm->threads);
    s_normed_again(lm, t, lm->layout.layer[layer].input_norm, r->x);
    s_product(lm, layer, VERL_LM_QKV, rows, hidden, ld, t->d_qkv, t->normed, t->d_normed, gradient);
    s_norm(lm, t, lm->layout.layer[layer].input_norm, r->x, gradient);
}

int
verl_lm_backward(verl_lm_t *lm, verl_lm_tape_t *t, float *gradient, char *error, size_t error_size)
{
    const verl_lm_config_t *c = &lm->config;
    int64_t hidden = c->hidden_size;
    if (t->rows == 0 || t->mode == VERL_LM_SCORE || t->backward_done)
        return verl_lm_fail(error, error_size, "model: backward needs a forward in a TRAIN mode before it, one each");
    t->backward_done = true;
    verl_rmsnorm_backward(t->rows, 1, hidden, c->norm_eps, t->last, hidden, lm->params + lm->layout.final_norm,
                          t->d_hidden, hidden, false, t->d_x, hidden, gradient + lm->layout.final_norm, lm->threads);
    for (int64_t layer = c->layers - 1; layer >= 0; layer--) {
        if (t->mode == VERL_LM_TRAIN_RECOMPUTE)
            verl_lm_layer_forward(lm, t, layer, t->d_y);
        s_feed_forward(lm, t, layer, gradient);
        s_attention(lm, t, layer, gradient);
    }
    verl_embedding_backward(t->rows, hidden, t->tokens, t->d_x, gradient + lm->layout.embedding);
    return 0;
}
