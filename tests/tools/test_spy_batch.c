// verl-spy batch N: each stage's state for a batch, and which of its dependencies is missing.
#include "tests/tools/bad.h"
#include "tests/tools/views.h"

// Of a batch, the stage's entry in the answer; the whole is kept in *ret_answer.
static const json_t *
s_stage(const run_t *run, int batch, const char *stage, json_t **ret_answer)
{
    char words[60];
    snprintf(words, sizeof words, "batch %d --run run --json", batch);
    *ret_answer = show_json(run, words);
    return named(*ret_answer, "stages", stage);
}

static bool
s_is(const run_t *run, int batch, const char *stage, const char *state)
{
    char words[60];
    snprintf(words, sizeof words, "batch %d --run run --json", batch);
    json_t *answer = show_json(run, words);
    bool is = strcmp(text(answer, "state"), "under way") == 0 &&
              strcmp(text(named(answer, "stages", stage), "state"), state) == 0;
    json_decref(answer);
    return is;
}

// Is one of the things that a stage waits for of this kind, and does its sentence hold these words?
static bool
s_misses(const run_t *run, int batch, const char *stage, const char *kind, const char *words)
{
    json_t *answer;
    const json_t *missing = json_object_get(s_stage(run, batch, stage, &answer), "missing");
    bool found = false;
    for (size_t i = 0; i < json_array_size(missing); i++)
        found |= strcmp(text(json_array_get(missing, i), "kind"), kind) == 0 &&
                 strstr(text(json_array_get(missing, i), "text"), words);
    json_decref(answer);
    return found;
}

// `b` sleeps for ever on its first batch.
static const char s_stuck[] =
    "[run]\nname = \"stuck\"\nsteps = 100\nmax_in_flight = 3\n[stage.a]\nkind = \"synthetic\"\n"
    "[stage.b]\nkind = \"synthetic\"\nbusy_ms = 1e8\ndepends_on = [\"a\"]\nreads = [\"id\"]\n"
    "[stage.c]\nkind = \"synthetic\"\ndepends_on = [\"b\"]\nreads = [\"id\"]\n";

Test(batch, names_the_data_that_is_missing_and_who_works_on_it)
{
    run_t run;
    run_start(&run, s_stuck, "");
    char path[128];
    snprintf(path, sizeof path, "%s/run/control.json", run.folder);
    UNTIL(access(path, F_OK) == 0, 20);
    UNTIL(s_is(&run, 0, "a", "done") && s_is(&run, 0, "b", "running"), 20);
    cr_expect(s_is(&run, 0, "c", "waiting"));
    cr_expect(s_misses(&run, 0, "c", "data", "data of stage b"));
    cr_expect(s_misses(&run, 1, "b", "order", "its own batch 0"));
    cr_expect(s_misses(&run, 1, "b", "worker", "busy with stage b of batch 0"));
    json_t *answer = show_json(&run, "batch 7 --run run --json");
    cr_expect_str_eq(text(answer, "state"), "no permit");
    cr_expect(strstr(text(answer, "why"), "batch 4 has to be done first"), "%s", text(answer, "why"));
    json_decref(answer);
    answer = show_json(&run, "batch 1000 --run run --json");
    cr_expect(strstr(text(answer, "why"), "ends with batch 99"), "%s", text(answer, "why"));
    json_decref(answer);
    shown_t shown = show(&run, "batch 0 --run run");
    cr_expect(strstr(shown.out, "under way") && strstr(shown.out, "waits for data of stage b"), "%s", shown.out);
    shown_done(&shown);
    run_cut(&run);
}

Test(batch, names_an_actor_that_is_still_being_prepared)
{
    run_t run;
    char path[128];
    run_start(&run, "[run]\nname = \"slow\"\nsteps = 100\n[stage.a]\nkind = \"synthetic\"\n[stage.b]\nkind = "
              "\"synthetic\"\nload_ms = 1e7\ndepends_on = [\"a\"]\nreads = [\"id\"]\n", "");
    snprintf(path, sizeof path, "%s/run/control.json", run.folder);
    UNTIL(access(path, F_OK) == 0, 20);
    UNTIL(s_is(&run, 0, "a", "done") && s_misses(&run, 0, "b", "actor", "its actor b, which is preparing"), 20);
    run_cut(&run);
}

// `again` is held up by `slow`, and wants the weights that were loaded for its first three batches.
static const char s_shares[] =
    "[run]\nname = \"shares\"\nsteps = 100\nmax_in_flight = 6\n"
    "[actor.policy]\nkind = \"policy\"\nmodel = \"m\"\nthreads = 1\n"
    "[actor.roll]\nkind = \"policy\"\nmodel = \"m\"\nthreads = 1\n"
    "[stage.prompts]\nkind = \"loader\"\nfiles = [\"d.jsonl\"]\ntokenizer = \"m\"\nrows = 2\n"
    "[stage.generate]\nactor = \"roll\"\nweights = \"update\"\nstaleness = 2\ndepends_on = [\"prompts\"]\n"
    "samples = 2\nmax_new_tokens = 2\n"
    "[stage.reward]\nkind = \"rule-reward\"\nrule = \"random\"\ndepends_on = [\"generate\"]\n"
    "[stage.advantage]\nkind = \"advantage\"\nestimator = \"grpo\"\ndepends_on = [\"reward\"]\n"
    "[stage.update]\nactor = \"policy\"\ndepends_on = [\"advantage\"]\nlr = 1e-3\n"
    "[stage.slow]\nkind = \"synthetic\"\nbusy_ms = 1e8\ndepends_on = [\"generate\"]\n"
    "[stage.again]\nactor = \"roll\"\ndoes = \"logprobs\"\nweights = \"update\"\nstaleness = 2\n"
    "depends_on = [\"slow\", \"generate\"]\n";

Test(batch, names_the_stage_that_wants_older_weights_of_an_actor_they_share)
{
    run_t run;
    char path[128];
    run_start_after(&run, FILES, s_shares, "");
    snprintf(path, sizeof path, "%s/run/control.json", run.folder);
    UNTIL(access(path, F_OK) == 0, 20);
    UNTIL(s_is(&run, 2, "update", "done"), 20);
    cr_expect(s_is(&run, 2, "generate", "done"));
    cr_expect(s_misses(&run, 3, "generate", "weights", "stage again to be done with batch 2, which wants older"));
    run_cut(&run);
}

Test(batch, names_who_paused_what_it_waits_for)
{
    run_t run;
    char command[300];
    run_start(
        &run,
        "[run]\nname = \"held\"\nsteps = 100000\nmax_in_flight = 2\n[stage.a]\nkind = \"synthetic\"\nbusy_ms = 2\n"
        "[stage.b]\nkind = \"synthetic\"\ndepends_on = [\"a\"]\nreads = [\"id\"]\n",
        "");
    run_until_steps(&run, 3);
    snprintf(command, sizeof command, "cd %s && %s/bin/verl-inject --run run pause b >/dev/null 2>&1", run.folder,
             VERL_BINARY_DIR);
    cr_assert_eq(system(command), 0);
    json_t *status = show_json(&run, "top --once --run run --json");
    int next = (int) number(status, "done");
    json_decref(status);
    UNTIL(s_is(&run, next, "a", "done"), 20);
    cr_expect(s_misses(&run, next, "b", "paused", "paused b"));
    run_cut(&run);
}

Test(batch, shows_the_way_of_one_that_is_done_in_the_order_of_its_stages)
{
    run_t run;
    run_start(&run, "[run]\nname = \"ways\"\nsteps = 100000\n[stage.a]\nkind = \"synthetic\"\nbusy_ms = 3\n"
              "[stage.b]\nkind = \"synthetic\"\nbusy_ms = 30\ndepends_on = [\"a\"]\nreads = [\"id\"]\n", "");
    run_until_steps(&run, 5);
    json_t *answer = show_json(&run, "batch 4 --run run --json");
    cr_expect_str_eq(text(answer, "state"), "done");
    const json_t *way = json_object_get(answer, "way");
    const json_t *a = named(way, "stages", "a"), *b = named(way, "stages", "b");
    cr_expect_leq(number(a, "from"), number(a, "to"));
    cr_expect_lt(number(a, "to"), number(b, "to"));
    cr_expect_geq(number(b, "to") - number(b, "from"), 0.029);
    cr_expect_leq(number(b, "to"), number(way, "seconds") + 1e-6);
    json_decref(answer);
    run_until_steps(&run, 80);
    shown_t shown = show(&run, "batch 4 --run run");
    cr_expect(shown.code == 0 && strstr(shown.out, "has forgotten its way"), "%s%s", shown.out, shown.said);
    shown_done(&shown);
    run_cut(&run);
}

Test(batch, refuses_what_is_no_number)
{
    run_t run;
    run_whole(&run, "[run]\nname = \"short\"\nsteps = 2\n[stage.a]\nkind = \"synthetic\"\n", "");
    const char *const wrong[] = { "batch", "batch x", "batch -1", "batch 1 2", "batch 99999999999999999999" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        shown_t shown = show(&run, wrong[i]);
        cr_expect_eq(shown.code, 2, "%s", wrong[i]);
        shown_done(&shown);
    }
    run_done(&run);
}
