// attention_plan.c: cuts a packed batch into tiles of queries that share their keys.
//
// Short neighbours with one parent go into one tile, so that the parent's keys are read once for all of them; long
// segments are cut into several tiles.
#include <stdlib.h>
#include "kernels/attention.h"
#include "kernels/attention_private.h"

enum { S_SHORT = 16, S_MERGED = 32 };       // rows of a segment that may share a tile; rows of a shared tile

static int64_t
s_rows(const verl_segment_t *segments, int64_t count)
{
    return count > 0 ? segments[count - 1].start + segments[count - 1].length : 0;
}

static int64_t
s_root(const verl_segment_t *segments, int64_t index)
{
    while (segments[index].parent >= 0)
        index = segments[index].parent;
    return index;
}

// How many segments from index on go into one tile.
static int64_t
s_mergeable(const verl_segment_t *segments, int64_t count, int64_t index, bool alone)
{
    int64_t rows = segments[index].length, next = index + 1;
    if (alone || rows > S_SHORT)
        return 1;
    while (next < count && segments[next].parent == segments[index].parent && segments[index].parent >= 0
           && segments[next].length <= S_SHORT && rows + segments[next].length <= S_MERGED)
        rows += segments[next++].length;
    return next - index;
}

static void
s_cut_tiles(verl_attention_plan_t *plan, int64_t count, bool alone)
{
    const verl_segment_t *segments = plan->segments;
    for (int64_t i = 0; i < count;) {
        int64_t merged = s_mergeable(segments, count, i, alone), start = segments[i].start;
        int64_t end = segments[i + merged - 1].start + segments[i + merged - 1].length;
        for (int64_t row = start; row < end; row += VERL_ATTENTION_ROWS)
            plan->tiles[plan->tile_count++] = (verl_attention_tile_t){
                .row = row, .rows = end - row < VERL_ATTENTION_ROWS ? end - row : VERL_ATTENTION_ROWS,
                .own = start, .parent = segments[i].parent, .root = s_root(segments, i) };
        for (int64_t k = i; k < i + merged; k++)
            for (int64_t row = 0; row < segments[k].length; row++)
                plan->segment_start[segments[k].start + row] = segments[k].start;
        i += merged;
    }
}

static int
s_compare(const void *a, const void *b)
{
    const verl_attention_tile_t *x = a, *y = b;
    if (x->root != y->root)
        return x->root < y->root ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static void
s_find_trees(verl_attention_plan_t *plan)
{
    qsort(plan->tiles, (size_t) plan->tile_count, sizeof plan->tiles[0], s_compare);
    for (int64_t i = 0; i < plan->tile_count; i++)
        if (i == 0 || plan->tiles[i].root != plan->tiles[i - 1].root)
            plan->trees[plan->tree_count++] = i;
    plan->trees[plan->tree_count] = plan->tile_count;
}

int
verl_attention_plan_init(verl_attention_plan_t *plan, const verl_segment_t *segments, int64_t count, bool alone)
{
    int64_t rows = s_rows(segments, count), most = count + rows / VERL_ATTENTION_ROWS + 1;
    *plan = (verl_attention_plan_t){ .segments = segments };
    plan->segment_start = malloc((size_t) (rows + 1) * sizeof plan->segment_start[0]);
    plan->tiles = malloc((size_t) most * sizeof plan->tiles[0]);
    plan->trees = malloc((size_t) (count + 1) * sizeof plan->trees[0]);
    if (!plan->segment_start || !plan->tiles || !plan->trees) {
        verl_attention_plan_done(plan);
        return -1;
    }
    s_cut_tiles(plan, count, alone);
    s_find_trees(plan);
    return 0;
}

verl_attention_plan_t
verl_attention_plan_part(const verl_attention_plan_t *plan, int64_t begin, int64_t end)
{
    verl_attention_plan_t part = *plan;
    part.trees += begin;
    part.tree_count = end - begin;
    part.tile_count = part.trees[part.tree_count] - part.trees[0];
    return part;
}

void
verl_attention_plan_done(verl_attention_plan_t *plan)
{
    free(plan->segment_start);
    free(plan->tiles);
    free(plan->trees);
    *plan = (verl_attention_plan_t){ 0 };
}
