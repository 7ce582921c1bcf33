// vector.h: memory for long vectors, such as all parameters of a model.
#ifndef VERL_ACTORS_LM_VECTOR_H
#define VERL_ACTORS_LM_VECTOR_H
#include <stddef.h>

// Uninitialised memory for `bytes` bytes, aligned to 64 at least; in large pages where it is long and the system has
// some, which are read and written from end to end a quarter faster. The caller frees it. NULL: no memory. Any thread.
void *verl_lm_vector(size_t bytes);
#endif
