// linear.h: the products of a linear layer, y = x W^T, and their gradients.
//
// Matrices are row-major; W is [outputs, inputs]. Every element is one sum in an order that depends on the length of
// that sum only: not on the other rows, nor on the number of threads. Operands may be unaligned and strided; results
// must not overlap operands. No function allocates; the packed ones use up to 350 KiB of stack.
#ifndef VERL_KERNELS_LINEAR_H
#define VERL_KERNELS_LINEAR_H
#include <stdbool.h>
#include <stdint.h>

// A weight matrix in one of two types, rows `stride` elements apart.
typedef struct verl_weight {
    const float    *f32;                    // or NULL
    const uint16_t *bf16;                   // where f32 is NULL; the caller rounds the other operand (bf16.h)
    int64_t stride;
} verl_weight_t;

// y[m, n] = x[m, k] W[n, k]^T + bias[n] (bias may be NULL). With add, y += instead.
void verl_linear_forward(int64_t m, int64_t n, int64_t k, const float *x, int64_t ldx, verl_weight_t w,
                         const float *bias, bool add, float *y, int64_t ldy, int threads);

// dx[m, k] = dy[m, n] W[n, k]. With add, dx += instead.
void verl_linear_backward_input(int64_t m, int64_t n, int64_t k, const float *dy, int64_t lddy, verl_weight_t w,
                                bool add, float *dx, int64_t lddx, int threads);

// dW[n, k] += dy[m, n]^T x[m, k]. bf16: all values of dy and x are exact in bfloat16.
void verl_linear_backward_weight(int64_t m, int64_t n, int64_t k, const float *dy, int64_t lddy, const float *x,
                                 int64_t ldx, bool bf16, float *dw, int64_t lddw, int threads);

// dbias[n] += the column sums of dy[m, n].
void verl_linear_backward_bias(int64_t m, int64_t n, const float *dy, int64_t lddy, float *dbias);
#endif
