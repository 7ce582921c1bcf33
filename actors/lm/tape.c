// tape.c: the memory of one forward pass. All arrays are pieces of one block, laid out for the batch at hand.
#include <stdlib.h>
#include <string.h>
#include "actors/lm/model_private.h"

verl_lm_tape_t *
verl_lm_tape_new(void)
{
    return calloc(1, sizeof(verl_lm_tape_t));
}

void
verl_lm_tape_destroy(verl_lm_tape_t **tape_p)
{
    verl_lm_tape_t *tape = *tape_p;
    if (!tape)
        return;
    verl_attention_plan_done(&tape->plan);
    free(tape->tokens);
    free(tape->positions);
    free(tape->segments);
    free(tape->records);
    free(tape->memory);
    free(tape);
    *tape_p = NULL;
}

const float *
verl_lm_tape_hidden(const verl_lm_tape_t *tape)
{
    return tape->hidden;
}

float *
verl_lm_tape_d_hidden(verl_lm_tape_t *tape)
{
    return tape->d_hidden;
}

// Hands out pieces of a block, or only counts them while the block is not there yet.
typedef struct {
    float *block;
    int64_t used;
} s_block_t;

static float *
s_take(s_block_t *b, int64_t floats)
{
    float *piece = b->block ? b->block + b->used : NULL;
    b->used += (floats + 15) / 16 * 16;
    return piece;
}

static void
s_take_record(s_block_t *b, const verl_lm_config_t *c, int64_t rows, verl_lm_record_t *r)
{
    r->qk_raw = c->qk_norm ? s_take(b, rows * (c->heads + c->kv_heads) * c->head_dim) : NULL;
    r->qkv = s_take(b, rows * verl_lm_qkv_width(c));
    r->attention = s_take(b, rows * verl_lm_query_width(c));
    r->lse = s_take(b, rows * c->heads);
    r->middle = s_take(b, rows * c->hidden_size);
    r->gate_up = s_take(b, rows * 2 * c->intermediate_size);
}

static void
s_lay_out(s_block_t *b, const verl_lm_config_t *c, verl_lm_mode_t mode, int64_t rows, verl_lm_tape_t *t)
{
    int64_t hidden = rows * c->hidden_size;
    for (int64_t i = 0; i < c->layers; i++) {
        verl_lm_record_t *r = &t->records[i];
        if (i > 0 && mode != VERL_LM_TRAIN)
            *r = t->records[0];
        else
            s_take_record(b, c, rows, r);
        r->x = i > 0 && mode == VERL_LM_SCORE ? t->records[0].x : s_take(b, hidden);
    }
    t->last = mode == VERL_LM_SCORE ? t->records[0].x : s_take(b, hidden);
    t->hidden = s_take(b, hidden);
    t->normed = s_take(b, hidden);
    t->h = s_take(b, rows * c->intermediate_size);
    t->d_hidden = t->d_x = t->d_y = t->d_normed = t->d_h = t->d_qkv = t->d_attention = NULL;
    if (mode == VERL_LM_SCORE)
        return;
    t->d_hidden = s_take(b, hidden);
    t->d_x = s_take(b, hidden);
    t->d_y = s_take(b, hidden);
    t->d_normed = s_take(b, hidden);
    t->d_h = s_take(b, rows * c->intermediate_size);
    t->d_qkv = s_take(b, rows * verl_lm_qkv_width(c));
    t->d_attention = s_take(b, rows * verl_lm_query_width(c));
}

int64_t
verl_lm_tape_bytes(const verl_lm_t *lm, verl_lm_mode_t mode, int64_t rows)
{
    const verl_lm_config_t *c = &lm->config;
    int64_t width = c->qk_norm ? (c->heads + c->kv_heads) * c->head_dim : 0;
    int64_t record = width + verl_lm_qkv_width(c) + verl_lm_query_width(c) + c->heads + c->hidden_size
                   + 2 * c->intermediate_size;
    int64_t records = mode == VERL_LM_TRAIN ? c->layers : 1, inputs = mode == VERL_LM_SCORE ? 1 : c->layers + 1;
    int64_t shared = (2 + inputs) * c->hidden_size + c->intermediate_size;
    if (mode != VERL_LM_SCORE)
        shared += 4 * c->hidden_size + c->intermediate_size + verl_lm_qkv_width(c) + verl_lm_query_width(c);
    return rows * 4 * (records * record + shared);
}

static int
s_reserve_records(verl_lm_tape_t *t, int64_t layers)
{
    if (t->record_count >= layers)
        return 0;
    verl_lm_record_t *records = realloc(t->records, (size_t)layers * sizeof *records);
    if (!records)
        return -1;
    t->records = records;
    t->record_count = layers;
    return 0;
}

static int
s_reserve_rows(verl_lm_tape_t *t, int64_t rows)
{
    if (t->capacity_rows >= rows)
        return 0;
    free(t->tokens);
    free(t->positions);
    t->tokens = malloc((size_t)rows * sizeof t->tokens[0]);
    t->positions = malloc((size_t)rows * sizeof t->positions[0]);
    t->capacity_rows = t->tokens && t->positions ? rows : 0;
    return t->capacity_rows ? 0 : -1;
}

static int
s_reserve_segments(verl_lm_tape_t *t, int64_t count)
{
    if (t->capacity_segments >= count)
        return 0;
    free(t->segments);
    t->segments = malloc((size_t)count * sizeof t->segments[0]);
    t->capacity_segments = t->segments ? count : 0;
    return t->segments ? 0 : -1;
}

static int
s_reserve_memory(verl_lm_tape_t *t, int64_t floats)
{
    if (t->memory_floats >= floats)
        return 0;
    free(t->memory);
    t->memory = aligned_alloc(64, ((size_t)floats * sizeof(float) + 63) / 64 * 64);
    t->memory_floats = t->memory ? floats : 0;
    return t->memory ? 0 : -1;
}

// Positions of a segment continue from its parent's end.
static void
s_set_positions(verl_lm_tape_t *t)
{
    for (int64_t i = 0; i < t->segment_count; i++) {
        const verl_segment_t *s = &t->segments[i];
        int64_t before = 0;
        for (int64_t p = s->parent; p >= 0; p = t->segments[p].parent)
            before += t->segments[p].length;
        for (int64_t k = 0; k < s->length; k++)
            t->positions[s->start + k] = before + k;
    }
}

int
verl_lm_tape_prepare(const verl_lm_t *lm, verl_lm_tape_t *t, verl_lm_mode_t mode, const verl_lm_batch_t *batch,
                     bool alone)
{
    t->rows = 0;
    verl_attention_plan_done(&t->plan);
    if (s_reserve_records(t, lm->config.layers) || s_reserve_rows(t, batch->rows)
        || s_reserve_segments(t, batch->segment_count))
        return -1;
    s_block_t counted = { 0 };
    s_lay_out(&counted, &lm->config, mode, batch->rows, t);
    if (s_reserve_memory(t, counted.used))
        return -1;
    s_lay_out(&(s_block_t){ .block = t->memory }, &lm->config, mode, batch->rows, t);
    memcpy(t->tokens, batch->tokens, (size_t)batch->rows * sizeof t->tokens[0]);
    memcpy(t->segments, batch->segments, (size_t)batch->segment_count * sizeof t->segments[0]);
    t->segment_count = batch->segment_count;
    if (verl_attention_plan_init(&t->plan, t->segments, t->segment_count, alone))
        return -1;
    s_set_positions(t);
    t->mode = mode;
    t->rows = batch->rows;
    t->backward_done = false;
    return 0;
}
