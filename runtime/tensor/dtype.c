// dtype.c: sizes and names of element types, from the one list in verl.h.
#include "runtime/include/verl.h"

size_t
verl_dtype_bytes(verl_dtype_t dtype)
{
    static const size_t bytes[] = {
#define X(id, size, name) [id] = size,
        VERL_DTYPE_MAP(X)
#undef X
    };
    return (unsigned) dtype < VERL_DTYPE_COUNT ? bytes[dtype] : 0;
}

const char *
verl_dtype_name(verl_dtype_t dtype)
{
    static const char *const names[] = {
#define X(id, size, name) [id] = name,
        VERL_DTYPE_MAP(X)
#undef X
    };
    return (unsigned) dtype < VERL_DTYPE_COUNT ? names[dtype] : "unknown";
}
