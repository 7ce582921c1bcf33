// rmsnorm.h: y = x / sqrt(mean(x^2) + eps) * w (Zhang and Sennrich 2019), and its gradients.
//
// A row holds `groups` vectors of n adjacent floats, each normalised alone with the same w (heads of queries and keys);
// groups = 1 is the plain norm. Rows are ldx, ldy, … floats apart. Sums go in an order that depends on n only.
#ifndef VERL_KERNELS_RMSNORM_H
#define VERL_KERNELS_RMSNORM_H
#include <stdbool.h>
#include <stdint.h>

// y may be x.
void verl_rmsnorm_forward(int64_t rows, int64_t groups, int64_t n, double eps, const float *x, int64_t ldx,
                          const float *w, float *y, int64_t ldy, int threads);

// Given x (the input of forward) and dy: dx, or dx += where add. dx may be dy where not add.
void verl_rmsnorm_backward(int64_t rows, int64_t groups, int64_t n, double eps, const float *x, int64_t ldx,
                           const float *w, const float *dy, int64_t lddy, bool add, float *dx, int64_t lddx,
                           int threads);

// dw[n] += its gradient, row by row.
void verl_rmsnorm_backward_weight(int64_t rows, int64_t groups, int64_t n, double eps, const float *x, int64_t ldx,
                                  const float *dy, int64_t lddy, float *dw);
#endif
