// Advantage estimators: golden values, traps (singletons, equal scores, empty responses, masks), invariances, errors.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "actors/data/random.h"
#include "actors/rl/advantage.h"

static char s_error[256];

// Runs an estimator by name and fails the test where it fails.
static void
s_run(const char *name, const verl_advantage_options_t *options, const verl_advantage_input_t *input, float *advantages,
      float *returns)
{
    const verl_estimator_t *estimator = verl_estimator_find(name);
    cr_assert(estimator, "no estimator %s", name);
    verl_advantage_options_t defaults = verl_advantage_defaults();
    int status = verl_advantage_compute(estimator, options ? options : &defaults, input, advantages, returns, s_error,
                                        sizeof s_error);
    cr_assert_eq(status, 0, "%s: %s", name, s_error);
}

static void
s_check_all(const char *what, const float *found, const double *expected, int count, double tolerance)
{
    for (int i = 0; i < count; i++)
        cr_assert_float_eq((double) found[i], expected[i], tolerance, "%s[%d] is %.9g, not %.9g", what, i,
                           (double) found[i], expected[i]);
}

// Five rows of one token with golden scores in two groups.
static const int64_t s_five[] = { 0, 1, 2, 3, 4, 5 };
static const int64_t s_groups[] = { 1, 1, 1, 2, 2 };
static const float s_scores[] = { 1, 0, 0, 1, 0.5f };

static void
s_check_five(const char *name, const verl_advantage_options_t *options, const double *expected)
{
    verl_advantage_input_t input = { .rows = { 5, s_five, NULL }, .score = s_scores, .group = s_groups };
    float advantages[5], returns[5];
    s_run(name, options, &input, advantages, returns);
    s_check_all(name, advantages, expected, 5, 5e-7);
    s_check_all("returns", returns, expected, 5, 5e-7);
}

Test(advantage, golden_gae)
{
    const float rewards[] = { 0, 0, 1, 0, 0.5f, 0 }, values[] = { 0.1f, 0.2f, 0.3f, 0.4f, 0.1f, 0.9f };
    const uint8_t mask[] = { 1, 1, 1, 1, 1, 0 };
    const int64_t offsets[] = { 0, 3, 6 };
    verl_advantage_input_t input = { .rows = { 2, offsets, mask }, .token_rewards = rewards, .values = values };
    verl_advantage_options_t options = verl_advantage_defaults();
    float advantages[6], returns[6];
    s_run("gae", &options, &input, advantages, returns);
    s_check_all("advantages", advantages,
                (double[]){ .978268504, .672559597, .366850691, -1.467402747, -.550276028, -1.773111653 }, 6, 1e-6);
    s_check_all("returns", returns, (double[]){ 1, 1, 1, .5, .5, .9 }, 6, 1e-6);
    options.whiten = false;
    s_run("gae", &options, &input, advantages, returns);
    s_check_all("raw", advantages, (double[]){ .9, .8, .7, .1, .4, 0 }, 6, 1e-6);
}

Test(advantage, golden_groups)
{
    verl_advantage_options_t plain = verl_advantage_defaults();
    plain.norm_by_std = false;
    s_check_five("grpo", NULL, (double[]){ 1.154698538, -.577349269, -.577349269, .707104781, -.707104781 });
    s_check_five("grpo", &plain, (double[]){ 2. / 3, -1. / 3, -1. / 3, .25, -.25 });
    s_check_five("rloo", NULL, (double[]){ 1, -.5, -.5, .5, -.5 });
}

Test(advantage, golden_singletons)
{
    const int64_t offsets[] = { 0, 1 }, group[] = { 9 };
    const float score[] = { 0.7f };
    verl_advantage_input_t input = { .rows = { 1, offsets, NULL }, .score = score, .group = group };
    float advantage;
    s_run("grpo", NULL, &input, &advantage, NULL);
    cr_assert_float_eq(advantage, .6999993, 1e-7);
    s_run("rloo", NULL, &input, &advantage, NULL);
    cr_assert_float_eq(advantage, .7, 1e-7);
    s_run("opo", NULL, &input, &advantage, NULL);
    cr_assert_float_eq(advantage, .7, 1e-7);
    s_run("reinforce_plus_plus_baseline", NULL, &input, &advantage, NULL); // one token has no variance
    cr_assert_float_eq(advantage, 0, 1e-6);
}

Test(advantage, equal_scores_give_exactly_nothing)
{
    const float score[] = { 0.1f, 0.1f, 0.1f, 0.1f, 0.1f };
    const int64_t group[] = { 3, 3, 3, 3, 3 };
    verl_advantage_input_t input = { .rows = { 5, s_five, NULL }, .score = score, .group = group };
    const char *names[] = { "grpo", "rloo", "reinforce_plus_plus_baseline", "gpg", "grpo_passk" };
    float advantages[5];
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        s_run(names[n], NULL, &input, advantages, NULL);
        for (int i = 0; i < 5; i++)
            cr_assert_eq(advantages[i], 0, "%s gives %g", names[n], (double) advantages[i]);
    }
}

Test(advantage, best_of_a_group_gets_its_lead)
{
    const float score[] = { 3, 1, 2, 5, 5 };
    verl_advantage_input_t input = { .rows = { 5, s_five, NULL }, .score = score, .group = s_groups };
    verl_advantage_options_t options = verl_advantage_defaults();
    float advantages[5];
    s_run("grpo_passk", &options, &input, advantages, NULL);
    s_check_all("passk", advantages, (double[]){ 1 / (1 + 1e-6), 0, 0, 0, 0 }, 5, 1e-6);
    options.norm_by_std = false;
    s_run("grpo_passk", &options, &input, advantages, NULL);
    s_check_all("passk", advantages, (double[]){ 1, 0, 0, 0, 0 }, 5, 1e-6);
}

Test(advantage, opo_weighs_the_mean_by_length)
{
    const int64_t offsets[] = { 0, 1, 4 }, group[] = { 0, 0 };
    const float score[] = { 1, 0 };
    verl_advantage_input_t input = { .rows = { 2, offsets, NULL }, .score = score, .group = group };
    float advantages[4];
    s_run("opo", NULL, &input, advantages, NULL); // baseline (1 * 1 + 3 * 0) / 4
    s_check_all("opo", advantages, (double[]){ .75, -.25, -.25, -.25 }, 4, 1e-7);
}

Test(advantage, gpg_scales_up_for_rows_without_score)
{
    verl_advantage_input_t input = { .rows = { 5, s_five, NULL }, .score = s_scores, .group = s_groups };
    float advantages[5];
    s_run("gpg", NULL, &input, advantages, NULL); // 5 rows, 3 scores: alpha = 5 / 3
    s_check_all("gpg", advantages, (double[]){ 10. / 9, -5. / 9, -5. / 9, 5. / 12, -5. / 12 }, 5, 1e-6);
}

Test(advantage, reinforce_passes_rewards_across_observations)
{
    const int64_t offsets[] = { 0, 4 };
    const uint8_t mask[] = { 1, 1, 0, 1 };
    const float rewards[] = { 0, 1, 0, 2 };
    verl_advantage_input_t input = { .rows = { 1, offsets, mask }, .token_rewards = rewards };
    verl_advantage_options_t options = verl_advantage_defaults();
    options.gamma = 0.5;
    float advantages[4], returns[4];
    s_run("reinforce_plus_plus", &options, &input, advantages, returns);
    s_check_all("returns", returns, (double[]){ 1, 2, 0, 2 }, 4, 1e-7);
    double deviation = sqrt(1. / 3); // of 1, 2, 2 around 5/3, unbiased
    s_check_all("advantages", advantages,
                (double[]){ (1 - 5. / 3) / deviation, (2 - 5. / 3) / deviation, 0, (2 - 5. / 3) / deviation }, 4, 1e-5);
}

Test(advantage, remax_subtracts_the_greedy_score)
{
    const int64_t offsets[] = { 0, 3, 3, 4 };
    const float score[] = { 1, 1, 0 }, baseline[] = { 0.25f, 0, 1 };
    const uint8_t mask[] = { 1, 0, 1, 1 };
    verl_advantage_input_t input = { .rows = { 3, offsets, mask }, .score = score, .baseline = baseline };
    float advantages[4], returns[4];
    s_run("remax", NULL, &input, advantages, returns);
    s_check_all("advantages", advantages, (double[]){ .75, 0, .75, -1 }, 4, 1e-7);
    s_check_all("returns", returns, (double[]){ 1, 1, 1, 0 }, 4, 1e-7);
}

Test(advantage, a_score_stands_on_the_last_counted_token)
{
    const int64_t offsets[] = { 0, 3 };
    const float score[] = { 2 }, values[] = { 0, 0, NAN };
    const uint8_t mask[] = { 1, 1, 0 };
    verl_advantage_input_t input = { .rows = { 1, offsets, mask }, .score = score, .values = values };
    verl_advantage_options_t options = verl_advantage_defaults();
    options.whiten = false;
    options.gamma = 0.5;
    float advantages[3];
    s_run("gae", &options, &input, advantages, NULL);
    s_check_all("gae", advantages, (double[]){ 1, 2, 0 }, 3, 1e-7);
}

Test(advantage, scores_and_rewards_of_tokens_add_up)
{
    const int64_t offsets[] = { 0, 2, 2, 4 }, group[] = { 5, 5, 5 };
    const float score[] = { 1, 3, 2 }, rewards[] = { -.5f, .25f, -.25f, .5f };
    const uint8_t mask[] = { 1, 1, 0, 0 };
    verl_advantage_input_t input = {
        .rows = { 3, offsets, mask }, .score = score, .token_rewards = rewards, .group = group
    };
    verl_advantage_options_t options = verl_advantage_defaults();
    options.norm_by_std = options.whiten = false;
    float advantages[4];
    s_run("grpo", &options, &input, advantages, NULL); // .75, 3, 2.25 are around 2
    s_check_all("grpo", advantages, (double[]){ -1.25, -1.25, 0, 0 }, 4, 1e-7);
    s_run("reinforce_plus_plus", &options, &input, advantages, NULL); // -.5, .25 + 1
    s_check_all("reinforce_plus_plus", advantages, (double[]){ .75, 1.25, 0, 0 }, 4, 1e-7);
}

Test(advantage, every_estimator_lives_with_empty_and_masked_rows)
{
    // Rows 1 and 3 have no token, row 2 no counted one; a guard behind the outputs must stay.
    const int64_t offsets[] = { 0, 2, 2, 4, 4 }, group[] = { 5, 5, 5, 5 };
    const uint8_t mask[] = { 1, 1, 0, 0 };
    const float score[] = { 1, 0, 0, 0 }, values[] = { 0, 0, NAN, 0 }, baseline[] = { 0, 0, 0, 0 };
    verl_advantage_input_t input = {
        .rows = { 4, offsets, mask },
        .score = score,
        .group = group,
        .values = values,
        .baseline = baseline,
    };
    for (size_t i = 0; verl_estimator_at(i); i++) {
        float advantages[5] = { [4] = 77 }, returns[5] = { [4] = 77 };
        s_run(verl_estimator_name(verl_estimator_at(i)), NULL, &input, advantages, returns);
        cr_assert(advantages[4] == 77 && returns[4] == 77);
        for (int t = 0; t < 4; t++)
            cr_assert(isfinite(advantages[t]) && isfinite(returns[t]));
        if (strcmp(verl_estimator_name(verl_estimator_at(i)), "grpo") == 0) // empty rows count in mean and deviation
            s_check_all("grpo", advantages, (double[]){ 1.499997, 1.499997, 0, 0 }, 4, 1e-5);
    }
}

Test(advantage, nothing_at_all_is_no_error)
{
    const int64_t offsets[] = { 0 };
    float none[1] = { 77 };
    for (size_t i = 0; verl_estimator_at(i); i++) {
        verl_advantage_input_t input = {
            .rows = { 0, offsets, NULL }, .score = none, .group = offsets, .values = none, .baseline = none
        };
        s_run(verl_estimator_name(verl_estimator_at(i)), NULL, &input, none, NULL);
        cr_assert_eq(none[0], 77);
    }
}

Test(advantage, the_order_of_rows_does_not_matter)
{
    enum { ROWS = 24 };
    int64_t offsets[ROWS + 1], group[ROWS], order[ROWS], shuffled_group[ROWS];
    float score[ROWS], shuffled[ROWS], one[ROWS], other[ROWS];
    verl_random_t random = verl_random_stream(1, "order", 0, 0);
    for (int64_t i = 0; i < ROWS; i++) {
        offsets[i] = i;
        group[i] = i / 6 - 2;
        score[i] = (float) verl_random_normal(&random);
    }
    offsets[ROWS] = ROWS;
    verl_random_permutation(3, 0, order, ROWS);
    for (int64_t i = 0; i < ROWS; i++) {
        shuffled[i] = score[order[i]];
        shuffled_group[i] = group[order[i]];
    }
    const char *names[] = { "grpo", "rloo", "gpg", "grpo_passk" };
    for (size_t n = 0; n < 4; n++) {
        s_run(names[n], NULL,
              &(verl_advantage_input_t){ .rows = { ROWS, offsets, NULL }, .score = score, .group = group }, one, NULL);
        s_run(names[n], NULL,
              &(verl_advantage_input_t){ .rows = { ROWS, offsets, NULL }, .score = shuffled, .group = shuffled_group },
              other, NULL);
        for (int64_t i = 0; i < ROWS; i++)
            cr_assert_eq(other[i], one[order[i]], "%s: row %ld", names[n], (long) i);
    }
}

Test(advantage, whitened_ones_have_mean_0_and_variance_1)
{
    enum { ROWS = 50 };
    int64_t offsets[ROWS + 1] = { 0 };
    uint8_t mask[ROWS * 8];
    float rewards[ROWS * 8], advantages[ROWS * 8];
    verl_random_t random = verl_random_stream(2, "whiten", 0, 0);
    for (int64_t i = 0; i < ROWS; i++)
        offsets[i + 1] = offsets[i] + (int64_t) verl_random_below(&random, 9);
    for (int64_t t = 0; t < offsets[ROWS]; t++) {
        mask[t] = verl_random_below(&random, 4) > 0;
        rewards[t] = (float) verl_random_normal(&random);
    }
    verl_advantage_input_t input = { .rows = { ROWS, offsets, mask }, .token_rewards = rewards };
    s_run("reinforce_plus_plus", NULL, &input, advantages, NULL);
    double n = 0, sum = 0, squares = 0;
    for (int64_t t = 0; t < offsets[ROWS]; t++) {
        if (!mask[t]) {
            cr_assert_eq(advantages[t], 0);
            continue;
        }
        n++, sum += (double) advantages[t], squares += (double) advantages[t] * (double) advantages[t];
    }
    cr_assert_float_eq(sum / n, 0, 1e-6);
    cr_assert_float_eq(squares / (n - 1), 1, 1e-5);
}

static void
s_check_refused(const char *name, verl_advantage_input_t input, const char *word)
{
    float advantages[8];
    verl_advantage_options_t options = verl_advantage_defaults();
    s_error[0] = 0;
    cr_assert_eq(
        verl_advantage_compute(verl_estimator_find(name), &options, &input, advantages, NULL, s_error, sizeof s_error),
        -1, "%s took it", name);
    cr_assert(strstr(s_error, word), "\"%s\" does not say \"%s\"", s_error, word);
}

Test(advantage, wrong_inputs_are_refused_with_their_row)
{
    const int64_t falling[] = { 0, 3, 2 };
    const float bad[] = { 1, 0, NAN, 1, 0 }, infinite[] = { 0, 0, 0, INFINITY, 0 };
    verl_ragged_t five = { 5, s_five, NULL };
    s_check_refused("grpo", (verl_advantage_input_t){ .rows = five, .score = bad, .group = s_groups },
                    "score of row 2 is nan");
    s_check_refused("reinforce_plus_plus", (verl_advantage_input_t){ .rows = five, .token_rewards = infinite },
                    "row 3, token 0");
    s_check_refused("gae", (verl_advantage_input_t){ .rows = five, .score = s_scores, .values = bad },
                    "value of row 2");
    s_check_refused("remax", (verl_advantage_input_t){ .rows = five, .score = s_scores, .baseline = bad },
                    "baseline of row 2");
    s_check_refused("grpo", (verl_advantage_input_t){ .rows = five, .score = s_scores }, "group");
    s_check_refused("gae", (verl_advantage_input_t){ .rows = five, .score = s_scores }, "values");
    s_check_refused("remax", (verl_advantage_input_t){ .rows = five, .score = s_scores }, "baseline");
    s_check_refused("grpo", (verl_advantage_input_t){ .rows = five, .group = s_groups },
                    "scores of rows, rewards of tokens, or both");
    s_check_refused("grpo",
                    (verl_advantage_input_t){ .rows = { 2, falling, NULL }, .score = s_scores, .group = s_groups },
                    "row 1");
    s_check_refused("grpo_passk",
                    (verl_advantage_input_t){ .rows = { 4, s_five, NULL }, .score = s_scores, .group = s_groups },
                    "group of row 3 has 1 sample");
}

Test(advantage, the_table_describes_itself)
{
    size_t count = 0;
    for (; verl_estimator_at(count); count++) {
        const verl_estimator_t *estimator = verl_estimator_at(count);
        cr_assert_eq(verl_estimator_find(verl_estimator_name(estimator)), estimator);
        cr_assert_gt(strlen(verl_estimator_about(estimator)), 20);
    }
    cr_assert_geq(count, 9);
    cr_assert_null(verl_estimator_find("ppo"));
    cr_assert_eq(verl_estimator_needs(verl_estimator_find("gae")), VERL_NEEDS_VALUES);
    cr_assert_eq(verl_estimator_needs(verl_estimator_find("grpo")), VERL_NEEDS_GROUP);
}
