// test_advantage.c: the advantage stage around the formulas of actors/rl, which have tests of their own.
#include <math.h>
#include "actors/rl/advantage.h"
#include "rig.h"

static const int64_t s_lengths[] = { 2, 1, 3, 0, 2 };
static const int32_t s_ids[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
static const float s_scores[] = { 1, 0, 0, 1, 0.5f };
static const int64_t s_groups[] = { 4, 4, 4, 9, 9 };

// groups: NULL for a batch without them.
static verl_batch_t *
s_batch_of(const int64_t *groups)
{
    verl_batch_t *made = rig_made(3, 5);
    rig_add_ragged(made, "response_ids", VERL_I32, s_lengths, s_ids);
    rig_add_reals(made, "score", s_scores);
    if (groups)
        rig_add_integers(made, "group", groups);
    return made;
}

static verl_batch_t *
s_batch(void)
{
    return s_batch_of(s_groups);
}

static float
s_advantage(const rig_t *rig, int64_t row, int64_t t)
{
    return verl_column_f32(verl_batch_column(rig->out, "advantages"), row)[t];
}

Test(advantage, grpo_gives_each_token_its_rows_place_in_the_group)
{
    rig_t rig;
    rig_open(&rig, "advantage", "advantage", "advantage", "", "", NULL);
    verl_batch_t *made = s_batch(), *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    const double expected[] = { 1.154698538, -.577349269, -.577349269, 0, -.707104781 };
    const verl_column_t *column = verl_batch_column(rig.out, "advantages");
    for (int64_t row = 0; row < 5; row++) {
        cr_assert_eq(verl_column_length(column, row), s_lengths[row]);
        for (int64_t t = 0; t < s_lengths[row]; t++)
            cr_assert_float_eq(s_advantage(&rig, row, t), expected[row], 1e-5);
    }
    cr_assert_float_eq(rig_metric(&rig, "critic/rewards/mean"), 0.5, 1e-6);
    cr_assert_float_eq(rig_metric(&rig, "critic/rewards/max"), 1, 1e-6);
    cr_assert_float_eq(rig_metric(&rig, "critic/advantages/max"), 1.154698538, 1e-5);
    cr_assert_float_eq(rig_metric(&rig, "critic/rewards/zero_std_ratio"), 0, 1e-9);
    cr_assert_not_null(verl_batch_column(rig.out, "returns"));
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(advantage, groups_without_a_difference_are_counted)
{
    rig_t rig;
    const float scores[] = { 1, 1, 1, 0, 1 };
    rig_open(&rig, "advantage", "advantage", "advantage", "", "scores = [\"flat\"]", NULL);
    verl_batch_t *made = s_batch();
    rig_add_reals(made, "flat", scores);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    cr_assert_float_eq(rig_metric(&rig, "critic/rewards/zero_std_ratio"), 0.5, 1e-9);
    cr_assert_float_eq(s_advantage(&rig, 0, 0), 0, 1e-9);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(advantage, groups_without_a_difference_are_found_wherever_their_rows_lie)
{
    rig_t rig;
    const int64_t groups[] = { 0, 1, 0, 1, 1 };
    const float scores[] = { 1.5f, .5f, .5f, 1.5f, 1.5f };
    rig_open(&rig, "advantage", "advantage", "advantage", "", "scores = [\"apart\"]", NULL);
    verl_batch_t *made = s_batch_of(groups);
    rig_add_reals(made, "apart", scores);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    cr_assert_float_eq(rig_metric(&rig, "critic/rewards/zero_std_ratio"), 0, 1e-9);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(advantage, groups_are_told_apart_by_all_64_bits)
{
    rig_t rig;
    const int64_t one = 1700000000000000001, two = one + 1, groups[] = { one, one, one, two, two };
    const float scores[] = { 1.5f, 1.5f, 1.5f, .5f, .5f };
    rig_open(&rig, "advantage", "advantage", "advantage", "", "scores = [\"flat\"]", NULL);
    verl_batch_t *made = s_batch_of(groups);
    rig_add_reals(made, "flat", scores);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    cr_assert_float_eq(s_advantage(&rig, 0, 0), 0, 1e-9);
    cr_assert_float_eq(s_advantage(&rig, 4, 0), 0, 1e-9);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(advantage, a_group_that_is_no_integer_is_refused)
{
    rig_t rig;
    const float groups[] = { 4, 4, 4, 9, 9.5f };
    rig_open(&rig, "advantage", "advantage", "advantage", "", "", NULL);
    verl_batch_t *made = s_batch_of(NULL);
    rig_add_reals(made, "group", groups);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), -1);
    cr_assert(strstr(rig.failure, "column group is not one integer a row"), "%s", rig.failure);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(advantage, scores_are_added_up_by_their_weights)
{
    rig_t rig;
    const float style[] = { 0, 10, 0, 0, 0 };
    rig_open(&rig, "advantage", "advantage", "advantage", "",
             "estimator = \"rloo\"\nscores = { score = 2.0, style = -0.1 }", NULL);
    verl_batch_t *made = s_batch();
    rig_add_reals(made, "style", style);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    cr_assert_float_eq(s_advantage(&rig, 0, 0), 2 - (-1 + 0) / 2., 1e-5);
    cr_assert_float_eq(s_advantage(&rig, 1, 0), -1 - (2 + 0) / 2., 1e-5);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(advantage, a_mask_leaves_tokens_out_and_values_serve_gae)
{
    rig_t rig;
    const uint8_t mask[] = { 1, 0, 1, 1, 1, 1, 1, 1 };
    const float values[] = { .5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f };
    rig_open(&rig, "advantage", "advantage", "advantage", "", "estimator = \"gae\"\nwhiten = false", NULL);
    verl_batch_t *made = s_batch();
    rig_add_ragged(made, "response_mask", VERL_U8, s_lengths, mask);
    rig_add_ragged(made, "values", VERL_F32, s_lengths, values);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    cr_assert_float_eq(s_advantage(&rig, 0, 0), 0.5, 1e-6);
    cr_assert_float_eq(s_advantage(&rig, 1, 0), -0.5, 1e-6);
    cr_assert(rig_has_metric(&rig, "critic/vf_explained_var"));
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(advantage, the_value_of_a_token_is_the_mean_of_what_the_critics_say)
{
    rig_t rig;
    float values[2][8];
    for (int i = 0; i < 8; i++) {
        values[0][i] = .25f;
        values[1][i] = .75f;
    }
    rig_open(&rig, "advantage", "advantage", "advantage", "",
             "estimator = \"gae\"\nwhiten = false\nvalues = [\"values\", \"values2\"]", NULL);
    verl_batch_t *made = s_batch();
    rig_add_ragged(made, "values", VERL_F32, s_lengths, values[0]);
    rig_add_ragged(made, "values2", VERL_F32, s_lengths, values[1]);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    cr_assert_float_eq(s_advantage(&rig, 0, 0), 0.5, 1e-6);
    cr_assert_float_eq(s_advantage(&rig, 1, 0), -0.5, 1e-6);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(advantage, a_penalty_for_leaving_the_reference_moves_the_reward)
{
    rig_t rig;
    const float old[] = { -1, -1, -1, -1, -1, -1, -1, -1 }, ref[] = { -2, -1, -1, -1, -1, -1, -1, -1 };
    rig_open(&rig, "advantage", "advantage", "advantage", "",
             "estimator = \"reinforce_plus_plus\"\nwhiten = false\nkl_coef = 0.5", NULL);
    verl_batch_t *made = s_batch();
    rig_add_ragged(made, "rollout_logprobs", VERL_F32, s_lengths, old);
    rig_add_ragged(made, "ref_logprobs", VERL_F32, s_lengths, ref);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    cr_assert_float_eq(s_advantage(&rig, 0, 0), 0.5, 1e-6);
    cr_assert_float_eq(s_advantage(&rig, 0, 1), 1, 1e-6);
    cr_assert_float_eq(rig_metric(&rig, "actor/reward_kl_penalty_coeff"), 0.5, 1e-9);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

// Row 2 is masked out and row 3 is empty: their scores count in their groups all the same.
Test(advantage, a_penalty_leaves_the_score_of_a_row_without_a_counted_token)
{
    rig_t rig;
    const uint8_t mask[] = { 1, 1, 1, 0, 0, 0, 1, 1 };
    const float old[] = { -1, -1, -1, -1, -1, -1, -1, -1 }, ref[] = { -2, -1, -1, -9, -9, -9, -1, -1 };
    const float scores[] = { 1.5f, 0, 1.5f, 1.5f, 0 };
    rig_open(&rig, "advantage", "advantage", "advantage", "",
             "norm_by_std = false\nkl_coef = 0.25\nscores = [\"kept\"]", NULL);
    verl_batch_t *made = s_batch();
    rig_add_ragged(made, "response_mask", VERL_U8, s_lengths, mask);
    rig_add_ragged(made, "rollout_logprobs", VERL_F32, s_lengths, old);
    rig_add_ragged(made, "ref_logprobs", VERL_F32, s_lengths, ref);
    rig_add_reals(made, "kept", scores);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    double mean = (1.25 + 0 + 1.5) / 3;     // k1 of row 0 is 1
    cr_assert_float_eq(s_advantage(&rig, 0, 0), 1.25 - mean, 1e-6);
    cr_assert_float_eq(s_advantage(&rig, 1, 0), -mean, 1e-6);
    cr_assert_float_eq(s_advantage(&rig, 2, 0), 0, 1e-9);
    cr_assert_float_eq(s_advantage(&rig, 4, 0), -.75, 1e-6);
    cr_assert_float_eq(rig_metric(&rig, "critic/rewards/mean"), (1.25 + 1.5 + 1.5) / 5, 1e-6);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(advantage, a_score_that_is_no_number_is_named)
{
    rig_t rig;
    const float bad[] = { 1, 0, NAN, 1, 0 };
    rig_open(&rig, "advantage", "advantage", "advantage", "", "scores = [\"bad\"]", NULL);
    verl_batch_t *made = s_batch();
    rig_add_reals(made, "bad", bad);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), -1);
    cr_assert(strstr(rig.failure, "row 2"), "%s", rig.failure);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(advantage, its_list_of_estimators_is_that_of_the_formulas)
{
    const verl_option_t *option = rig_kind("advantage")->stages[0].options;
    const char *list = option->choices;
    for (size_t i = 0; verl_estimator_at(i); i++) {
        const char *name = verl_estimator_name(verl_estimator_at(i));
        cr_assert_eq(strncmp(list, name, strlen(name)), 0, "%s is not at place %zu", name, i);
        list += strlen(name);
        list += *list == '|';
    }
    cr_assert_str_empty(list);
}
