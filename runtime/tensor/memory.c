// memory.c: blocks of the heap. See memory.h.
#include "runtime/tensor/memory.h"
#include <stdlib.h>

static int
s_take(void *context, size_t bytes, verl_block_t *ret, verl_error_t *error)
{
    (void) context;
    size_t room = (bytes | 1) + (VERL_BLOCK_ALIGN - 1);
    room -= room % VERL_BLOCK_ALIGN;
    void *data = room > bytes ? aligned_alloc(VERL_BLOCK_ALIGN, room) : NULL;
    if (!data)
        return verl_error_set(error, "no memory for a block of %zu bytes", bytes);
    *ret = (verl_block_t) {.data = data, .bytes = bytes};
    return 0;
}

static void
s_give(void *context, const verl_block_t *block)
{
    (void) context;
    free(block->data);
}

const verl_memory_t *
verl_heap_memory(void)
{
    static const verl_memory_t heap = {.take = s_take, .give = s_give};
    return &heap;
}
