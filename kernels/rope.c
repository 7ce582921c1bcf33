// rope.c: rotary position embedding from a table of cosines and sines.
#include "kernels/rope.h"
#include <math.h>

static double
s_llama3(const verl_rope_t *rope, double frequency)
{
    double wavelength = 2 * M_PI / frequency, original = rope->original_max_positions;
    if (wavelength < original / rope->high_freq_factor)
        return frequency;
    if (wavelength > original / rope->low_freq_factor)
        return frequency / rope->factor;
    double smooth = (original / wavelength - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
    return (1 - smooth) * frequency / rope->factor + smooth * frequency;
}

void
verl_rope_frequencies(const verl_rope_t *rope, int64_t head_dim, float *ret_frequencies)
{
    for (int64_t i = 0; i < head_dim / 2; i++) {
        double frequency = (double) (float) (1.0 / pow(rope->theta, (double) (2 * i) / (double) head_dim));
        if (rope->scale == VERL_ROPE_SCALE_LINEAR)
            frequency /= rope->factor;
        else if (rope->scale == VERL_ROPE_SCALE_LLAMA3)
            frequency = s_llama3(rope, frequency);
        ret_frequencies[i] = (float) frequency;
    }
}

void
verl_rope_table(int64_t head_dim, const float *frequencies, int64_t first, int64_t count, float *ret_table)
{
    int64_t half = head_dim / 2;
    for (int64_t p = 0; p < count; p++)
        for (int64_t i = 0; i < half; i++) {
            float angle = (float) (first + p) * frequencies[i];
            ret_table[p * head_dim + i] = (float) cos((double) angle);
            ret_table[p * head_dim + half + i] = (float) sin((double) angle);
        }
}

void
verl_rope_apply(int64_t rows, int64_t heads, int64_t head_dim, float *x, int64_t ldx, const int64_t *positions,
                const float *table, bool inverse, int threads)
{
    int64_t half = head_dim / 2;
    float sign = inverse ? -1.0f : 1.0f;
    threads = rows * heads * head_dim < 50000 ? 1 : threads;
    #pragma omp parallel for num_threads(threads) schedule(static) if(threads > 1)
    for (int64_t row = 0; row < rows; row++) {
        const float *cosine = table + positions[row] * head_dim, *sine = cosine + half;
        for (int64_t h = 0; h < heads; h++) {
            float *low = x + row * ldx + h * head_dim, *high = low + half;
            #pragma omp simd
            for (int64_t i = 0; i < half; i++) {
                float a = low[i], b = high[i], s = sign * sine[i];
                low[i] = a * cosine[i] - b * s;
                high[i] = b * cosine[i] + a * s;
            }
        }
    }
}
