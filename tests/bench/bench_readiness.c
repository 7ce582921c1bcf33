// Stages of 182, 98 and 15 ms in a row: pipelined, a batch costs the slowest of them; one at a time, their sum. From
// two runs of different length, so that neither start-up nor filling the pipeline counts.
#include <stdio.h>
#include "tests/bench/bench.h"

static const char s_topology[] =
    "[run]\nname = \"readiness\"\n"
    "[stage.rollout]\nkind = \"synthetic\"\nbusy_ms = 182\n"
    "[stage.reward]\nkind = \"synthetic\"\nbusy_ms = 98\ndepends_on = [\"rollout\"]\n"
    "[stage.train]\nkind = \"synthetic\"\nbusy_ms = 15\ndepends_on = [\"reward\"]\n";

static int
s_seconds(const char *steps, const char *more, double *ret_seconds, verl_error_t *error)
{
    const char *settings[] = { steps, more, NULL };
    double from = verl_bench_now();
    json_t *end = verl_bench_topology(s_topology, settings, error);
    *ret_seconds = verl_bench_now() - from;
    json_decref(end);
    return end ? 0 : -1;
}

static int
s_per_batch(const char *more, double *ret_ms, verl_error_t *error)
{
    double few, many;
    if (s_seconds("run.steps=10", more, &few, error) || s_seconds("run.steps=50", more, &many, error))
        return -1;
    *ret_ms = (many - few) * 1000 / 40;
    return 0;
}

static int
s_readiness(verl_bench_run_t *run, verl_error_t *error)
{
    double together, alone;
    if (s_per_batch(NULL, &together, error) || s_per_batch("run.max_in_flight=1", &alone, error))
        return -1;
    verl_bench_report(run, "pipelined", together, "ms a batch", "the slowest stage", 182);
    verl_bench_report(run, "one_at_a_time", alone, "ms a batch", "the sum of the stages", 182 + 98 + 15);
    return 0;
}

VERL_BENCH(readiness, "a pipeline is as fast as its slowest stage", s_readiness)
