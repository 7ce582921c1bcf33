// What a handler says while it runs: failures, metrics, progress.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "runtime/actor/stage.h"

static const verl_stage_kind_t s_handler = { .name = "work" };
static const verl_kind_t s_kind = { .name = "test", .stages = { { .name = "work" } } };

static verl_stage_t
s_stage(const char *name, uint64_t seed)
{
    verl_stage_t stage;
    cr_assert_eq(verl_stage_init(&stage, name, &s_kind, &s_handler, NULL, NULL, seed, 10, NULL), 0);
    return stage;
}

Test(stage, keeps_the_first_reason_of_a_failure)
{
    verl_stage_t stage = s_stage("a", 1);
    cr_assert_eq(verl_fail(&stage, "row %d is empty", 7), -1);
    cr_assert_eq(verl_fail(&stage, "so nothing works"), -1);
    cr_assert_str_eq(stage.error.text, "row 7 is empty");
    verl_stage_done(&stage);
}

Test(stage, reduces_metrics_by_their_last_part)
{
    verl_stage_t stage = s_stage("a", 1);
    static const char *const names[] = { "x/mean", "x/max", "x/min", "x/sum", "x/maximal" };
    static const double expected[] = { 2.5, 4, 1, 8, 2.5 };
    for (int i = 0; i < 5; i++) {
        verl_metric_weighted(&stage, names[i], 1, 1);
        verl_metric_weighted(&stage, names[i], 4, 0.5);
        verl_metric_weighted(&stage, names[i], 3, 2.5 - 0.5);
    }
    cr_assert_eq(stage.metrics_count, 5);
    for (int i = 0; i < 5; i++)
        cr_assert_float_eq(verl_metric_reduced(&stage.metrics[i]), i == 0 || i == 4 ? 9 / 3.5 : expected[i], 1e-12,
                           "%s", names[i]);
    verl_stage_done(&stage);
}

Test(stage, does_not_hide_a_value_that_is_none)
{
    verl_stage_t stage = s_stage("a", 1);
    verl_metric(&stage, "x/max", 1);
    verl_metric(&stage, "x/max", NAN);
    verl_metric(&stage, "x/mean", NAN);
    cr_assert(isnan(verl_metric_reduced(&stage.metrics[0])));
    cr_assert(isnan(verl_metric_reduced(&stage.metrics[1])));
    verl_stage_done(&stage);
}

Test(stage, counts_the_batches_that_are_its_own)
{
    verl_stage_t stage = s_stage("a", 1);
    stage.batch = 7;
    cr_assert_eq(verl_stage_batches(&stage), 10);
    cr_assert_eq(verl_stage_ordinal(&stage), 7);
    stage.span = (verl_span_t) { .period = 3, .begin = 2, .closing = true };
    stage.batch = 9;                        // after 3 and 6; the closing one is behind it
    cr_assert_eq(verl_stage_batches(&stage), 4);
    cr_assert_eq(verl_stage_ordinal(&stage), 2);
    stage.batch = 10;
    cr_assert_eq(verl_stage_ordinal(&stage), 3);
    verl_stage_done(&stage);
}

Test(stage, has_a_seed_of_its_own)
{
    verl_stage_t a = s_stage("a", 1), b = s_stage("b", 1), c = s_stage("a", 2), again = s_stage("a", 1);
    cr_assert_neq(verl_stage_seed(&a), verl_stage_seed(&b));
    cr_assert_neq(verl_stage_seed(&a), verl_stage_seed(&c));
    cr_assert_eq(verl_stage_seed(&a), verl_stage_seed(&again));
    verl_stage_done(&a);
    verl_stage_done(&b);
    verl_stage_done(&c);
    verl_stage_done(&again);
}

Test(stage, is_told_when_the_run_stops)
{
    verl_stage_t stage = s_stage("a", 1);
    atomic_bool stopping = false;
    stage.stopping = &stopping;
    cr_assert_not(verl_progress(&stage, 0.5));
    atomic_store(&stopping, true);
    cr_assert(verl_progress(&stage, 0.6));
    verl_stage_done(&stage);
}

typedef struct heard {
    char log[2048], loaded[2048];
} heard_t;

static void
s_on_log(void *context, const verl_stage_t *stage, const char *text)
{
    heard_t *heard = context;
    (void) stage;
    snprintf(heard->log, sizeof heard->log, "%s", text);
}

static void
s_on_loaded(void *context, const verl_stage_t *stage, const char *what, double seconds)
{
    heard_t *heard = context;
    (void) stage;
    (void) seconds;
    snprintf(heard->loaded, sizeof heard->loaded, "%s", what);
}

// What the director could not read would end the run without a name.
Test(stage, says_no_more_than_a_report_can_hold_and_whole_characters)
{
    verl_stage_t stage = s_stage("a", 1);
    heard_t heard = { "", "" };
    char text[2001] = "", name[257];
    for (int i = 0; i < 500; i++)
        strcat(text, "\xf0\x9f\x98\x80");
    stage.reporter = (verl_reporter_t) { .log = s_on_log, .loaded = s_on_loaded, .context = &heard };
    verl_log(&stage, "x%s", text);
    cr_assert_eq(strlen(heard.log), 1 + 255 * 4);
    verl_loaded(&stage, text, 1);
    cr_assert_eq(strlen(heard.loaded), 63 * 4);
    memset(name, 'm', 255);
    name[255] = 0;
    verl_metric(&stage, name, 1);
    cr_assert_eq(stage.metrics_count, 1);
    cr_assert_str_empty(stage.error.text);
    strcpy(name + 255, "m");
    verl_metric(&stage, name, 1);
    cr_assert_eq(stage.metrics_count, 1);
    cr_assert(strstr(stage.error.text, "stage a gives the metric mmmmm") &&
              strstr(stage.error.text, "has 256 bytes: it may have 255"), "%s", stage.error.text);
    verl_stage_done(&stage);
}
