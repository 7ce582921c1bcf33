// test_closing.c: what a run says of itself at its end, whatever befell it: counts of the run as a whole.
#include "tools/bad.h"
#include "tools/living.h"

// A stage that keeps state: the number of batches that it has seen.
#define COUNTER(SNAPSHOT)                                                                                       \
    "printf '%s\\n' 'needs = { \"id\" }' 'gives = { \"score\" }' 'local count = 0' "                            \
    "'function score(batch) count = count + 1; for i = 1, batch.rows do batch.out.score[i] = count end end' "   \
    "'function snapshot() " SNAPSHOT " return { count = count } end' "                                          \
    "'function restore(state) count = state.count end' >counter.lua; "
#define COUNTED(RUN, LINES)                                                                                     \
    "[run]\nname = \"counted\"\n" RUN "[stage.src]\nkind = \"synthetic\"\nbusy_ms = 5\n"                        \
    "[stage.count]\nkind = \"lua-state\"\nfile = \"counter.lua\"\nfunction = \"score\"\ndepends_on = [\"src\"]\n" LINES

// Of a stage in the closing table; -1: it is not there.
static int
s_table(const run_t *run, const char *stage)
{
    char begin[64];
    snprintf(begin, sizeof begin, "\n%s ", stage);
    const char *at = strstr(run->said, begin);
    return at ? atoi(at + strlen(begin)) : -1;
}

Test(closing, a_batch_that_is_skipped_is_counted_once_though_two_stages_skip_it)
{
    run_t run;
    run_whole(&run, CHAIN("steps = 20\n", "", "fail_at = 7\non_error = \"skip\"\n", ""), "");
    cr_assert_eq(run.code, 0, "exit %d: %s", run.code, run.said);
    cr_expect(run_said(&run, " 1 batch was skipped"), "%s", run.said);
    run_done(&run);
    run_whole(&run, CHAIN("steps = 20\n", "", "fail_at = 7\non_error = \"skip\"\n", ""), "--json");
    cr_expect(run_said(&run, "\"skipped\":1"), "%s", run.said);
    run_done(&run);
    run_whole(&run, CHAIN("steps = 20\n", "", "", ""), "");
    cr_expect(!run_said(&run, "skipped"), "%s", run.said);
    run_done(&run);
}

Test(closing, no_table_of_times_where_no_stage_came_to_work)
{
    run_t run;
    run_whole(&run, "[run]\nname = \"early\"\nsteps = 3\n[stage.src]\nkind = \"synthetic\"\nfail_at = 0\n", "");
    cr_assert_eq(run.code, 1, "exit %d: %s", run.code, run.said);
    cr_expect(run_said(&run, "early: failed after 0 of 3 steps"), "%s", run.said);
    cr_expect(!run_said(&run, "waiting for data"), "%s", run.said);
    run_done(&run);
}

// The batches after the checkpoint were done twice, and are work; the one that was skipped twice is one batch.
Test(closing, a_run_that_went_back_tells_of_all_its_lives, .timeout = 100)
{
    run_t run;
    run_start_after(&run, COUNTER(""),
                    COUNTED("steps = 40\n", "on_failure = \"restart\"\n"
                            "[stage.odd]\nkind = \"synthetic\"\ndepends_on = [\"src\"]\nreads = [\"id\"]\n"
                            "fail_at = 3\non_error = \"skip\"\n"), "");
    s_await(&run);
    run_until_steps(&run, 8);
    cr_assert_eq(kill((pid_t) s_actor(&run, "count", "pid"), SIGKILL), 0);
    run_wait(&run, 30);
    cr_assert_eq(run.code, 0, "exit %d: %s", run.code, run.said);
    cr_expect(run_said(&run, "40 steps done"), "%s", run.said);
    cr_expect(run_said(&run, " 1 batch was skipped"), "%s", run.said);
    cr_expect_geq(s_table(&run, "src"), 48, "%s", run.said);
    cr_expect_geq(s_table(&run, "count"), 48, "%s", run.said);
    run_done(&run);
}

// drain_timeout is for the batches under way, here one: a checkpoint that takes longer is written all the same.
Test(closing, a_last_checkpoint_may_take_longer_than_the_batches_under_way, .timeout = 100)
{
    run_t run;
    run_start_after(&run, COUNTER("local sum = 0; for i = 1, 150000000 do sum = sum + i end"),
                    COUNTED("steps = 100000\nmax_in_flight = 1\ndrain_timeout = 0.5\n", "instructions = 1000000000000\n"), "");
    s_await(&run);
    run_until_steps(&run, 5);
    s_interrupt(&run);
    cr_expect(run_said(&run, "checkpoint  "), "%s", run.said);
    run_done(&run);
}

// `roll` works with the weights of `policy`, which it has to begin with.
#define ROLLED                                                                                                \
    "[run]\nname = \"rolled\"\nsteps = 2\n"                                                                    \
    "[actor.roll]\nkind = \"policy\"\nmodel = \"m\"\nthreads = 1\n"                                           \
    "[actor.policy]\nkind = \"policy\"\nmodel = \"m\"\nthreads = 1\n"                                         \
    "[stage.prompts]\nkind = \"loader\"\nfiles = [\"d.jsonl\"]\ntokenizer = \"m\"\nrows = 4\n"                \
    "[stage.generate]\nactor = \"roll\"\nweights = \"update\"\ndepends_on = [\"prompts\"]\nsamples = 2\n"     \
    "max_new_tokens = 4\n"                                                                                    \
    "[stage.reward]\nkind = \"rule-reward\"\nrule = \"random\"\ndepends_on = [\"generate\"]\n"                 \
    "[stage.advantage]\nkind = \"advantage\"\nestimator = \"grpo\"\ndepends_on = [\"reward\"]\n"               \
    "[stage.update]\nactor = \"policy\"\ndepends_on = [\"advantage\"]\nlr = 1e-3\n"

Test(closing, to_go_on_is_proposed_with_the_model_that_was_learned_wherever_it_is_worked_with, .timeout = 100)
{
    run_t run;
    char sets[600];
    run_start_after(&run, FILES, ROLLED, "");
    run_wait(&run, 60);
    cr_assert_eq(run.code, 0, "exit %d: %s", run.code, run.said);
    const char *model = strstr(run.said, "--set 'actor.roll.model=\"");
    cr_assert(model, "%s", run.said);
    model = strchr(model, '"') + 1;
    int size = (int) strcspn(model, "\"");
    cr_expect(size > 13 && strncmp(model + size - 13, "/policy/model", 13) == 0, "%.*s", size, model);
    snprintf(sets, sizeof sets, "go on       verl-run --set 'actor.roll.model=\"%.*s\"' --set 'actor.policy.model="
             "\"%.*s\"' ", size, model, size, model);
    cr_expect(run_said(&run, sets), "%s", run.said);
    cr_expect(run_said(&run, "\"' topology.toml\n"), "%s", run.said);
    run_done(&run);
}

Test(closing, to_go_on_from_random_weights_is_proposed_with_those_that_were_learned, .timeout = 100)
{
    run_t run;
    run_start_after(&run, FILES, ROLLED, "--set actor.policy.init=random --set actor.roll.init=random");
    run_wait(&run, 60);
    cr_assert_eq(run.code, 0, "exit %d: %s", run.code, run.said);
    cr_expect(run_said(&run, "/policy/model\"' --set 'actor.policy.init=\"load\"' "), "%s", run.said);
    cr_expect(run_said(&run, "/policy/model\"' --set 'actor.roll.init=\"load\"' "), "%s", run.said);
    cr_expect(run_said(&run, "\"' run/topology.toml\n"), "what was set beside its file belongs to the run: %s", run.said);
    run_done(&run);
}

Test(closing, to_go_on_after_a_change_is_proposed_as_the_change_left_it, .timeout = 100)
{
    run_t run;
    run_start_after(&run, FILES " printf 'at_step(1, function(run) run:set(\"stage.update.lr\", 2e-3) end)' >s.lua; ",
                    ROLLED, "--steps 20 --set run.script=s.lua");
    run_wait(&run, 60);
    cr_assert_eq(run.code, 0, "exit %d: %s", run.code, run.said);
    cr_expect(run_said(&run, "\"' run/topology-2.toml\n"), "%s", run.said);
    run_done(&run);
}
