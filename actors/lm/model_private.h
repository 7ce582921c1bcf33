// model_private.h: what the files of the model's computation share. Private to actors/lm.
#ifndef VERL_LM_MODEL_PRIVATE_H
#define VERL_LM_MODEL_PRIVATE_H
#include "actors/lm/model.h"
#include "actors/lm/refuse.h"
#include "kernels/attention.h"
#include "kernels/linear.h"

struct verl_lm {
    verl_lm_config_t config;
    verl_lm_layout_t layout;
    const float *params;
    verl_lm_dtype_t dtype;
    int threads;
    uint16_t *bf16;                         // params rounded, where dtype is BF16
    float *frequencies;                     // [head_dim / 2]
    float *rope_table;                      // [rope_positions, head_dim]
    int64_t rope_positions;
    verl_lm_tape_t *prefill;                // of generation, made at its first use
    float *cache;                           // of keys and values, [cache_floats]
    int64_t cache_floats;
};

// Where one layer's activations lie. In SCORE and TRAIN_RECOMPUTE all layers share all but x.
typedef struct verl_lm_record {
    float *x;                               // [rows, hidden] input
    float *qk_raw;                          // [rows, (heads + kv_heads) * head_dim] before the QK norm; or NULL
    float *qkv;                             // [rows, qkv width], rotated
    float *attention, *lse;                 // [rows, heads * head_dim], [rows, heads]
    float *middle;                          // [rows, hidden] after attention
    float *gate_up;                         // [rows, 2 * intermediate]
} verl_lm_record_t;

typedef struct verl_lm_chunk verl_lm_chunk_t;

struct verl_lm_tape {
    verl_lm_mode_t mode;
    int64_t rows;                           // 0: no forward yet
    bool backward_done;
    int32_t *tokens;
    int64_t *positions;
    verl_segment_t *segments;
    int64_t segment_count, capacity_rows, capacity_segments;
    verl_attention_plan_t plan;
    verl_lm_chunk_t *chunks;                // they cover the rows in order
    int64_t chunk_count;                    // 1: each operation shares out its rows; more: threads take whole chunks
    verl_lm_record_t *records;              // [layers]
    int64_t record_count;
    float *memory;                          // all of the arrays below and of the records
    int64_t memory_floats;
    float *last;                            // [rows, hidden] input of the final norm
    float *hidden, *d_hidden;               // [rows, hidden]
    float *normed;                          // [rows, hidden] scratch: the input of a layer's first product
    float *h;                               // [rows, intermediate] scratch: the input of its last product
    float *d_x;                             // [rows, hidden] gradient on its way down; TRAIN modes only, like all below
    float *normed_middle;                   // [rows, hidden] input of gate and up
    float *d_down, *d_o;                    // [rows, hidden] gradient of the outputs of down and o
    float *d_normed, *d_normed_middle;      // [rows, hidden] gradients of the norms' outputs
    float *d_h;                             // [rows, intermediate]
    float *d_qkv, *d_attention;
    float *d_rotated;                       // [rows, (heads + kv_heads) * head_dim] before the QK norm's; or NULL
};

// Rows of whole trees, which touch no other rows.
struct verl_lm_chunk {
    int64_t row, rows;
    verl_attention_plan_t plan;             // a part of the tape's
};

// Widths of rows.
static inline int64_t
verl_lm_query_width(const verl_lm_config_t *c)
{
    return c->heads * c->head_dim;
}

static inline int64_t
verl_lm_qkv_width(const verl_lm_config_t *c)
{
    return (c->heads + 2 * c->kv_heads) * c->head_dim;
}

verl_attention_t verl_lm_attention_shape(const verl_lm_config_t *config);

// The matrix at offset, in the model's dtype, rows of `inputs`.
verl_weight_t verl_lm_weight(const verl_lm_t *lm, int64_t offset, int64_t inputs);

// Rounds in place where dtype is BF16: what every input of a product goes through.
void verl_lm_round(const verl_lm_t *lm, int64_t count, float *x, int threads);

// One piece of a fused product: outputs [rows of the matrix], with a bias or -1.
typedef struct verl_lm_piece {
    int64_t weight, bias, outputs;
} verl_lm_piece_t;

enum { VERL_LM_QKV, VERL_LM_GATE_UP, VERL_LM_OUT, VERL_LM_DOWN };

// The pieces of one of the four products of a layer, adjacent ones joined. Returns how many (at most 3).
int verl_lm_pieces(const verl_lm_t *lm, int64_t layer, int product, verl_lm_piece_t pieces[3]);

// y[rows, all outputs] = x W^T + bias, or += with add. x is rounded by the caller.
void verl_lm_project(const verl_lm_t *lm, int64_t layer, int product, int64_t rows, const float *x, bool add,
                     float *y, int threads);

// Makes the table of rotations long enough. 0, or -1 without memory.
int verl_lm_need_positions(verl_lm_t *lm, int64_t count);

// From qkv as projected to queries and keys normed and rotated, in place.
void verl_lm_rotate(const verl_lm_t *lm, int64_t layer, int64_t rows, const int64_t *positions, float *qkv,
                    int threads);

// The parts of one layer around attention, on `rows` rows; normed and h are scratch.
void verl_lm_layer_head(const verl_lm_t *lm, int64_t layer, int64_t rows, const float *x, float *normed, float *qkv,
                        int threads);
void verl_lm_layer_tail(const verl_lm_t *lm, int64_t layer, int64_t rows, const float *middle, float *normed,
                        float *gate_up, float *h, float *next, int threads);

// One layer on a chunk of a tape: fills its rows of the record from record->x, and of next[rows of the tape, hidden].
void verl_lm_layer_forward(const verl_lm_t *lm, const verl_lm_tape_t *tape, const verl_lm_chunk_t *chunk,
                           int64_t layer, float *next, int threads);

// As verl_lm_forward; calls on_layer (may be NULL) after each layer of each chunk, perhaps from several threads, and
// keeps segments in tiles of their own with alone.
typedef void (*verl_lm_on_layer_t)(void *context, int64_t layer, const verl_lm_tape_t *tape,
                                   const verl_lm_chunk_t *chunk);
int verl_lm_run(verl_lm_t *lm, verl_lm_tape_t *tape, verl_lm_mode_t mode, const verl_lm_batch_t *batch, bool alone,
                verl_lm_on_layer_t on_layer, void *context, char *error, size_t error_size);

// Lays the tape's arrays out for so many rows. 0, or -1 without memory.
int verl_lm_tape_prepare(const verl_lm_t *lm, verl_lm_tape_t *tape, verl_lm_mode_t mode,
                         const verl_lm_batch_t *batch, bool alone);
#endif
