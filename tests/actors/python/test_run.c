// Whole runs with stages in Python: columns of every kind, parts, row maps, state, failures, deaths, speed.
#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include "actors/python/programs.h"
#include "tools/run.h"

#define SOURCE   "[run]\nname = \"p\"\nsteps = 12\nseed = 5\n[stage.make]\nkind = \"command\"\ncommand = WORK\n"
#define IDS      "[run]\nname = \"p\"\nsteps = 300\nseed = 5\n[stage.ids]\nkind = \"synthetic\"\nrows = 2\n"
#define KEEP     "[stage.keep]\nkind = \"recorder\"\nfile = \"kept.jsonl\"\n"

static void
s_whole(run_t *run, const char *text, const char *arguments)
{
    run_start(run, programs_topology(text), arguments);
    run_wait(run, 120);
}

static int64_t
s_integer(const json_t *lines, size_t index, const char *key)
{
    return json_integer_value(json_object_get(json_array_get(lines, index), key));
}

// The last value of a metric.
static double
s_metric(const run_t *run, const char *name)
{
    char *text = run_file(run, "metrics.jsonl"), *end = text + strlen(text);
    while (end > text && end[-1] == '\n')
        *--end = 0;
    char *line = strrchr(text, '\n');
    json_t *object = json_loads(line ? line + 1 : text, 0, NULL);
    const json_t *value = json_object_get(object, name);
    cr_assert(json_is_number(value), "no metric %s in %s", name, line ? line + 1 : text);
    double number = json_number_value(value);
    json_decref(object);
    free(text);
    return number;
}

#define READ "[stage.read]\nkind = \"command\"\ncommand = WORK\ndepends_on = [\"make\"]\n"
#define KEPT KEEP "depends_on = [\"read\"]\ncolumns = [\"id\", \"sum\", \"back\", \"upper\"]\n"

static void
s_check_read(const run_t *run)
{
    json_t *lines = programs_kept(run);
    cr_assert_eq(json_array_size(lines), 48);
    for (size_t i = 0; i < 48; i++) {
        int64_t id = s_integer(lines, i, "id"), row = id % 4, batch = id / 4, words = id % 5;
        cr_assert_eq(id, (int64_t) i);
        cr_assert_eq(s_integer(lines, i, "sum"), id + words * (words - 1) / 2 + 9 * row + 3 + 3 * batch);
        const json_t *line = json_array_get(lines, i), *back = json_object_get(line, "back");
        cr_assert_eq(json_array_size(back), (size_t) words);
        cr_assert(words == 0 || json_integer_value(json_array_get(back, 0)) == words - 1);
        const char *upper = json_string_value(json_object_get(line, "upper"));
        cr_assert_str_eq(upper, id % 3 == 0 ? "ROW " : id % 3 == 1 ? "ROW É" : "ROW ÉÉ");
    }
    json_decref(lines);
}

Test(python_run, columns_of_every_kind_arrive_as_they_were_made)
{
    run_t run;
    s_whole(&run, SOURCE READ KEPT, "");
    cr_assert_eq(run.code, 0, "%s", run.said);
    s_check_read(&run);
    cr_assert_eq(s_metric(&run, "read/rows/sum"), 4);
    run_done(&run);
}

// The run is whole, and its log and its error stream have a warning with these words.
static void
s_check_end(const char *how, const char *words)
{
    run_t run;
    setenv("VERL_TEST_END", how, 1);
    s_whole(&run, SOURCE READ KEPT, "");
    cr_assert_eq(run.code, 0, "%s", run.said);
    s_check_read(&run);
    char *log = run_file(&run, "run.log");
    cr_assert(strstr(log, "warning: actor `") && strstr(log, words), "%s", log);
    cr_assert(run_said(&run, words), "%s", run.said);
    free(log);
    run_done(&run);
}

Test(python_run, an_end_that_fails_is_told)
{
    s_check_end("fails", "ended with exit code 1 at its end");
}

Test(python_run, an_end_that_lasts_too_long_is_told)
{
    s_check_end("lasts", "was killed by signal 9 (SIGKILL) at its end");
}

Test(python_run, parts_and_replicas_change_no_bit)
{
    run_t whole, parts;
    s_whole(&whole, SOURCE READ KEPT, "");
    s_whole(&parts, SOURCE READ "parts = 3\nreplicas = 2\n" KEPT, "");
    cr_assert_eq(parts.code, 0, "%s", parts.said);
    s_check_read(&parts);
    char *a = run_timeless_metrics(&whole), *b = run_timeless_metrics(&parts);
    cr_assert_str_eq(a, b);
    free(a);
    free(b);
    run_done(&whole);
    run_done(&parts);
}

Test(python_run, a_stage_makes_new_rows_and_older_columns_are_seen_through_its_map)
{
    run_t run;
    s_whole(&run,
            SOURCE "[stage.double]\nkind = \"command\"\ncommand = WORK\ndepends_on = [\"make\"]\n"
                   "[stage.label]\nkind = \"command\"\ncommand = WORK\ndepends_on = [\"double\"]\n" KEEP
                   "depends_on = [\"label\"]\ncolumns = [\"id\", \"label\"]\n", "");
    cr_assert_eq(run.code, 0, "%s", run.said);
    json_t *lines = programs_kept(&run);
    cr_assert_eq(json_array_size(lines), 96);
    for (size_t i = 0; i < 96; i++) {
        char expected[64];
        int64_t id = (int64_t) i / 2;
        cr_assert_eq(s_integer(lines, i, "id"), id);
        snprintf(expected, sizeof expected, "%lld.%zu row %s", (long long) id, i % 2,
                 id % 3 == 0 ? "" : id % 3 == 1 ? "é" : "éé");
        cr_assert_str_eq(json_string_value(json_object_get(json_array_get(lines, i), "label")), expected);
    }
    json_decref(lines);
    run_done(&run);
}

Test(python_run, stages_of_one_program_share_a_process)
{
    run_t run;
    s_whole(&run,
            "[run]\nname = \"p\"\nsteps = 12\nseed = 5\n[actor.it]\nkind = \"command\"\ncommand = WORK\n"
            "[stage.make]\nactor = \"it\"\n[stage.again]\nactor = \"it\"\nfunction = \"read\"\n"
            "depends_on = [\"make\"]\n" KEEP "depends_on = [\"again\"]\n"
            "columns = [\"id\", \"sum\", \"back\", \"upper\"]\n", "");
    cr_assert_eq(run.code, 0, "%s", run.said);
    s_check_read(&run);
    run_done(&run);
}

// A program that sleeps is a sixth of a gibibyte away from one that copies.
Test(python_run, a_view_of_a_column_of_256_mib_costs_no_copy)
{
    run_t run;
    s_whole(&run,
            "[run]\nname = \"p\"\nsteps = 2\nmax_in_flight = 1\n[stage.big]\nkind = \"synthetic\"\nrows = 4\n"
            "bytes = 67108864\n[stage.large]\nkind = \"command\"\ncommand = WORK\ndepends_on = [\"big\"]\n", "");
    cr_assert_eq(run.code, 0, "%s", run.said);
    cr_assert_eq(s_metric(&run, "large/bytes"), 268435456);
    cr_assert_eq(s_metric(&run, "large/owned"), 0);
    cr_assert_leq(s_metric(&run, "large/copied_kb"), 4096, "%g KiB", s_metric(&run, "large/copied_kb"));
    run_done(&run);
}

#define FAILS IDS "[stage.may_fail]\nkind = \"command\"\ncommand = WORK\ndepends_on = [\"ids\"]\n"

Test(python_run, a_failure_is_one_sentence_with_where)
{
    run_t run;
    s_whole(&run, FAILS "options = { fail_at = 7 }\n", "");
    cr_assert_eq(run.code, 1);
    cr_assert(run_said(&run, "it was asked to fail"), "%s", run.said);
    cr_assert(run_said(&run, "batch 7"), "%s", run.said);
    cr_assert(run_said(&run, "may_fail"), "%s", run.said);
    run_done(&run);
}

Test(python_run, new_rows_of_a_stage_that_does_not_declare_them_are_refused)
{
    run_t run;
    s_whole(&run, IDS "[stage.stray]\nkind = \"command\"\ncommand = WORK\ndepends_on = [\"ids\"]\n", "");
    cr_assert_eq(run.code, 1);
    cr_assert(run_said(&run, "maps=True would be right"), "%s", run.said);
    run_done(&run);
}

Test(python_run, an_exception_is_named_with_its_line)
{
    run_t run;
    s_whole(&run, FAILS "options = { raise_at = 7 }\n", "");
    cr_assert_eq(run.code, 1);
    cr_assert(run_said(&run, "RuntimeError: something unforeseen (work.py:"), "%s", run.said);
    run_done(&run);
}

Test(python_run, a_batch_that_fails_or_is_skipped_is_left_out_where_it_may_be)
{
    run_t run;
    s_whole(&run,
            FAILS "on_error = \"skip\"\noptions = { fail_at = 7, skip_at = 9 }\n" KEEP
                  "depends_on = [\"may_fail\"]\ncolumns = [\"same\"]\n", "");
    cr_assert_eq(run.code, 0, "%s", run.said);
    json_t *lines = programs_kept(&run);
    cr_assert_eq(json_array_size(lines), 2 * 298);
    for (size_t i = 0; i < json_array_size(lines); i++)
        cr_assert(s_integer(lines, i, "batch") != 7 && s_integer(lines, i, "batch") != 9);
    json_decref(lines);
    run_done(&run);
}

// Processor time, since a test says nothing about a machine that others use too.
Test(python_run, a_trivial_stage_takes_less_than_half_a_millisecond_a_batch)
{
    run_t run;
    s_whole(
        &run,
        "[run]\nname = \"p\"\nsteps = 6000\n[stage.ids]\nkind = \"synthetic\"\nrows = 2\n"
        "[stage.trivial]\nkind = \"command\"\ncommand = WORK\ndepends_on = [\"ids\"]\n"
        "[stage.end]\nkind = \"synthetic\"\nreads = [\"pass\"]\ndepends_on = [\"trivial\"]\nas = { payload = \"q\" }\n",
        "");
    cr_assert_eq(run.code, 0, "%s", run.said);
    char *log = run_file(&run, "logs/trivial.log"), *figure = strstr(log, "us_a_batch");
    cr_assert(figure, "%s", log);
    double microseconds = strtod(figure + strlen("us_a_batch\": "), NULL);
    cr_log_info("%.0f us of processor time a batch, %.0f batches a second in all", microseconds, 6000 / run.seconds);
    cr_assert_leq(microseconds, 500);
    cr_assert_gt(microseconds, 1);
    free(log);
    run_done(&run);
}

Test(python_run, the_children_of_a_program_end_with_the_run)
{
    run_t run;
    s_whole(&run, IDS "[stage.spawns]\nkind = \"command\"\ncommand = WORK\ndepends_on = [\"ids\"]\n",
            "--steps 4");
    cr_assert_eq(run.code, 0, "%s", run.said);
    run_done(&run);                         // checks that no process is left
}

Test(python_run, each_batch_comes_once_and_in_order_though_its_actor_is_killed)
{
    run_t run;
    run_start(&run,
              programs_topology(FAILS "on_failure = \"restart\"\n" KEEP "depends_on = [\"may_fail\"]\ncolumns = [\"same\"]\n"),
              "--steps 2000");
    for (int kills = 0; kills < 3; kills++) {
        programs_until_kept(&run, 200 * (kills + 1));
        pid_t pid = programs_worker(&run, "work.py");
        cr_assert(pid == 0 || kill(pid, SIGKILL) == 0);
    }
    run_wait(&run, 120);
    cr_assert_eq(run.code, 0, "%s", run.said);
    json_t *lines = programs_kept(&run);
    cr_assert_eq(json_array_size(lines), 4000);
    for (size_t i = 0; i < 4000; i++)
        cr_assert_eq(s_integer(lines, i, "same"), (int64_t) i);
    json_decref(lines);
    run_done(&run);
}

Test(python_run, a_stage_in_python_is_swapped_while_the_run_goes_on)
{
    run_t run;
    char command[400];
    run_start(&run, programs_topology(FAILS "replicas = 2\n" KEEP "depends_on = [\"may_fail\"]\ncolumns = [\"same\"]\n"),
              "--steps 1000000");
    for (int swaps = 0; swaps < 3; swaps++) {
        programs_until_kept(&run, 100 * (swaps + 1));
        snprintf(command, sizeof command, "'%s/bin/verl-inject' --run %s/run --timeout 60 swap may_fail", VERL_BINARY_DIR,
                 run.folder);
        cr_assert_eq(python_run(command), 0);
    }
    kill(run.pid, SIGINT);                  // drains: what was begun is ended
    run_wait(&run, 60);
    cr_assert_eq(run.code, 130, "%s", run.said);
    json_t *lines = programs_kept(&run);
    cr_assert_gt(json_array_size(lines), 600);
    for (size_t i = 0; i < json_array_size(lines); i++)
        cr_assert_eq(s_integer(lines, i, "same"), (int64_t) i);
    json_decref(lines);
    run_done(&run);
}

#define SPAWNS IDS "[stage.spawns]\nkind = \"command\"\ncommand = WORK\ndepends_on = [\"ids\"]\n" KEEP \
               "depends_on = [\"spawns\"]\ncolumns = [\"id\"]\n"

// Whether the run's processes are gone within 5 s.
static bool
s_all_gone(const run_t *run)
{
    pid_t all[16];
    for (int tries = 0; tries < 500; tries++, usleep(10000))
        if (run_processes(run, all, 16) == 0)
            return true;
    return false;
}

Test(python_run, the_children_of_a_program_end_though_verl_run_is_killed)
{
    run_t run;
    run_start(&run, programs_topology(SPAWNS), "");
    programs_until_kept(&run, 4);                  // the child is there
    cr_assert_eq(kill(run.pid, SIGKILL), 0);
    run_wait(&run, 10);
    cr_assert(s_all_gone(&run), "a process is left");
    run_done(&run);
}

Test(python_run, a_program_that_dies_takes_its_children_along_and_is_named)
{
    run_t run;
    run_start(&run, programs_topology(SPAWNS), "");
    programs_until_kept(&run, 4);
    pid_t pid = programs_worker(&run, "work.py");
    cr_assert(pid && kill(pid, SIGSEGV) == 0);
    run_wait(&run, 30);
    cr_assert_eq(run.code, 1);
    cr_assert(run_said(&run, "spawns#"), "%s", run.said);
    cr_assert(run_said(&run, "SIGSEGV"), "%s", run.said);
    cr_assert(s_all_gone(&run), "a process is left");
    run_done(&run);
}

// `look` waits for less than `count`, and finds in their state what the plan says all the same.
static char *
s_seen(const char *arguments)
{
    run_t run;
    s_whole(&run,
            "[run]\nname = \"p\"\nsteps = 12\n[stage.ids]\nkind = \"synthetic\"\n[actor.book]\nkind = \"command-state\"\n"
            "command = COUNTER\n[stage.slow]\nkind = \"synthetic\"\ndepends_on = [\"ids\"]\n"
            "[stage.count]\nactor = \"book\"\ndepends_on = [\"slow\"]\n[stage.look]\nactor = \"book\"\n"
            "depends_on = [\"ids\"]\n" KEEP "depends_on = [\"count\", \"look\"]\ncolumns = [\"total\", \"seen\"]\n",
            arguments);
    cr_assert_eq(run.code, 0, "%s", run.said);
    json_t *lines = programs_kept(&run);
    char *text = json_dumps(lines, JSON_SORT_KEYS);
    json_decref(lines);
    run_done(&run);
    return text;
}

Test(python_run, stages_that_share_a_state_take_turns)
{
    char *fast = s_seen(""), *slow = s_seen("--set stage.slow.busy_ms=30");
    cr_assert_str_eq(fast, slow);
    free(fast);
    free(slow);
}

#define COUNTS IDS "[stage.count]\nkind = \"command-state\"\ncommand = COUNTER\ndepends_on = [\"ids\"]\n" KEEP \
               "depends_on = [\"count\"]\ncolumns = [\"id\", \"total\"]\n"

static void
s_check_totals(const run_t *run, int64_t rows)
{
    json_t *lines = programs_kept(run);
    cr_assert_eq(json_array_size(lines), (size_t) rows);
    for (int64_t i = 0; i < rows; i++)
        cr_assert_eq(s_integer(lines, (size_t) i, "total"), i * (i + 1) / 2, "row %lld", (long long) i);
    json_decref(lines);
}

Test(python_run, state_is_in_the_checkpoints_and_a_run_goes_on_from_there)
{
    run_t run;
    s_whole(&run, COUNTS, "--steps 60 --set run.save_every=20");
    cr_assert_eq(run.code, 0, "%s", run.said);
    s_check_totals(&run, 120);
    char *state = run_file(&run, "checkpoints/step-40/count/state.json");
    cr_assert_str_eq(state, "{\"sum\": 3160}");
    free(state);
    run_done(&run);
}
