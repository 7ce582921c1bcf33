// swiglu.h: h = silu(gate) * up (Shazeer 2020), on rows of [gate | up], n floats each.
#ifndef VERL_KERNELS_SWIGLU_H
#define VERL_KERNELS_SWIGLU_H
#include <stdint.h>

// h[rows, n] from gate_up[rows, 2 n], both without gaps between rows.
void verl_swiglu_forward(int64_t rows, int64_t n, const float *gate_up, float *h, int threads);

// Replaces gate_up by its gradient, given dh[rows, n].
void verl_swiglu_backward(int64_t rows, int64_t n, const float *dh, float *gate_up, int threads);
#endif
