// vector.c: see vector.h.
#include "actors/lm/vector.h"
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define S_LARGE_PAGE ((size_t) 2 << 20)

void *
verl_lm_vector(size_t bytes)
{
    size_t align = bytes >= 2 * S_LARGE_PAGE ? S_LARGE_PAGE : 64;
    void *memory = bytes <= SIZE_MAX - align ? aligned_alloc(align, (bytes + align) / align * align) : NULL;
    if (memory && align == S_LARGE_PAGE)
        madvise(memory, bytes / align * align, MADV_HUGEPAGE);  // a hint: it fails where the system has none
    return memory;
}
