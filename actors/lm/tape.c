// tape.c: the memory of one forward pass. All arrays are pieces of one block, laid out for the batch at hand.
#include <stdlib.h>
#include <string.h>
#include "actors/lm/model_private.h"
#include "actors/lm/vector.h"

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
    free(tape->chunks);
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
    t->d_hidden = NULL;
    if (mode == VERL_LM_SCORE)
        return;
    float **hidden_arrays[] = { &t->d_hidden, &t->d_x, &t->normed_middle, &t->d_down, &t->d_o, &t->d_normed,
                                &t->d_normed_middle };
    for (size_t i = 0; i < sizeof hidden_arrays / sizeof hidden_arrays[0]; i++)
        *hidden_arrays[i] = s_take(b, hidden);
    t->d_rotated = c->qk_norm ? s_take(b, rows * (c->heads + c->kv_heads) * c->head_dim) : NULL;
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
        shared += 7 * c->hidden_size + width + c->intermediate_size + verl_lm_qkv_width(c) + verl_lm_query_width(c);
    return rows * 4 * (records * record + shared);
}

static int
s_reserve_records(verl_lm_tape_t *t, int64_t layers)
{
    if (t->record_count >= layers)
        return 0;
    verl_lm_record_t *records = realloc(t->records, (size_t) layers * sizeof *records);
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
    t->tokens = malloc((size_t) rows * sizeof t->tokens[0]);
    t->positions = malloc((size_t) rows * sizeof t->positions[0]);
    t->capacity_rows = t->tokens && t->positions ? rows : 0;
    return t->capacity_rows ? 0 : -1;
}

static int
s_reserve_segments(verl_lm_tape_t *t, int64_t count)
{
    if (t->capacity_segments >= count)
        return 0;
    free(t->segments);
    t->segments = malloc((size_t) count * sizeof t->segments[0]);
    t->capacity_segments = t->segments ? count : 0;
    return t->segments ? 0 : -1;
}

static int
s_reserve_memory(verl_lm_tape_t *t, int64_t floats)
{
    if (t->memory_floats >= floats)
        return 0;
    free(t->memory);
    t->memory = verl_lm_vector((size_t) floats * sizeof(float));
    t->memory_floats = t->memory ? floats : 0;
    return t->memory ? 0 : -1;
}

enum { S_CHUNK_ROWS = 96, S_CHUNKS_A_THREAD = 4 };

// Whether each tree's rows lie together, in the order of the trees.
static bool
s_is_by_tree(const verl_attention_plan_t *plan)
{
    int64_t row = 0;
    for (int64_t i = 0; i < plan->tile_count; i++) {
        if (plan->tiles[i].row != row)
            return false;
        row += plan->tiles[i].rows;
    }
    return true;
}

// Cuts at trees into chunks of about `target` rows. Returns the rows of the largest.
static int64_t
s_cut(verl_lm_tape_t *t, int64_t rows, int64_t target)
{
    const verl_attention_plan_t *plan = &t->plan;
    int64_t begin = 0, row = 0, largest = 0;
    t->chunk_count = 0;
    for (int64_t tree = 1; tree <= plan->tree_count; tree++) {
        int64_t end = tree < plan->tree_count ? plan->tiles[plan->trees[tree]].row : rows;
        if (end - row < target && tree < plan->tree_count)
            continue;
        t->chunks[t->chunk_count++] = (verl_lm_chunk_t){ .row = row, .rows = end - row,
                                                         .plan = verl_attention_plan_part(plan, begin, tree) };
        largest = end - row > largest ? end - row : largest;
        begin = tree;
        row = end;
    }
    return largest;
}

// Threads take whole chunks where trees allow a fair share each; else there is one chunk.
static int
s_set_chunks(verl_lm_tape_t *t, int64_t rows, int threads)
{
    free(t->chunks);
    t->chunks = malloc((size_t) (t->plan.tree_count + 1) * sizeof t->chunks[0]);
    if (!t->chunks)
        return -1;
    int64_t target = rows / (S_CHUNKS_A_THREAD * threads), largest = rows;
    target = target < S_CHUNK_ROWS ? S_CHUNK_ROWS : target;
    t->chunk_count = 0;
    if (threads > 1 && s_is_by_tree(&t->plan))
        largest = s_cut(t, rows, target);
    if (t->chunk_count == 0 || largest * threads > rows + rows / 2) {
        t->chunks[0] = (verl_lm_chunk_t){ .rows = rows, .plan = t->plan };
        t->chunk_count = 1;
    }
    return 0;
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
    memcpy(t->tokens, batch->tokens, (size_t) batch->rows * sizeof t->tokens[0]);
    memcpy(t->segments, batch->segments, (size_t) batch->segment_count * sizeof t->segments[0]);
    t->segment_count = batch->segment_count;
    if (verl_attention_plan_init(&t->plan, t->segments, t->segment_count, alone)
        || s_set_chunks(t, batch->rows, lm->threads))
        return -1;
    s_set_positions(t);
    t->mode = mode;
    t->rows = batch->rows;
    t->backward_done = false;
    return 0;
}
