// What a run answers to those who watch it: how it is, its plan, its profile, one batch; and what it refuses.
#include <criterion/criterion.h>
#include <jansson.h>
#include "tests/tools/views.h"
#include "tools/client.h"

static const char s_chain[] =
    "[run]\nname = \"chain\"\nsteps = 1000000\n[stage.a]\nkind = \"synthetic\"\nbusy_ms = 3\nrows = 4\nbytes = 100000\n"
    "as = { payload = \"images\" }\n"
    "load_ms = 20\nloads = \"table\"\n"
    "[stage.b]\nkind = \"synthetic\"\nbusy_ms = 6\ndepends_on = [\"a\"]\nreads = [\"images\"]\nload_ms = 2\nload = "
    "\"batch\"\n"
    "loads = \"dictionary\"\n[stage.c]\nkind = \"synthetic\"\nbusy_ms = 1\ndepends_on = [\"a\", \"b\"]\nreads = "
    "[\"id\"]\n"
    "copies = [\"images\"]\n";

static void
s_begin(run_t *run, verl_client_t **ret_client)
{
    char path[128];
    verl_error_t error = { "" };
    run_start(run, s_chain, "");
    run_until_steps(run, 40);
    snprintf(path, sizeof path, "%s/run", run->folder);
    *ret_client = verl_client_open(path, false, &error);
    cr_assert(*ret_client, "%s", error.text);
}

static json_t *
s_ask(verl_client_t *client, json_t *request)
{
    verl_error_t error = { "" };
    json_t *answer = verl_client_ask(client, request, 10000, &error);
    cr_assert(answer, "%s", error.text);
    return answer;
}

static void
s_end(run_t *run, verl_client_t **client)
{
    verl_client_close(client);
    run_cut(run);
}

Test(watch, a_profile_holds_the_plan_with_times_bytes_and_loads)
{
    run_t run;
    verl_client_t *client;
    s_begin(&run, &client);
    json_t *profile = s_ask(client, json_pack("{s:s}", "do", "profile"));
    const json_t *a = named(profile, "stages", "a"), *b = named(profile, "stages", "b"),
                 *c = named(profile, "stages", "c");
    cr_expect_geq(number(a, "batches"), 40);
    cr_expect_geq(number(json_object_get(b, "seconds"), "busy"), 0.006 * number(b, "batches"));
    // `a` gives 4 rows of 100000 bytes to `b` and to `c`, which gives them again to nobody.
    cr_expect_geq(number(json_object_get(a, "bytes"), "out"), 800000 * number(a, "batches"));
    cr_expect_eq(number(json_object_get(a, "bytes"), "again"), 0);
    cr_expect_eq(number(json_object_get(b, "bytes"), "unseen"), 0);
    cr_expect_eq(number(json_object_get(c, "bytes"), "again"), 400000 * number(c, "batches"));
    json_decref(profile);
    s_end(&run, &client);
}

Test(watch, what_was_loaded_is_counted_before_and_in_batches)
{
    run_t run;
    verl_client_t *client;
    s_begin(&run, &client);
    json_t *profile = s_ask(client, json_pack("{s:s}", "do", "profile")), *loads = json_object_get(profile, "loads");
    cr_assert_eq(json_array_size(loads), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *load = json_array_get(loads, i);
        bool once = strcmp(text(load, "what"), "table") == 0;
        cr_expect_str_eq(text(load, "stage"), once ? "a" : "b");
        cr_expect(once ? number(load, "times") == 1 && number(load, "in_batches") == 0
                       : number(load, "in_batches") >= 39);
        cr_expect_geq(number(load, "seconds"), (once ? 0.02 : 0.002) * number(load, "times"));
    }
    json_decref(profile);
    s_end(&run, &client);
}

Test(watch, the_plan_names_stages_edges_and_columns)
{
    run_t run;
    verl_client_t *client;
    s_begin(&run, &client);
    json_t *plan = s_ask(client, json_pack("{s:s}", "do", "plan")), *edges = json_object_get(plan, "edges");
    cr_expect_eq(json_array_size(json_object_get(plan, "stages")), 3);
    bool found = false;
    for (size_t i = 0; i < json_array_size(edges); i++) {
        const json_t *edge = json_array_get(edges, i), *columns = json_object_get(edge, "columns");
        if (strcmp(text(edge, "maker"), "a") == 0 && strcmp(text(edge, "reader"), "b") == 0) {
            found = true;
            cr_expect_str_eq(json_string_value(json_array_get(columns, 0)), "images");
            cr_expect_str_eq(text(edge, "route"), "arena");
        }
    }
    cr_expect(found);
    cr_expect(json_is_true(json_object_get(named(plan, "stages", "a"), "source")));
    json_decref(plan);
    s_end(&run, &client);
}

Test(watch, what_is_no_question_is_refused_with_a_sentence_and_harms_nobody)
{
    run_t run;
    verl_client_t *client;
    s_begin(&run, &client);
    json_t *const wrong[] = {
        json_pack("{s:s}", "do", "dance"),
        json_pack("{s:s}", "do", "batch"),
        json_pack("{s:s, s:s}", "do", "batch", "batch", "x"),
        json_pack("{s:s, s:I}", "do", "batch", "batch", (json_int_t) -1),
        json_pack("{s:s, s:I}", "do", "batch", "batch", INT64_MAX),
        json_pack("{s:s, s:f}", "do", "batch", "batch", 1.5),
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_t *answer = s_ask(client, wrong[i]);
        cr_expect(verl_client_refusal(answer) && strlen(verl_client_refusal(answer)) > 15);
        json_decref(answer);
    }
    json_t *far = s_ask(client, json_pack("{s:s, s:I}", "do", "batch", "batch", (json_int_t) 1 << 52));
    cr_expect_null(verl_client_refusal(far));
    cr_expect_str_eq(text(far, "state"), "no permit");
    json_decref(far);
    json_t *status = s_ask(client, json_pack("{s:s}", "do", "status"));
    cr_expect_eq(json_array_size(json_object_get(status, "actors")), 3);
    json_decref(status);
    s_end(&run, &client);
}

Test(watch, times_of_a_stage_outlive_its_actor)
{
    run_t run;
    verl_error_t error = { "" };
    char path[128];
    run_start(&run,
              "[run]\nname = \"mortal\"\nsteps = 1000000\n[stage.a]\nkind = \"synthetic\"\nbusy_ms = 2\n[stage.b]\n"
              "kind = \"synthetic\"\nbusy_ms = 4\non_failure = \"restart\"\ndepends_on = [\"a\"]\nreads = [\"id\"]\n",
              "");
    run_until_steps(&run, 40);
    snprintf(path, sizeof path, "%s/run", run.folder);
    verl_client_t *client = verl_client_open(path, false, &error);
    cr_assert(client, "%s", error.text);
    json_t *status = s_ask(client, json_pack("{s:s}", "do", "status"));
    cr_assert_eq(kill((pid_t) number(named(status, "actors", "b"), "pid"), SIGKILL), 0);
    int done = (int) number(status, "done");
    double first = number(named(status, "actors", "b"), "incarnation");
    json_decref(status);
    run_until_steps(&run, done + 40);
    status = s_ask(client, json_pack("{s:s}", "do", "status"));
    json_t *profile = s_ask(client, json_pack("{s:s}", "do", "profile"));
    cr_expect_gt(number(named(status, "actors", "b"), "incarnation"), first);
    cr_expect_geq(number(named(profile, "stages", "b"), "batches"), done + 40);
    cr_expect_geq(number(json_object_get(named(profile, "stages", "b"), "seconds"), "busy"), 0.004 * (done + 40));
    json_decref(profile);
    json_decref(status);
    s_end(&run, &client);
}

// A name of 200 bytes is cut inside a character: what is left of it is shown, and nothing else is lost.
Test(watch, a_name_that_is_cut_does_not_spoil_the_answer)
{
    run_t run;
    verl_client_t *client, *changer;
    verl_error_t error = { "" };
    char path[128], who[301] = "";
    s_begin(&run, &client);
    snprintf(path, sizeof path, "%s/run", run.folder);
    for (int i = 0; i < 100; i++)
        snprintf(who + 3 * i, sizeof who - (size_t) (3 * i), "\xe2\x82\xac");
    changer = verl_client_open(path, true, &error);
    cr_assert(changer, "%s", error.text);
    json_decref(s_ask(changer, json_pack("{s:s, s:s, s:s}", "do", "pause", "name", "c", "who", who)));
    json_t *status = s_ask(client, json_pack("{s:s}", "do", "status"));
    cr_assert_null(verl_client_refusal(status), "%s", verl_client_refusal(status));
    cr_expect(*text(json_object_get(named(status, "actors", "c"), "paused"), "who"));
    json_decref(status);
    verl_client_close(&changer);
    s_end(&run, &client);
}

// What a finished run leaves for the report is what it would have answered.
Test(watch, the_last_profile_stands_in_the_log_of_a_run_that_has_ended)
{
    run_t run;
    run_whole(&run, s_chain, "--steps 12");
    cr_assert_eq(run.code, 0, "%s", run.said);
    char *log = run_file(&run, "run.log");
    json_t *profile = NULL;
    for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *event = json_loads(line, 0, NULL);
        if (strcmp(text(event, "event"), "profile") == 0)
            profile = json_incref(event);
        json_decref(event);
    }
    cr_assert(profile);
    cr_expect_eq(number(profile, "done"), 12);
    cr_expect_eq(number(named(profile, "stages", "c"), "batches"), 12);
    json_decref(profile);
    free(log);
    run_done(&run);
}

// It says what it is, and never hello. What it holds is its own, not its guard's.
Test(watch, an_actor_that_is_a_program_has_the_memory_of_the_program)
{
    run_t run;
    char path[128];
    json_int_t memory = 0;
    run_start_after(&run,
                    "cat >b.sh <<'END'\n#!/bin/bash\nif [ \"$VERL_DESCRIBE\" ]; then\n"
                    "    echo '{\"protocol\": 1, \"keeps_state\": false, \"stages\": [{\"name\": \"b\",'\n"
                    "    echo '\"about\": \"\",'\n"
                    "    echo '\"needs\": [], \"gives\": [], \"source\": false, \"by_row\": false, \"maps\": false,'\n"
                    "    echo '\"options\": {}}]}'\n    exit\nfi\n"
                    "x=$(head -c 64000000 /dev/zero | tr '\\0' a)\nsleep 100\nEND\nchmod +x b.sh\n",
                    "[run]\nname = \"large\"\nsteps = 5\n[stage.a]\nkind = \"synthetic\"\n"
                    "[stage.b]\nkind = \"command\"\ncommand = [\"./b.sh\"]\ndepends_on = [\"a\"]\nliveness = 60\n", "");
    snprintf(path, sizeof path, "%s/run", run.folder);
    verl_client_t *client = NULL;
    for (int64_t limit = verl_now() + 20 * SLOWER * VERL_S; memory < 48 << 20 && verl_now() < limit; usleep(20000)) {
        verl_error_t error = { "" };
        client = client ? client : verl_client_open(path, false, &error);
        json_t *status = client ? s_ask(client, json_pack("{s:s}", "do", "status")) : NULL;
        memory = json_integer_value(json_object_get(json_array_get(json_object_get(status, "actors"), 1), "memory"));
        json_decref(status);
    }
    cr_expect_geq(memory, 48 << 20);
    s_end(&run, &client);
}
