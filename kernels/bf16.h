// bf16.h: between f32 and bfloat16, rounding to nearest even; NaN stays NaN.
#ifndef VERL_KERNELS_BF16_H
#define VERL_KERNELS_BF16_H
#include <stdint.h>

void verl_bf16_from_f32(int64_t count, const float *from, uint16_t *to, int threads);
void verl_f32_from_bf16(int64_t count, const uint16_t *from, float *to, int threads);

// to[i] = the nearest bfloat16 of from[i], kept as f32; to may be from.
void verl_bf16_round(int64_t count, const float *from, float *to, int threads);
#endif
