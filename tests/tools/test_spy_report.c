// The report: what it says of profiles whose diseases are known, and of the case study.
#include "tests/tools/views.h"
#include <math.h>
#include "tools/spy_report_causes.h"

// --- profiles by hand ---------------------------------------------------------------------------------------------

// A profile of 100 batches. stages: JSON, in whose "ms" is the time of a batch; edges: JSON.
static json_t *
s_profile(int max_in_flight, const char *stages, const char *edges, const char *loads)
{
    json_error_t wrong;
    json_t *list = json_loads(stages, 0, &wrong), *actors = json_array(), *edge_list = json_loads(edges, 0, &wrong);
    json_t *load_list = json_loads(loads, 0, &wrong);
    cr_assert(list && edge_list && load_list, "%s", wrong.text);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *stage = json_array_get(list, i);
        double ms = json_number_value(json_object_get(stage, "ms")),
               moving = json_number_value(json_object_get(stage, "moving"));
        json_t *replicas = json_object_get(stage, "replicas");
        if (!json_object_get(stage, "actor")) {
            json_object_set(stage, "actor", json_object_get(stage, "name"));
            json_array_append_new(actors, json_pack("{s:O, s:s, s:I, s:b}", "name", json_object_get(stage, "name"),
                                                    "kind", "synthetic", "replicas",
                                                    replicas ? json_integer_value(replicas) : (json_int_t) 1,
                                                    "keeps_state", 0));
        }
        json_object_set_new(stage, "batches", json_integer(100));
        json_object_set_new(stage, "period", json_integer(1));
        json_object_set_new(stage, "seconds",
                            json_pack("{s:f, s:f}", "busy", ms / 10 - moving / 10, "moving", moving / 10));
    }
    return json_pack("{s:s, s:i, s:f, s:f, s:o, s:o, s:o, s:o}", "run", "x", "max_in_flight", max_in_flight, "seconds",
                     10.0, "done", 100.0, "actors", actors, "stages", list, "edges", edge_list, "loads", load_list);
}

static double
s_rate(int max_in_flight, const char *stages, const char *edges)
{
    static verl_model_t model;
    json_t *profile = s_profile(max_in_flight, stages, edges, "[]");
    cr_assert_eq(verl_model_make(&model, profile), 0);
    double rate = verl_model_rate(&model);
    json_decref(profile);
    return rate;
}

static const char s_three[] =
    "[{\"name\": \"a\", \"ms\": 10}, {\"name\": \"b\", \"ms\": 20}, {\"name\": \"c\", \"ms\": 30}]";
static const char s_chain[] = "[{\"maker\": \"a\", \"reader\": \"b\", \"columns\": [\"x\"]}, "
                              "{\"maker\": \"b\", \"reader\": \"c\", \"columns\": [\"y\"]}]";

Test(model, a_pipeline_goes_at_the_rate_of_its_slowest_stage_and_one_batch_at_a_time_at_the_sum)
{
    cr_expect_float_eq(s_rate(1, s_three, s_chain), 1 / 0.06, 0.2);
    cr_expect_float_eq(s_rate(2, s_three, s_chain), 2 / 0.06, 0.4);
    cr_expect_float_eq(s_rate(8, s_three, s_chain), 1 / 0.03, 0.2);
}

Test(model, replicas_take_batches_in_turn)
{
    cr_expect_float_eq(s_rate(16, "[{\"name\": \"a\", \"ms\": 1}, {\"name\": \"b\", \"ms\": 40, \"replicas\": 4}]",
                              "[{\"maker\": \"a\", \"reader\": \"b\", \"columns\": [\"x\"]}]"), 1 / 0.01, 1);
}

Test(model, stages_of_one_actor_share_its_worker)
{
    cr_expect_float_eq(s_rate(8, "[{\"name\": \"a\", \"ms\": 10}, {\"name\": \"b\", \"ms\": 20, \"actor\": \"a\"}]",
                              "[{\"maker\": \"a\", \"reader\": \"b\", \"columns\": [\"x\"]}]"), 1 / 0.03, 0.5);
}

Test(model, weights_of_the_last_batch_make_stages_take_turns_and_older_ones_do_not)
{
    const char *stages = "[{\"name\": \"a\", \"ms\": 10}, {\"name\": \"b\", \"ms\": 20, \"writes_weights\": true}]";
    const char *strict = "[{\"maker\": \"a\", \"reader\": \"b\", \"columns\": [\"x\"]}, "
                         "{\"maker\": \"b\", \"reader\": \"a\", \"weights\": true, \"staleness\": 0}]";
    const char *loose = "[{\"maker\": \"a\", \"reader\": \"b\", \"columns\": [\"x\"]}, "
                        "{\"maker\": \"b\", \"reader\": \"a\", \"weights\": true, \"staleness\": 1}]";
    cr_expect_float_eq(s_rate(8, stages, strict), 1 / 0.03, 0.5);
    cr_expect_float_eq(s_rate(8, stages, loose), 1 / 0.02, 0.5);
}

Test(model, a_plan_that_stands_still_has_no_rate)
{
    cr_expect_eq(s_rate(8, "[{\"name\": \"a\", \"ms\": 10}, {\"name\": \"b\", \"ms\": 20}]",
                        "[{\"maker\": \"a\", \"reader\": \"b\"}, {\"maker\": \"b\", \"reader\": \"a\"}]"), 0);
}

// --- diagnoses ----------------------------------------------------------------------------------------------------

static const verl_diagnosis_t *
s_diagnose(int max_in_flight, const char *stages, const char *edges, const char *loads)
{
    static verl_diagnosis_t found;
    json_t *profile = s_profile(max_in_flight, stages, edges, loads);
    cr_assert_eq(verl_diagnose(profile, &found), 0);
    json_decref(profile);
    return &found;
}

static const verl_cause_t *
s_only(const verl_diagnosis_t *found, verl_disease_t disease)
{
    cr_assert_eq(found->count, 1, "%d causes, the first: %s", found->count, found->count ? found->causes[0].text : "");
    cr_assert_eq(found->causes[0].disease, disease, "%s", found->causes[0].text);
    return &found->causes[0];
}

Test(diagnosis, a_healthy_pipeline_has_no_cause_and_its_slowest_stage_is_the_bottleneck)
{
    const verl_diagnosis_t *found = s_diagnose(8, s_three, s_chain, "[]");
    cr_expect_eq(found->count, 0);
    cr_expect_str_eq(found->bottleneck, "c");
    cr_expect(strstr(found->help, "replicas = 2"), "%s", found->help);
    cr_expect_float_eq(found->measured, 10, 1e-9);
}

Test(diagnosis, too_few_batches_in_flight_are_named_with_the_fewest_that_do)
{
    const verl_diagnosis_t *found = s_diagnose(1, s_three, s_chain, "[]");
    const verl_cause_t *cause = s_only(found, VERL_DISEASE_SYNCHRONOUS);
    cr_expect_float_eq(cause->gain, 2, 0.05);
    cr_expect_eq(cause->in_flight, 2, "%s", cause->help);
    cr_expect_float_eq(found->cured, 1 / 0.03, 1);
    cr_expect(strstr(cause->text, "only when the one before it is done"), "%s", cause->text);
    found = s_diagnose(2, "[{\"name\": \"a\", \"ms\": 20}, {\"name\": \"b\", \"ms\": 20}, "
                          "{\"name\": \"c\", \"ms\": 20}, {\"name\": \"d\", \"ms\": 20}]",
                       "[{\"maker\": \"a\", \"reader\": \"b\", \"columns\": [\"x\"]}, "
                       "{\"maker\": \"b\", \"reader\": \"c\", \"columns\": [\"y\"]}, "
                       "{\"maker\": \"c\", \"reader\": \"d\", \"columns\": [\"z\"]}]", "[]");
    cause = s_only(found, VERL_DISEASE_SYNCHRONOUS);
    cr_expect(strstr(cause->text, "only when all but the last one before it are done"), "%s", cause->text);
}

Test(diagnosis, a_dependency_that_brings_nothing_is_named)
{
    const verl_diagnosis_t *found =
        s_diagnose(1, s_three,
                   "[{\"maker\": \"a\", \"reader\": \"b\", \"columns\": [\"x\"]}, {\"maker\": \"a\", \"reader\": "
                   "\"c\", \"columns\": [\"x\"]}, {\"maker\": \"b\", \"reader\": \"c\", \"columns\": []}]",
                   "[]");
    bool named = false;
    for (int i = 0; i < found->count; i++)
        named |= strstr(found->causes[i].text, "`c` waits for `b`") && strstr(found->causes[i].help, "depends_on");
    cr_expect(named);
}

Test(diagnosis, staleness_0_is_named_where_an_older_version_would_let_both_work)
{
    const verl_diagnosis_t *found = s_diagnose(
        8, "[{\"name\": \"a\", \"ms\": 10}, {\"name\": \"b\", \"ms\": 20, \"writes_weights\": true}]",
        "[{\"maker\": \"a\", \"reader\": \"b\", \"columns\": [\"x\"]}, {\"maker\": \"b\", \"reader\": \"a\", "
        "\"weights\": true, \"staleness\": 0}]",
        "[]");
    cr_expect(strstr(s_only(found, VERL_DISEASE_SYNCHRONOUS)->help, "staleness = 1"));
}

Test(diagnosis, what_is_given_again_is_named_with_the_stage_that_made_it)
{
    const char *stages =
        "[{\"name\": \"a\", \"ms\": 10}, {\"name\": \"b\", \"ms\": 30, \"moving\": 15, \"bytes\": {\"again\": "
        "104857600}, \"needs\": [{\"name\": \"x\", \"column\": \"x\", \"from\": \"a\"}], \"gives\": [\"x\"]}]";
    const char *edges = "[{\"maker\": \"a\", \"reader\": \"b\", \"columns\": [\"x\"]}]";
    const verl_cause_t *cause = s_only(s_diagnose(8, stages, edges, "[]"), VERL_DISEASE_TRANSFER);
    cr_expect(strstr(cause->text, "`x`, 1.0 MiB a batch, 15 ms of its 30 ms"), "%s", cause->text);
    cr_expect(strstr(cause->help, "straight from `a`"), "%s", cause->help);
    cr_expect_float_eq(cause->gain, 2, 0.05);
}

Test(diagnosis, many_copies_that_are_small_alone_are_named_together)
{
    char stages[4000] = "[{\"name\": \"s0\", \"ms\": 10}", edges[4000] = "[";
    for (int i = 1; i <= 8; i++) {
        size_t at = strlen(stages), to = strlen(edges);
        snprintf(stages + at, sizeof stages - at,
                 ", {\"name\": \"s%d\", \"ms\": 10, \"moving\": 0.8, \"bytes\": {\"again\": "
                 "1e8}, \"needs\": [], \"gives\": []}",
                 i);
        snprintf(edges + to, sizeof edges - to, "%s{\"maker\": \"s%d\", \"reader\": \"s%d\", \"columns\": [\"x\"]}",
                 i > 1 ? ", " : "", i - 1, i);
    }
    snprintf(stages + strlen(stages), sizeof stages - strlen(stages), "]");
    snprintf(edges + strlen(edges), sizeof edges - strlen(edges), "]");
    const verl_diagnosis_t *found = s_diagnose(1, stages, edges, "[]");
    int copies = 0;
    for (int i = 0; i < found->count; i++)
        copies += found->causes[i].disease == VERL_DISEASE_TRANSFER;
    cr_expect_eq(copies, 8);
}

Test(diagnosis, what_is_loaded_for_every_batch_is_named_and_what_is_loaded_once_is_not)
{
    const char *edges =
        "[{\"maker\": \"a\", \"reader\": \"b\", \"columns\": [\"x\"]}, {\"maker\": \"b\", \"reader\": \"c\", "
        "\"columns\": [\"y\"]}]";
    const char *again =
        "[{\"stage\": \"c\", \"what\": \"tokenizer\", \"times\": 100, \"in_batches\": 100, \"batch_seconds\": 2.0},"
        " {\"stage\": \"b\", \"what\": \"table\", \"times\": 1, \"in_batches\": 1, \"batch_seconds\": 1.0}]";
    const verl_cause_t *cause = s_only(s_diagnose(8, s_three, edges, again), VERL_DISEASE_LOADING);
    cr_expect(strstr(cause->text, "`c` loaded its tokenizer 100 times in 100 batches"), "%s", cause->text);
    cr_expect_float_eq(cause->gain, 1.5, 0.05);     // from 30 ms to the 20 ms of b
}

Test(diagnosis, what_is_sent_and_never_looked_at_is_a_note_and_no_cause)
{
    const verl_diagnosis_t *found =
        s_diagnose(8, "[{\"name\": \"a\", \"ms\": 10}, {\"name\": \"b\", \"ms\": 20, \"bytes\": {\"unseen\": 1e9}, "
                   "\"needs\": [{\"name\": \"x\", \"column\": \"x\", \"from\": \"a\"}]}]",
                   "[{\"maker\": \"a\", \"reader\": \"b\", \"columns\": [\"x\"]}]", "[]");
    cr_expect_eq(found->count, 0);
    cr_assert_eq(found->notes_count, 1);
    cr_expect(strstr(found->notes[0], "`b` is sent 9.5 MiB") && strstr(found->notes[0], "`x`"), "%s", found->notes[0]);
}

Test(diagnosis, a_profile_that_is_none_is_refused)
{
    static verl_diagnosis_t found;
    const char *const wrong[] = {
        "{}", "{\"stages\": 3}", "{\"stages\": [{}], \"actors\": []}",
        "{\"stages\": [{\"name\": \"a\", \"actor\": \"b\"}], \"actors\": [{\"name\": \"a\"}]}",
        "{\"stages\": [{\"name\": \"a\", \"actor\": \"a\", \"period\": -1e300}], \"actors\": [{\"name\": "
        "\"a\", \"replicas\": 1e300}]}"
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_t *profile = json_loads(wrong[i], 0, NULL);
        cr_assert(profile);
        cr_expect_neq(verl_diagnose(profile, &found), 0, "%s", wrong[i]);
        json_decref(profile);
    }
}

// --- the case study -----------------------------------------------------------------------------------------------

static char *
s_read(const char *path)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "re");
    cr_assert(file && getdelim(&text, &size, 0, file) > 0, "%s", path);
    fclose(file);
    return text;
}

// What a finished run of few steps is said to suffer from. Owned by the caller.
static json_t *
s_case(const char *name)
{
    run_t run;
    char path[200];
    snprintf(path, sizeof path, VERL_SOURCE_DIR "/topologies/case-study/%s.toml", name);
    char *topology = s_read(path);
    run_whole(&run, topology, "--steps 10");
    cr_assert_eq(run.code, 0, "%s", run.said);
    json_t *report = show_json(&run, "report --run run --json");
    shown_t shown = show(&run, "report --run run");
    cr_expect_eq(shown.code, 0, "%s", shown.said);
    cr_expect(strstr(shown.out, "bottleneck") && strstr(shown.out, "generate"), "%s", shown.out);
    shown_done(&shown);
    run_done(&run);
    free(topology);
    return report;
}

static int
s_count(const json_t *report, const char *disease)
{
    const json_t *causes = json_object_get(report, "causes");
    int count = 0;
    for (size_t i = 0; i < json_array_size(causes); i++)
        count += strcmp(text(json_array_get(causes, i), "disease"), disease) == 0;
    return count;
}

Test(report, names_all_three_diseases_of_the_case_study_and_none_of_its_cure)
{
    json_t *before = s_case("before"), *after = s_case("after");
    for (int i = 0; i < VERL_DISEASES; i++)
        cr_expect_geq(s_count(before, verl_disease_names[i]), 1, "%s is not named", verl_disease_names[i]);
    char *said = json_dumps(json_object_get(after, "causes"), 0);
    cr_expect_eq(json_array_size(json_object_get(after, "causes")), 0, "%s", said);
    free(said);
    cr_expect_gt(number(after, "batches_per_second"), 1.45 * number(before, "batches_per_second"));
    cr_expect_gt(number(before, "tokens_per_second"), 0);
    json_decref(before);
    json_decref(after);
}

Test(report, speaks_of_a_run_that_lives)
{
    run_t run;
    run_start(
        &run,
        "[run]\nname = \"live\"\nsteps = 1000000\n[stage.a]\nkind = \"synthetic\"\nbusy_ms = 5\n[stage.b]\nkind = "
        "\"synthetic\"\nbusy_ms = 10\ndepends_on = [\"a\"]\nreads = [\"id\"]\n",
        "");
    run_until_steps(&run, 30);
    json_t *report = show_json(&run, "report --run run --json");
    cr_expect(json_is_true(json_object_get(report, "live")));
    cr_expect_str_eq(text(json_object_get(report, "bottleneck"), "stage"), "b");
    const json_t *shares = json_object_get(named(report, "stages", "b"), "shares");
    const char *key;
    json_t *value;
    double sum = 0;
    json_object_foreach((json_t *) (uintptr_t) shares, key, value)
        sum += json_number_value(value);
    cr_expect_float_eq(sum, 1, 1e-6, "shares add to %g", sum);
    json_decref(report);
    run_cut(&run);
}

// A stage that was slow at first: over the whole run it holds everything up, and now it does not.
Test(report, of_a_window_forgets_what_was_before)
{
    run_t run;
    char command[400];
    run_start(
        &run,
        "[run]\nname = \"cured\"\nsteps = 1000000\n[stage.a]\nkind = \"synthetic\"\nbusy_ms = 60\n[stage.b]\nkind = "
        "\"synthetic\"\nbusy_ms = 6\ndepends_on = [\"a\"]\nreads = [\"id\"]\n",
        "");
    run_until_steps(&run, 30);
    snprintf(command, sizeof command, "cd %s && %s/bin/verl-inject --run run set stage.a.busy_ms=1 >/dev/null 2>&1",
             run.folder, VERL_BINARY_DIR);
    cr_assert_eq(system(command), 0);
    run_until_steps(&run, 60);
    json_t *window = show_json(&run, "report --run run --seconds 1 --json");
    cr_expect_str_eq(text(json_object_get(window, "bottleneck"), "stage"), "b");
    cr_expect_lt(number(window, "seconds"), 30);
    cr_expect_lt(number(json_object_get(named(window, "stages", "a"), "seconds"), "busy"), 30 * 0.06);
    json_decref(window);
    shown_t shown = show(&run, "report --seconds 0 --run run");
    cr_expect_eq(shown.code, 2);
    shown_done(&shown);
    run_cut(&run);
}

// Of a run that was resumed the lines of its earlier lives are there too: theirs are no tokens of this one's seconds.
Test(report, counts_the_tokens_of_this_life_only)
{
    run_t run;
    char path[120];
    run_whole(&run, "[run]\nname = \"again\"\nsteps = 10\n[stage.a]\nkind = \"synthetic\"\nbusy_ms = 1\n", "");
    cr_assert_eq(run.code, 0, "%s", run.said);
    snprintf(path, sizeof path, "%s/run/metrics.jsonl", run.folder);
    FILE *file = fopen(path, "w");
    cr_assert(file);
    for (int step = 0; step < 25; step++)
        fprintf(file, "{\"step\":%d,\"tokens/sum\":%d,\"timing_s/step\":%d}\n", step, step < 15 ? 1000000 : 7,
                step < 15 ? 100 : 1);
    cr_assert_eq(fclose(file), 0);
    json_t *report = show_json(&run, "report --run run --json");
    cr_expect_eq(number(report, "done"), 10);
    cr_expect_float_eq(number(report, "tokens_per_second") * number(report, "seconds"), 70, 1e-6);
    cr_expect_float_eq(number(report, "batches_per_second_under_way"), 1, 1e-6);
    json_decref(report);
    run_done(&run);
}

Test(report, says_what_is_wrong_where_there_is_nothing_to_report)
{
    run_t run;
    run_whole(&run, "[run]\nname = \"none\"\nsteps = 1\n[stage.a]\nkind = \"synthetic\"\nfail_at = 0\n", "");
    shown_t shown = show(&run, "report --run run");
    cr_expect_eq(shown.code, 1);
    cr_expect(strstr(shown.said, "no batch behind it"), "%s", shown.said);
    shown_done(&shown);
    shown = show(&run, "report --run nowhere");
    cr_expect_eq(shown.code, 1);
    cr_expect(strstr(shown.said, "nowhere"), "%s", shown.said);
    shown_done(&shown);
    shown = show(&run, "report now");
    cr_expect_eq(shown.code, 2);
    shown_done(&shown);
    run_done(&run);
}
