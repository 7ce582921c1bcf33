// test_rate.c: learning rates follow the run, whatever its batches have.
#include <criterion/criterion.h>
#include "actors/policy/policy.h"

static const verl_policy_update_t s_linear = { .lr = 2, .schedule = VERL_SCHEDULE_LINEAR };

Test(rate, goes_by_the_share_of_the_batches_that_is_done)
{
    const verl_policy_place_t places[] = { { 0, 4, 0, 2, 0, 5 }, { 1, 4, 0, 2, 0, 5 }, { 1, 4, 1, 2, 0, 5 },
                                           { 3, 4, 1, 2, 4, 5 } };
    static const double expected[] = { 2, 1.5, 1.25, 0.05 };
    for (int i = 0; i < 4; i++)
        cr_expect_float_eq(verl_policy_rate(&s_linear, 7 * i, &places[i]), expected[i], 1e-12, "place %d", i);
}

Test(rate, without_warm_up_does_not_depend_on_the_steps_so_far)
{
    const verl_policy_place_t place = { 3, 7, 1, 3, 2, 11 };
    double first = verl_policy_rate(&s_linear, 0, &place);
    for (int64_t step = 1; step < 5000; step++)
        cr_assert_float_eq(verl_policy_rate(&s_linear, step, &place), first, 1e-15, "step %lld", (long long) step);
}

// Batches of 3 mini-batches of 2 groups, in 2 passes.
static void
s_check_alike(verl_policy_update_t *options, int64_t batches)
{
    verl_schedule_t all = { (verl_schedule_type_t) options->schedule, options->warmup_steps, batches * 6,
                            options->min_lr_ratio };
    for (int64_t step = 0; step < all.total; step++) {
        const verl_policy_place_t place = { step / 6, batches, step / 3 % 2, 2, step % 3 * 2, 6 };
        cr_assert_eq(verl_policy_rate(options, step, &place), options->lr * verl_schedule_factor(&all, step),
                     "step %lld", (long long) step);
    }
}

Test(rate, of_batches_that_are_alike_is_that_of_all_their_steps_to_the_bit)
{
    for (int schedule = VERL_SCHEDULE_CONSTANT; schedule <= VERL_SCHEDULE_COSINE; schedule++)
        for (int64_t warmup = 0; warmup < 40; warmup += 13)
            s_check_alike(&(verl_policy_update_t){ .lr = 3e-4, .schedule = schedule, .warmup_steps = warmup,
                                                   .min_lr_ratio = 0.1 }, 100);
}

Test(rate, goes_down_from_the_full_one_behind_warm_up_where_batches_are_not_alike)
{
    const verl_policy_update_t options = { .lr = 1, .schedule = VERL_SCHEDULE_LINEAR, .warmup_steps = 20 };
    double last = 1;
    int64_t step = 0;
    for (int64_t batch = 0; batch < 50; batch++) {
        int64_t groups = 1 + batch * 7 % 9;
        for (int64_t turn = 0; turn < groups; turn++, step++) {
            const verl_policy_place_t place = { batch, 50, 0, 1, turn, groups };
            double rate = verl_policy_rate(&options, step, &place);
            if (step < 20) {
                cr_assert_float_eq(rate, (double) step / 20, 1e-15);
                continue;
            }
            cr_assert(step == 20 ? rate == 1 : rate < last, "step %lld: %g after %g", (long long) step, rate, last);
            cr_assert_gt(rate, 0);
            last = rate;
        }
    }
    cr_assert_lt(last, 0.02);
}

Test(rate, of_total_steps_counts_optimizer_steps)
{
    const verl_policy_update_t options = { .lr = 1, .schedule = VERL_SCHEDULE_LINEAR, .warmup_steps = 10,
                                           .total_steps = 110 };
    const verl_policy_place_t place = { 3, 4, 0, 1, 0, 1 };
    cr_assert_float_eq(verl_policy_rate(&options, 5, &place), 0.5, 1e-15);
    cr_assert_float_eq(verl_policy_rate(&options, 10, &place), 1, 1e-15);
    cr_assert_float_eq(verl_policy_rate(&options, 60, &place), 0.5, 1e-15);
    cr_assert_float_eq(verl_policy_rate(&options, 500, &place), 0, 1e-15);
}

Test(rate, of_a_run_that_has_more_places_than_a_double_is_a_share_still)
{
    const verl_policy_place_t place = { 750000000000, 1000000000000, 0, 1000000, 0, 1000000 };
    cr_assert_float_eq(verl_policy_rate(&s_linear, 900000000000000000, &place), 0.5, 1e-12);
}
