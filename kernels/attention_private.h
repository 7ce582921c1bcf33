// attention_private.h: what the forward and the backward pass of attention share. Private to kernels/.
#ifndef VERL_KERNELS_ATTENTION_PRIVATE_H
#define VERL_KERNELS_ATTENTION_PRIVATE_H
#include "kernels/attention.h"

enum { VERL_ATTENTION_ROWS = 64, VERL_ATTENTION_KEYS = 128 };   // of one tile of queries, of one block of keys

// A block of adjacent key rows. Keys of the tile's own segments are masked: a query sees those of its segment that do
// not come after it.
typedef struct verl_attention_block {
    int64_t start, keys;
    bool    own;
} verl_attention_block_t;

// Calls visit for each block that the tile attends to, the root's first, then the tile's own.
typedef void (*verl_attention_visit_t)(void *context, const verl_attention_block_t *block);
void verl_attention_blocks(const verl_attention_plan_t *plan, const verl_attention_tile_t *tile,
                           verl_attention_visit_t visit, void *context);

// The keys [*ret_low, *ret_high) of block, counted from its start, that row sees.
void verl_attention_visible(const verl_attention_plan_t *plan, const verl_attention_block_t *block, int64_t row,
                            int64_t *ret_low, int64_t *ret_high);
#endif
