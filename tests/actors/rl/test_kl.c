// KL estimators: golden values, slopes by finite differences, clamps, the adaptive coefficient, the penalty in rewards.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "actors/rl/kl.h"

Test(kl, golden_values)
{
    const double lp[] = { -1, -2, -.1 }, ref[] = { -1.5, -1, -.1 };
    const double k1[] = { .5, -1, 0 }, k2[] = { .125, .5, 0 }, k3[] = { .10653066, .718281828, 0 };
    for (int i = 0; i < 3; i++) {
        cr_assert_float_eq(verl_kl_estimate(VERL_KL_K1, lp[i], ref[i], NULL), k1[i], 1e-9);
        cr_assert_float_eq(verl_kl_estimate(VERL_KL_ABS, lp[i], ref[i], NULL), fabs(k1[i]), 1e-9);
        cr_assert_float_eq(verl_kl_estimate(VERL_KL_K2, lp[i], ref[i], NULL), k2[i], 1e-9);
        cr_assert_float_eq(verl_kl_estimate(VERL_KL_K3, lp[i], ref[i], NULL), k3[i], 1e-8);
        cr_assert_float_eq(verl_kl_estimate(VERL_KL_K3_PLUS, lp[i], ref[i], NULL), k3[i], 1e-8);
    }
}

Test(kl, slopes_are_derivatives_and_plus_kinds_have_that_of_k2)
{
    const double step = 1e-6;
    for (int kind = 0; kind < VERL_KL_KINDS; kind++)
        for (double d = -1.9; d < 2; d += 0.31) {
            double slope, up, down, ignored;
            verl_kl_estimate((verl_kl_t) kind, d - 1, -1, &slope);
            verl_kl_t of = kind >= VERL_KL_K1_PLUS ? VERL_KL_K2 : (verl_kl_t) kind;
            up = verl_kl_estimate(of, d - 1 + step, -1, &ignored);
            down = verl_kl_estimate(of, d - 1 - step, -1, &ignored);
            cr_assert_float_eq(slope, (up - down) / (2 * step), 1e-6, "%s at %g", verl_kl_name(kind), d);
        }
}

Test(kl, k3_is_clamped_and_flat_there)
{
    double slope = 7;
    cr_assert_float_eq(verl_kl_estimate(VERL_KL_K3, -100, -1, &slope), 10, 0);
    cr_assert_eq(slope, 0);
    cr_assert_float_eq(verl_kl_estimate(VERL_KL_K3, -1, -100, &slope), 10, 0);
    cr_assert_eq(slope, 0);
    cr_assert_float_eq(verl_kl_estimate(VERL_KL_K3, -1, -9, &slope), 7 + exp(-8), 1e-9);
    cr_assert_float_eq(slope, 1 - exp(-8), 1e-9);
}

Test(kl, names_and_aliases)
{
    cr_assert_eq(verl_kl_find("low_var_kl"), VERL_KL_K3);
    cr_assert_eq(verl_kl_find("kl"), VERL_KL_K1);
    cr_assert_eq(verl_kl_find("mse"), VERL_KL_K2);
    cr_assert_eq(verl_kl_find("k3+"), VERL_KL_K3_PLUS);
    cr_assert_eq(verl_kl_find("full"), -1);
    for (int kind = 0; verl_kl_name(kind); kind++)
        cr_assert_eq(verl_kl_find(verl_kl_name(kind)), kind);
}

Test(kl, golden_adaptive_coefficient)
{
    cr_assert_float_eq(verl_kl_adapt(.2, .05, .1, 1e4, 256), .198976, 1e-12);
    cr_assert_float_eq(verl_kl_adapt(.2, 10, .1, 1e4, 256), .2 * (1 + .2 * .0256), 1e-12);
}

Test(kl, the_penalty_comes_off_the_rewards_of_counted_tokens)
{
    const int64_t offsets[] = { 0, 3, 3, 4 };
    const uint8_t mask[] = { 1, 1, 0, 0 };
    const float old_lp[] = { -1, -2, -3, -4 }, ref_lp[] = { -1.5f, -1, NAN, NAN }, given[] = { 0, 1, 5, 7 };
    float rewards[4];
    verl_ragged_t rows = { 3, offsets, mask };
    double mean = verl_kl_penalize(VERL_KL_K1, 0.1, &rows, old_lp, ref_lp, given, rewards);
    cr_assert_float_eq(mean, -.25, 1e-12); // row 0: (.5 - 1) / 2; the others count nothing
    cr_assert_float_eq(rewards[0], -.05, 1e-7);
    cr_assert_float_eq(rewards[1], 1.1, 1e-6);
    cr_assert_eq(rewards[2], 5);
    cr_assert_eq(rewards[3], 7);
    verl_kl_penalize(VERL_KL_K1, 0.1, &rows, old_lp, ref_lp, NULL, rewards);
    cr_assert_float_eq(rewards[1], .1, 1e-7);
    cr_assert_eq(rewards[3], 0);
}
