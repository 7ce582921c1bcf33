// softmax.c: log-sum-exp, entropy and gradient over a row of logits.
#include "kernels/softmax.h"
#include <math.h>
#include "kernels/vector.h"

VERL_INLINE int64_t
s_count(int64_t n, int64_t i)
{
    return n - i < VERL_LANES ? n - i : VERL_LANES;
}

VERL_INLINE verl_vf
s_load(const float *from, int64_t n, int64_t i)
{
    return n - i >= VERL_LANES ? verl_vf_load(from + i) : verl_vf_load_some(from + i, n - i);
}

// All bits set in the lanes that hold a logit.
VERL_INLINE verl_vi
s_used(int64_t n, int64_t i)
{
    verl_vi used = { 0 };
    for (int lane = 0; lane < VERL_LANES; lane++)
        used[lane] = lane < n - i ? -1 : 0;
    return used;
}

// The largest logit; NaN where one is not finite.
static float
s_largest(int64_t n, const float *logits)
{
    verl_vf top = verl_vf_all(logits[0]), bad = { 0 };
    for (int64_t i = 0; i < n; i += VERL_LANES) {
        verl_vf v = s_load(logits, n, i);
        if (s_count(n, i) < VERL_LANES)
            v = verl_vf_select(s_used(n, i), v, top);
        top = verl_vf_max(v, top);
        bad += v * 0.0f;
    }
    float best = top[0];
    for (int i = 1; i < VERL_LANES; i++)
        best = top[i] > best ? top[i] : best;
    return best + verl_vf_sum(bad);
}

int
verl_softmax_measure(int64_t n, const float *logits, float inverse_temperature, float *ret_lse,
                     float *ret_entropy)
{
    float top = s_largest(n, logits) * inverse_temperature;
    if (!isfinite(top))
        return -1;
    double sum = 0, weighted = 0;
    for (int64_t start = 0; start < n; start += 4096) {
        verl_vf part = { 0 }, part_weighted = { 0 };
        for (int64_t i = start; i < n && i < start + 4096; i += VERL_LANES) {
            verl_vf z = verl_vf_fma(s_load(logits, n, i), verl_vf_all(inverse_temperature), verl_vf_all(-top));
            verl_vf e = verl_vf_exp(z);
            if (s_count(n, i) < VERL_LANES)
                e = verl_vf_select(s_used(n, i), e, (verl_vf){ 0 });
            part += e;
            part_weighted = verl_vf_fma(e, z, part_weighted);
        }
        sum += (double) verl_vf_sum(part);
        weighted += (double) verl_vf_sum(part_weighted);
    }
    *ret_lse = (float) ((double) top + log(sum));
    if (ret_entropy)
        *ret_entropy = (float) (log(sum) - weighted / sum);
    return 0;
}

int64_t
verl_softmax_not_finite(int64_t n, const float *logits)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(logits[i]))
            return i;
    return -1;
}

// By z = logits * inverse_temperature: d log p_t / dz_j = [j = t] - p_j, dH / dz_j = -p_j (log p_j + H).
void
verl_softmax_backward(int64_t n, float *logits, float inverse_temperature, float lse, float entropy,
                      float d_logprobs, float d_entropy)
{
    for (int64_t i = 0; i < n; i += VERL_LANES) {
        verl_vf lp = verl_vf_fma(s_load(logits, n, i), verl_vf_all(inverse_temperature), verl_vf_all(-lse));
        verl_vf d = -verl_vf_exp(lp) * (d_logprobs + d_entropy * (lp + entropy)) * inverse_temperature;
        if (n - i >= VERL_LANES)
            verl_vf_store(logits + i, d);
        else
            verl_vf_store_some(logits + i, d, n - i);
    }
}
