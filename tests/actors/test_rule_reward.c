// test_rule_reward.c: the reward stage around the rules of actors/rl, which have tests of their own.
#include <math.h>
#include "actors/rl/rules.h"
#include "rig.h"
#include "runtime/topology/kinds.h"
#include "runtime/topology/topology.h"

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

// Scores four responses, each of which is its answer as text; expected tells which are.
static void
s_check_answers(rig_t *rig, verl_batch_t *made, const char *const *responses, const float *expected)
{
    rig_add_texts(made, "response", responses);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(rig, in, 0), 0, "%s", rig->failure);
    for (int64_t row = 0; row < verl_batch_rows(in); row++)
        cr_assert_eq(s_score(rig, row), expected[row], "\"%s\" scores %g", responses[row],
                     (double) s_score(rig, row));
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(rig);
}

Test(rule_reward, an_answer_may_be_a_real_number)
{
    rig_t rig;
    const float answers[] = { 3.14f, 0.1f, -2.5f, 1e6f, 16777216, 0.00001f, 0, 1e10f, 1e20f, 0.3f };
    const char *const responses[] = { "3.14", "0.1", "-2.5", "1000000", "16777216", "0.00001", "0", "10000000000",
                                      "1e+20", "0.30" };
    const float expected[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 0 };
    rig_open(&rig, "rule_reward", "score", "reward", "", "", NULL);
    verl_batch_t *made = rig_made(3, 10);
    rig_add_reals(made, "answer", answers);
    s_check_answers(&rig, made, responses, expected);
}

Test(rule_reward, neighbours_among_real_numbers_are_told_apart)
{
    rig_t rig;
    float answers[] = { 0.1f, 0.1f, 16777214, 16777214 };
    answers[1] = nextafterf(0.1f, 1);
    const char *const responses[] = { "0.1", "0.1", "16777214", "16777215" };
    const float expected[] = { 1, 0, 1, 0 };
    rig_open(&rig, "rule_reward", "score", "reward", "", "", NULL);
    verl_batch_t *made = rig_made(3, 4);
    rig_add_reals(made, "answer", answers);
    s_check_answers(&rig, made, responses, expected);
}

Test(rule_reward, an_answer_may_be_an_integer_of_four_bytes)
{
    rig_t rig;
    const char *const responses[] = { "2147483647", "-2147483648", "0", "7" };
    const float expected[] = { 1, 1, 1, 0 };
    rig_open(&rig, "rule_reward", "score", "reward", "", "", NULL);
    verl_batch_t *made = rig_made(3, 4);
    int32_t *answers = verl_batch_add_i32(made, "answer");
    memcpy(answers, (int32_t[]) { INT32_MAX, INT32_MIN, 0, 8 }, 4 * sizeof *answers);
    s_check_answers(&rig, made, responses, expected);
}

// Twelve rows of one source, `right` of which are; run as a held-out set by these groups.
static void
s_run_groups(rig_t *rig, const int64_t *groups, const float *right)
{
    const char *texts[12];
    float answers[12];
    for (int i = 0; i < 12; i++) {
        texts[i] = "1";
        answers[i] = right[i];
    }
    rig_open(rig, "rule_reward", "score", "reward", "", "metrics = \"val\"", NULL);
    verl_batch_t *made = rig_made(3, 12);
    rig_add_texts(made, "response", texts);
    rig_add_reals(made, "answer", answers);
    rig_add_integers(made, "group", groups);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(rig, in, 0), 0, "%s", rig->failure);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
}

// Of groups of 2, 4, 1, 4 and 1 rows three have a right one, and there are four of those.
Test(rule_reward, the_best_is_that_of_each_group_whatever_its_size)
{
    rig_t rig;
    s_run_groups(&rig, (int64_t[]) { 5, 5, 6, 6, 6, 6, 7, 8, 8, 8, 8, 9 },
                 (float[]) { 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1 });
    cr_assert_float_eq(rig_metric(&rig, "val-aux/unknown/best@4/mean"), 3.0 / 5, 1e-9);
    cr_assert_float_eq(rig_metric(&rig, "val-core/unknown/mean@4"), 4.0 / 12, 1e-9);
    cr_assert(!rig_has_metric(&rig, "val-aux/unknown/best@2/mean"));
    rig_close(&rig);
}

Test(rule_reward, rows_of_a_group_may_lie_apart)
{
    rig_t rig;
    s_run_groups(&rig, (int64_t[]) { 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2 },
                 (float[]) { 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0 });
    cr_assert_float_eq(rig_metric(&rig, "val-aux/unknown/best@4/mean"), 1.0 / 3, 1e-9);
    rig_close(&rig);
}

// As doubles all twelve would be one group.
Test(rule_reward, groups_are_told_apart_by_all_their_bits)
{
    rig_t rig;
    const int64_t base = INT64_C(1) << 62;
    s_run_groups(&rig, (int64_t[]) { base, base, base + 1, base + 1, base + 2, base + 2, base + 3, base + 3, base + 4,
                                     base + 4, base + 5, base + 5 },
                 (float[]) { 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0 });
    cr_assert_float_eq(rig_metric(&rig, "val-aux/unknown/best@2/mean"), 2.0 / 6, 1e-9);
    rig_close(&rig);
}

// Runs a held-out set whose third row has this source.
static int
s_run_source(rig_t *rig, const char *source)
{
    const char *const sources[] = { "sums", "sums", source, "sums" };
    rig_open(rig, "rule_reward", "score", "reward", "", "metrics = \"val\"", NULL);
    verl_batch_t *made = s_batch();
    rig_add_texts(made, "answer", s_answers);
    rig_add_texts(made, "source", sources);
    verl_batch_t *in = rig_see(made);
    int rc = rig_run(rig, in, 0);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    return rc;
}

Test(rule_reward, a_source_of_200_bytes_names_its_figures)
{
    rig_t rig;
    char source[201] = "", metric[256];
    memset(source, 'x', 200);
    cr_assert_eq(s_run_source(&rig, source), 0, "%s", rig.failure);
    snprintf(metric, sizeof metric, "val-core/%s/mean@1", source);
    cr_assert_float_eq(rig_metric(&rig, metric), 1, 1e-9);
    rig_close(&rig);
}

Test(rule_reward, a_longer_source_is_refused)
{
    rig_t rig;
    char source[202] = "";
    memset(source, 'x', 201);
    cr_assert_neq(s_run_source(&rig, source), 0);
    cr_assert_str_eq(rig.failure, "row 2: source has 201 bytes, and figures are named after it: at most 200 would be "
                                  "right");
    rig_close(&rig);
}

Test(rule_reward, a_source_that_is_no_text_is_refused)
{
    rig_t rig;
    cr_assert_neq(s_run_source(&rig, "sums\xff"), 0);
    cr_assert_str_eq(rig.failure, "row 2: source is not UTF-8 without zero bytes, and figures are named after it");
    rig_close(&rig);
}

// Checks a topology in which a stage with these options cuts its batches into two parts.
static verl_plan_t *
s_load_in_parts(const char *options, verl_topology_errors_t *errors)
{
    char text[1024];
    verl_error_t error = { "" };
    cr_assert_eq(verl_kind_register_all(verl_kinds, &error), 0, "%s", error.text);
    int bytes = snprintf(text, sizeof text,
                         "[run]\nsteps = 1\n"
                         "[stage.data]\nkind = 'loader'\nfiles = ['" VERL_SOURCE_DIR
                         "/topologies/data/addition-sft.jsonl']\nrows = 0\n"
                         "[stage.reward]\nkind = 'rule-reward'\nrule = 'random'\n%s\nparts = 2\n"
                         "depends_on = ['data']\n", options);
    return verl_topology_load_text(text, (size_t) bytes, "t.toml", NULL, 0, errors);
}

Test(rule_reward, a_held_out_set_is_measured_whole)
{
    verl_topology_errors_t errors;
    cr_assert_null(s_load_in_parts("metrics = 'val'", &errors));
    cr_assert(strstr(errors.items[0], "works on whole batches"), "%s", errors.items[0]);
    verl_topology_errors_done(&errors);
    verl_plan_t *plan = s_load_in_parts("metrics = 'train'", &errors);
    cr_assert(plan, "%s", errors.count ? errors.items[0] : "");
    verl_plan_destroy(&plan);
}

Test(rule_reward, a_buffer_of_tokens_has_a_length_that_it_ends_at)
{
    verl_topology_errors_t errors;
    cr_assert_null(s_load_in_parts("overlong_buffer = 3", &errors));
    cr_assert(strstr(errors.items[0], "3 tokens at the end of max_length, which is not given"), "%s", errors.items[0]);
    verl_topology_errors_done(&errors);
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
