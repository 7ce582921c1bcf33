// rope.h: rotary position embedding, half-split as in Hugging Face's models: x[i] pairs with x[i + head_dim / 2].
#ifndef VERL_KERNELS_ROPE_H
#define VERL_KERNELS_ROPE_H
#include <stdbool.h>
#include <stdint.h>

typedef enum { VERL_ROPE_SCALE_NONE, VERL_ROPE_SCALE_LINEAR, VERL_ROPE_SCALE_LLAMA3 } verl_rope_scale_t;

typedef struct verl_rope {
    double theta;
    verl_rope_scale_t scale;
    double factor, low_freq_factor, high_freq_factor, original_max_positions;   // of LINEAR: factor only
} verl_rope_t;

// Frequencies [head_dim / 2] in f32, as the reference implementation rounds them. LLAMA3: wavelengths beyond
// original / low_freq_factor are divided by factor, those under original / high_freq_factor kept, blended between.
void verl_rope_frequencies(const verl_rope_t *rope, int64_t head_dim, float *ret_frequencies);

// Rows of [cos | sin], head_dim floats each, for positions first … first + count - 1.
void verl_rope_table(int64_t head_dim, const float *frequencies, int64_t first, int64_t count, float *ret_table);

// Rotates heads adjacent vectors of head_dim in each row in place, by that row's position in the table. inverse turns
// back, which is the gradient.
void verl_rope_apply(int64_t rows, int64_t heads, int64_t head_dim, float *x, int64_t ldx, const int64_t *positions,
                     const float *table, bool inverse, int threads);
#endif
