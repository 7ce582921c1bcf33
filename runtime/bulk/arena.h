// arena.h: an actor's side of shared memory: takes blocks to write, maps the slabs of others to read.
//
// Slabs come from the node (bulk/server.h), grow from 4 to 256 MiB (or to what one block needs) and are cut into blocks
// first-fit from the lowest address, so that warm pages are used again. What is free is known only in private memory:
// no other process can damage it, and a slab holds nothing but blocks. Invariants: live blocks never overlap; the slabs
// of others are mapped read-only and once. Every function may be called from any thread. take and map may wait for the
// node (at most 5 s, then they say so) and for the first touch of a new slab; give, release and tend do not wait for
// it.
#ifndef VERL_BULK_ARENA_H
#define VERL_BULK_ARENA_H
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/error.h"
#include "runtime/tensor/memory.h"

typedef struct verl_arena verl_arena_t;

// fd: the end that verl_bulk_server_add returned; the arena's from now on, also on failure. Takes no slab yet. NULL and
// the reason.
verl_arena_t *verl_arena_new(int fd, verl_error_t *error);

// Unmaps everything and closes the connection. Blocks and mappings must not be used after it. Sets the pointer to NULL;
// *arena may be NULL. The slabs live on at the node until verl_bulk_server_gone.
void verl_arena_destroy(verl_arena_t **arena);

// A block of at least `bytes` bytes, aligned to VERL_BLOCK_ALIGN; contents undefined. -1 and the reason: the run's
// limit or the system's memory is reached, or the node is gone.
int  verl_arena_take(verl_arena_t *arena, size_t bytes, verl_block_t *ret, verl_error_t *error);
// Takes back a block that verl_arena_take returned (found by slab and offset). A block that is not live is ignored.
void verl_arena_give(verl_arena_t *arena, const verl_block_t *block);

// Lets go of what is no longer wanted: an empty slab (all but the largest, after 5 s or when more than two are empty),
// and the mapping of a slab that was retired and is not in use. To be called now and then, for instance with each
// heartbeat.
void verl_arena_tend(verl_arena_t *arena);

// The arena as a made batch and as an unpacked one want it. Valid as long as the arena.
verl_memory_t verl_arena_memory(verl_arena_t *arena);
verl_slabs_t  verl_arena_slabs(verl_arena_t *arena);

typedef struct verl_arena_stats {
    uint64_t live_bytes, live_blocks;       // taken and not given back
    uint64_t slab_bytes, slabs;             // of this writer
    uint64_t read_bytes, read_slabs;        // mapped from others (or from itself, as a reader)
} verl_arena_stats_t;

uint64_t           verl_arena_live_bytes(verl_arena_t *arena);
verl_arena_stats_t verl_arena_stats(verl_arena_t *arena);
#endif
