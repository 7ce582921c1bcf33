// extents.h: which bytes of one slab are taken. First fit from the lowest address, neighbours that are free become one.
//
// Invariants: the extents are sorted, cover the slab without a gap, and no two free ones touch. All in private memory;
// giving never needs any. For the files of runtime/bulk alone; no locks.
#ifndef VERL_BULK_EXTENTS_H
#define VERL_BULK_EXTENTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct verl_extent {
    uint64_t offset, bytes;
    bool     live;
} verl_extent_t;

typedef struct verl_extents {
    verl_extent_t *items;
    size_t         count, room;
    size_t         low;                     // no free extent lies before this index
    uint64_t       free_bytes, live_bytes, live;     // live: extents
} verl_extents_t;

int  verl_extents_init(verl_extents_t *extents, uint64_t bytes);       // -1 without memory
void verl_extents_done(verl_extents_t *extents);
// Takes `bytes` bytes (> 0) from the lowest free extent that has them. Returns false where none has, or without memory.
bool verl_extents_take(verl_extents_t *extents, uint64_t bytes, uint64_t *ret_offset);
// Gives back the live extent that begins at offset. Returns false where there is none.
bool verl_extents_give(verl_extents_t *extents, uint64_t offset);
#endif
