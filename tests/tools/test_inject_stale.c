// test_inject_stale.c: a run that learns from weights two updates behind is changed while it does. Where neither the
// writer nor the reader of the weights is touched, every batch is worked with the version that it would have had.
#include "tools/learns.h"

#define STALENESS 2
#define STALE "--set stage.generate.staleness=2 "

typedef struct versions {                   // what each batch is to be worked with
    int64_t of[STEPS];
    int64_t seen;
} versions_t;

// cut: from it on none is of before it; 0: no such cut.
static versions_t
s_versions(int64_t cut)
{
    versions_t versions = { .seen = 0 };
    for (int64_t k = 0; k < STEPS; k++) {
        int64_t version = k > STALENESS ? k - STALENESS : 0;
        versions.of[k] = k >= cut && version < cut ? cut : version;
    }
    return versions;
}

static void
s_see_version(const json_t *line, int64_t number, void *context)
{
    versions_t *versions = context;
    int64_t batch = json_integer_value(json_object_get(line, "batch"));
    int64_t version = json_integer_value(json_object_get(line, "version"));
    cr_assert(batch >= 0 && batch < STEPS, "line %lld has batch %lld", (long long) number, (long long) batch);
    cr_assert_eq(version, versions->of[batch], "batch %lld was worked with version %lld, and not %lld",
                 (long long) batch, (long long) version, (long long) versions->of[batch]);
    versions->seen++;
}

static void
s_start_stale(run_t *run, const char *setup, const char *arguments)
{
    char before[4000], words[500];
    snprintf(before, sizeof before, "%s%s", FILES, setup);
    snprintf(words, sizeof words, STALE "%s", arguments);
    run_start_after(run, before, LEARNS, words);
    s_await(run);
}

static outcome_t
s_end_with(run_t *run, versions_t versions)
{
    run_wait(run, 60);
    s_ended(run, 0, "");
    s_lines(run, "out.jsonl", s_see_version, &versions);
    cr_assert_eq(versions.seen, 8 * STEPS);
    outcome_t outcome = s_outcome(run);
    run_done(run);
    return outcome;
}

static outcome_t
s_undisturbed_stale(void)
{
    run_t run;
    s_start_stale(&run, "", "");
    return s_end_with(&run, s_versions(0));
}

static void
s_forget(outcome_t outcome)
{
    free(outcome.metrics);
    free(outcome.recorded);
}

Test(inject_stale, a_swap_of_another_actor_leaves_the_versions_alone, .timeout = 300)
{
    run_t run;
    outcome_t undisturbed = s_undisturbed_stale();
    s_start_stale(&run, "", "");
    json_int_t reader = s_actor(&run, "policy.generate", "incarnation");
    s_does(&run, "--at 8 swap slow", "from batch 8 on: replaced slow");
    s_does(&run, "swap rec", "replaced rec");
    cr_assert_eq(s_actor(&run, "policy.generate", "incarnation"), reader);
    s_same(undisturbed, s_end_with(&run, s_versions(0)));
    s_forget(undisturbed);
}

// Two revisions with the same cut, of which one has no batch, one with a single batch, and one behind it.
Test(inject_stale, changes_close_to_each_other_leave_the_versions_alone, .timeout = 300)
{
    run_t run;
    outcome_t undisturbed = s_undisturbed_stale();
    s_start_stale(&run, "cat >s.lua <<'END'\n"
                        "at_step(8, function(run) run:set('stage.slow.busy_ms', 90) run:swap('rec') end)\n"
                        "at_step(9, function(run) run:set('stage.slow.busy_ms', 80) end)\n"
                        "at_step(10, function(run) run:swap('slow') end)\nEND\n", "--set run.script=s.lua");
    outcome_t outcome = s_end_with(&run, s_versions(0));
    s_same(undisturbed, outcome);
    s_forget(undisturbed);
}

// What `arguments` make of the run, with and without a swap that comes between two updates.
static void
s_thinned(const char *arguments)
{
    run_t run;
    run_start_after(&run, FILES, LEARNS, arguments);
    outcome_t undisturbed = s_end_of(&run);
    run_start_after(&run, FILES, LEARNS, arguments);
    s_await(&run);
    s_does(&run, "--at 8 swap slow", "from batch 8 on: replaced slow");
    s_same(undisturbed, s_end_of(&run));
    s_forget(undisturbed);
}

Test(inject_stale, updates_of_every_other_batch_keep_their_numbers, .timeout = 300)
{
    s_thinned("--set stage.update.every=2");
    s_thinned(STALE "--set stage.update.every=2");
}

// Ends verl-run as kill -9 does, behind the checkpoint of a step, and resumes it beside.
static void
s_go_on(run_t *run, int step)
{
    s_until_checkpoint(run, step);
    s_kill_and_resume(run);
}

Test(inject_stale, versions_of_before_a_cut_are_saved_where_the_run_is_resumed_at_it, .timeout = 300)
{
    run_t run;
    outcome_t undisturbed = s_undisturbed_stale();
    s_start_stale(&run, "", "");
    s_does(&run, "--at 8 swap slow", "from batch 8 on");
    s_go_on(&run, 8);
    s_same(undisturbed, s_end_with(&run, s_versions(0)));
    s_start_stale(&run, "", "");
    s_does(&run, "--at 11 swap slow", "from batch 11 on");
    s_go_on(&run, 12);
    s_same(undisturbed, s_end_with(&run, s_versions(0)));
    s_forget(undisturbed);
}

// The versions that go to a revision before it begins are not the last that the checkpoint before it wants.
Test(inject_stale, a_cut_close_behind_a_checkpoint_takes_no_version_from_it, .timeout = 300)
{
    run_t run;
    outcome_t undisturbed = s_undisturbed_stale();
    for (int cut = 9; cut <= 10; cut++) {
        s_start_stale(&run, "", "");
        said_t said = s_inject(&run, "--at %d swap slow", cut);
        DOES(said, "replaced slow");
        s_go_on(&run, 8);
        s_same(undisturbed, s_end_with(&run, s_versions(0)));
    }
    s_forget(undisturbed);
}

// Less than three updates lie between one resume and the next: the versions go from checkpoint to checkpoint.
Test(inject_stale, versions_are_saved_that_were_read_from_a_checkpoint, .timeout = 300)
{
    run_t run;
    outcome_t undisturbed = s_undisturbed_stale();
    s_start_stale(&run, "", "--set run.save_every=2");
    s_go_on(&run, 8);
    s_go_on(&run, 10);
    s_same(undisturbed, s_end_with(&run, s_versions(0)));
    s_forget(undisturbed);
}

Test(inject_stale, a_reader_that_is_killed_behind_a_cut_is_followed_by_one_with_the_same_versions, .timeout = 300)
{
    run_t run;
    outcome_t undisturbed = s_undisturbed_stale();
    s_start_stale(&run, "", "");
    s_does(&run, "--at 11 swap slow", "from batch 11 on");
    s_until_checkpoint(&run, 12);
    kill((pid_t) s_actor(&run, "policy.generate", "pid"), SIGKILL);
    s_same(undisturbed, s_end_with(&run, s_versions(0)));
    s_forget(undisturbed);
}

// Of a reader or a writer that is new no batch is worked with weights of before the cut, also behind a resume.
static void
s_swapped(const char *words, const char *answer)
{
    run_t run;
    s_start_stale(&run, "", "");
    s_does(&run, words, answer);
    outcome_t once = s_end_with(&run, s_versions(11));
    s_start_stale(&run, "", "");
    s_does(&run, words, answer);
    s_go_on(&run, 12);
    s_same(once, s_end_with(&run, s_versions(11)));
    s_forget(once);
}

Test(inject_stale, a_new_reader_begins_from_the_weights_of_the_cut, .timeout = 300)
{
    s_swapped("--at 11 swap policy.generate", "from batch 11 on: replaced policy.generate");
}

Test(inject_stale, a_new_writer_begins_from_the_weights_of_the_cut, .timeout = 300)
{
    s_swapped("--at 11 swap policy", "from batch 11 on: replaced policy");
}

#define REPLICAS "--set stage.generate.replicas=2"

// Replicas share the versions and what is saved: one of them would write over what another writes.
Test(inject_stale, replicas_of_a_reader_save_and_are_resumed_as_one_is, .timeout = 300)
{
    run_t run;
    outcome_t undisturbed = s_undisturbed_stale();
    s_start_stale(&run, "", REPLICAS);
    s_go_on(&run, 8);
    s_same(undisturbed, s_end_with(&run, s_versions(0)));
    s_forget(undisturbed);
}

Test(inject_stale, replicas_of_a_reader_are_swapped, .timeout = 300)
{
    run_t run;
    outcome_t swapped[2];
    for (int i = 0; i < 2; i++) {
        s_start_stale(&run, "", i == 0 ? "" : REPLICAS);
        s_does(&run, "--at 11 swap policy.generate", "from batch 11 on: replaced policy.generate");
        swapped[i] = s_end_with(&run, s_versions(11));
    }
    s_same(swapped[0], swapped[1]);
    s_forget(swapped[0]);
}

// Two stages of an actor that is fed by versions, of which one lags behind the other by several batches.
#define SHARED                                                                                                   \
    "[run]\nname = \"g\"\nsteps = " TEXT(STEPS) "\n"                                                               \
    "[actor.policy]\nkind = \"policy\"\nmodel = \"m\"\nthreads = 1\n"                                             \
    "[actor.roll]\nkind = \"policy\"\nmodel = \"m\"\nthreads = 1\n"                                               \
    "[stage.prompts]\nkind = \"loader\"\nfiles = [\"d.jsonl\"]\ntokenizer = \"m\"\nrows = 4\n"                    \
    "[stage.generate]\nactor = \"roll\"\nweights = \"update\"\nstaleness = 2\ndepends_on = [\"prompts\"]\n"       \
    "samples = 2\nmax_new_tokens = 4\n"                                                                          \
    "[stage.reward]\nkind = \"rule-reward\"\nrule = \"random\"\ndepends_on = [\"generate\"]\n"                   \
    "[stage.advantage]\nkind = \"advantage\"\nestimator = \"grpo\"\ndepends_on = [\"reward\"]\n"                 \
    "[stage.update]\nactor = \"policy\"\ndepends_on = [\"advantage\"]\nlr = 1e-2\n"                              \
    "[stage.slow]\nkind = \"synthetic\"\nbusy_ms = 60\ndepends_on = [\"generate\"]\n"                           \
    "[stage.again]\nactor = \"roll\"\ndoes = \"logprobs\"\nweights = \"update\"\nstaleness = 2\n"                 \
    "depends_on = [\"slow\", \"generate\"]\n"                                                                   \
    "[stage.rec]\nkind = \"recorder\"\nfile = \"out.jsonl\"\n"                                                   \
    "columns = [\"id\", \"rollout_logprobs\", \"logprobs\", \"version\"]\ndepends_on = [\"again\"]\n"

static void
s_see_same_logprobs(const json_t *line, int64_t number, void *context)
{
    const json_t *made = json_object_get(line, context), *again = json_object_get(line, "logprobs");
    cr_assert(json_is_array(made) && json_array_size(made) == json_array_size(again), "line %d", (int) number);
    for (size_t i = 0; i < json_array_size(made); i++) {
        double by_one = json_number_value(json_array_get(made, i));
        double by_logprobs = json_number_value(json_array_get(again, i));
        cr_assert_float_eq(by_one, by_logprobs, 1e-4, "line %d: %g, and by the same version %g", (int) number,
                           by_one, by_logprobs);
    }
}

Test(inject_stale, stages_that_share_an_actor_go_through_its_versions_together, .timeout = 300)
{
    const char *arguments[] = { "--set run.max_in_flight=6", "--set run.max_in_flight=6 --set stage.update.every=3" };
    for (int i = 0; i < 2; i++) {
        run_t run;
        run_start_after(&run, FILES, SHARED, arguments[i]);
        run_wait(&run, 60);
        s_ended(&run, 0, "");
        s_lines(&run, "out.jsonl", s_see_same_logprobs, (void *) "rollout_logprobs");
        run_done(&run);
    }
}

// Weights of which each update shows in the log-probabilities.
#define MOVES "--set actor.policy.init=random --set actor.roll.init=random --set stage.update.lr=2e-2 "                \
              "--set stage.slow.busy_ms=100 --set stage.again.staleness=4 "

// The one that is changed goes on with the versions of the other, and not with the weights of the cut.
Test(inject_stale, a_change_of_one_reader_leaves_it_the_versions_of_the_other, .timeout = 300)
{
    const char *arguments[] = { MOVES "--set stage.generate.staleness=4 --set run.max_in_flight=6",
                                MOVES "--set stage.generate.staleness=4 --set run.max_in_flight=3" };
    for (int i = 0; i < 2; i++) {
        run_t run;
        run_start_after(&run, FILES, SHARED, arguments[i]);
        s_await(&run);
        s_does(&run, "--at 10 set again.every=2", "from batch 10 on");
        run_wait(&run, 60);
        s_ended(&run, 0, "");
        s_lines(&run, "out.jsonl", s_see_same_logprobs, (void *) "rollout_logprobs");
        run_done(&run);
    }
}

// Of these two none works on the batches that the changed one has more: for those nobody kept a version.
#define SPARSE                                                                                                    \
    "[run]\nname = \"g\"\nsteps = " TEXT(STEPS) "\n"                                                               \
    "[actor.policy]\nkind = \"policy\"\nmodel = \"m\"\nthreads = 1\n"                                             \
    "[actor.roll]\nkind = \"policy\"\nmodel = \"m\"\nthreads = 1\n"                                               \
    "[stage.prompts]\nkind = \"loader\"\nfiles = [\"d.jsonl\"]\ntokenizer = \"m\"\nrows = 4\n"                    \
    "[stage.generate]\nactor = \"policy\"\ndepends_on = [\"prompts\"]\nsamples = 2\nmax_new_tokens = 4\n"           \
    "[stage.reward]\nkind = \"rule-reward\"\nrule = \"random\"\ndepends_on = [\"generate\"]\n"                   \
    "[stage.slow]\nkind = \"synthetic\"\nbusy_ms = 60\ndepends_on = [\"reward\"]\n"                             \
    "[stage.advantage]\nkind = \"advantage\"\nestimator = \"grpo\"\ndepends_on = [\"reward\", \"slow\"]\n"      \
    "[stage.update]\nactor = \"policy\"\ndepends_on = [\"advantage\"]\nlr = 1e-2\n"                              \
    "[stage.again]\nactor = \"roll\"\ndoes = \"logprobs\"\nweights = \"update\"\nstaleness = 2\nevery = 2\n"      \
    "depends_on = [\"generate\"]\n"                                                                             \
    "[stage.more]\nactor = \"roll\"\ndoes = \"logprobs\"\nweights = \"update\"\nstaleness = 2\nevery = 2\n"       \
    "depends_on = [\"generate\"]\nas = { logprobs = \"more_logprobs\" }\n"                                     \
    "[stage.rec]\nkind = \"recorder\"\nfile = \"out.jsonl\"\n"                                                  \
    "columns = [\"id\", \"more_logprobs\", \"logprobs\"]\ndepends_on = [\"again\", \"more\"]\n"

Test(inject_stale, readers_of_which_one_wants_more_versions_begin_from_the_weights_of_the_cut, .timeout = 300)
{
    run_t run;
    run_start_after(&run, FILES, SPARSE, MOVES "--set stage.more.staleness=4 --set run.max_in_flight=3");
    s_await(&run);
    s_does(&run, "--at 10 set more.every=1", "from batch 10 on");
    run_wait(&run, 60);
    s_ended(&run, 0, "");
    s_lines(&run, "out.jsonl", s_see_same_logprobs, (void *) "more_logprobs");
    run_done(&run);
}
