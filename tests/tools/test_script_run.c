// Scripts beside real runs: what they change is exact to the step, and whatever becomes of them the run goes on.
#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "runtime/base/clock.h"
#include "tools/run.h"

// Metrics: `gain` is the option's, `tenth` a tenth of the step.
#define S_ACTOR                                                                                 \
    "cat > middle.lua << 'END'\nneeds = { 'id' }\ngives = { 'score' }\nfunction score(batch)\n" \
    "  metric('gain', options.gain)\n  metric('tenth', batch.step / 10)\n  local s = {}\n"      \
    "  for i = 1, batch.rows do s[i] = options.gain end\n  return { score = s }\nend\nEND\n"
#define S_SCRIPT(text) "cat > script.lua << 'END'\n" text "\nEND\n"

#define S_TOPOLOGY(run)                                                                                        \
    "[run]\nsteps = 40\nmax_in_flight = 4\n" run "[stage.rows]\nkind = \"synthetic\"\nrows = 4\n"              \
    "[stage.middle]\nkind = \"lua\"\nfile = \"middle.lua\"\ndepends_on = [\"rows\"]\noptions = { gain = 1 }\n" \
    "[stage.slow]\nkind = \"synthetic\"\ndepends_on = [\"middle\"]\nbusy_ms = 25\n"

#define S_GAIN(value) "{ stage = { middle = { options = { gain = " value " } } } }"

// The gain of each of the 40 steps as a digit.
static char *
s_gains(const run_t *run)
{
    char *text = run_file(run, "metrics.jsonl"), *rest = text, *gains = calloc(1, 100);
    int count = 0;
    for (char *line = strsep(&rest, "\n"); line && *line && count < 99; line = strsep(&rest, "\n"), count++) {
        json_t *step = json_loads(line, 0, NULL);
        cr_assert_eq(json_integer_value(json_object_get(step, "step")), count, "%s", line);
        gains[count] = (char) ('0' + (int) json_number_value(json_object_get(step, "gain")));
        json_decref(step);
    }
    free(text);
    cr_assert_eq(count, 40, "%d steps: %s", count, gains);
    return gains;
}

static void
s_own(run_t *run, const char *setup, const char *gains)
{
    run_start_after(run, setup, S_TOPOLOGY("script = \"script.lua\"\n"), "");
    run_wait(run, 60);
    char *log = run_file(run, "logs/script.log"), *found = s_gains(run);
    cr_assert_eq(run->code, 0, "%s\n%s", run->said, log);
    cr_assert_str_eq(found, gains, "%s", log);
    free(found);
    free(log);
}

static void
s_logged(const run_t *run, const char *words)
{
    char *log = run_file(run, "logs/script.log");
    cr_assert(strstr(log, words), "`%s` is not in: %s", words, log);
    free(log);
}

Test(script_run, a_change_at_a_step_is_in_force_from_that_step_on)
{
    run_t run;
    s_own(&run,
          S_ACTOR S_SCRIPT("at_step(0, function(run) run:apply" S_GAIN(
              "2") " end)\n"
                   "at_step(10, function(run)\n  assert(run:step() == 9 and run:metric('tenth') == 0.9)\n"
                   "  assert(run:metric('gain', 5) == 2 and run:metric('nothing') == nil)\n"
                   "  run:set('stage.middle.options.gain', 3)\n  run:set('stage.middle.options.gain', 4)\n"
                   "  run:log('changed')\nend)"),
          "2222222222444444444444444444444444444444");
    s_logged(&run, "script.lua: changed");
    char *log = run_file(&run, "run.log");
    cr_assert(strstr(log, "script.lua: changed"), "%s", log);
    free(log);
    run_done(&run);
}

Test(script_run, a_metric_that_no_step_had_is_told_at_the_end)
{
    run_t run;
    s_own(&run,
          S_ACTOR S_SCRIPT("when('gian > 0 or tenth > 9', function(run) run:log('never') end)\n"
                           "when('gain > 9', function(run) run:log('never') end)"),
          "1111111111111111111111111111111111111111");
    s_logged(&run, "script.lua: no step that it saw had `gian`");
    char *log = run_file(&run, "logs/script.log");
    cr_assert_eq(run_lines(log), 1, "%s", log);
    free(log);
    run_done(&run);
}

Test(script_run, a_branch_has_its_steps_and_is_taken_back)
{
    run_t run;
    s_own(
        &run,
        S_ACTOR S_SCRIPT("at_step(8, function(run)\n  run:branch(" S_GAIN(
            "5") ", 6, function(result)\n"
                 "    run:log('result', result.first, result.last, result.metrics.gain, result.before.gain)\n"
                 "    run:apply" S_GAIN("7") "\n  end)\nend)\n"
                                             "at_step(14, function(run) run:log('behind it', run:metric('gain')) end)"),
        "1111111155555577777777777777777777777777");
    s_logged(&run, "result 8 13 5.0 1.0");
    s_logged(&run, "behind it 5.0");
    run_done(&run);
}

// An actor of two stages goes as verl-inject remove takes it away.
Test(script_run, an_actor_is_removed_with_its_stages)
{
    run_t run;
    run_start_after(
        &run,
        S_ACTOR S_SCRIPT("at_step(6, function(run)\n  run:remove('pair')\n"
                         "  local ok, why = pcall(run.remove, run, 'pear')\n  run:log(ok, why)\n"
                         "  run:log(string.rep('x', 999) .. '\xc3\xa4')\n  run:log('\xff')\nend)"),
        S_TOPOLOGY("script = \"script.lua\"\n") "[actor.pair]\nkind = \"synthetic\"\n"
        "[stage.one]\nactor = \"pair\"\ndoes = \"work\"\ndepends_on = [\"rows\"]\n"
        "[stage.two]\nactor = \"pair\"\ndoes = \"work\"\ndepends_on = [\"rows\"]\n", "");
    run_wait(&run, 60);
    cr_assert_eq(run.code, 0, "%s", run.said);
    char *log = run_file(&run, "run.log"), *topology = run_file(&run, "topology-2.toml");
    cr_assert(*topology && !strstr(topology, "[stage.one]") && !strstr(topology, "[stage.two]"), "%s", topology);
    cr_assert(strstr(log, "script.lua: false") && strstr(log, "no actor or stage is called"), "%s", log);
    cr_assert(strstr(log, "script.lua: ?\""), "%s", log);
    cr_assert(strstr(log, "script.lua: xxxx"), "a line that is cut is lost");
    free(topology);
    free(log);
    run_done(&run);
}

Test(script_run, a_branch_from_a_condition_has_its_steps_too)
{
    run_t run;
    run_start_after(&run,
                    S_ACTOR S_SCRIPT("when('tenth >= 0.5', function(run)\n  local _, first = run:branch(" S_GAIN(
                        "3") ", 7, "
                             "function(r) run:log('over', r.steps, r.metrics.gain, run:step()) end)\n"
                             "  run:log('from', first)\nend)"),
                    S_TOPOLOGY("script = \"script.lua\"\n"), "");
    run_wait(&run, 60);
    char *gains = s_gains(&run), *first = strchr(gains, '3');
    cr_assert_eq(run.code, 0, "%s", run.said);
    cr_assert(first && first - gains > 5 && strspn(first, "3") == 7 && !strchr(first + 7, '3'), "%s", gains);
    s_logged(&run, "over 7 3.0");
    free(gains);
    run_done(&run);
}

Test(script_run, conditions_fire_once_or_whenever_they_become_true)
{
    run_t run;
    s_own(&run,
          S_ACTOR S_SCRIPT(
              "local once, again, each = 0, 0, 0\n"
              "when('tenth > 0.35 and step < 6', function() once = once + 1 end)\n"
              "when('step == 3 or step == 4 or step == 9', function() again = again + 1 end, { again = true })\n"
              "every(10, function(run)\n  each = each + 1\n"
              "  if run:step() == 39 then return end\n"
              "  if each == 3 then run:log('counts', once, again, each) end\nend)"),
          "1111111111111111111111111111111111111111");
    s_logged(&run, "counts 1 2 3");
    run_done(&run);
}

Test(script_run, an_error_ends_the_script_takes_its_branch_back_and_the_run_goes_on)
{
    run_t run;
    run_start_after(&run,
                    S_ACTOR S_SCRIPT("at_step(5, function(run) run:branch(" S_GAIN(
                        "6") ", 1000) end)\n"
                             "at_step(12, function(run)\n  local x = nil + 1\nend)"),
                    S_TOPOLOGY("script = \"script.lua\"\n"), "");
    run_wait(&run, 60);
    char *gains = s_gains(&run);
    cr_assert_eq(run.code, 0, "%s", run.said);
    cr_assert(run_said(&run, "script.lua:3: attempt to perform arithmetic"), "%s", run.said);
    cr_assert_eq(strspn(gains, "1"), 5, "%s", gains);
    cr_assert_geq(strspn(gains + 5, "6"), 7, "%s", gains);
    cr_assert_eq(gains[39], '1', "%s", gains);
    s_logged(&run, "the branch made at script.lua:1 is taken back");
    free(gains);
    run_done(&run);
}

Test(script_run, a_mistake_in_a_change_names_its_line_and_touches_nothing)
{
    run_t run;
    s_own(&run,
          S_ACTOR S_SCRIPT("at_step(3, function(run)\n"
                           "  local ok, why = pcall(run.set, run, 'stage.middle.optoins', 3)\n"
                           "  run:log(ok, why)\n"
                           "  run:apply" S_GAIN("1") "\n  error('at last')\nend)"),
          "1111111111111111111111111111111111111111");
    s_logged(&run, ": false script.lua:2: there is no ");   // once, and of no line that nobody wrote
    s_logged(&run, "did you mean `options`?");
    s_logged(&run, "script.lua:5: at last");
    run_done(&run);
}

// Each with the script's place, and one from the next; the program that ran it is no part of them.
Test(script_run, two_mistakes_in_a_change_are_two_sentences)
{
    run_t run;
    s_own(&run,
          S_ACTOR S_SCRIPT("at_step(3, function(run)\n"
                           "  run:apply{ stage = { middle = { optoins = 3 }, slow = { busy_ms = 'x' } } }\nend)"),
          "1111111111111111111111111111111111111111");
    s_logged(&run, "script.lua:2: ");
    s_logged(&run, "; script.lua:2: ");
    cr_assert(run_said(&run, "the script of the run failed: script.lua:2: "), "%s", run.said);
    run_done(&run);
}

Test(script_run, a_change_that_comes_too_late_is_no_fault_of_the_script)
{
    run_t run;
    s_own(&run, S_ACTOR S_SCRIPT("when('step >= 39', function(run) run:apply" S_GAIN("2") " end)\nat_step(40, print)"),
          "1111111111111111111111111111111111111111");
    cr_assert(!run_said(&run, "failed"), "%s", run.said);
    s_logged(&run, "script.lua:1: the run ");
    run_done(&run);
}

Test(script_run, a_script_that_never_is_ready_does_not_hold_the_run)
{
    run_t run;
    s_own(&run, S_ACTOR S_SCRIPT("while true do end"), "1111111111111111111111111111111111111111");
    cr_assert(run_said(&run, "script.lua:1: more than"), "%s", run.said);
    run_done(&run);
}

Test(script_run, a_script_that_is_no_lua_is_found_before_anything_starts)
{
    run_t run;
    run_start_after(&run, S_ACTOR S_SCRIPT("at_step(1, function(run)\nenf)"), S_TOPOLOGY("script = \"script.lua\"\n"),
                    "");
    run_wait(&run, 20);
    cr_assert_eq(run.code, 2, "%s", run.said);
    cr_assert(run_said(&run, "script.lua:2: "), "%s", run.said);
    run_done(&run);
}

// A sum over all batches, which is a checkpoint's state, and a slow stage without state behind it.
#define S_SUM                                                                                                  \
    "cat > sum.lua << 'END'\nneeds = { 'score' }\ngives = { 'total' }\nlocal sum = 0\nfunction score(batch)\n" \
    "  for i = 1, batch.rows do sum = sum + batch.score[i] end\n  metric('sum/max', sum)\n"                    \
    "  return { total = batch.score }\nend\nfunction snapshot() return sum end\n"                              \
    "function restore(state) sum = state end\nEND\n"
#define S_SUMMED                                                                                                   \
    "[run]\nsteps = 40\nmax_in_flight = 4\nsave_every = 5\nscript = \"script.lua\"\n"                              \
    "[stage.rows]\nkind = \"synthetic\"\nrows = 4\n"                                                               \
    "[stage.middle]\nkind = \"lua\"\nfile = \"middle.lua\"\ndepends_on = [\"rows\"]\noptions = { gain = 1 }\n"     \
    "[stage.sum]\nkind = \"lua-state\"\nfile = \"sum.lua\"\ndepends_on = [\"middle\"]\non_failure = \"restart\"\n" \
    "[stage.slow]\nkind = \"synthetic\"\ndepends_on = [\"sum\"]\nbusy_ms = 40\n"

// Kills the actor `sum`.
static void
s_kill_sum(const run_t *run)
{
    pid_t found[32];
    int count = run_processes(run, found, 32);
    for (int i = 0; i < count; i++) {
        char path[64], title[256] = "";
        snprintf(path, sizeof path, "/proc/%d/cmdline", (int) found[i]);
        FILE *file = fopen(path, "r");
        size_t size = file ? fread(title, 1, sizeof title - 1, file) : 0;
        for (size_t k = 0; k < size; k++)
            title[k] = title[k] ? title[k] : ' ';
        if (file)
            fclose(file);
        if (strstr(title, "verl-actor sum"))
            kill(found[i], SIGKILL);
    }
}

Test(script_run, a_run_that_goes_back_to_a_checkpoint_is_followed)
{
    run_t run;
    run_start_after(&run,
                    S_ACTOR S_SUM S_SCRIPT("at_step(3, function(run) run:apply" S_GAIN(
                        "2") " end)\n"
                             "at_step(25, function(run) run:apply" S_GAIN("3") "\n"
                             "  run:log('remembers', run:metric('tenth', 24) < 1.6)\nend)"),
                    S_SUMMED, "");
    run_until_steps(&run, 13);
    s_kill_sum(&run);
    run_wait(&run, 60);
    char *gains = s_gains(&run), *metrics = run_file(&run, "metrics.jsonl"), *log = run_file(&run, "run.log");
    cr_assert_eq(run.code, 0, "%s", run.said);
    cr_assert(strstr(log, "\"resumed\""), "%s", log);
    cr_assert_str_eq(gains, "1112222222222222222222222333333333333333");
    s_logged(&run, "remembers true"); // 1.25: steps before it went back too; of those behind it alone it is 1.7
    cr_assert(strstr(metrics, "\"sum/max\":368.0"), "%s", metrics); // 4 rows x (3 x 1 + 22 x 2 + 15 x 3)
    free(log);
    free(metrics);
    free(gains);
    run_done(&run);
}

// What is done before verl-run is killed is not done again, and what is open then is taken back where it was to be.
Test(script_run, the_script_of_a_run_that_is_resumed_goes_on)
{
    run_t run;
    char resume[300];
    run_start_after(&run,
                    S_ACTOR S_SUM S_SCRIPT("when('tenth >= 0.1', function(run) run:log('once') end)\n"
                                           "at_step(4, function(run) run:branch(" S_GAIN(
                                               "5") ", 20) end)\n"
                                                    "at_step(30, function(run) run:apply" S_GAIN("3") " end)"),
                    S_SUMMED, "");
    run_until_steps(&run, 13);
    kill(run.pid, SIGKILL);
    cr_assert_eq(waitpid(run.pid, NULL, 0), run.pid);
    snprintf(resume, sizeof resume, "cd %s && %s/bin/verl-run --quiet --resume run > said 2>&1", run.folder,
             VERL_BINARY_DIR);
    cr_assert_eq(system(resume), 0);
    char *gains = s_gains(&run), *script = run_file(&run, "logs/script.log");
    cr_assert_str_eq(gains, "1111555555555555555555551111113333333333", "%s", script);
    const char *once = strstr(script, "once");
    cr_assert(once && !strstr(once + 1, "once"), "%s", script);
    cr_assert(strstr(script, "step 4 is done"), "%s", script);
    free(script);
    free(gains);
    run_done(&run);
}

Test(script_run, the_script_that_we_ship_branches_a_policy_and_takes_it_back)
{
    run_t run;
    char topology[4096] = "", sets[1024];
    FILE *file = fopen(VERL_SOURCE_DIR "/topologies/quickstart.toml", "r");
    cr_assert(file && fread(topology, 1, sizeof topology - 1, file) > 0);
    fclose(file);
    snprintf(
        sets, sizeof sets,
        "--steps 44 --set run.script=\"%s/scripts/kl_guard.lua\" --set actor.policy.model=\"%s/models/addition-1m\" "
        "--set stage.prompts.tokenizer=\"%s/models/addition-1m\" --set stage.prompts.rows=4 --set "
        "'stage.prompts.files=[\"%s/data/addition-train.jsonl\"]' --set 'stage.heldout.files=[\"%s/data/addition-"
        "heldout.jsonl\"]' --set stage.heldout.tokenizer=\"%s/models/addition-1m\" --set stage.heldout.rows=8",
        VERL_SOURCE_DIR "/topologies", VERL_SOURCE_DIR "/topologies", VERL_SOURCE_DIR "/topologies",
        VERL_SOURCE_DIR "/topologies", VERL_SOURCE_DIR "/topologies", VERL_SOURCE_DIR "/topologies");
    run_whole(&run, topology, sets);
    cr_assert_eq(run.code, 0, "%s", run.said);
    s_logged(&run, "kl_guard.lua: reward at temperature 1.2:");
    char *log = run_file(&run, "run.log");
    cr_assert(strstr(log, "\"first\":30,\"what\":\"set generate.temperature=1.2\""), "%s", log);
    cr_assert(strstr(log, "\"first\":40,\"what\":\"set generate.temperature=1.0\""), "%s", log);
    free(log);
    run_done(&run);
}

// ---------------------------------------------------------------------------------------------------------------
// Scripts that come and go

static pid_t
s_attach_as(const run_t *run, const char *option, const char *text)
{
    char path[200], directory[200], output[200];
    snprintf(path, sizeof path, "%s/late.lua", run->folder);
    snprintf(directory, sizeof directory, "%s/run", run->folder);
    snprintf(output, sizeof output, "%s/late.said", run->folder);
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        cr_assert(freopen(output, "w", stdout) && freopen(output, "a", stderr));
        execl(VERL_BINARY_DIR "/bin/verl-inject", "verl-inject", "--run", directory, "script", path, option, NULL);
        _exit(127);
    }
    return pid;
}

static pid_t
s_attach(const run_t *run, const char *text)
{
    return s_attach_as(run, NULL, text);
}

static char *
s_late_said(const run_t *run)
{
    char path[200], *text = calloc(1, 8192);
    snprintf(path, sizeof path, "%s/late.said", run->folder);
    FILE *file = fopen(path, "r");
    if (file) {
        cr_assert_lt(fread(text, 1, 8191, file), 8191);
        fclose(file);
    }
    return text;
}

static void
s_until_said(const run_t *run, const char *words)
{
    for (int64_t since = verl_now();; nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL)) {
        char *said = s_late_said(run);
        bool there = strstr(said, words) != NULL;
        cr_assert(there || verl_now() - since < 20 * VERL_S, "`%s` was not said: %s", words, said);
        free(said);
        if (there)
            return;
    }
}

static int
s_gone(pid_t pid)
{
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#define S_BRANCH "when('step >= 0', function(run)\n  run:branch(" S_GAIN("8") ", 100000)\n  run:log('begun')\nend)\n"

Test(script_run, a_script_that_is_interrupted_takes_its_branch_back)
{
    run_t run;
    run_start_after(&run, S_ACTOR, S_TOPOLOGY(""), "");
    run_until_steps(&run, 1);
    pid_t late = s_attach(&run, S_BRANCH);
    s_until_said(&run, "begun");
    kill(late, SIGTERM);
    cr_assert_eq(s_gone(late), 130);
    run_wait(&run, 60);
    char *gains = s_gains(&run), *said = s_late_said(&run);
    cr_assert(strstr(said, "is taken back"), "%s", said);
    cr_assert(strchr(gains, '8') && gains[39] == '1', "%s", gains);
    free(said);
    free(gains);
    run_done(&run);
}

// It is asked for and prepared when the signal comes: the run makes it, and what takes it back stands behind it.
Test(script_run, a_script_that_is_interrupted_while_its_branch_begins_takes_it_back_too)
{
    run_t run;
    run_start_after(&run, S_ACTOR, S_TOPOLOGY(""), "");
    run_until_steps(&run, 1);
    pid_t late = s_attach(&run, "when('step >= 0', function(run)\n  run:branch({ stage = { middle = { options = "
                                "{ gain = 8 } }, side = { kind = 'synthetic', depends_on = { 'rows' }, "
                                "load_ms = 1000 } } }, 100000)\n  run:log('begun')\nend)\n");
    for (int64_t since = verl_now();; nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL)) {
        char *log = run_file(&run, "run.log");
        bool prepares = strstr(log, "\"event\":\"change\"") != NULL;
        cr_assert(prepares || verl_now() - since < 20 * VERL_S, "no change is prepared: %s", log);
        free(log);
        if (prepares)
            break;
    }
    kill(late, SIGTERM);
    cr_assert_eq(s_gone(late), 130);
    run_wait(&run, 60);
    char *gains = s_gains(&run), *said = s_late_said(&run);
    cr_assert(strstr(said, "is taken back") && !strstr(said, "begun"), "%s", said);
    cr_assert_eq(gains[39], '1', "%s", gains);
    free(said);
    free(gains);
    run_done(&run);
}

// The process of the script itself, below its guard.
static pid_t
s_below(pid_t guard)
{
    char path[100];
    int below = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int) guard, (int) guard);
    FILE *file = fopen(path, "r");
    cr_assert(file && fscanf(file, "%d", &below) == 1);
    fclose(file);
    return below;
}

// A script with an open branch, of which one process is killed.
static void
s_killed(bool guard, int code)
{
    run_t run;
    run_start_after(&run, S_ACTOR, S_TOPOLOGY(""), "");
    run_until_steps(&run, 1);
    pid_t late = s_attach(&run, S_BRANCH);
    s_until_said(&run, "begun");
    kill(guard ? late : s_below(late), SIGKILL);
    cr_assert_eq(s_gone(late), code);
    s_until_said(&run, "is taken back");
    run_wait(&run, 60);
    char *gains = s_gains(&run);
    cr_assert(strchr(gains, '8') && gains[39] == '1', "%s", gains);
    free(gains);
    run_done(&run);
}

Test(script_run, a_script_that_is_killed_leaves_its_branch_to_its_guard)
{
    s_killed(false, 1);
}

Test(script_run, a_guard_that_is_killed_leaves_it_to_the_script)
{
    s_killed(true, 128 + SIGKILL);
}

Test(script_run, a_script_that_is_killed_holds_nothing)
{
    run_t run;
    run_start_after(&run, S_ACTOR, S_TOPOLOGY(""), "");
    run_until_steps(&run, 1);
    pid_t late = s_attach(&run, "at_step(25, function(run) end)\nprint('held')\n");
    s_until_said(&run, "held");
    kill(late, SIGKILL);
    cr_assert_eq(s_gone(late), 128 + SIGKILL);
    run_wait(&run, 60);
    cr_assert_eq(run.code, 0, "%s", run.said);
    free(s_gains(&run));
    run_done(&run);
}

// A pattern that goes back and forth without end counts no instructions, and no signal reaches it.
Test(script_run, a_pattern_without_end_is_ended_and_holds_nothing)
{
    run_t run;
    run_start_after(&run, S_ACTOR, S_TOPOLOGY(""), "");
    run_until_steps(&run, 1);
    setenv("VERL_SCRIPT_SECONDS", "1", 1);
    pid_t late = s_attach(&run, "at_step(30, function(run)\n  run:branch(" S_GAIN("8") ", 1000)\n"
                                "  string.find(string.rep('a', 3000), string.rep('.-', 12) .. 'b')\nend)\n");
    unsetenv("VERL_SCRIPT_SECONDS");
    cr_assert_eq(s_gone(late), 1);
    char *said = s_late_said(&run);
    cr_assert(strstr(said, "computed for more than 1 s") && strstr(said, "its branches were taken back"), "%s", said);
    free(said);
    run_wait(&run, 60);
    cr_assert_eq(run.code, 0, "%s", run.said);
    free(s_gains(&run));
    run_done(&run);
}

Test(script_run, with_json_what_a_script_says_is_an_object_a_line)
{
    run_t run;
    run_start_after(&run, S_ACTOR, S_TOPOLOGY(""), "");
    run_until_steps(&run, 1);
    pid_t late = s_attach_as(&run, "--json", "print('a \"b\"')\nprint('c')\n");
    cr_assert_eq(s_gone(late), 0);
    char *said = s_late_said(&run);
    cr_assert_str_eq(said, "{\"script\":\"late.lua\",\"text\":\"a \\\"b\\\"\"}\n"
                           "{\"script\":\"late.lua\",\"text\":\"c\"}\n");
    free(said);
    run_wait(&run, 60);
    run_done(&run);
}

Test(script_run, a_step_that_is_past_is_a_mistake_of_one_that_comes_late)
{
    run_t run;
    run_start_after(&run, S_ACTOR, S_TOPOLOGY(""), "");
    run_until_steps(&run, 3);
    pid_t late = s_attach(&run, "\nat_step(1, function(run) end)\n");
    cr_assert_eq(s_gone(late), 1);
    char *said = s_late_said(&run);
    cr_assert(strstr(said, "late.lua:2: batch 1 has its permit already"), "%s", said);
    free(said);
    run_wait(&run, 60);
    free(s_gains(&run));
    run_done(&run);
}
