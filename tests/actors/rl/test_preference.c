// Preference losses: golden values and slopes by finite differences.
#include <criterion/criterion.h>
#include <math.h>

#include "actors/rl/preference.h"

Test(preference, golden_values)
{
    double slope, delta = (-10 - -11) - (-12 - -11.5);
    cr_assert_float_eq(verl_preference_loss(VERL_PREFERENCE_DPO, .1, 0, delta, &slope), .620957048, 1e-9);
    cr_assert_float_eq(verl_preference_loss(VERL_PREFERENCE_IPO, .1, 0, delta, &slope), 12.25, 1e-12);
}

Test(preference, slopes_are_derivatives)
{
    for (int kind = 0; verl_preference_name(kind); kind++)
        for (double delta = -30; delta < 31; delta += 7)
            for (double smoothing = 0; smoothing < 0.3; smoothing += 0.1) {
                double slope, ignored, step = 1e-5;
                verl_preference_loss((verl_preference_t) kind, .3, smoothing, delta, &slope);
                double up = verl_preference_loss((verl_preference_t) kind, .3, smoothing, delta + step, &ignored);
                double down = verl_preference_loss((verl_preference_t) kind, .3, smoothing, delta - step, &ignored);
                cr_assert_float_eq(slope, (up - down) / (2 * step), 1e-6);
            }
}

Test(preference, far_pairs_overflow_nothing)
{
    double slope;
    cr_assert_float_eq(verl_preference_loss(VERL_PREFERENCE_DPO, 1, 0, -1e6, &slope), 1e6, 1e-3);
    cr_assert_float_eq(slope, -1, 1e-12);
    cr_assert_float_eq(verl_preference_loss(VERL_PREFERENCE_DPO, 1, 0, 1e6, &slope), 0, 1e-12);
    cr_assert_eq(verl_preference_find("ipo"), VERL_PREFERENCE_IPO);
    cr_assert_eq(verl_preference_find("kto"), -1);
}
