// forward.c: the transformer's layers, on a whole tape or on some rows of a generation.
#include <string.h>
#include "actors/lm/model_private.h"
#include "kernels/embedding.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"

// Joins pieces[from] to its predecessor where both lie side by side in the vector.
static int
s_join(verl_lm_piece_t *pieces, int count, int64_t inputs)
{
    int kept = 0;
    for (int i = 1; i < count; i++) {
        verl_lm_piece_t *last = &pieces[kept], next = pieces[i];
        bool weights = next.weight == last->weight + last->outputs * inputs;
        bool biases = next.bias < 0 ? last->bias < 0 : last->bias >= 0 && next.bias == last->bias + last->outputs;
        if (weights && biases)
            last->outputs += next.outputs;
        else
            pieces[++kept] = next;
    }
    return kept + 1;
}

int
verl_lm_pieces(const verl_lm_t *lm, int64_t layer, int product, verl_lm_piece_t pieces[3])
{
    const verl_lm_config_t *c = &lm->config;
    const verl_lm_layer_layout_t *l = &lm->layout.layer[layer];
    int64_t query = verl_lm_query_width(c), key = c->kv_heads * c->head_dim;
    switch (product) {
    case VERL_LM_QKV:
        pieces[0] = (verl_lm_piece_t){ l->q, l->q_bias, query };
        pieces[1] = (verl_lm_piece_t){ l->k, l->k_bias, key };
        pieces[2] = (verl_lm_piece_t){ l->v, l->v_bias, key };
        return s_join(pieces, 3, c->hidden_size);
    case VERL_LM_GATE_UP:
        pieces[0] = (verl_lm_piece_t){ l->gate, l->gate_bias, c->intermediate_size };
        pieces[1] = (verl_lm_piece_t){ l->up, l->up_bias, c->intermediate_size };
        return s_join(pieces, 2, c->hidden_size);
    case VERL_LM_OUT:
        pieces[0] = (verl_lm_piece_t){ l->o, l->o_bias, c->hidden_size };
        return 1;
    default:
        pieces[0] = (verl_lm_piece_t){ l->down, l->down_bias, c->hidden_size };
        return 1;
    }
}

static int64_t
s_inputs(const verl_lm_config_t *c, int product)
{
    return product == VERL_LM_OUT    ? verl_lm_query_width(c)
           : product == VERL_LM_DOWN ? c->intermediate_size
                                     : c->hidden_size;
}

static int64_t
s_outputs(const verl_lm_config_t *c, int product)
{
    return product == VERL_LM_QKV       ? verl_lm_qkv_width(c)
           : product == VERL_LM_GATE_UP ? 2 * c->intermediate_size
                                        : c->hidden_size;
}

void
verl_lm_project(const verl_lm_t *lm, int64_t layer, int product, int64_t rows, const float *x, bool add, float *y,
                int threads)
{
    verl_lm_piece_t pieces[3];
    int count = verl_lm_pieces(lm, layer, product, pieces);
    int64_t inputs = s_inputs(&lm->config, product), ldy = s_outputs(&lm->config, product);
    for (int i = 0; i < count; i++) {
        const float *bias = pieces[i].bias >= 0 ? lm->params + pieces[i].bias : NULL;
        verl_linear_forward(rows, pieces[i].outputs, inputs, x, inputs, verl_lm_weight(lm, pieces[i].weight, inputs),
                            bias, add, y, ldy, threads);
        y += pieces[i].outputs;
    }
}

void
verl_lm_rotate(const verl_lm_t *lm, int64_t layer, int64_t rows, const int64_t *positions, float *qkv, int threads)
{
    const verl_lm_config_t *c = &lm->config;
    const verl_lm_layer_layout_t *l = &lm->layout.layer[layer];
    int64_t ld = verl_lm_qkv_width(c), query = verl_lm_query_width(c);
    if (c->qk_norm) {
        float *k = qkv + query;
        verl_rmsnorm_forward(rows, c->heads, c->head_dim, c->norm_eps, qkv, ld, lm->params + l->q_norm, qkv, ld,
                             threads);
        verl_rmsnorm_forward(rows, c->kv_heads, c->head_dim, c->norm_eps, k, ld, lm->params + l->k_norm, k, ld,
                             threads);
    }
    verl_rope_apply(rows, c->heads + c->kv_heads, c->head_dim, qkv, ld, positions, lm->rope_table, false, threads);
}

void
verl_lm_layer_head(const verl_lm_t *lm, int64_t layer, int64_t rows, const float *x, float *normed, float *qkv,
                   int threads)
{
    int64_t hidden = lm->config.hidden_size;
    verl_rmsnorm_forward(rows, 1, hidden, lm->config.norm_eps, x, hidden,
                         lm->params + lm->layout.layer[layer].input_norm, normed, hidden, threads);
    verl_lm_round(lm, rows * hidden, normed, threads);
    verl_lm_project(lm, layer, VERL_LM_QKV, rows, normed, false, qkv, threads);
}

void
verl_lm_layer_tail(const verl_lm_t *lm, int64_t layer, int64_t rows, const float *middle, float *normed,
                   float *gate_up, float *h, float *next, int threads)
{
    int64_t hidden = lm->config.hidden_size, inner = lm->config.intermediate_size;
    verl_rmsnorm_forward(rows, 1, hidden, lm->config.norm_eps, middle, hidden,
                         lm->params + lm->layout.layer[layer].post_norm, normed, hidden, threads);
    verl_lm_round(lm, rows * hidden, normed, threads);
    verl_lm_project(lm, layer, VERL_LM_GATE_UP, rows, normed, false, gate_up, threads);
    verl_swiglu_forward(rows, inner, gate_up, h, threads);
    verl_lm_round(lm, rows * inner, h, threads);
    if (next != middle)
        memcpy(next, middle, (size_t) (rows * hidden) * sizeof(float));
    verl_lm_project(lm, layer, VERL_LM_DOWN, rows, h, true, next, threads);
}

// Queries and keys before their norm, which backward needs.
static void
s_keep_raw(const verl_lm_config_t *c, int64_t rows, const float *qkv, float *raw)
{
    int64_t width = (c->heads + c->kv_heads) * c->head_dim, ld = verl_lm_qkv_width(c);
    for (int64_t row = 0; row < rows; row++)
        memcpy(raw + row * width, qkv + row * ld, (size_t) width * sizeof(float));
}

void
verl_lm_layer_forward(const verl_lm_t *lm, const verl_lm_tape_t *tape, const verl_lm_chunk_t *chunk, int64_t layer,
                      float *next, int threads)
{
    const verl_lm_config_t *c = &lm->config;
    const verl_lm_record_t *r = &tape->records[layer];
    const verl_attention_t shape = verl_lm_attention_shape(c);
    int64_t row = chunk->row, rows = chunk->rows, at = row * c->hidden_size, query = verl_lm_query_width(c);
    float *qkv = r->qkv + row * verl_lm_qkv_width(c), *middle = r->middle + at, *normed = tape->normed + at;
    verl_lm_layer_head(lm, layer, rows, r->x + at, normed, qkv, threads);
    if (r->qk_raw)
        s_keep_raw(c, rows, qkv, r->qk_raw + row * (c->heads + c->kv_heads) * c->head_dim);
    verl_lm_rotate(lm, layer, rows, tape->positions + row, qkv, threads);
    verl_attention_forward(&shape, &chunk->plan, r->qkv, r->attention, r->lse, threads);
    verl_lm_round(lm, rows * query, r->attention + row * query, threads);
    memcpy(middle, r->x + at, (size_t) (rows * c->hidden_size) * sizeof(float));
    verl_lm_project(lm, layer, VERL_LM_OUT, rows, r->attention + row * query, true, middle, threads);
    verl_lm_layer_tail(lm, layer, rows, middle, normed, r->gate_up + row * 2 * c->intermediate_size,
                       tape->h + row * c->intermediate_size, next + at, threads);
}

// --- The batch's contract ---

static int
s_check_segments(const verl_lm_t *lm, const verl_lm_batch_t *b, char *error, size_t error_size)
{
    int64_t covered = 0;
    for (int64_t i = 0; i < b->segment_count; i++) {
        const verl_segment_t *s = &b->segments[i];
        if (s->start != covered || s->length < 0 || s->length > b->rows - covered)
            return verl_lm_fail(error, error_size, "model: segment %lld has rows %lld + %lld, but the next row is "
                                "%lld of %lld: segments must cover the rows in order", (long long) i,
                                (long long) s->start, (long long) s->length, (long long) covered, (long long) b->rows);
        if (s->parent < -1 || s->parent >= i)
            return verl_lm_fail(error, error_size, "model: segment %lld has parent %lld: it must be an earlier one, "
                                "or -1", (long long) i, (long long) s->parent);
        covered += s->length;
        int64_t context = s->length, depth = 1;
        for (int64_t p = s->parent; p >= 0 && depth <= VERL_LM_MAX_CHAIN; p = b->segments[p].parent, depth++)
            context += b->segments[p].length;
        if (depth > VERL_LM_MAX_CHAIN)
            return verl_lm_fail(error, error_size, "model: segment %lld has more than %d segments before it",
                                (long long) i, VERL_LM_MAX_CHAIN - 1);
        if (context > lm->config.max_positions)
            return verl_lm_fail(error, error_size, "model: segment %lld ends at position %lld, but the model has %lld",
                                (long long) i, (long long) context, (long long) lm->config.max_positions);
    }
    if (covered != b->rows)
        return verl_lm_fail(error, error_size, "model: segments cover %lld of %lld rows", (long long) covered,
                            (long long) b->rows);
    return 0;
}

static int
s_check_batch(const verl_lm_t *lm, const verl_lm_batch_t *b, char *error, size_t error_size)
{
    if (!lm->params)
        return verl_lm_fail(error, error_size, "model: it has no parameters yet");
    if (b->rows < 1 || b->segment_count < 1)
        return verl_lm_fail(error, error_size, "model: a batch of %lld rows in %lld segments is empty",
                            (long long) b->rows, (long long) b->segment_count);
    for (int64_t i = 0; i < b->rows; i++)
        if (b->tokens[i] < 0 || b->tokens[i] >= lm->config.vocab_size)
            return verl_lm_fail(error, error_size, "model: token %d at row %lld is not in the vocabulary of %lld",
                                b->tokens[i], (long long) i, (long long) lm->config.vocab_size);
    return s_check_segments(lm, b, error, error_size);
}

static int64_t
s_positions(const verl_lm_tape_t *tape)
{
    int64_t most = 0;
    for (int64_t i = 0; i < tape->rows; i++)
        most = tape->positions[i] > most ? tape->positions[i] : most;
    return most + 1;
}

// From tokens to hidden states, for one chunk.
static void
s_run_chunk(const verl_lm_t *lm, const verl_lm_tape_t *tape, const verl_lm_chunk_t *chunk, verl_lm_on_layer_t on_layer,
            void *context, int threads)
{
    int64_t layers = lm->config.layers, hidden = lm->config.hidden_size, at = chunk->row * hidden;
    verl_embedding_forward(chunk->rows, hidden, tape->tokens + chunk->row, lm->params + lm->layout.embedding,
                           tape->records[0].x + at);
    for (int64_t i = 0; i < layers; i++) {
        float *next = i + 1 < layers ? tape->records[i + 1].x : tape->last;
        verl_lm_layer_forward(lm, tape, chunk, i, next, threads);
        if (on_layer)
            on_layer(context, i, tape, chunk);
    }
    verl_rmsnorm_forward(chunk->rows, 1, hidden, lm->config.norm_eps, tape->last + at, hidden,
                         lm->params + lm->layout.final_norm, tape->hidden + at, hidden, threads);
}

int
verl_lm_run(verl_lm_t *lm, verl_lm_tape_t *tape, verl_lm_mode_t mode, const verl_lm_batch_t *batch, bool alone,
            verl_lm_on_layer_t on_layer, void *context, char *error, size_t error_size)
{
    const verl_lm_config_t *c = &lm->config;
    if (s_check_batch(lm, batch, error, error_size))
        return -1;
    if (verl_lm_tape_prepare(lm, tape, mode, batch, alone) || verl_lm_need_positions(lm, s_positions(tape)))
        return verl_lm_fail(error, error_size, "model: no memory for the activations of %lld rows (%lld MiB)",
                            (long long) batch->rows, (long long) verl_lm_tape_bytes(lm, mode, batch->rows) >> 20);
    #pragma omp parallel for num_threads(lm->threads) schedule(dynamic) if(tape->chunk_count > 1)
    for (int64_t i = 0; i < tape->chunk_count; i++)
        s_run_chunk(lm, tape, &tape->chunks[i], on_layer, context, tape->chunk_count > 1 ? 1 : lm->threads);
    if (tape->d_hidden)
        memset(tape->d_hidden, 0, (size_t) (tape->rows * c->hidden_size) * sizeof(float));
    return 0;
}

int
verl_lm_forward(verl_lm_t *lm, verl_lm_tape_t *tape, verl_lm_mode_t mode, const verl_lm_batch_t *batch, char *error,
                size_t error_size)
{
    return verl_lm_run(lm, tape, mode, batch, false, NULL, NULL, error, error_size);
}
