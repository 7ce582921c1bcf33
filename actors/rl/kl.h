// kl.h: estimators of the KL divergence of a policy from a reference, from the log-probabilities of sampled tokens.
//
// With d = lp - ref (Schulman, "Approximating KL divergence", 2020): k1 = d, k2 = d^2 / 2, k3 = exp(-d) + d - 1.
// k3 is clamped for safety: -d to [-20, 20] before exp, the result to [-10, 10]; where a clamp holds, the slope is 0.
// A kind with "+" has the value of its base and the slope of k2, whose expectation is the true gradient.
// Pure functions; thread-safe.
#ifndef VERL_RL_KL_H
#define VERL_RL_KL_H
#include <stddef.h>
#include <stdint.h>

#include "actors/rl/ragged.h"

typedef enum {
    VERL_KL_K1,
    VERL_KL_ABS,
    VERL_KL_K2,
    VERL_KL_K3,
    VERL_KL_K1_PLUS,
    VERL_KL_ABS_PLUS,
    VERL_KL_K3_PLUS,
    VERL_KL_KINDS
} verl_kl_t;

// The kind of a name: k1 (or kl), abs, k2 (or mse), k3 (or low_var_kl), and k1+, abs+, k3+ (or kl+, low_var_kl+); -1
// where none has it.
int verl_kl_find(const char *name);

// Our name of a kind, for help; NULL past the last.
const char *verl_kl_name(int kind);

// The estimate of one token; *slope (may be NULL) gets d(estimate) / d(lp).
double verl_kl_estimate(verl_kl_t kind, double lp, double ref_lp, double *slope);

// The adaptive coefficient (Ziegler et al., "Fine-tuning language models from human preferences", 2019, section 2.2):
// coef * (1 + clip(kl / target - 1, -0.2, 0.2) * steps / horizon). steps: sequences since the last call.
double verl_kl_adapt(double coef, double kl, double target, double horizon, double steps);

// Rewards with the penalty inside: rewards[t] = token_rewards[t] - coef * kl(old_lp, ref_lp) on counted tokens, and
// token_rewards[t] on the others; token_rewards may be NULL: all 0. Scores of rows stay as they are beside them.
// Returns the mean over rows of each row's mean estimate (rows without a counted token left out; 0 where all are).
double verl_kl_penalize(verl_kl_t kind, double coef, const verl_ragged_t *rows, const float *old_lp,
                        const float *ref_lp, const float *token_rewards, float *rewards);

#endif
