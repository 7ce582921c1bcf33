// attention_blocks.c: which keys a tile of queries attends to, in order, and which of them each row sees.
#include "kernels/attention_private.h"

static void
s_run(int64_t start, int64_t length, bool own, verl_attention_visit_t visit, void *context)
{
    for (int64_t done = 0; done < length; done += VERL_ATTENTION_KEYS) {
        int64_t keys = length - done < VERL_ATTENTION_KEYS ? length - done : VERL_ATTENTION_KEYS;
        visit(context, &(verl_attention_block_t){ .start = start + done, .keys = keys, .own = own });
    }
}

// As deep as the tree of segments, which the caller bounds.
static void
s_chain(const verl_attention_plan_t *plan, int64_t segment, verl_attention_visit_t visit, void *context)
{
    if (segment < 0)
        return;
    s_chain(plan, plan->segments[segment].parent, visit, context);
    s_run(plan->segments[segment].start, plan->segments[segment].length, false, visit, context);
}

void
verl_attention_blocks(const verl_attention_plan_t *plan, const verl_attention_tile_t *tile,
                      verl_attention_visit_t visit, void *context)
{
    s_chain(plan, tile->parent, visit, context);
    s_run(tile->own, tile->row + tile->rows - tile->own, true, visit, context);
}

void
verl_attention_visible(const verl_attention_plan_t *plan, const verl_attention_block_t *block, int64_t row,
                       int64_t *ret_low, int64_t *ret_high)
{
    int64_t low = 0, high = block->keys;
    if (block->own) {
        low = plan->segment_start[row] - block->start;
        low = low < 0 ? 0 : low;
        high = row + 1 - block->start < high ? row + 1 - block->start : high;
    }
    *ret_low = low;
    *ret_high = high > low ? high : low;
}
