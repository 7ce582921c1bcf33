// The ledger: what may be granted, when a batch is done, and the line of metrics that it makes.
#include <criterion/criterion.h>
#include <string.h>
#include "runtime/director/ledger.h"
#include "runtime/wire/pack.h"

// a -> b, and held, which works on every fourth batch and on the closing one.
static verl_plan_stage_t s_stages[] = {
    { .name = "a", .span = { .period = 1 }, .source = true },
    { .name = "b", .span = { .period = 1 } },
    { .name = "held", .span = { .period = 4, .closing = true }, .source = true },
};
static verl_plan_t s_plan = { .steps = 6, .max_in_flight = 3, .stages_count = 3, .stages = s_stages };

static bool skipped;                        // of the last batch that was taken

static int
s_report(verl_ledger_t *ledger, int stage, int64_t batch, bool skip, const char *metric, double value,
         verl_error_t *error)
{
    verl_buffer_t body = { 0 };
    verl_reader_t reader;
    verl_pack_array(&body, metric ? 1 : 0);
    if (metric) {
        verl_pack_array(&body, 3);
        verl_pack_cstr(&body, metric);
        verl_pack_real(&body, value * 2);
        verl_pack_real(&body, 2);
    }
    verl_reader_init(&reader, body.data, body.size);
    int failed = verl_ledger_enter(ledger, &s_plan, stage, batch, skip, 1000, 2000, &reader, error);
    verl_buffer_done(&body);
    return failed;
}

static int
s_enter(verl_ledger_t *ledger, int stage, int64_t batch, const char *metric, double value, verl_error_t *error)
{
    return s_report(ledger, stage, batch, false, metric, value, error);
}

Test(ledger, grants_no_more_than_may_be_in_flight)
{
    verl_ledger_t *ledger = verl_ledger_new(0);
    cr_assert_eq(verl_ledger_grantable(ledger, &s_plan), 2);
    verl_ledger_grant(ledger, 2, &s_plan);
    s_enter(ledger, 0, 0, NULL, 0, NULL);
    s_enter(ledger, 1, 0, NULL, 0, NULL);
    cr_assert_eq(verl_ledger_grantable(ledger, &s_plan), 2, "held is not done with batch 0");
    s_enter(ledger, 2, 0, NULL, 0, NULL);
    cr_assert_eq(verl_ledger_grantable(ledger, &s_plan), 3);
    verl_ledger_destroy(&ledger);
}

Test(ledger, takes_batches_in_order_whatever_the_order_of_reports)
{
    verl_ledger_t *ledger = verl_ledger_new(0);
    verl_ledger_grant(ledger, 2, &s_plan);
    for (int64_t batch = 2; batch >= 1; batch--)
        for (int stage = 0; stage < 2; stage++)
            cr_assert_eq(s_enter(ledger, stage, batch, NULL, 0, NULL), 0);
    cr_assert_null(verl_ledger_take(ledger, &skipped));
    for (int stage = 0; stage < 3; stage++)
        cr_assert_eq(s_enter(ledger, stage, 0, NULL, 0, NULL), 0);
    for (int64_t step = 0; step < 3; step++) {
        json_t *line = verl_ledger_take(ledger, &skipped);
        cr_assert_eq(json_integer_value(json_object_get(line, "step")), step);
        json_decref(line);
    }
    cr_assert_null(verl_ledger_take(ledger, &skipped));
    cr_assert_eq(verl_ledger_done(ledger), 3);
    verl_ledger_destroy(&ledger);
}

Test(ledger, passes_over_a_batch_that_was_done_and_refuses_one_without_permit)
{
    verl_ledger_t *ledger = verl_ledger_new(0);
    verl_error_t error = { "" };
    verl_ledger_grant(ledger, 1, &s_plan);
    cr_assert_eq(s_enter(ledger, 0, 0, NULL, 0, &error), 0);
    cr_assert_eq(s_enter(ledger, 0, 0, "late", 7, &error), 0, "a successor does some batches again");
    cr_assert_eq(verl_ledger_stage_done(ledger, "a"), 1);
    cr_assert_eq(s_enter(ledger, 0, 2, NULL, 0, &error), -1);
    cr_assert(strstr(error.text, "not given"), "%s", error.text);
    error = (verl_error_t) { "" };
    cr_assert_eq(s_enter(ledger, 2, 1, NULL, 0, &error), -1, "held does not work on batch 1");
    verl_ledger_destroy(&ledger);
}

Test(ledger, keeps_held_out_metrics_and_equal_names_apart)
{
    verl_ledger_t *ledger = verl_ledger_new(0);
    verl_ledger_grant(ledger, 0, &s_plan);
    s_enter(ledger, 0, 0, "length/mean", 3, NULL);
    s_enter(ledger, 1, 0, "length/mean", 4, NULL);
    s_enter(ledger, 2, 0, "length/mean", 5, NULL);
    json_t *line = verl_ledger_take(ledger, &skipped);
    cr_assert_eq(json_real_value(json_object_get(line, "length/mean")), 3);
    cr_assert_eq(json_real_value(json_object_get(line, "b/length/mean")), 4);
    cr_assert_eq(json_real_value(json_object_get(line, "val/length/mean")), 5);
    json_decref(line);
    verl_ledger_destroy(&ledger);
}

// Both report a loss, a only where it is to. Returns b's where that has its stage's name before it, else 0.
static double
s_of_b(verl_ledger_t *ledger, int64_t batch, bool a_too)
{
    verl_ledger_grant(ledger, batch, &s_plan);
    s_enter(ledger, 0, batch, a_too ? "loss" : NULL, 3, NULL);
    s_enter(ledger, 1, batch, "loss", 4, NULL);
    if (verl_span_has(&s_stages[2].span, s_plan.steps, batch))
        s_enter(ledger, 2, batch, NULL, 0, NULL);
    json_t *line = verl_ledger_take(ledger, &skipped);
    double prefixed = json_real_value(json_object_get(line, "b/loss"));
    json_decref(line);
    return prefixed;
}

Test(ledger, a_name_is_of_the_stage_that_had_it_first_also_where_that_one_is_silent)
{
    verl_ledger_t *ledger = verl_ledger_new(0);
    cr_assert_eq(s_of_b(ledger, 0, true), 4);
    cr_assert_eq(s_of_b(ledger, 1, false), 4, "a is silent, and b takes its name");
    cr_assert_eq(s_of_b(ledger, 2, true), 4);
    verl_ledger_destroy(&ledger);
}

Test(ledger, a_name_is_of_the_stage_that_had_it_first_though_another_one_comes_before_it_in_the_plan)
{
    verl_ledger_t *ledger = verl_ledger_new(0);
    cr_assert_eq(s_of_b(ledger, 0, false), 0, "it is b's");
    cr_assert_eq(s_of_b(ledger, 1, true), 0, "it is b's, and not a's");
    verl_ledger_destroy(&ledger);
}

Test(ledger, who_goes_on_from_a_checkpoint_knows_whose_a_name_was_there)
{
    verl_ledger_t *ledger = verl_ledger_new(0), *resumed = verl_ledger_new(1);
    s_of_b(ledger, 0, true);
    json_t *before = verl_ledger_owners(ledger, 0), *owners = verl_ledger_owners(ledger, 1);
    cr_assert_eq(json_object_size(before), 0);
    cr_assert_str_eq(json_string_value(json_object_get(owners, "loss")), "a");
    verl_ledger_own(resumed, owners);
    verl_ledger_own(resumed, NULL);
    cr_assert_eq(s_of_b(resumed, 1, false), 4);
    json_decref(before);
    json_decref(owners);
    verl_ledger_destroy(&ledger);
    verl_ledger_destroy(&resumed);
}

Test(ledger, a_held_out_name_that_only_begins_as_val_does_stands_apart)
{
    verl_ledger_t *ledger = verl_ledger_new(0);
    verl_ledger_grant(ledger, 0, &s_plan);
    s_enter(ledger, 0, 0, "value_error", 3, NULL);
    s_enter(ledger, 1, 0, NULL, 0, NULL);
    s_enter(ledger, 2, 0, "value_error", 5, NULL);
    json_t *line = verl_ledger_take(ledger, &skipped);
    cr_assert_eq(json_real_value(json_object_get(line, "value_error")), 3);
    cr_assert_eq(json_real_value(json_object_get(line, "val/value_error")), 5);
    json_decref(line);
    verl_ledger_destroy(&ledger);
}

Test(ledger, grants_the_closing_batch_last)
{
    verl_ledger_t *ledger = verl_ledger_new(0);
    for (int64_t batch = 0; batch <= 6; batch++) {
        verl_ledger_grant(ledger, verl_ledger_grantable(ledger, &s_plan), &s_plan);
        for (int stage = 0; stage < 3; stage++)
            if (verl_span_has(&s_stages[stage].span, 6, batch))
                cr_assert_eq(s_enter(ledger, stage, batch, NULL, 0, NULL), 0);
        json_t *line = verl_ledger_take(ledger, &skipped);
        cr_assert(line);
        json_decref(line);
    }
    cr_assert_eq(verl_ledger_granted(ledger), 6);
    cr_assert_eq(verl_ledger_done(ledger), 7);
    verl_ledger_destroy(&ledger);
}

Test(ledger, the_way_of_a_batch_is_known_while_it_lives_and_for_a_while_after)
{
    verl_ledger_t *ledger = verl_ledger_new(0);
    cr_assert_null(verl_ledger_way(ledger, 0));
    verl_ledger_grant(ledger, 0, &s_plan);
    cr_assert_eq(s_enter(ledger, 0, 0, NULL, 0, NULL), 0);
    json_t *way = verl_ledger_way(ledger, 0), *stages = json_object_get(way, "stages");
    cr_expect_eq(json_array_size(stages), 1);
    cr_expect_str_eq(json_string_value(json_object_get(json_array_get(stages, 0), "name")), "a");
    json_decref(way);
    cr_assert_eq(s_enter(ledger, 1, 0, NULL, 0, NULL), 0);
    cr_assert_eq(s_enter(ledger, 2, 0, NULL, 0, NULL), 0);
    json_decref(verl_ledger_take(ledger, &skipped));
    way = verl_ledger_way(ledger, 0);
    stages = json_object_get(way, "stages");
    cr_expect_eq(json_array_size(stages), 3);
    for (size_t i = 0; i < json_array_size(stages); i++) {
        const json_t *stage = json_array_get(stages, i);
        double from = json_real_value(json_object_get(stage, "from")),
               to = json_real_value(json_object_get(stage, "to"));
        cr_expect(from >= 0 && to >= from && to <= json_real_value(json_object_get(way, "seconds")));
    }
    json_decref(way);
    cr_expect_null(verl_ledger_way(ledger, 64));
    cr_expect_null(verl_ledger_way(ledger, -1));
    verl_ledger_destroy(&ledger);
}

Test(ledger, a_batch_that_two_stages_skip_is_one_skipped_batch)
{
    verl_ledger_t *ledger = verl_ledger_new(0);
    verl_ledger_grant(ledger, 2, &s_plan);
    for (int64_t batch = 0; batch < 3; batch++)
        for (int stage = 0; stage < (batch ? 2 : 3); stage++)
            cr_assert_eq(s_report(ledger, stage, batch, batch == 1, NULL, 0, NULL), 0);
    for (int64_t batch = 0; batch < 3; batch++) {
        json_t *line = verl_ledger_take(ledger, &skipped);
        cr_expect_eq(json_integer_value(json_object_get(line, "step")), batch);
        cr_expect_eq(skipped, batch == 1);
        json_decref(line);
    }
    verl_ledger_destroy(&ledger);
}

// Names of actors, which may be cut in the middle of a character.
Test(ledger, a_metric_whose_name_is_not_UTF8_is_in_the_line_all_the_same)
{
    verl_ledger_t *ledger = verl_ledger_new(0);
    verl_ledger_grant(ledger, 0, &s_plan);
    for (int stage = 0; stage < 3; stage++)
        cr_assert_eq(s_enter(ledger, stage, 0, "reward/Gr\xc3\xb6\xc3", 2, NULL), 0);
    json_t *line = verl_ledger_take(ledger, &skipped);
    cr_expect_eq(json_real_value(json_object_get(line, "reward/Gr\xc3\xb6?")), 2);
    cr_expect_eq(json_real_value(json_object_get(line, "b/reward/Gr\xc3\xb6?")), 2);
    json_decref(line);
    verl_ledger_destroy(&ledger);
}

Test(ledger, a_bad_metric_is_named_with_its_stage)
{
    char name[300] = "";
    verl_ledger_t *ledger = verl_ledger_new(0);
    verl_error_t error = { "" };
    verl_ledger_grant(ledger, 0, &s_plan);
    memset(name, 'm', 256);
    cr_assert_eq(s_enter(ledger, 1, 0, name, 0, &error), -1);
    cr_expect(strstr(error.text, "mmm") && strstr(error.text, "stage b") && strstr(error.text, "255"), "%s",
              error.text);
    verl_ledger_destroy(&ledger);
}

// A plan may come to lie where one was whose stage was ignored: that stage is waited for again.
Test(ledger, what_was_ignored_of_a_plan_goes_with_it)
{
    verl_ledger_t *ledger = verl_ledger_new(1);
    verl_ledger_ignore(ledger, &s_plan, 1);
    verl_ledger_grant(ledger, 1, &s_plan);
    cr_assert_eq(s_enter(ledger, 0, 1, NULL, 0, NULL), 0);
    json_t *line = verl_ledger_take(ledger, &skipped);
    cr_assert(line, "a stage that is ignored is waited for");
    json_decref(line);
    verl_ledger_forget(ledger, &s_plan);
    verl_ledger_grant(ledger, 2, &s_plan);
    cr_assert_eq(s_enter(ledger, 0, 2, NULL, 0, NULL), 0);
    cr_assert_null(verl_ledger_take(ledger, &skipped), "a stage that is ignored no longer has not been done");
    cr_assert_eq(s_enter(ledger, 1, 2, NULL, 0, NULL), 0);
    line = verl_ledger_take(ledger, &skipped);
    cr_assert(line);
    json_decref(line);
    verl_ledger_destroy(&ledger);
}
