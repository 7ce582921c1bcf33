// extents.c: see extents.h.
#include "runtime/bulk/extents.h"
#include <stdlib.h>
#include <string.h>

int
verl_extents_init(verl_extents_t *extents, uint64_t bytes)
{
    *extents = (verl_extents_t) {.room = 16, .free_bytes = bytes};
    extents->items = malloc(extents->room * sizeof *extents->items);
    if (!extents->items)
        return -1;
    extents->items[0] = (verl_extent_t) {.bytes = bytes};
    extents->count = 1;
    return 0;
}

void
verl_extents_done(verl_extents_t *extents)
{
    free(extents->items);
    *extents = (verl_extents_t) {0};
}

// Moves the items from `from` on to `to`.
static void
s_move(verl_extents_t *extents, size_t to, size_t from)
{
    memmove(extents->items + to, extents->items + from, (extents->count - from) * sizeof *extents->items);
    extents->count = extents->count + to - from;
}

static bool
s_grow(verl_extents_t *extents)
{
    if (extents->count < extents->room)
        return true;
    verl_extent_t *items = realloc(extents->items, extents->room * 2 * sizeof *items);
    if (!items)
        return false;
    extents->items = items;
    extents->room *= 2;
    return true;
}

bool
verl_extents_take(verl_extents_t *extents, uint64_t bytes, uint64_t *ret_offset)
{
    if (extents->free_bytes < bytes || !s_grow(extents))
        return false;
    bool first = true;                      // free extent seen: the next search may begin there
    for (size_t i = extents->low; i < extents->count; i++) {
        verl_extent_t *item = &extents->items[i];
        if (item->live)
            continue;
        if (first)
            extents->low = i;
        first = false;
        if (item->bytes < bytes)
            continue;
        if (item->bytes > bytes) {
            s_move(extents, i + 1, i);
            extents->items[i + 1].offset += bytes;
            extents->items[i + 1].bytes -= bytes;
            item->bytes = bytes;
        }
        item->live = true;
        extents->free_bytes -= bytes;
        extents->live_bytes += bytes;
        extents->live++;
        *ret_offset = item->offset;
        return true;
    }
    return false;
}

// The index of the extent that begins at offset, or count.
static size_t
s_find(const verl_extents_t *extents, uint64_t offset)
{
    size_t low = 0, high = extents->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (extents->items[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < extents->count && extents->items[low].offset == offset ? low : extents->count;
}

bool
verl_extents_give(verl_extents_t *extents, uint64_t offset)
{
    size_t i = s_find(extents, offset);
    if (i == extents->count || !extents->items[i].live)
        return false;
    verl_extent_t *item = &extents->items[i];
    item->live = false;
    extents->free_bytes += item->bytes;
    extents->live_bytes -= item->bytes;
    extents->live--;
    if (i + 1 < extents->count && !item[1].live) {
        item->bytes += item[1].bytes;
        s_move(extents, i + 1, i + 2);
    }
    if (i > 0 && !item[-1].live) {
        item[-1].bytes += item->bytes;
        s_move(extents, i, i + 1);
        i--;
    }
    if (i < extents->low)
        extents->low = i;
    return true;
}
