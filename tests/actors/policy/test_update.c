// test_update.c: which rows learn together, at which rate, and which tokens count, with a small model.
#include <stdlib.h>
#include "actors/policy/policy.h"
#include "actors/rig.h"

#define MODEL "model = \"topologies/models/addition-init\"\ninit = \"random\"\ninit_std = 0.3\nthreads = 1"
#define ROWS  4

// One prompt of two tokens and two tokens of response a row: row i has the digits of digits[i].
static verl_batch_t *
s_batch(int64_t id, const int32_t *digits, const int64_t *groups, const uint8_t *mask)
{
    static const int64_t lengths[ROWS] = { 2, 2, 2, 2 };
    int32_t prompts[2 * ROWS], responses[2 * ROWS];
    for (int row = 0; row < ROWS; row++) {
        prompts[2 * row] = digits[row];
        prompts[2 * row + 1] = 12;
        responses[2 * row] = digits[row] + 1;
        responses[2 * row + 1] = 13;
    }
    verl_batch_t *made = rig_made(id, ROWS);
    rig_add_ragged(made, "prompt_ids", VERL_I32, lengths, prompts);
    rig_add_ragged(made, "response_ids", VERL_I32, lengths, responses);
    if (groups)
        rig_add_integers(made, "group", groups);
    if (mask)
        memcpy(verl_batch_add_ragged(made, "response_mask", VERL_U8, 1, lengths), mask, 2 * ROWS);
    return made;
}

static void
s_run(rig_t *rig, verl_batch_t *made)
{
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(rig, in, 0), 0, "%s", rig->failure);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
}

static void
s_learn(rig_t *rig, const char *work, verl_batch_t *made)
{
    rig_open(rig, "policy", "update", "update", MODEL, work, NULL);
    s_run(rig, made);
}

static const verl_policy_t *
s_policy(const rig_t *rig)
{
    return rig->state;
}

static const int32_t s_digits[ROWS] = { 1, 2, 3, 4 };

// ---------------------------------------------------------------------------------------------------------------
// Groups

Test(update, of_a_group_whose_rows_are_not_neighbours_is_that_of_neighbours)
{
    static const char work[] = "loss = \"sft\"\nlr = 1e-2\nmini_batch = 1";
    rig_t apart, beside;
    s_learn(&apart, work, s_batch(0, s_digits, (const int64_t[]){ 8, 3, 8, 3 }, NULL));
    s_learn(&beside, work, s_batch(0, (const int32_t[]){ 1, 3, 2, 4 }, (const int64_t[]){ 8, 8, 3, 3 }, NULL));
    cr_assert_eq(s_policy(&apart)->optimizer.step, 2);
    cr_assert_eq(s_policy(&beside)->optimizer.step, 2);
    cr_assert_arr_eq(s_policy(&apart)->params, s_policy(&beside)->params,
                     (size_t) verl_lm_layout(s_policy(&apart)->lm)->total * sizeof(float));
    rig_close(&apart);
    rig_close(&beside);
}

Test(update, tells_groups_apart_by_the_last_bit_of_their_ids)
{
    static const int64_t groups[] = { INT64_C(1700000000000000001), INT64_C(1700000000000000001),
                                      INT64_C(1700000000000000002), INT64_C(1700000000000000002) };
    rig_t rig;
    s_learn(&rig, "loss = \"sft\"\nmini_batch = 1", s_batch(0, s_digits, groups, NULL));
    cr_assert_eq(s_policy(&rig)->optimizer.step, 2);
    rig_close(&rig);
}

Test(update, without_groups_goes_by_prompts_that_neighbours_share)
{
    rig_t rig;
    s_learn(&rig, "loss = \"sft\"\nmini_batch = 1", s_batch(0, (const int32_t[]){ 5, 5, 6, 5 }, NULL, NULL));
    cr_assert_eq(s_policy(&rig)->optimizer.step, 3);
    rig_close(&rig);
}

// ---------------------------------------------------------------------------------------------------------------
// Rates. The rig's run has ten steps.

#define LINEAR "loss = \"sft\"\nlr = 1\nweight_decay = 0\nschedule = \"linear\"\n"

Test(update, has_the_rate_of_its_place_in_the_run_where_mini_batches_are_filled_up)
{
    rig_t rig;
    s_learn(&rig, LINEAR "mini_batch = 1", s_batch(4, s_digits, (const int64_t[]){ 0, 0, 0, 1 }, NULL));
    cr_assert_float_eq(rig_metric(&rig, "train/lr"), 1 - (4 + 0.25) / 10, 1e-12);
    rig_close(&rig);
}

Test(update, counts_the_batches_of_its_span)
{
    rig_t rig;
    rig_open(&rig, "policy", "update", "update", MODEL, LINEAR, NULL);
    rig.stage.span = (verl_span_t) { .period = 2, .begin = 3 };           // 4, 6 and 8
    s_run(&rig, s_batch(4, s_digits, NULL, NULL));
    cr_assert_float_eq(rig_metric(&rig, "train/lr"), 1, 1e-12);
    s_run(&rig, s_batch(8, s_digits, NULL, NULL));
    cr_assert_float_eq(rig_metric(&rig, "train/lr"), 1 / 3., 1e-12);
    rig_close(&rig);
}

// As one that is injected with other options has it.
Test(update, has_its_rate_however_many_steps_there_were_before)
{
    rig_t first, second;
    s_learn(&first, LINEAR "mini_batch = 1\npasses = 20", s_batch(5, s_digits, NULL, NULL));
    rig_open(&second, "policy", "update", "update", MODEL, LINEAR, &first);
    s_run(&second, s_batch(6, s_digits, NULL, NULL));
    cr_assert_eq(s_policy(&second)->optimizer.step, 81);
    cr_assert_float_eq(rig_metric(&second, "train/lr"), 0.4, 1e-12);
    rig_close(&second);
    rig_close(&first);
}

// ---------------------------------------------------------------------------------------------------------------
// Masks

Test(update, and_logprobs_measure_the_entropy_of_the_same_tokens)
{
    static const uint8_t mask[2 * ROWS] = { 0, 1, 0, 0, 1, 0, 0, 1 };
    rig_t update, logprobs;
    s_learn(&update, "loss = \"sft\"\nlr = 0", s_batch(0, s_digits, NULL, mask));
    for (int cut = 0; cut < 2; cut++) {
        rig_open(&logprobs, "policy", "logprobs", "logprobs", MODEL, cut ? "entropy = true\nmax_tokens = 1"
                                                                        : "entropy = true", NULL);
        s_run(&logprobs, s_batch(0, s_digits, NULL, mask));
        cr_assert_float_eq(rig_metric(&logprobs, "actor/entropy"), rig_metric(&update, "train/entropy"), 1e-5);
        cr_assert_eq(logprobs.stage.metrics[0].weight, 3);
        rig_close(&logprobs);
    }
    rig_close(&update);
}
