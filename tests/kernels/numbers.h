// numbers.h: arrays of reproducible numbers, and comparison, for the tests of kernels.
#ifndef TEST_KERNELS_NUMBERS_H
#define TEST_KERNELS_NUMBERS_H
#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// count floats in about [-scale, scale], a function of seed; the caller frees. One more than asked, so that 0 works.
static inline float *
numbers_new(int64_t count, uint64_t seed, double scale)
{
    float *x = malloc((size_t) (count + 1) * sizeof(float));
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
    for (int64_t i = 0; i <= count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float) (scale * ((double) (state >> 33) / 0x1p30 - 1));
    }
    return x;
}

static inline float *
numbers_zero(int64_t count)
{
    return calloc((size_t) count + 1, sizeof(float));
}

static inline float *
numbers_copy(const float *from, int64_t count)
{
    float *x = malloc((size_t) (count + 1) * sizeof(float));
    memcpy(x, from, (size_t) count * sizeof(float));
    return x;
}

// |a - b| / (|b| + tiny), over all count.
static inline double
numbers_distance(const float *a, const float *b, int64_t count)
{
    double difference = 0, norm = 1e-20;
    for (int64_t i = 0; i < count; i++) {
        difference += ((double) a[i] - (double) b[i]) * ((double) a[i] - (double) b[i]);
        norm += (double) b[i] * (double) b[i];
    }
    return sqrt(difference / norm);
}

static inline double
numbers_largest(const float *a, const float *b, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs((double) a[i] - (double) b[i]));
    return most;
}

static inline double
numbers_dot(const float *a, const float *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double) a[i] * (double) b[i];
    return sum;
}

// Compares gradient with central differences of loss in count places of x, which it moves and puts back.
typedef double (*numbers_loss_t)(void *context);
static inline void
numbers_check_gradient(float *x, const float *gradient, int64_t count, double step, double tolerance,
                       numbers_loss_t loss, void *context, const char *what)
{
    double largest = 1e-12;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double) gradient[i]));
    for (int64_t i = 0; i < count; i++) {
        float kept = x[i];
        x[i] = (float) ((double) kept + step);
        double high = loss(context), to = (double) x[i];
        x[i] = (float) ((double) kept - step);
        double slope = (high - loss(context)) / (to - (double) x[i]);
        x[i] = kept;
        cr_expect(fabs(slope - (double) gradient[i]) < tolerance * largest, "%s[%lld]: gradient %g, slope %g", what,
                  (long long) i, (double) gradient[i], slope);
    }
}
#endif
