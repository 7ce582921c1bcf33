// memory.h: where the bytes of columns live: blocks that are taken and given back, slabs that are mapped.
//
// Two small interfaces, so that a batch does not know whether it lives in a heap or in shared memory.
#ifndef VERL_TENSOR_MEMORY_H
#define VERL_TENSOR_MEMORY_H
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/error.h"

#define VERL_BLOCK_ALIGN 64                 // bytes; of every block and of the data behind a column's offsets

// A piece of memory. slab 0: of this process alone, so what it holds travels inline; else `offset` bytes into that
// slab, where every process of the host can map it.
typedef struct verl_block {
    void    *data;
    uint64_t slab, offset, bytes;
} verl_block_t;

// Where made batches take their blocks. take returns at least `bytes` (>= 1) bytes, aligned to VERL_BLOCK_ALIGN, with
// undefined contents, or -1 and the reason; give takes one back, in any order. Both are called from any thread.
typedef struct verl_memory {
    int  (*take)(void *context, size_t bytes, verl_block_t *ret, verl_error_t *error);
    void (*give)(void *context, const verl_block_t *block);
    void  *context;
} verl_memory_t;

// How the reader of a message finds a slab. map returns the first byte of a slab (aligned to a page, read-only) and its
// size, or NULL and the reason; the mapping stays until release was called as often as map was. Any thread.
typedef struct verl_slabs {
    const char *(*map)(void *context, uint64_t slab, uint64_t *ret_bytes, verl_error_t *error);
    void        (*release)(void *context, uint64_t slab);    // NULL: mappings stay for ever
    void         *context;
} verl_slabs_t;

// Blocks of the heap, with slab 0: for tests, and for actors whose readers share their process.
const verl_memory_t *verl_heap_memory(void);
#endif
