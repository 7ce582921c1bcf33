// attention.h: causal attention with grouped queries over the segments of a packed batch, and its gradients.
//
// A row of qkv holds heads query vectors, then kv_heads key vectors, then kv_heads value vectors. A row attends to all
// rows of its segment's parents and to its own segment up to itself. Online softmax (Milakov and Gimelshein 2018) over
// blocks of keys: scores are never stored for a whole row. Results do not depend on the number of threads.
#ifndef VERL_KERNELS_ATTENTION_H
#define VERL_KERNELS_ATTENTION_H
#include <stdbool.h>
#include <stdint.h>
#include "kernels/segment.h"

typedef struct verl_attention {
    int64_t heads, kv_heads, head_dim;      // kv_heads divides heads
    int64_t ld;                             // floats from one row of qkv to the next
    float   scale;                          // of the scores, usually 1 / sqrt(head_dim)
} verl_attention_t;

// Query tiles of a batch, made once for all layers.
typedef struct verl_attention_tile {
    int64_t row, rows;
    int64_t own;                            // first row of the first row's segment
    int64_t parent;                         // segment before that one, or -1
    int64_t root;
} verl_attention_tile_t;

typedef struct verl_attention_plan {
    const verl_segment_t *segments;         // borrowed
    int64_t *segment_start;                 // [rows]
    verl_attention_tile_t *tiles;           // grouped by root
    int64_t tile_count;
    int64_t *trees;                         // [tree_count + 1] into tiles; those of the plan are trees[0] and on
    int64_t tree_count;
} verl_attention_plan_t;

// Segments cover the rows in order without gaps; a parent comes before its children. With alone, a tile holds rows of
// one segment only, so that a segment's results do not depend on its neighbours' lengths. 0, or -1 without memory.
int  verl_attention_plan_init(verl_attention_plan_t *plan, const verl_segment_t *segments, int64_t count, bool alone);
void verl_attention_plan_done(verl_attention_plan_t *plan);

// The part of plan that is its trees [begin, end): borrowed, for as long as plan lives. Parts may be computed at the
// same time, by forward and by backward; each touches its own rows only.
verl_attention_plan_t verl_attention_plan_part(const verl_attention_plan_t *plan, int64_t begin, int64_t end);

// out[rows, heads * head_dim]; lse[rows, heads], the log of each row's sum of exponentials, may be NULL.
void verl_attention_forward(const verl_attention_t *shape, const verl_attention_plan_t *plan, const float *qkv,
                            float *out, float *lse, int threads);

// d_qkv, laid out like qkv, is overwritten.
void verl_attention_backward(const verl_attention_t *shape, const verl_attention_plan_t *plan, const float *qkv,
                             const float *out, const float *lse, const float *d_out, float *d_qkv, int threads);

typedef struct verl_span {
    int64_t start, length;
} verl_span_t;

// One query a row: q[rows, ldq] (its first heads * head_dim floats) against the rows spans[row][0], then
// spans[row][1], of cache, whose rows are kv_heads keys, then kv_heads values, without gaps.
// out[rows, heads * head_dim]. A row's result depends on its own query and spans only.
void verl_attention_decode(const verl_attention_t *shape, int64_t rows, const float *q, int64_t ldq,
                           const verl_span_t (*spans)[2], const float *cache, float *out, int threads);
#endif
