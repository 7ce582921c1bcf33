// sampling.c: draws a token. What top-k and top-p keep is found by bisection over the bits of a threshold, so that no
// row is ever sorted: positive floats are ordered like their bits.
#include "kernels/sampling.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "kernels/softmax.h"
#include "kernels/vector.h"

enum { S_BLOCK = 1024 };

static float
s_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// What is left of the row: weights in [0, 1], those cut away 0.
typedef struct {
    int64_t n;
    float *weight;
} s_row_t;

static double
s_mass(const s_row_t *row, int64_t begin, int64_t end, float least)
{
    double total = 0;
    for (int64_t start = begin; start < end; start += S_BLOCK) {
        int64_t stop = start + S_BLOCK < end ? start + S_BLOCK : end;
        float sum = 0;
        #pragma omp simd reduction(+ : sum)
        for (int64_t i = start; i < stop; i++)
            sum += row->weight[i] >= least ? row->weight[i] : 0.0f;
        total += (double) sum;
    }
    return total;
}

static int64_t
s_how_many(const s_row_t *row, float least)
{
    int64_t count = 0;
    for (int64_t i = 0; i < row->n; i++)
        count += row->weight[i] >= least;
    return count;
}

// How much of the row is at or above a threshold: a count (top-k) or a sum of weights (top-p).
static double
s_above(const s_row_t *row, float least, bool by_count)
{
    return by_count ? (double) s_how_many(row, least) : s_mass(row, 0, row->n, least);
}

// The largest threshold with at least enough above it.
static float
s_threshold(const s_row_t *row, double enough, bool by_count)
{
    uint32_t low = 1, high = 0x3f800001u;               // the smallest positive float, and just above 1
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (s_above(row, s_float(middle), by_count) >= enough)
            low = middle;
        else
            high = middle;
    }
    return s_float(low);
}

// Cuts away all below the threshold, and of those equal to it all but the first that are needed.
static void
s_keep(const s_row_t *row, double enough, bool by_count)
{
    float threshold = s_threshold(row, enough, by_count);
    double have = s_above(row, nextafterf(threshold, 2.0f), by_count);
    for (int64_t i = 0; i < row->n; i++) {
        bool equal = row->weight[i] == threshold;
        if (row->weight[i] < threshold || (equal && have >= enough))
            row->weight[i] = 0;
        else if (equal)
            have += by_count ? 1 : (double) threshold;
    }
}

// The first place where the cumulative weight exceeds the share uniform of the whole.
static int64_t
s_invert(const s_row_t *row, double uniform)
{
    double target = uniform * s_mass(row, 0, row->n, 0), before = 0;
    int64_t start = 0, last = 0;
    for (; start + S_BLOCK < row->n; start += S_BLOCK) {
        double mass = s_mass(row, start, start + S_BLOCK, 0);
        if (before + mass > target)
            break;
        before += mass;
    }
    for (int64_t i = start; i < row->n; i++) {
        before += (double) row->weight[i];
        if (row->weight[i] > 0 && before > target)
            return i;
    }
    for (int64_t i = 0; i < row->n; i++)
        last = row->weight[i] > 0 ? i : last;
    return last;
}

static int64_t
s_largest(int64_t n, const float *logits)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

int
verl_sample_token(const verl_sampling_t *how, int64_t n, const float *logits, double uniform, float *scratch,
            int32_t *ret_id, float *ret_logprob)
{
    float inverse = how->temperature > 0 ? (float) (1 / how->temperature) : 1.0f, lse;
    if (verl_softmax_measure(n, logits, inverse, &lse, NULL))
        return -1;
    int64_t id = s_largest(n, logits);
    if (how->temperature > 0) {
        s_row_t row = { .n = n, .weight = scratch };
        float top = logits[id] * inverse;
        for (int64_t i = 0; i < n; i += VERL_LANES) {
            int64_t count = n - i < VERL_LANES ? n - i : VERL_LANES;
            verl_vf z = verl_vf_fma(verl_vf_load_some(logits + i, count), verl_vf_all(inverse), verl_vf_all(-top));
            verl_vf_store_some(scratch + i, verl_vf_exp(z), count);
        }
        if (how->top_k > 0 && how->top_k < n)
            s_keep(&row, (double) how->top_k, true);
        if (how->top_p < 1)
            s_keep(&row, how->top_p * s_mass(&row, 0, n, 0), false);
        id = s_invert(&row, uniform);
    }
    *ret_id = (int32_t) id;
    *ret_logprob = logits[id] * inverse - lse;
    return 0;
}
