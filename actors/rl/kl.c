// kl.c: KL estimators, the adaptive coefficient, the penalty in rewards; see kl.h.
#include <math.h>
#include <string.h>

#include "actors/rl/kl.h"

#define INPUT_BOUND  20.0
#define OUTPUT_BOUND 10.0

static const struct {
    const char *name, *also;
} s_names[VERL_KL_KINDS] = {
    [VERL_KL_K1] = { "k1", "kl" },
    [VERL_KL_ABS] = { "abs", "abs" },
    [VERL_KL_K2] = { "k2", "mse" },
    [VERL_KL_K3] = { "k3", "low_var_kl" },
    [VERL_KL_K1_PLUS] = { "k1+", "kl+" },
    [VERL_KL_ABS_PLUS] = { "abs+", "abs+" },
    [VERL_KL_K3_PLUS] = { "k3+", "low_var_kl+" },
};

int
verl_kl_find(const char *name)
{
    for (int kind = 0; kind < VERL_KL_KINDS; kind++)
        if (strcmp(s_names[kind].name, name) == 0 || strcmp(s_names[kind].also, name) == 0)
            return kind;
    return -1;
}

const char *
verl_kl_name(int kind)
{
    return kind >= 0 && kind < VERL_KL_KINDS ? s_names[kind].name : NULL;
}

static double
s_clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double
s_k3(double d, double *slope)
{
    double x = s_clamp(-d, -INPUT_BOUND, INPUT_BOUND), raw = exp(x) - x - 1;
    *slope = x != -d || raw > OUTPUT_BOUND ? 0 : 1 - exp(x);
    return s_clamp(raw, -OUTPUT_BOUND, OUTPUT_BOUND);
}

double
verl_kl_estimate(verl_kl_t kind, double lp, double ref_lp, double *slope)
{
    double d = lp - ref_lp, value, own;
    switch (kind) {
    case VERL_KL_K1:
    case VERL_KL_K1_PLUS:
        value = d, own = 1;
        break;
    case VERL_KL_ABS:
    case VERL_KL_ABS_PLUS:
        value = fabs(d), own = (d > 0) - (d < 0);
        break;
    case VERL_KL_K2:
        value = d * d / 2, own = d;
        break;
    default:
        value = s_k3(d, &own);
        break;
    }
    if (slope)
        *slope = kind >= VERL_KL_K1_PLUS ? d : own;
    return value;
}

double
verl_kl_adapt(double coef, double kl, double target, double horizon, double steps)
{
    return coef * (1 + s_clamp(kl / target - 1, -0.2, 0.2) * steps / horizon);
}

double
verl_kl_penalize(verl_kl_t kind, double coef, const verl_ragged_t *rows, const float *old_lp, const float *ref_lp,
                 const float *token_rewards, float *rewards)
{
    double total = 0, counted = 0;
    for (int64_t row = 0; row < rows->rows; row++) {
        double sum = 0, length = 0;
        for (int64_t t = rows->offsets[row]; t < rows->offsets[row + 1]; t++) {
            rewards[t] = token_rewards ? token_rewards[t] : 0;
            if (!verl_ragged_counts(rows, t))
                continue;
            double kl = verl_kl_estimate(kind, (double) old_lp[t], (double) ref_lp[t], NULL);
            rewards[t] = (float) ((double) rewards[t] - coef * kl);
            sum += kl, length++;
        }
        total += length > 0 ? sum / length : 0;
        counted += length > 0;
    }
    return counted > 0 ? total / counted : 0;
}
