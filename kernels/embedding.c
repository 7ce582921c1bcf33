// embedding.c: gathering rows, and adding their gradients back in order.
#include "kernels/embedding.h"
#include <string.h>

void
verl_embedding_forward(int64_t rows, int64_t n, const int32_t *ids, const float *table, float *y)
{
    for (int64_t row = 0; row < rows; row++)
        memcpy(y + row * n, table + ids[row] * n, (size_t) n * sizeof(float));
}

void
verl_embedding_backward(int64_t rows, int64_t n, const int32_t *ids, const float *dy, float *dtable)
{
    for (int64_t row = 0; row < rows; row++) {
        float *to = dtable + ids[row] * n;
        const float *from = dy + row * n;
        for (int64_t i = 0; i < n; i++)
            to[i] += from[i];
    }
}
