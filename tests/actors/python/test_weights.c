// Stages in Python that work with published weights: the version that each batch asks for, with what its writer had then.
#include <criterion/criterion.h>
#include <signal.h>
#include "actors/python/programs.h"

#define SHIPPED VERL_SOURCE_DIR "/topologies/"
#define LEARNS                                                                                                       \
    "[run]\nname = \"p\"\nseed = 3\nsave_every = 1\nkeep = 1000\n"                                                   \
    "[actor.policy]\nkind = \"policy\"\nmodel = \"" SHIPPED "models/addition-1m\"\nthreads = 1\n"                    \
    "[stage.prompts]\nkind = \"loader\"\nfiles = [\"" SHIPPED "data/addition-train.jsonl\"]\n"                       \
    "tokenizer = \"" SHIPPED "models/addition-1m\"\nrows = 4\n"                                                      \
    "[stage.generate]\nactor = \"policy\"\ndepends_on = [\"prompts\"]\nsamples = 4\nmax_new_tokens = 4\n"            \
    "[stage.reward]\nkind = \"rule-reward\"\nrule = \"exact\"\ndepends_on = [\"generate\"]\n"                        \
    "[stage.advantage]\nkind = \"advantage\"\nestimator = \"grpo\"\ndepends_on = [\"reward\"]\n"                     \
    "[stage.update]\nactor = \"policy\"\ndepends_on = [\"advantage\"]\nlr = 5e-5\n"                                  \
    "[stage.keep]\nkind = \"recorder\"\nfile = \"kept.jsonl\"\ndepends_on = [\"watch\"]\n"                           \
    "columns = [\"version\", \"sum\", \"xor\"]\n"                                                                    \
    "[stage.watch]\nkind = \"command\"\ncommand = WATCHER\ndepends_on = [\"generate\"]\n"

// Every batch against the checkpoints, which hold what the writer had.
static void
s_check_versions(const run_t *run, int staleness, int steps)
{
    char command[600];
    snprintf(command, sizeof command, "%s tests/actors/python/versions.py %s/run %d %d", python_or_skip(), run->folder,
             staleness, steps);
    cr_assert_eq(python_run(command), 0);
}

static void
s_learn(const char *said, int staleness)
{
    run_t run;
    char topology[8192];
    snprintf(topology, sizeof topology, LEARNS "%s", said);
    run_start(&run, programs_topology(topology), "--steps 8");
    run_wait(&run, 120);
    cr_assert_eq(run.code, 0, "%s", run.said);
    s_check_versions(&run, staleness, 8);
    run_done(&run);
}

Test(python_weights, a_batch_is_worked_with_the_version_of_one_step_before)
{
    s_learn("weights = \"update\"\nstaleness = 1\n", 1);
}

Test(python_weights, a_batch_is_worked_with_the_version_of_two_steps_before)
{
    s_learn("weights = \"update\"\nstaleness = 2\n", 2);
}

Test(python_weights, without_staleness_it_is_the_version_that_the_batch_itself_is_made_with)
{
    s_learn("weights = \"update\"\n", 0);
}

Test(python_weights, a_successor_is_given_the_versions_of_the_batches_that_it_does_again)
{
    run_t run;
    run_start(&run, programs_topology(LEARNS "weights = \"update\"\nstaleness = 1\non_failure = \"restart\"\n"),
              "--steps 40");
    for (int kills = 0; kills < 2; kills++) {
        programs_until_kept(&run, 16 * 8 * (kills + 1));
        pid_t pid = programs_worker(&run, "weights.py");
        cr_assert(pid == 0 || kill(pid, SIGKILL) == 0);
    }
    run_wait(&run, 120);
    cr_assert_eq(run.code, 0, "%s", run.said);
    s_check_versions(&run, 1, 40);
    run_done(&run);
}

Test(python_weights, versions_go_on_across_a_change_of_something_else)
{
    run_t run;
    char command[400];
    run_start(&run, programs_topology(LEARNS "weights = \"update\"\nstaleness = 2\n"), "--steps 1000000");
    programs_until_kept(&run, 16 * 4);
    snprintf(command, sizeof command, "'%s/bin/verl-inject' --run %s/run --timeout 60 swap reward", VERL_BINARY_DIR,
             run.folder);
    cr_assert_eq(python_run(command), 0);
    char *text = run_file(&run, "kept.jsonl");
    int lines = run_lines(text);
    free(text);
    programs_until_kept(&run, lines + 16 * 6);
    kill(run.pid, SIGINT);
    run_wait(&run, 60);
    cr_assert_eq(run.code, 130, "%s", run.said);
    s_check_versions(&run, 2, 0);
    run_done(&run);
}

static void
s_refused(const char *said, const char *words)
{
    run_t run;
    char topology[8192];
    snprintf(topology, sizeof topology, LEARNS "%s", said);
    run_start(&run, programs_topology(topology), "--check");
    run_wait(&run, 60);
    cr_assert_eq(run.code, 2, "%s", run.said);
    cr_assert(run_said(&run, words), "%s", run.said);
    run_done(&run);
}

Test(python_weights, what_does_not_fit_is_refused_before_the_run_starts)
{
    s_refused("", "works with published weights");
    s_refused("weights = \"reward\"\n", "updates no weights");
    s_refused("weights = \"update\"\n[stage.same]\nkind = \"command\"\ncommand = WORK\nfunction = \"may_fail\"\n"
              "depends_on = [\"prompts\"]\nweights = \"update\"\n", "works without weights");
}
