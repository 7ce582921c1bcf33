// test_inject_swap.c: the stage in the middle of a run at its highest rate is swapped a hundred times: each batch is
// recorded once, in order, with the bytes that an undisturbed run gives; nobody else is touched, and nobody waits long.
#include "tools/living.h"

#define SWAPS   (SANITIZED ? 20 : 100)
#define AROUND  50                          // batches on either side of a cut whose pauses are the swap's
#define UNDISTURBED (100 * SWAPS)           // batches before the first swap, to compare with
#define GAP_MS  20                          // of a swap, beyond what the machine makes of as many batches anyhow

typedef struct pauses {
    int64_t count;
    double *seconds;                        // before each step
} pauses_t;

static void
s_see_pause(const json_t *line, int64_t number, void *context)
{
    pauses_t *pauses = context;
    cr_assert_eq(json_integer_value(json_object_get(line, "step")), number);
    pauses->seconds = realloc(pauses->seconds, (size_t) (number + 1) * sizeof *pauses->seconds);
    pauses->seconds[number] = json_number_value(json_object_get(line, "timing_s/step"));
    pauses->count = number + 1;
}

static int
s_compare(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return x < y ? -1 : x > y;
}

// Milliseconds of the longest pause around a batch.
static double
s_longest(const pauses_t *pauses, long long batch)
{
    double longest = 0;
    for (int64_t k = batch - AROUND; k <= batch + AROUND; k++)
        if (k > 0 && k < pauses->count && pauses->seconds[k] * 1000 > longest)
            longest = pauses->seconds[k] * 1000;
    return longest;
}

// The longest pause around each cut, and around as many batches of before, where nothing is swapped. Both sorted.
static void
s_gaps(const run_t *run, const long long *cuts, double *gaps, double *quiet)
{
    pauses_t pauses = { 0 };
    s_lines(run, "metrics.jsonl", s_see_pause, &pauses);
    for (int i = 0; i < SWAPS; i++) {
        gaps[i] = s_longest(&pauses, cuts[i]);
        quiet[i] = s_longest(&pauses, AROUND + i * (long long) (UNDISTURBED - 2 * AROUND) / SWAPS);
    }
    free(pauses.seconds);
    qsort(gaps, (size_t) SWAPS, sizeof *gaps, s_compare);
    qsort(quiet, (size_t) SWAPS, sizeof *quiet, s_compare);
}

static void
s_tell(const char *what, const double *gaps)
{
    cr_log_info("longest pause %s: median %.1f ms, nine of ten %.1f ms, most %.1f ms", what, gaps[SWAPS / 2],
                gaps[SWAPS * 9 / 10], gaps[SWAPS - 1]);
}

static void
s_same_as_undisturbed(const run_t *run, int64_t batches)
{
    run_t other;
    char steps[64];
    snprintf(steps, sizeof steps, "--steps %lld", (long long) batches);
    run_start(&other, CHAIN(FOREVER, "", "", ""), steps);
    run_wait(&other, 240);
    cr_assert_eq(other.code, 0, "%s", other.said);
    char *out = run_file(run, "out.jsonl"), *reference = run_file(&other, "out.jsonl");
    cr_assert(strcmp(out, reference) == 0, "what was recorded is not what an undisturbed run records");
    free(out);
    free(reference);
    run_done(&other);
}

Test(inject_swap, a_hundred_swaps_at_the_highest_rate_lose_nothing_and_touch_nobody_else, .timeout = 1200)
{
    run_t run;
    long long cuts[SWAPS];
    double gaps[SWAPS], quiet[SWAPS];
    run_start(&run, CHAIN(FOREVER, "", "", ""), "");
    s_await(&run);
    s_until_done(&run, UNDISTURBED);
    json_int_t src = s_actor(&run, "src", "incarnation"), rec = s_actor(&run, "rec", "incarnation");
    json_int_t last = s_actor(&run, "mid", "incarnation");
    int64_t began = verl_now();
    for (int i = 0; i < SWAPS; i++) {
        said_t said = s_inject(&run, "swap mid");
        DOES(said, "replaced mid");
        cr_assert_eq(s_number(&said, "revision "), i + 2, "%s", said.text);
        cuts[i] = s_number(&said, "from batch ");
        cr_assert(i == 0 || cuts[i] > cuts[i - 1]);
    }
    double seconds = (double) (verl_now() - began) / 1e9;
    s_until_done(&run, cuts[SWAPS - 1] + AROUND);
    cr_assert_eq(s_actor(&run, "src", "incarnation"), src);
    cr_assert_eq(s_actor(&run, "rec", "incarnation"), rec);
    cr_assert_geq(s_actor(&run, "mid", "incarnation"), last + SWAPS);
    s_interrupt(&run);
    int64_t batches = s_each_once(&run);
    s_gaps(&run, cuts, gaps, quiet);
    cr_log_info("%d swaps in %.1f s, %lld batches", SWAPS, seconds, (long long) batches);
    s_tell("of a swap", gaps);
    s_tell("without one", quiet);
    cr_assert(SANITIZED || gaps[SWAPS / 2] <= GAP_MS + quiet[SWAPS / 2], "the median pause is %.1f ms", gaps[SWAPS / 2]);
    s_same_as_undisturbed(&run, batches);
    run_done(&run);
}

// Batches of 30 ms are under way at each cut, in a stage that has more than one process in turn.
Test(inject_swap, slow_batches_of_replicas_are_done_once_each_across_swaps, .timeout = 600)
{
    run_t run;
    run_start(&run, CHAIN(FOREVER, "", "busy_ms = 30\njitter_ms = 20\nreplicas = 3\n", ""), "");
    s_await(&run);
    s_until_done(&run, 5);
    for (int i = 0; i < 10; i++) {
        said_t said = s_inject(&run, i % 2 ? "swap mid replicas=3" : "swap mid replicas=2");
        DOES(said, "replaced mid");
        s_until_done(&run, s_number(&said, "from batch ") + 1);
    }
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}

Test(inject_swap, a_source_and_a_recorder_can_be_swapped_too, .timeout = 600)
{
    run_t run;
    run_start(&run, CHAIN(FOREVER, "busy_ms = 1\n", "", ""), "");
    s_await(&run);
    s_until_done(&run, 5);
    for (int i = 0; i < 10; i++) {
        said_t said = s_inject(&run, i % 2 ? "swap src" : "swap rec");
        DOES(said, "replaced");
        s_until_done(&run, s_number(&said, "from batch ") + 3);
    }
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}

// A successor of another kind cannot work the batches of the kind before.
Test(inject_swap, now_is_refused_where_the_unfinished_batches_are_of_another_kind, .timeout = 600)
{
    run_t run;
    run_start_after(&run,
                    "cat > mid.lua << 'END'\nneeds = { 'id' }\ngives = { 'payload:text' }\nfunction score(batch)\n"
                    "  for i = 1, batch.rows do batch.out.payload[i] = 'x' end\nend\nEND\n",
                    CHAIN(FOREVER, "busy_ms = 1\n", "busy_ms = 1\n", ""), "");
    s_await(&run);
    s_until_done(&run, 5);
    said_t said = s_inject(&run, "--now swap mid kind=lua file=mid.lua");
    REFUSES(said, 1, "without --now they are finished as they began");
    said = s_inject(&run, "swap mid kind=lua file=mid.lua");
    DOES(said, "replaced mid");
    s_until_done(&run, s_number(&said, "from batch ") + 5);
    said = s_inject(&run, "--now swap mid");
    DOES(said, "replaced mid");
    s_until_done(&run, s_number(&said, "from batch ") + 5);
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}

// Who hangs keeps its batches for ever: --now gives them to the new one.
Test(inject_swap, now_cures_an_actor_that_hangs, .timeout = 600)
{
    run_t run;
    run_start(&run, CHAIN(FOREVER, "busy_ms = 1\n", "liveness = 0\n", ""), "");
    s_await(&run);
    for (int i = 0; i < 5; i++) {
        s_until_done(&run, s_done_batches(&run) + 40);
        kill((pid_t) s_actor(&run, "mid", "pid"), SIGSTOP);
        said_t said = s_inject(&run, "--now swap mid");
        DOES(said, "replaced mid");
        s_until_done(&run, s_number(&said, "from batch ") + 40);
    }
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}

#define SHORT_CHAIN CHAIN("steps = 12\nmax_in_flight = 12\n", "", "busy_ms = 200\nliveness = 0\n", "")

// Where all batches have their permits none is left to be the first of the revision; who takes over has the others.
Test(inject_swap, now_cures_an_actor_that_hangs_in_the_last_batches, .timeout = 600)
{
    for (int killed = 0; killed < 2; killed++) {
        run_t run;
        run_start(&run, SHORT_CHAIN, "");
        s_await(&run);
        s_until_done(&run, 1);
        kill((pid_t) s_actor(&run, "mid", "pid"), SIGSTOP);
        said_t said = s_inject(&run, "--now swap mid");
        DOES(said, "from batch 12 on: replaced mid");
        if (killed)
            s_resume(&run);
        else
            run_wait(&run, 60);
        cr_assert_eq(run.code, 0, "exit %d: %s", run.code, run.said);
        s_each_once(&run);
        run_done(&run);
    }
}

// A change that no batch is left for is refused also where it is to be in force at once.
Test(inject_swap, now_of_options_alone_is_too_late_for_the_last_batches, .timeout = 600)
{
    run_t run;
    run_start(&run, SHORT_CHAIN, "");
    s_await(&run);
    said_t said = s_inject(&run, "--now set stage.mid.busy_ms=1");
    REFUSES(said, 1, "before the change could be in force");
    s_interrupt(&run);
    run_done(&run);
}
