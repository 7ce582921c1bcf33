// embedding.h: rows of a table by id, and the gradient of the table.
#ifndef VERL_KERNELS_EMBEDDING_H
#define VERL_KERNELS_EMBEDDING_H
#include <stdint.h>

// y[row] = table[ids[row]], n floats each. Ids are checked by the caller.
void verl_embedding_forward(int64_t rows, int64_t n, const int32_t *ids, const float *table, float *y);

// dtable[ids[row]] += dy[row], row by row.
void verl_embedding_backward(int64_t rows, int64_t n, const int32_t *ids, const float *dy, float *dtable);
#endif
