// test_faults.c: whatever befalls an actor of whichever kind, the run names it, who waits for it and why, in time; then
// it ends, or goes on as if nothing had been, as `on_failure` says.
#include "tools/living.h"

#define MODEL "cp -r " VERL_SOURCE_DIR "/topologies/models/addition-1m m; "
#define DATA  "for i in 1 2 3 4 5 6 7 8; do printf '{\"prompt\": \"1+2=\", \"answer\": \"3\"}\\n'; done >d.jsonl; "

// One actor of each kind. LINES go to every actor, SIDE to the synthetic one.
#define ALL_KINDS(LINES, SIDE)                                                                                       \
    "[run]\nname = \"faults\"\nsteps = 40\nsave_every = 5\n"                                                         \
    "[actor.policy]\nkind = \"policy\"\nmodel = \"m\"\nthreads = 1\n" LINES                                          \
    "[stage.prompts]\nkind = \"loader\"\nfiles = [\"d.jsonl\"]\ntokenizer = \"m\"\nrows = 4\n" LINES                 \
    "[stage.generate]\nactor = \"policy\"\ndepends_on = [\"prompts\"]\nsamples = 2\nmax_new_tokens = 4\n"            \
    "[stage.reward]\nkind = \"rule-reward\"\nrule = \"random\"\ndepends_on = [\"generate\"]\n" LINES                 \
    "[stage.advantage]\nkind = \"advantage\"\nestimator = \"grpo\"\ndepends_on = [\"reward\"]\n" LINES               \
    "[stage.update]\nactor = \"policy\"\ndepends_on = [\"advantage\"]\nlr = 1e-4\n"                                  \
    "[stage.side]\nkind = \"synthetic\"\nbusy_ms = 20\ndepends_on = [\"reward\"]\n" LINES SIDE                       \
    "[stage.record]\nkind = \"recorder\"\nfile = \"out.jsonl\"\ncolumns = [\"response\", \"score\"]\n"               \
    "depends_on = [\"reward\", \"side\"]\n" LINES
#define STOPS    ALL_KINDS("liveness = 1\n", "")
#define ALOUD    "exec " VERL_BINARY_DIR "/bin/verl-run --run-dir run topology.toml >said 2>&1"    // not --quiet
#define RESTARTS ALL_KINDS("liveness = 1\non_failure = \"restart\"\n", "")

// Actors, and the words that name who waits for them.
typedef struct victim {
    const char *actor, *waiters;
} victim_t;
static const victim_t s_loader = { "prompts", "(waiting for it: generate" };
static const victim_t s_policy = { "policy", "(waiting for it: reward" };
static const victim_t s_reward = { "reward", "(waiting for it: advantage" };
static const victim_t s_advantage = { "advantage", "(waiting for it: update)" };
static const victim_t s_synthetic = { "side", "(waiting for it: record)" };
static const victim_t s_recorder = { "record", "" };

static const struct {
    int         signal;
    const char *cause;
    double      limit;                      // s until it is known
} s_faults[] = { { SIGKILL, "was killed by signal 9 (SIGKILL)", 1 },
                 { SIGSEGV, "was killed by signal 11 (SIGSEGV)", 1 },
                 { SIGSTOP, "does not answer: its mailbox has been silent for 1 s (liveness)", 3 } };
#define FAULTS 3

static double
s_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

// When run.log first tells of what has these words, of all; 0: never.
static double
s_logged(const run_t *run, const char *words, const char *more)
{
    char *log = run_file(run, "run.log"), *rest = NULL;
    double at = 0;
    for (char *line = strtok_r(log, "\n", &rest); line && at == 0; line = strtok_r(NULL, "\n", &rest)) {
        json_t *event = strstr(line, words) && strstr(line, more) ? json_loads(line, 0, NULL) : NULL;
        at = json_number_value(json_object_get(event, "t"));
        json_decref(event);
    }
    free(log);
    return at;
}

// The fault, once the run is at work. Returns when it was; label: the incarnation that it befell.
static double
s_strike(const run_t *run, const char *actor, int signal, char *label, size_t size)
{
    s_await(run);
    run_until_steps(run, 7);
    snprintf(label, size, "`%s#%lld`", actor, (long long) s_actor(run, actor, "incarnation"));
    double at = s_clock();
    cr_assert_eq(kill((pid_t) s_actor(run, actor, "pid"), signal), 0);
    return at;
}

static void
s_check_named(const run_t *run, const char *label, const char *cause, const char *waiters, double struck, double limit)
{
    char words[400];
    snprintf(words, sizeof words, "actor %s %s", label, cause);
    double known = s_logged(run, words, waiters);
    cr_assert(known > 0, "run.log does not say \"%s … %s\"", words, waiters);
    cr_assert_lt(known - struck, limit * SLOWER, "it was known after %.2f s", known - struck);
    cr_assert(run_said(run, words), "it does not say \"%s\": %s", words, run->said);
    cr_assert(run_said(run, waiters), "it does not say \"%s\": %s", waiters, run->said);
}

// Each fault ends the run, with the actor, those who wait for it and the cause in its last words.
static void
s_ends(const victim_t *victim)
{
    for (int i = 0; i < FAULTS; i++) {
        run_t run;
        char label[64];
        run_start_after(&run, MODEL DATA, STOPS, "--steps 100000");
        double struck = s_strike(&run, victim->actor, s_faults[i].signal, label, sizeof label);
        run_wait(&run, 20);
        cr_assert_eq(run.code, 1, "exit %d: %s", run.code, run.said);
        s_check_named(&run, label, s_faults[i].cause, victim->waiters, struck, s_faults[i].limit);
        run_done(&run);
    }
}

typedef struct left {                       // what a run leaves
    char *metrics, *recorded;
} left_t;

static left_t
s_left(run_t *run)
{
    run_wait(run, 90);
    cr_assert_eq(run->code, 0, "exit %d: %s", run->code, run->said);
    return (left_t) { run_timeless_metrics(run), run_file(run, "out.jsonl") };
}

static void
s_left_done(left_t *left)
{
    free(left->metrics);
    free(left->recorded);
}

// After each fault the run goes on: its metrics and its records are those of a run that was left alone.
static void
s_goes_on(const victim_t *victim)
{
    run_t run;
    run_start_after(&run, MODEL DATA, RESTARTS, "");
    left_t alone = s_left(&run);
    cr_assert_eq(run_lines(alone.metrics), 40);
    cr_assert_eq(run_lines(alone.recorded), 40 * 4 * 2);
    run_done(&run);
    for (int i = 0; i < FAULTS; i++) {
        char label[64];
        run_start_after(&run, MODEL DATA ALOUD, RESTARTS, "");
        double struck = s_strike(&run, victim->actor, s_faults[i].signal, label, sizeof label);
        left_t left = s_left(&run);
        s_check_named(&run, label, s_faults[i].cause, "", struck, s_faults[i].limit);
        cr_assert_str_eq(left.metrics, alone.metrics, "the metrics differ after %s", s_faults[i].cause);
        cr_assert_str_eq(left.recorded, alone.recorded, "the records differ after %s", s_faults[i].cause);
        s_left_done(&left);
        run_done(&run);
    }
    s_left_done(&alone);
}

#define OF_KIND(kind)                                                                                       \
    Test(faults, of_a_##kind##_are_named_and_end_the_run, .timeout = 280) { s_ends(&s_##kind); }            \
    Test(faults, of_a_##kind##_are_named_and_the_run_goes_on, .timeout = 280) { s_goes_on(&s_##kind); }

OF_KIND(loader)
OF_KIND(policy)
OF_KIND(reward)
OF_KIND(advantage)
OF_KIND(synthetic)
OF_KIND(recorder)

// --- any of them, at any moment ---------------------------------------------------------------------------------

// Kills of several actors, close together: also while a successor begins, or while the run goes back. Returns how many.
static unsigned
s_kill_around(const run_t *run, unsigned seed)
{
    static const char *const names[] = { "prompts", "policy", "reward", "advantage", "side", "record" };
    unsigned times[6] = { 0 }, killed = 0;
    for (int i = 0; i < 14; i++) {
        pid_t all[16];
        char path[64], label[300], words[100];
        seed = seed * 1103515245u + 12345u;
        unsigned which = (seed >> 16) % 6;
        usleep((seed >> 8) % 200000);
        int count = times[which] < 4 ? run_processes(run, all, 16) : 0;
        snprintf(words, sizeof words, "%s#", names[which]);
        for (int j = 0; j < count && j < 16; j++) {
            snprintf(path, sizeof path, "/proc/%d/cmdline", (int) all[j]);
            FILE *file = fopen(path, "re");
            size_t got = file ? fread(label, 1, sizeof label - 1, file) : 0;
            if (file)
                fclose(file);
            label[got] = 0;
            if (got && strncmp(label + strlen(label) + 1, words, strlen(words)) == 0 && kill(all[j], SIGKILL) == 0) {
                times[which]++;
                killed++;
                break;
            }
        }
    }
    return killed;
}

Test(faults, of_many_actors_close_together_leave_no_trace_in_what_the_run_learns, .timeout = 280)
{
    run_t run;
    const char *text = getenv("VERL_SOAK_SEED");
    unsigned first = text ? (unsigned) strtoul(text, NULL, 10) : 1;
    run_start_after(&run, MODEL DATA, RESTARTS, "--steps 120");
    left_t alone = s_left(&run);
    cr_assert_eq(run_lines(alone.metrics), 120);
    run_done(&run);
    for (unsigned seed = first; seed < first + 3; seed++) {
        run_start_after(&run, MODEL DATA, RESTARTS, "--steps 120");
        s_await(&run);
        run_until_steps(&run, 2);
        cr_assert_gt(s_kill_around(&run, seed), 4, "too few were killed: seed %u", seed);
        left_t left = s_left(&run);
        cr_assert_str_eq(left.metrics, alone.metrics, "the metrics differ: seed %u", seed);
        cr_assert_str_eq(left.recorded, alone.recorded, "the records differ: seed %u", seed);
        s_left_done(&left);
        run_done(&run);
    }
    s_left_done(&alone);
}

// --- before the first batch ---------------------------------------------------------------------------------------

static void
s_until_logged(const run_t *run, const char *words, const char *more)
{
    int64_t limit = verl_now() + 20 * SLOWER * VERL_S;
    while (s_logged(run, words, more) == 0) {
        cr_assert(verl_now() < limit, "run.log does not say %s … %s", words, more);
        usleep(1000);
    }
}

// Kills the first incarnation of `side` while it loads for three seconds. Returns when.
static double
s_strike_loading(const run_t *run)
{
    s_until_logged(run, "\"started\"", "\"side#");
    s_until_logged(run, "\"ready\"", "\"reward#");
    cr_assert_eq(s_logged(run, "\"ready\"", "\"side#"), 0, "it loads too fast for this test");
    double at = s_clock();
    cr_assert_eq(kill((pid_t) s_actor(run, "side", "pid"), SIGKILL), 0);
    return at;
}

Test(faults, while_an_actor_prepares_are_named_and_end_the_run)
{
    run_t run;
    run_start_after(&run, MODEL DATA, ALL_KINDS("", "load_ms = 3000\n"), "");
    double struck = s_strike_loading(&run);
    run_wait(&run, 20);
    cr_assert_eq(run.code, 1, "exit %d: %s", run.code, run.said);
    s_check_named(&run, "`side#6`", s_faults[0].cause, s_synthetic.waiters, struck, 1);
    run_done(&run);
}

Test(faults, while_an_actor_prepares_do_not_end_a_run_that_restarts)
{
    run_t run;
    run_start_after(&run, MODEL DATA, ALL_KINDS("on_failure = \"restart\"\n", "load_ms = 3000\n"), "--steps 5");
    double struck = s_strike_loading(&run);
    run_wait(&run, 60);
    cr_assert_eq(run.code, 0, "exit %d: %s", run.code, run.said);
    cr_assert(s_logged(&run, "`side#6` was killed by signal 9", "restarting it") - struck < 1 * SLOWER);
    char *metrics = run_file(&run, "metrics.jsonl");
    cr_assert_eq(run_lines(metrics), 5);
    free(metrics);
    run_done(&run);
}

// A program that says what it is when a topology is checked, and ends before it has said a word to the run.
#define EXITS                                                                                                        \
    "cat >b.sh <<'END'\n"                                                                                            \
    "#!/bin/sh\n"                                                                                                    \
    "if [ \"$VERL_DESCRIBE\" ]; then\n"                                                                              \
    "    echo '{\"protocol\": 1, \"keeps_state\": false, \"stages\": [{\"name\": \"b\", \"about\": \"\",'\n"           \
    "    echo '\"needs\": [], \"gives\": [], \"source\": false, \"by_row\": false, \"maps\": false,'\n"                \
    "    echo '\"options\": {}}]}'\n"                                                                                \
    "    exit\n"                                                                                                     \
    "fi\n"                                                                                                           \
    "echo no such thing >&2; exit 3\n"                                                                               \
    "END\n"                                                                                                          \
    "chmod +x b.sh\n"

Test(faults, of_a_command_that_exits_at_once_are_named_with_their_code)
{
    run_t run;
    run_start_after(&run, EXITS,
                    "[run]\nname = \"exits\"\nsteps = 5\n"
                    "[stage.a]\nkind = \"synthetic\"\n"
                    "[stage.b]\nkind = \"command\"\ncommand = [\"./b.sh\"]\ndepends_on = [\"a\"]\n"
                    "[stage.c]\nkind = \"synthetic\"\ndepends_on = [\"b\"]\nas = { payload = \"c\" }\n", "");
    run_wait(&run, 20);
    cr_assert_eq(run.code, 1, "exit %d: %s", run.code, run.said);
    cr_assert(run_said(&run, "actor `b#3` ended with exit code 3 (waiting for it: c)"), "%s", run.said);
    cr_assert(run_said(&run, "no such thing"), "%s", run.said);
    run_done(&run);
}

// It ends nothing, but it is an error: --quiet leaves it.
Test(faults, of_an_actor_that_may_be_lost_are_told_to_a_quiet_terminal)
{
    run_t run;
    run_whole(&run, "[run]\nname = \"odd\"\nsteps = 20\n[stage.src]\nkind = \"synthetic\"\nbusy_ms = 1\n"
              "[stage.odd]\nkind = \"synthetic\"\ndepends_on = [\"src\"]\nas = \"odd_\"\ncrash_at = 3\n"
              "on_failure = \"ignore\"\n", "");
    cr_assert_eq(run.code, 0, "exit %d: %s", run.code, run.said);
    cr_expect(run_said(&run, "verl-run: actor `odd#"), "%s", run.said);
    cr_expect(run_said(&run, "the run goes on without it"), "%s", run.said);
    run_done(&run);
}

// --- what never returns -------------------------------------------------------------------------------------------

#define HANGS "hang_at = 4\ntimeout = 1\n"

Test(faults, of_a_handler_that_never_returns_are_named_with_its_batch)
{
    run_t run;
    run_start_after(&run, MODEL DATA, ALL_KINDS("", HANGS), "");
    run_until_steps(&run, 4);
    double from = s_clock();
    run_wait(&run, 20);
    cr_assert_eq(run.code, 1, "exit %d: %s", run.code, run.said);
    cr_assert(run_said(&run, "stage `side` of `side#6` has worked on batch 4 for more than 1 s (timeout)"), "%s",
              run.said);
    cr_assert(run_said(&run, s_synthetic.waiters), "%s", run.said);
    cr_assert_lt(s_logged(&run, "has worked on batch 4", "(timeout)") - from, 2.5 * SLOWER);
    run_done(&run);
}

// A hang that comes again with the batch is no bad luck: there is an end to restarts.
Test(faults, of_a_handler_that_never_returns_end_a_run_that_restarts_after_five_times)
{
    run_t run;
    run_start_after(&run, MODEL DATA, ALL_KINDS("on_failure = \"restart\"\n", "hang_at = 4\ntimeout = 0.3\n"), "");
    run_wait(&run, 60);
    cr_assert_eq(run.code, 1, "exit %d: %s", run.code, run.said);
    cr_assert(run_said(&run, "has worked on batch 4 for more than"), "%s", run.said);
    cr_assert(run_said(&run, "no more restarts"), "%s", run.said);
    run_done(&run);
}

// --- no memory ----------------------------------------------------------------------------------------------------

// Stands before the real verl-actor. `side` alone has little memory: in a control group where one can be made, or by a
// limit of its addresses.
#define POOR                                                                                                         \
    "mkdir bin; cp " VERL_BINARY_DIR "/bin/verl-run bin; cat >bin/verl-actor <<'END'\n"                              \
    "#!/bin/sh\n"                                                                                                    \
    "if [ \"$1\" = side#6 ]; then\n"                                                                                 \
    "    group=/sys/fs/cgroup/memory/verl-test-$$\n"                                                                 \
    "    if mkdir $group 2>/dev/null && echo 100000000 >$group/memory.limit_in_bytes &&\n"                          \
    "       echo $$ >$group/cgroup.procs; then echo $group >>poor; else ulimit -v 700000; fi\n"                      \
    "fi\n"                                                                                                           \
    "exec " VERL_BINARY_DIR "/bin/verl-actor \"$@\"\n"                                                               \
    "END\n"                                                                                                          \
    "chmod +x bin/verl-actor\n"
#define POORLY   "exec bin/verl-run --run-dir run topology.toml >said 2>&1"
#define GREEDY   "bytes = 100000000\n"      // a row, of eight

Test(faults, of_an_actor_without_memory_are_named)
{
    if (SANITIZED)
        cr_skip_test("a sanitizer needs all addresses, so none can be taken away");
    run_t run;
    run_start_after(&run, MODEL DATA POOR POORLY, ALL_KINDS("", GREEDY), "");
    run_wait(&run, 60);
    cr_assert_eq(run.code, 1, "exit %d: %s", run.code, run.said);
    cr_assert(run_said(&run, "`side#6`"), "%s", run.said);
    cr_assert(run_said(&run, "memory") || run_said(&run, "SIGKILL"), "%s", run.said);
    cr_assert(s_logged(&run, "\"failed\"", "side#6") > 0);
    char command[128];
    snprintf(command, sizeof command, "cd %s && { test ! -f poor || xargs rmdir <poor; }", run.folder);
    cr_assert_eq(system(command), 0, "its control group is left");
    run_done(&run);
}

// --- a life after another -----------------------------------------------------------------------------------------

// Lives of the run, and cuts in the last one.
static int
s_lives(const run_t *run, int *ret_cuts)
{
    char *log = run_file(run, "run.log"), *rest = NULL;
    int lives = 0;
    *ret_cuts = 0;
    for (char *line = strtok_r(log, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        bool begins = strstr(line, "\"event\":\"begun\"") || strstr(line, "\"event\":\"resumed\"");
        lives += begins;
        *ret_cuts = begins ? 0 : *ret_cuts + (strstr(line, "\"event\":\"cut\"") != NULL);
    }
    free(log);
    return lives;
}

// Kills the policy, which keeps state, in life `life`, once that has come to `steps`; waits for the next life.
static void
s_end_life(const run_t *run, int life, int steps)
{
    int cuts;
    int64_t limit = verl_now() + 30 * SLOWER * VERL_S;
    run_until_steps(run, steps);
    cr_assert_eq(s_lives(run, &cuts), life);
    cr_assert_eq(kill((pid_t) s_actor(run, "policy", "pid"), SIGKILL), 0);
    while (s_lives(run, &cuts) == life) {
        cr_assert(verl_now() < limit, "life %d does not begin", life + 1);
        usleep(1000);
    }
}

// A change was in force; the run goes back behind it, and again before it has come to it. It is in force at its batch.
static void
s_change_outlives(const char *arguments)
{
    run_t run;
    int cuts;
    run_start_after(&run, MODEL DATA, RESTARTS, arguments);
    s_await(&run);
    said_t said = s_inject(&run, "--at 24 set side.busy_ms=10");
    DOES(said, "is in force");
    s_end_life(&run, 1, 30);
    s_end_life(&run, 2, 12);
    run_wait(&run, 90);
    cr_assert_eq(run.code, 0, "exit %d: %s", run.code, run.said);
    cr_assert_eq(s_lives(&run, &cuts), 3);
    cr_assert_eq(cuts, 1, "the last life made %d changes", cuts);
    char *metrics = run_file(&run, "metrics.jsonl");
    cr_assert_eq(run_lines(metrics), 40);
    free(metrics);
    run_done(&run);
}

Test(faults, do_not_lose_a_change_that_was_in_force, .timeout = 280)
{
    s_change_outlives("--set run.save_every=20 --set run.keep=1 --set run.max_in_flight=8");
}

Test(faults, do_not_lose_a_change_of_a_run_without_checkpoints, .timeout = 280)
{
    s_change_outlives("--set run.save_every=0 --set run.max_in_flight=8");
}

// Waits until two incarnations of an actor live: the one that works, and the one that a change brings.
static void
s_until_two(const run_t *run, const char *name)
{
    int64_t limit = verl_now() + 30 * SLOWER * VERL_S;
    for (int count = 0; count < 2; usleep(1000)) {
        json_t *status = s_status(run), *actor;
        size_t i;
        count = 0;
        json_array_foreach(json_object_get(status, "actors"), i, actor)
            count += strcmp(json_string_value(json_object_get(actor, "name")), name) == 0;
        json_decref(status);
        cr_assert(verl_now() < limit, "nobody is to follow %s", name);
    }
}

Test(faults, of_an_actor_that_a_change_brings_again_do_not_end_the_run, .timeout = 280)
{
    run_t run;
    int cuts;
    run_start_after(&run, MODEL DATA, RESTARTS, "--set run.save_every=0 --set run.max_in_flight=8");
    s_await(&run);
    said_t said = s_inject(&run, "--at 28 swap side");
    DOES(said, "is in force");
    s_end_life(&run, 1, 30);
    s_until_two(&run, "side");
    cr_assert_eq(kill((pid_t) s_actor(&run, "side", "pid"), SIGKILL), 0);
    run_wait(&run, 90);
    cr_assert_eq(run.code, 0, "exit %d: %s", run.code, run.said);
    cr_assert_eq(s_lives(&run, &cuts), 3);
    cr_assert_eq(cuts, 1, "the last life made %d changes", cuts);
    run_done(&run);
}

// --- in the middle of a change ------------------------------------------------------------------------------------

#define AGAIN "on_failure = \"restart\"\n"
#define LUA(file, number)                                                                                            \
    "printf 'needs = { \"id\" }\\ngives = { \"made\" }\\nfunction score(batch) for i = 1, #batch.id do '"             \
    "'batch.out.made[i] = " number " end end\\n' >" file "; "
#define HERD                                                                                                         \
    "[run]\nname = \"herd\"\n" FOREVER "max_in_flight = 6\n"                                                       \
    "[stage.src]\nkind = \"synthetic\"\nbusy_ms = 1\n" AGAIN                                                       \
    "[stage.mid]\nkind = \"lua\"\nfile = \"one.lua\"\ndepends_on = [\"src\"]\n" AGAIN                               \
    "[stage.rec]\nkind = \"recorder\"\nfile = \"out.jsonl\"\ncolumns = [\"id\", \"made\"]\n"                        \
    "depends_on = [\"mid\"]\n" AGAIN

typedef struct cut {
    json_int_t first;
    bool       now;                         // unfinished batches were the new one's
} cut_t;

// What was made: 1 before the cut, 2 from it on.
static void
s_see_made(const json_t *line, int64_t number, void *context)
{
    const cut_t *cut = context;
    double made = json_number_value(json_object_get(line, "made"));
    s_see_in_order(line, number, NULL);
    cr_assert(made == (number < cut->first ? 1 : 2) || (cut->now && number < cut->first && made == 2),
              "batch %lld, of a change at %lld, has %g", (long long) number, (long long) cut->first, made);
}

static void
s_swap_and_kill(const char *change, bool now)
{
    run_t run;
    run_start_after(&run, LUA("one.lua", "1") LUA("two.lua", "2"), HERD, "");
    s_await(&run);
    s_until_done(&run, 20);
    said_t said = s_inject(&run, "pause mid"); // what is under way stays under way: the old revision cannot retire
    DOES(said, "");
    pid_t old = (pid_t) s_actor(&run, "mid", "pid");
    said = s_inject(&run, "%s", change);
    DOES(said, "is in force");
    cut_t cut = { s_number(&said, "from batch "), now };
    pid_t new = (pid_t) s_actor(&run, "mid", "pid");
    cr_assert_neq(old, new);
    if (!now)
        kill(old, SIGKILL);
    kill(new, SIGKILL);
    int64_t limit = verl_now() + 20 * SLOWER * VERL_S;
    while (s_done_batches(&run) < cut.first + 5 && verl_now() < limit)
        s_inject(&run, "resume mid");       // whoever follows the paused one is paused
    s_until_done(&run, cut.first + 30);
    s_interrupt(&run);
    cr_assert_geq(s_lines(&run, "out.jsonl", s_see_made, &cut), cut.first + 30);
    run_done(&run);
}

Test(faults, of_an_old_and_a_new_incarnation_at_once_mix_nothing, .timeout = 280)
{
    s_swap_and_kill("swap mid file=two.lua", false);
}

Test(faults, of_a_new_incarnation_that_took_over_at_once_mix_nothing, .timeout = 280)
{
    s_swap_and_kill("--now swap mid file=two.lua", true);
}
