// Whole runs of verl-run: they end, say why, and leave nothing.
#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/base/clock.h"
#include "tools/run.h"

#define CHAIN \
    "[run]\nname = \"chain\"\nsteps = 20\nseed = 3\n" \
    "[stage.a]\nkind = \"synthetic\"\nbusy_ms = 1\n" \
    "[stage.b]\nkind = \"synthetic\"\nbusy_ms = 2\ndepends_on = [\"a\"]\nas = { payload = \"b\" }\n" \
    "[stage.c]\nkind = \"synthetic\"\nbusy_ms = 1\ndepends_on = [\"b\"]\nas = { payload = \"c\" }\n"

static void
s_expect_steps(const run_t *run, int steps)
{
    char *metrics = run_file(run, "metrics.jsonl");
    int64_t step = 0;
    cr_assert_eq(run->code, 0, "exit %d: %s", run->code, run->said);
    cr_assert_eq(run_lines(metrics), steps);
    for (char *line = strtok(metrics, "\n"); line; line = strtok(NULL, "\n"), step++) {
        json_t *object = json_loads(line, 0, NULL);
        cr_assert_eq(json_integer_value(json_object_get(object, "step")), step);
        json_decref(object);
    }
    free(metrics);
}

Test(run, ends_with_one_line_of_metrics_a_step)
{
    run_t run;
    run_whole(&run, CHAIN, "");
    s_expect_steps(&run, 20);
    run_done(&run);
}

#define DIAMOND \
    "[run]\nname = \"diamond\"\nsteps = 30\n" \
    "[stage.source]\nkind = \"synthetic\"\nbytes = 100000\n" \
    "[stage.left]\nkind = \"synthetic\"\nbusy_ms = 1\ndepends_on = [\"source\"]\nas = { payload = \"left\" }\n" \
    "[stage.right]\nkind = \"synthetic\"\nbusy_ms = 3\njitter_ms = 2\ndepends_on = [\"source\"]\n" \
    "as = { payload = \"right\" }\n" \
    "[stage.join]\nkind = \"synthetic\"\ndepends_on = [\"left\", \"right\", \"source\"]\nas = { payload = \"join\" }\n" \
    "[stage.out]\nkind = \"recorder\"\nfile = \"out.jsonl\"\ncolumns = [\"id\"]\ndepends_on = [\"join\"]\n"

static void
s_ends_at(const char *topology, int steps)
{
    static const char *const settings[] = { "--set run.max_in_flight=1", "--set run.max_in_flight=2",
                                            "--set run.max_in_flight=8" };
    for (int i = 0; i < 3; i++) {
        run_t run;
        run_whole(&run, topology, settings[i]);
        s_expect_steps(&run, steps);
        run_done(&run);
    }
}

Test(run, of_a_diamond_with_a_skip_edge_ends_at_any_max_in_flight)
{
    s_ends_at(DIAMOND, 30);
}

Test(run, of_batches_larger_than_the_budget_ends_at_any_max_in_flight)
{
    s_ends_at("[run]\nname = \"large\"\nsteps = 12\nmax_bytes = 1100000\n"
              "[stage.a]\nkind = \"synthetic\"\nbytes = 3000000\n"
              "[stage.b]\nkind = \"synthetic\"\nbytes = 2000000\ndepends_on = [\"a\"]\nas = { payload = \"b\" }\n"
              "[stage.c]\nkind = \"synthetic\"\nbusy_ms = 2\ndepends_on = [\"a\", \"b\"]\nas = { payload = \"c\" }\n", 12);
}

Test(run, of_replicas_that_finish_out_of_order_ends_at_any_max_in_flight)
{
    s_ends_at("[run]\nname = \"replicas\"\nsteps = 30\n"
              "[stage.a]\nkind = \"synthetic\"\n"
              "[stage.b]\nkind = \"synthetic\"\nreplicas = 3\nbusy_ms = 4\njitter_ms = 4\ndepends_on = [\"a\"]\n"
              "as = { payload = \"b\" }\n"
              "[stage.c]\nkind = \"synthetic\"\ndepends_on = [\"b\"]\nas = { payload = \"c\" }\n", 30);
}

Test(run, of_two_stages_of_one_worker_ends_at_any_max_in_flight)
{
    s_ends_at("[run]\nname = \"shared\"\nsteps = 20\n"
              "[actor.worker]\nkind = \"synthetic\"\n"
              "[stage.a]\nkind = \"synthetic\"\n"
              "[stage.b]\nactor = \"worker\"\ndoes = \"work\"\nbusy_ms = 1\ndepends_on = [\"a\"]\nas = { payload = \"b\" }\n"
              "[stage.c]\nkind = \"synthetic\"\nbusy_ms = 1\ndepends_on = [\"b\"]\nas = { payload = \"c\" }\n"
              "[stage.d]\nactor = \"worker\"\ndoes = \"work\"\nbusy_ms = 1\ndepends_on = [\"c\"]\nas = { payload = \"d\" }\n",
              20);
}

Test(run, records_every_batch_once_and_in_order)
{
    run_t run;
    run_whole(&run, DIAMOND, "");
    s_expect_steps(&run, 30);
    char *rows = run_file(&run, "out.jsonl");
    int64_t batch = 0;
    cr_assert_eq(run_lines(rows), 30);
    for (char *line = strtok(rows, "\n"); line; line = strtok(NULL, "\n"), batch++) {
        json_t *row = json_loads(line, 0, NULL);
        cr_assert_eq(json_integer_value(json_object_get(row, "batch")), batch);
        json_decref(row);
    }
    free(rows);
    run_done(&run);
}

Test(run, in_threads_does_the_same)
{
    run_t run;
    run_whole(&run, DIAMOND, "--set stage.left.place=thread --set stage.join.place=thread --set stage.source.place=thread");
    s_expect_steps(&run, 30);
    run_done(&run);
}

Test(run, names_stage_actor_and_batch_of_a_handler_that_fails)
{
    run_t run;
    run_whole(&run, CHAIN, "--set stage.b.fail_at=7");
    cr_assert_eq(run.code, 1);
    cr_assert(run_said(&run, "while stage `b` of `b#"), "%s", run.said);
    cr_assert(run_said(&run, "handled batch 7"), "%s", run.said);
    run_done(&run);
}

Test(run, names_the_signal_of_an_actor_that_crashes)
{
    run_t run;
    run_whole(&run, CHAIN, "--set stage.b.crash_at=5");
    cr_assert_eq(run.code, 1);
    cr_assert(run_said(&run, "actor `b#"), "%s", run.said);
    cr_assert(run_said(&run, "SIGSEGV"), "%s", run.said);
    cr_assert(run_said(&run, "waiting for it: c"), "%s", run.said);
    run_done(&run);
}

Test(run, names_a_handler_that_never_returns)
{
    run_t run;
    run_whole(&run, CHAIN, "--set stage.b.hang_at=5 --set stage.b.timeout=1");
    cr_assert_eq(run.code, 1);
    cr_assert(run_said(&run, "stage `b` of `b#") && run_said(&run, "batch 5"), "%s", run.said);
    cr_assert(run_said(&run, "timeout"), "%s", run.said);
    run_done(&run);
}

Test(run, names_an_actor_that_is_stopped)
{
    run_t run;
    pid_t all[16];
    run_start(&run, CHAIN, "--steps 100000 --set stage.a.liveness=1 --set stage.b.liveness=1 --set stage.c.liveness=1");
    run_until_steps(&run, 5);
    cr_assert_eq(run_processes(&run, all, 16), 3);
    kill(all[1], SIGSTOP);
    run_wait(&run, 20);
    cr_assert_eq(run.code, 1);
    cr_assert(run_said(&run, "does not answer"), "%s", run.said);
    run_done(&run);
}

Test(run, goes_on_without_a_batch_that_may_be_skipped)
{
    run_t run;
    run_whole(&run, CHAIN, "--set stage.b.fail_at=7 --set stage.b.on_error=skip");
    s_expect_steps(&run, 20);
    run_done(&run);
}

Test(run, keeps_no_metric_of_a_handler_whose_batch_is_skipped)
{
    run_t run;
    run_start_after(&run, "printf '%s\\n' 'gives = { \"score\" }' 'function score(batch)' 'metric(\"left\", 9)' "
                          "'if batch.step == 1 then fail(\"no\") end' "
                          "'for i = 1, batch.rows do batch.out.score[i] = 0 end end' >m.lua; ",
                    "[run]\nname = \"m\"\nsteps = 3\n[stage.src]\nkind = \"synthetic\"\n"
                    "[stage.left]\nkind = \"lua\"\nfile = \"m.lua\"\ndepends_on = [\"src\"]\non_error = \"skip\"\n", "");
    run_wait(&run, 20);
    cr_assert_eq(run.code, 0, "%s", run.said);
    char *metrics = run_file(&run, "metrics.jsonl"), *second = strchr(metrics, '\n') + 1;
    cr_assert(strstr(metrics, "\"left\"") < second, "%s", metrics);
    cr_assert(strstr(second, "\"left\"") > strchr(second, '\n'), "%s", metrics);
    free(metrics);
    run_done(&run);
}

// What `look` finds in the state that `count` changes follows from the plan, not from who was ready first.
static void
s_shares(run_t *run, const char *arguments)
{
    run_start_after(run, "printf '%s\\n' 'local n = 0' 'stages = { count = { needs = { \"id\" }, gives = { \"a\" } }, "
                         "look = { needs = { \"id\" }, gives = { \"b\" } } }' "
                         "'function count(batch) n = n + 1 for i = 1, batch.rows do batch.out.a[i] = n end end' "
                         "'function look(batch) for i = 1, batch.rows do batch.out.b[i] = n end end' "
                         "'function snapshot() return { n = n } end' 'function restore(s) n = s.n end' >n.lua; ",
                    "[run]\nname = \"n\"\nsteps = 8\n[stage.src]\nkind = \"synthetic\"\n"
                    "[actor.book]\nkind = \"lua-state\"\nfile = \"n.lua\"\n"
                    "[stage.slow]\nkind = \"synthetic\"\ndepends_on = [\"src\"]\n"
                    "[stage.count]\nactor = \"book\"\nfunction = \"count\"\ndepends_on = [\"slow\"]\n"
                    "[stage.look]\nactor = \"book\"\nfunction = \"look\"\ndepends_on = [\"src\"]\n"
                    "[stage.rec]\nkind = \"recorder\"\nfile = \"out.jsonl\"\ncolumns = [\"a\", \"b\"]\n"
                    "depends_on = [\"count\", \"look\"]\n", arguments);
    run_wait(run, 20);
    cr_assert_eq(run->code, 0, "%s", run->said);
}

Test(run, gives_stages_that_share_a_state_their_turns)
{
    run_t fast, slow;
    s_shares(&fast, "");
    s_shares(&slow, "--set stage.slow.busy_ms=30");
    char *one = run_file(&fast, "out.jsonl"), *two = run_file(&slow, "out.jsonl");
    cr_assert_str_eq(one, two);
    free(one);
    free(two);
    run_done(&fast);
    run_done(&slow);
}

Test(run, drains_on_an_interrupt)
{
    run_t run;
    run_start(&run, CHAIN, "--steps 100000");
    run_until_steps(&run, 5);
    kill(run.pid, SIGINT);
    run_wait(&run, 10);
    cr_assert_eq(run.code, 130, "%s", run.said);
    char *metrics = run_file(&run, "metrics.jsonl");
    cr_assert(run_lines(metrics) >= 5);
    free(metrics);
    run_done(&run);
}

Test(run, leaves_nothing_when_it_is_killed)
{
    for (int i = 0; i < 5; i++) {
        run_t run;
        run_start(&run, DIAMOND, "--steps 100000");
        run_until_steps(&run, 1 + 3 * i);
        kill(run.pid, SIGKILL);
        run_wait(&run, 5);
        cr_assert_eq(run.code, 128 + SIGKILL);
        run_done(&run);
    }
}

Test(run, reports_an_actor_that_is_killed)
{
    for (int i = 0; i < 5; i++) {
        run_t run;
        pid_t all[16];
        run_start(&run, DIAMOND, "--steps 100000");
        run_until_steps(&run, 1 + i);
        cr_assert_eq(run_processes(&run, all, 16), 5);
        kill(all[i], SIGKILL);
        run_wait(&run, 5);
        cr_assert_eq(run.code, 1, "%s", run.said);
        cr_assert(run_said(&run, "SIGKILL"), "%s", run.said);
        run_done(&run);
    }
}

Test(run, refuses_a_directory_that_holds_a_run)
{
    run_t run, again = { 0 };
    run_whole(&run, CHAIN, "");
    s_expect_steps(&run, 20);
    char arguments[200];
    snprintf(arguments, sizeof arguments, "--run-dir %s/run", run.folder);
    run_whole(&again, CHAIN, arguments);
    cr_assert_eq(again.code, 1);
    cr_assert(run_said(&again, "holds a run already"), "%s", again.said);
    run_done(&again);
    run_done(&run);
}

// With the default liveness of 5 s, and nothing else to do meanwhile.
Test(run, names_an_actor_that_is_stopped_while_all_wait_for_it)
{
    run_t run;
    pid_t all[16];
    run_start(&run, CHAIN, "--steps 100000 --set stage.b.busy_ms=60000");
    int64_t limit = verl_now() + 10 * SLOWER * VERL_S;
    while (run_processes(&run, all, 16) < 3 && verl_now() < limit)
        usleep(10000);
    usleep(500000);                         // until all have said hello
    kill(all[2], SIGSTOP);
    run_wait(&run, 20);
    cr_assert_eq(run.code, 1);
    cr_assert(run_said(&run, "does not answer"), "%s", run.said);
    run_done(&run);
}

// Outputs that stages of one actor hand to each other, and that wait for another stage when the run fails, are let go of.
Test(run, that_fails_lets_go_of_what_waits_in_an_actor)
{
    run_t run;
    run_whole(&run,
              "[run]\nname = \"queued\"\nsteps = 100\nmax_in_flight = 6\n[actor.m]\nkind = \"synthetic\"\n"
              "[stage.a]\nactor = \"m\"\ndoes = \"work\"\n"
              "[stage.b]\nactor = \"m\"\ndoes = \"work\"\ndepends_on = [\"a\"]\nreads = [\"payload\"]\n"
              "as = { payload = \"b\" }\n"
              "[stage.slow]\nkind = \"synthetic\"\nbusy_ms = 100\nfail_at = 2\ndepends_on = [\"a\"]\n"
              "as = { payload = \"slow\" }\n"
              "[stage.d]\nactor = \"m\"\ndoes = \"work\"\ndepends_on = [\"b\", \"slow\"]\nreads = [\"b\"]\n"
              "as = { payload = \"d\" }\n", "");
    cr_assert_eq(run.code, 1);
    cr_assert(run_said(&run, "fail_at names this batch, 2"), "%s", run.said);
    char *log = run_file(&run, "logs/m.log");
    cr_assert_str_empty(log);
    free(log);
    run_done(&run);
}
