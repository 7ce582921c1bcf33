// test_rule_reward.c: the reward stage around the rules of actors/rl, which have tests of their own.
#include "actors/rl/rules.h"
#include "rig.h"

static const char *const s_prompts[] = { "1+1=", "2+3=", "9+9=", "4+4=" };
static const char *const s_responses[] = { "2", "6", " 18\n", "" };
static const char *const s_answers[] = { "2", "5", "18", "8" };

static verl_batch_t *
s_batch(void)
{
    verl_batch_t *made = rig_made(3, 4);
    rig_add_texts(made, "prompt", s_prompts);
    rig_add_texts(made, "response", s_responses);
    return made;
}

static float
s_score(const rig_t *rig, int64_t row)
{
    return *verl_column_f32(verl_batch_column(rig->out, "score"), row);
}

Test(rule_reward, exact_compares_with_the_answer)
{
    rig_t rig;
    rig_open(&rig, "rule_reward", "score", "reward", "", "", NULL);
    verl_batch_t *made = s_batch();
    rig_add_texts(made, "answer", s_answers);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    const float expected[] = { 1, 0, 1, 0 };
    for (int64_t row = 0; row < 4; row++)
        cr_assert_eq(s_score(&rig, row), expected[row]);
    cr_assert_float_eq(rig_metric(&rig, "critic/score/mean"), 0.5, 1e-9);
    cr_assert_float_eq(rig_metric(&rig, "critic/score/min"), 0, 1e-9);
    cr_assert_eq(rig.samples, 1);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(rule_reward, an_answer_may_be_an_integer)
{
    rig_t rig;
    const int64_t answers[] = { 2, 5, 18, 8 };
    rig_open(&rig, "rule_reward", "score", "reward", "", "", NULL);
    verl_batch_t *made = s_batch();
    rig_add_integers(made, "answer", answers);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    cr_assert_eq(s_score(&rig, 2), 1);
    cr_assert_eq(s_score(&rig, 1), 0);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(rule_reward, a_held_out_set_is_measured_by_source_and_by_group)
{
    rig_t rig;
    const char *const sources[] = { "sums", "sums", "odd", "odd" };
    const int64_t groups[] = { 0, 0, 1, 1 };
    rig_open(&rig, "rule_reward", "score", "reward", "", "metrics = \"val\"", NULL);
    verl_batch_t *made = s_batch();
    rig_add_texts(made, "answer", s_answers);
    rig_add_texts(made, "source", sources);
    rig_add_integers(made, "group", groups);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    cr_assert_float_eq(rig_metric(&rig, "val-core/sums/mean@2"), 0.5, 1e-9);
    cr_assert_float_eq(rig_metric(&rig, "val-core/odd/mean@2"), 0.5, 1e-9);
    cr_assert_float_eq(rig_metric(&rig, "val-aux/odd/best@2/mean"), 1, 1e-9);
    cr_assert(!rig_has_metric(&rig, "critic/score/mean"));
    cr_assert_eq(rig.samples, 2, "two prompts of a held-out set are shown");
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

// 149 bytes and a letter of two: what a metric's name has no room for goes as a whole character.
Test(rule_reward, a_long_source_is_cut_between_two_characters)
{
    rig_t rig;
    char source[160], metric[256];
    memset(source, 'x', 149);
    memcpy(source + 149, "\xc3\xa4", 3);
    const char *const sources[] = { source, source, source, source };
    rig_open(&rig, "rule_reward", "score", "reward", "", "metrics = \"val\"", NULL);
    verl_batch_t *made = s_batch();
    rig_add_texts(made, "answer", s_answers);
    rig_add_texts(made, "source", sources);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    snprintf(metric, sizeof metric, "val-core/%.149s/mean@1", source);
    cr_assert(rig_has_metric(&rig, metric));
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(rule_reward, one_prompt_of_a_held_out_set_is_shown_once)
{
    rig_t rig;
    const char *const prompts[] = { "1+1=", "1+1=", "1+1=", "1+1=" };
    rig_open(&rig, "rule_reward", "score", "reward", "", "metrics = \"val\"", NULL);
    verl_batch_t *made = rig_made(3, 4);
    rig_add_texts(made, "prompt", prompts);
    rig_add_texts(made, "response", s_responses);
    rig_add_texts(made, "answer", s_answers);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    cr_assert_eq(rig.samples, 1);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

// The coins of rows 10 … 13 are the same whether they come as rows 0 … 3 of a part or behind ten others.
Test(rule_reward, chance_depends_on_the_place_in_the_batch_alone)
{
    rig_t rig;
    float whole[64], mean = 0;
    rig_open(&rig, "rule_reward", "score", "reward", "", "rule = \"random\"", NULL);
    const char *texts[64];
    for (int i = 0; i < 64; i++)
        texts[i] = "x";
    verl_batch_t *made = rig_made(3, 64), *in;
    rig_add_texts(made, "response", texts);
    in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    for (int64_t row = 0; row < 64; row++) {
        whole[row] = s_score(&rig, row);
        mean += whole[row] / 64;
    }
    cr_assert(mean > 0.2f && mean < 0.8f);
    verl_batch_destroy(&in);
    in = verl_batch_new_given(3, 4, 10);
    verl_error_t why = { "" };
    cr_assert_eq(verl_batch_put(in, "response", verl_batch_column(made, "response"), NULL, NULL, 0, 10, &why), 0);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    for (int64_t row = 0; row < 4; row++)
        cr_assert_eq(s_score(&rig, row), whole[10 + row]);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(rule_reward, long_responses_lose_by_and_by)
{
    rig_t rig;
    const int64_t lengths[] = { 1, 6, 8, 10 };
    int32_t ids[25] = { 0 };
    rig_open(&rig, "rule_reward", "score", "reward", "", "max_length = 10\noverlong_buffer = 4\noverlong_penalty = 2",
             NULL);
    verl_batch_t *made = s_batch();
    rig_add_texts(made, "answer", s_answers);
    rig_add_ragged(made, "response_ids", VERL_I32, lengths, ids);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    const float expected[] = { 1, 0, 0, -2 };
    for (int64_t row = 0; row < 4; row++)
        cr_assert_float_eq(s_score(&rig, row), expected[row], 1e-6);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(rule_reward, every_rule_of_the_list_is_there_and_none_is_missing)
{
    const verl_option_t *option = rig_kind("rule_reward")->stages[0].options;
    const char *list = option->choices;
    for (size_t i = 0; verl_rule_at(i); i++) {
        const char *name = verl_rule_name(verl_rule_at(i));
        cr_assert_eq(strncmp(list, name, strlen(name)), 0, "%s is not at place %zu", name, i);
        list += strlen(name);
        list += *list == '|';
    }
    cr_assert_str_empty(list);
}
