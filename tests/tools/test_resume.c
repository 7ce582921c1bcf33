// Runs that are broken and go on: from a checkpoint, with a successor, or without an actor; each as if nothing had been.
#include <fcntl.h>
#include "tools/bad.h"
#include "tools/living.h"

#define LEARNS                                                                                                     \
    "[run]\nname = \"g\"\nsteps = 12\nsave_every = 4\nmax_in_flight = 3\n"                                                            \
    "[actor.policy]\nkind = \"policy\"\nmodel = \"m\"\nthreads = 1\non_failure = \"restart\"\n"                     \
    "[stage.prompts]\nkind = \"loader\"\nfiles = [\"d.jsonl\"]\ntokenizer = \"m\"\nrows = 4\non_failure = \"restart\"\n" \
    "[stage.generate]\nactor = \"policy\"\ndepends_on = [\"prompts\"]\nsamples = 2\nmax_new_tokens = 4\n"           \
    "[stage.reward]\nkind = \"rule-reward\"\nrule = \"random\"\ndepends_on = [\"generate\"]\n"                     \
    "on_failure = \"restart\"\n"                                                                                   \
    "[stage.slow]\nkind = \"synthetic\"\nbusy_ms = 60\ndepends_on = [\"reward\"]\n"                                \
    "[stage.advantage]\nkind = \"advantage\"\nestimator = \"grpo\"\ndepends_on = [\"reward\", \"slow\"]\n"          \
    "[stage.update]\nactor = \"policy\"\ndepends_on = [\"advantage\"]\nlr = 1e-3\n"                                \
    "[stage.rec]\nkind = \"recorder\"\nfile = \"out.jsonl\"\ncolumns = [\"id\", \"response\", \"score\"]\n"        \
    "depends_on = [\"reward\"]\non_failure = \"restart\"\n"

// The metrics of a run that nothing happens to, and what it recorded.
static void
s_undisturbed(const char *arguments, char **ret_metrics, char **ret_recorded)
{
    run_t run;
    run_start_after(&run, FILES, LEARNS, arguments);
    run_wait(&run, 60);
    s_ended(&run, 0, "");
    *ret_metrics = run_timeless_metrics(&run);
    *ret_recorded = run_file(&run, "out.jsonl");
    cr_assert_eq(run_lines(*ret_metrics), 12);
    run_done(&run);
}

static void
s_is_the_same(run_t *run, char *metrics, char *recorded)
{
    char *mine = run_timeless_metrics(run), *written = run_file(run, "out.jsonl");
    cr_assert_str_eq(mine, metrics, "the metrics differ");
    cr_assert_str_eq(written, recorded, "what was recorded differs");
    free(mine);
    free(written);
    free(metrics);
    free(recorded);
}

static void
s_kill(const run_t *run, const char *actor)
{
    pid_t pid = (pid_t) s_actor(run, actor, "pid");
    cr_assert(pid > 0, "there is no %s", actor);
    kill(pid, SIGKILL);
}

Test(resume, a_killed_run_goes_on_as_if_it_had_not_been, .timeout = 300)
{
    run_t run;
    char *metrics, *recorded;
    s_undisturbed("", &metrics, &recorded);
    run_start_after(&run, FILES, LEARNS, "");
    s_until_checkpoint(&run, 4);
    run_until_steps(&run, 6);
    s_resume(&run);
    s_is_the_same(&run, metrics, recorded);
    run_done(&run);
}

Test(resume, a_killed_asynchronous_run_has_the_versions_that_it_needs, .timeout = 300)
{
    run_t run;
    char *metrics, *recorded;
    const char *stale = "--set stage.generate.staleness=2";
    s_undisturbed(stale, &metrics, &recorded);
    run_start_after(&run, FILES, LEARNS, stale);
    s_until_checkpoint(&run, 4);
    run_until_steps(&run, 6);
    s_resume(&run);
    s_is_the_same(&run, metrics, recorded);
    run_done(&run);
}

// Two stages give metrics of one name, of which the first is silent about most batches.
#define TWO_JUDGES                                                                                                 \
    "[stage.other]\nkind = \"rule-reward\"\nrule = \"random\"\ndepends_on = [\"generate\"]\nevery = 3\n"              \
    "as = { score = \"other_score\" }\n" LEARNS

Test(resume, names_of_metrics_belong_to_the_stages_that_had_them, .timeout = 300)
{
    run_t run;
    char *metrics, *recorded;
    run_start_after(&run, FILES, TWO_JUDGES, "");
    run_wait(&run, 60);
    s_ended(&run, 0, "");
    metrics = run_timeless_metrics(&run);
    recorded = run_file(&run, "out.jsonl");
    run_done(&run);
    int times = 0;
    for (const char *at = metrics; (at = strstr(at, "\"reward/critic/score/mean\"")); at++)
        times++;
    cr_assert_eq(times, 12, "the name of the first is given to the second %d times:\n%s", 12 - times, metrics);
    run_start_after(&run, FILES, TWO_JUDGES, "");
    s_until_checkpoint(&run, 4);
    s_resume(&run);
    s_is_the_same(&run, metrics, recorded);
    run_done(&run);
}

Test(resume, a_change_is_made_again_at_its_batch, .timeout = 300)
{
    run_t run;
    char *metrics[2], *recorded[2];
    for (int i = 0; i < 2; i++) {
        run_start_after(&run, FILES, LEARNS, "");
        s_await(&run);
        s_does(&run, "set update.lr=1e-2 --at 7", "from batch 7 on");
        run_until_steps(&run, 8);
        if (i == 1)
            s_resume(&run);
        else
            run_wait(&run, 60);
        metrics[i] = run_timeless_metrics(&run);
        recorded[i] = run_file(&run, "out.jsonl");
        run_done(&run);
    }
    cr_assert_eq(run_lines(metrics[0]), 12);
    cr_assert_str_eq(metrics[0], metrics[1]);
    cr_assert_str_eq(recorded[0], recorded[1]);
    for (int i = 0; i < 2; i++) {
        free(metrics[i]);
        free(recorded[i]);
    }
}

typedef struct started {
    const char *actor;
    int         count;
    pid_t       pid;                        // of the last one
} started_t;

static void
s_see_started(const json_t *line, int64_t number, void *context)
{
    started_t *started = context;
    const char *event = json_string_value(json_object_get(line, "event"));
    const char *actor = json_string_value(json_object_get(line, "actor"));
    (void) number;
    if (!event || !actor || strcmp(event, "started") != 0 || strncmp(actor, started->actor, strlen(started->actor)) != 0)
        return;
    started->count++;
    started->pid = (pid_t) json_integer_value(json_object_get(line, "pid"));
}

// The process of an actor that is started for the count-th time.
static pid_t
s_until_started(const run_t *run, const char *actor, int count)
{
    started_t started = { .count = 0 };
    int64_t limit = verl_now() + 20 * SLOWER * VERL_S;
    while (started.count < count) {
        cr_assert(verl_now() < limit, "%s is not started for the %dth time", actor, count);
        started = (started_t) { .actor = actor };
        s_lines(run, "run.log", s_see_started, &started);
    }
    return started.pid;
}

// While a batch is under way, what the first change adds is held up; the second one would be checked in the drain.
Test(resume, may_be_interrupted_before_the_changes_are_made_again, .timeout = 100)
{
    run_t run;
    run_start(&run, CHAIN("steps = 6\nmax_in_flight = 2\n", "", "busy_ms = 800\n", ""), "");
    s_await(&run);
    s_does(&run, "--at 2 apply - <<'END'\n[stage.extra]\nkind = \"synthetic\"\ndepends_on = [\"mid\"]\nEND",
           "added extra");
    s_does(&run, "--at 3 set mid.busy_ms=1", "from batch 3 on");
    s_kill_and_resume(&run);
    pid_t extra = s_until_started(&run, "extra#", 2);
    kill(extra, SIGSTOP);
    kill(run.pid, SIGINT);
    kill(extra, SIGCONT);
    run_wait(&run, 60);
    s_ended(&run, 130, "");
    run_resume(&run);
    run_wait(&run, 60);
    s_ended(&run, 0, "");
    s_until_started(&run, "extra#", 3);
    cr_assert_eq(s_each_once(&run), 6);
    run_done(&run);
}

Test(resume, refuses_what_is_no_run_and_one_that_lives, .timeout = 100)
{
    run_t run;
    char command[400];
    run_start_after(&run, FILES, LEARNS, "");
    s_await(&run);
    snprintf(command, sizeof command, "cd %s && ! %s/bin/verl-run --resume run 2>told && grep -q 'lives (process' told",
             run.folder, VERL_BINARY_DIR);
    cr_assert_eq(system(command), 0);
    snprintf(command, sizeof command,
             "cd %s && mkdir no && ! %s/bin/verl-run --resume no 2>told && grep -q 'topology.toml' told", run.folder,
             VERL_BINARY_DIR);
    cr_assert_eq(system(command), 0);
    s_interrupt(&run);
    run_done(&run);
}

// What a shell does to the run's folder, in which LAST is its last checkpoint.
static void
s_shell(const run_t *run, const char *words)
{
    char command[600];
    snprintf(command, sizeof command,
             "cd %s && LAST=run/checkpoints/$(ls run/checkpoints | sed -n 's/^step-\\([0-9]*\\)$/\\1 &/p' | sort -n | "
             "tail -1 | cut -d' ' -f2) && %s", run->folder, words);
    cr_assert_eq(system(command), 0, "%s", command);
}

static void
s_does_not_resume(const run_t *run, const char *words)
{
    char command[300];
    snprintf(command, sizeof command,
             "! " VERL_BINARY_DIR "/bin/verl-run --quiet --resume run >said 2>&1 && "
             "{ grep -q '%s' said || ! cat said; }", words);
    s_shell(run, command);
}

// Each time it says what is missing and leaves all as it is; with everything in its place it goes on.
Test(resume, a_run_that_keeps_no_state_goes_on_where_it_was, .timeout = 100)
{
    run_t run;
    run_start(&run, CHAIN("steps = 60\nsave_every = 5\n", "busy_ms = 10\n", "", ""), "");
    s_until_checkpoint(&run, 5);
    s_kill_and_resume(&run);
    s_until_checkpoint(&run, 15);
    s_interrupt(&run);
    s_shell(&run, "grep -q '\"event\": *\"resumed\"' run/run.log && ! ls run/checkpoints | grep tmp");
    run_resume(&run);
    run_wait(&run, 60);
    s_ended(&run, 0, "");
    s_shell(&run, "! grep '\"event\": *\"resumed\"' run/run.log | grep '\"from\": *0'");
    cr_assert_eq(s_each_once(&run), 60);
    run_done(&run);
}

Test(resume, refuses_what_lacks_a_state_or_the_log_of_its_changes, .timeout = 300)
{
    run_t run;
    char *metrics, *recorded;
    s_undisturbed("", &metrics, &recorded);
    run_start_after(&run, FILES, LEARNS, "");
    s_until_checkpoint(&run, 4);
    run_until_steps(&run, 6);
    kill(run.pid, SIGKILL);
    run_wait(&run, 20);
    s_shell(&run, "mv $LAST/policy gone");
    s_does_not_resume(&run, "the state of actor `policy`: No such file");
    s_shell(&run, "mv gone $LAST/policy && cp $LAST/policy/optimizer.bin gone && "
                  "truncate -s 1000 $LAST/policy/optimizer.bin");
    s_does_not_resume(&run, "read back its state; without .*/step-[0-9]* the run would go on from an earlier step)");
    s_shell(&run, "mv gone $LAST/policy/optimizer.bin && mv run/run.log gone");
    s_does_not_resume(&run, "run.log, which says how the run was changed: No such file");
    s_shell(&run, "mkdir run/run.log");
    s_does_not_resume(&run, "run.log, which says how the run was changed: Is a directory");
    s_shell(&run, "rmdir run/run.log && mv gone run/run.log && cp $LAST/manifest.json . && "
                  "sed -i 's/\"actors\"/\"people\"/' $LAST/manifest.json");
    s_does_not_resume(&run, "is no manifest of step [0-9]*; without .*/step-[0-9]* the run would go on from");
    s_shell(&run, "mv manifest.json $LAST && exec " VERL_BINARY_DIR "/bin/verl-run --quiet --resume run >resumed 2>&1");
    s_is_the_same(&run, metrics, recorded);
    run_done(&run);
}

Test(restart, a_lost_policy_takes_the_run_back_to_its_checkpoint, .timeout = 300)
{
    run_t run;
    char *metrics, *recorded;
    s_undisturbed("", &metrics, &recorded);
    run_start_after(&run, FILES, LEARNS, "");
    run_until_steps(&run, 2);
    s_kill(&run, "policy");                 // before there is a checkpoint
    s_until_checkpoint(&run, 4);
    run_until_steps(&run, 6);
    s_kill(&run, "policy");
    run_wait(&run, 60);
    s_ended(&run, 0, "");
    s_is_the_same(&run, metrics, recorded);
    run_done(&run);
}

Test(restart, actors_without_state_get_successors, .timeout = 300)
{
    run_t run;
    char *metrics, *recorded;
    static const char *const victims[] = { "reward", "rec", "prompts", "reward" };
    s_undisturbed("", &metrics, &recorded);
    run_start_after(&run, FILES, LEARNS, "");
    for (int i = 0; i < 4; i++) {
        run_until_steps(&run, 2 * i + 1);
        json_int_t policy = s_actor(&run, "policy", "incarnation");
        s_kill(&run, victims[i]);
        cr_assert_eq(s_actor(&run, "policy", "incarnation"), policy, "another actor was touched");
    }
    run_wait(&run, 60);
    s_ended(&run, 0, "");
    s_is_the_same(&run, metrics, recorded);
    run_done(&run);
}

Test(restart, what_fails_again_and_again_ends_the_run, .timeout = 100)
{
    run_t run;
    run_whole(&run, CHAIN("steps = 50\n", "", "crash_at = 3\non_failure = \"restart\"\n", ""), "");
    s_ended(&run, 1, "no more restarts");
    cr_assert(run_said(&run, "mid"));
    run_done(&run);
}

Test(restart, a_sink_may_be_done_without, .timeout = 100)
{
    run_t run;
    run_whole(&run, CHAIN("steps = 200\n", "", "", "on_failure = \"ignore\"\n")
              "[stage.extra]\nkind = \"synthetic\"\ndepends_on = [\"src\"]\nas = { payload = \"more\" }\n"
              "crash_at = 5\non_failure = \"ignore\"\n", "");
    s_ended(&run, 0, "");
    char *log = run_file(&run, "run.log");
    cr_assert(strstr(log, "goes on without it"), "%s", log);
    free(log);
    cr_assert_eq(s_each_once(&run), 200);
    run_done(&run);
}

// A sink with state that cannot save it at the end: what the others keep is the last checkpoint, be it nothing.
#define COUNTS                                                                                                     \
    "cat >count.lua <<'END'\nneeds = { \"id\" }\nlocal count = 0\n"                                               \
    "function snapshot() return count end\nfunction restore(state) count = state end\n"                            \
    "function score(batch) count = count + 1 end\nEND\n"
#define COUNTER(NAME, MORE)                                                                                        \
    "[stage." NAME "]\nkind = \"lua-state\"\nfile = \"count.lua\"\ndepends_on = [\"src\"]\n" MORE

static void
s_ends_without(run_t *run, const char *more)
{
    char topology[2000];
    snprintf(topology, sizeof topology, "%s%s", CHAIN("steps = 200\n", "busy_ms = 5\n", "", "")
             COUNTER("lost", "on_failure = \"ignore\"\n"), more);
    run_start_after(run, COUNTS, topology, "");
    s_await(run);
    s_until_done(run, 5);
    s_shell(run, "mkdir run/checkpoints/step-200.tmp && touch run/checkpoints/step-200.tmp/lost");
    run_wait(run, 60);
    s_ended(run, 0, "");
    s_shell(run, "grep -q 'saved the checkpoint step-200.: the run goes on without it' run/run.log");
    cr_assert_eq(s_each_once(run), 200);
}

Test(restart, a_sink_may_be_done_without_in_the_last_checkpoint, .timeout = 100)
{
    run_t run;
    s_ends_without(&run, COUNTER("count", ""));
    s_shell(&run, "grep -q '\"count\"' $LAST/manifest.json && ! grep -q '\"lost\"' $LAST/manifest.json");
    run_done(&run);
}

Test(restart, a_sink_may_be_done_without_where_it_alone_has_state, .timeout = 100)
{
    run_t run;
    s_ends_without(&run, "");
    s_shell(&run, "grep -q '\"actors\": \\[\\]' $LAST/manifest.json");
    run_done(&run);
}

Test(restart, a_sink_that_was_done_without_begins_anew_and_that_is_said, .timeout = 100)
{
    run_t run;
    run_start_after(&run, COUNTS, CHAIN("steps = 1000\nsave_every = 5\n", "busy_ms = 10\n", "", "")
                    COUNTER("lost", "on_failure = \"ignore\"\n") COUNTER("count", ""), "");
    s_await(&run);
    s_until_checkpoint(&run, 5);
    s_kill(&run, "lost");
    s_until_checkpoint(&run, 60);
    s_kill_and_resume(&run);
    s_until_checkpoint(&run, 75);
    s_interrupt(&run);
    s_shell(&run, "grep -q 'actor .lost. had been lost when the checkpoint of step' run/run.log");
    s_shell(&run, "! grep 'actor .count. had been lost' run/run.log");
    run_done(&run);
}

Test(restart, a_hung_handler_is_named_and_replaced, .timeout = 100)
{
    run_t run;
    run_start(&run, CHAIN("steps = 40\n", "busy_ms = 2\n", "timeout = 0.5\non_failure = \"restart\"\n", ""), "");
    s_await(&run);
    s_until_done(&run, 3);
    kill((pid_t) s_actor(&run, "mid", "pid"), SIGSTOP);
    run_wait(&run, 60);
    s_ended(&run, 0, "");
    char *log = run_file(&run, "run.log");
    cr_assert(strstr(log, "does not answer") && strstr(log, "waiting for it: rec"), "%s", log);
    free(log);
    cr_assert_eq(s_each_once(&run), 40);
    run_done(&run);
}

Test(revisions, a_repeated_paradigm_switch_is_bit_identical, .timeout = 300)
{
    char *metrics[2];
    for (int i = 0; i < 2; i++) {
        run_t run;
        run_start_after(&run, FILES, LEARNS, "");
        s_await(&run);
        s_does(&run, "set stage.generate.staleness=1 --at 4", "from batch 4 on");
        s_does(&run, "set stage.generate.staleness=0 --at 8", "from batch 8 on");
        run_wait(&run, 60);
        s_ended(&run, 0, "");
        metrics[i] = run_timeless_metrics(&run);
        run_done(&run);
    }
    cr_assert_eq(run_lines(metrics[0]), 12);
    cr_assert_str_eq(metrics[0], metrics[1]);
    free(metrics[0]);
    free(metrics[1]);
}

Test(revisions, a_swapped_policy_goes_on_with_its_optimizer, .timeout = 300)
{
    run_t run;
    char *metrics, *recorded;
    s_undisturbed("", &metrics, &recorded);
    run_start_after(&run, FILES, LEARNS, "");
    s_await(&run);
    s_does(&run, "swap policy --at 6", "from batch 6 on");
    run_wait(&run, 60);
    s_ended(&run, 0, "");
    s_is_the_same(&run, metrics, recorded);
    run_done(&run);
}
