// 64 replicas of a stage that sleeps 640 ms: beside a 64th of one such stage. From two runs of different length.
#include <stdio.h>
#include "tests/bench/bench.h"

static const char s_topology[] =
    "[run]\nname = \"replicas\"\nmax_in_flight = 160\n"
    "[stage.source]\nkind = \"synthetic\"\n"
    "[stage.work]\nkind = \"synthetic\"\nbusy_ms = 640\ndepends_on = [\"source\"]\n";

static int
s_seconds(const char *steps, const char *replicas, double *ret_seconds, verl_error_t *error)
{
    const char *settings[] = { steps, replicas, NULL };
    json_t *end = verl_bench_topology(s_topology, settings, error);
    *ret_seconds = end ? json_number_value(json_object_get(end, "seconds")) : 0;
    json_decref(end);
    return end ? 0 : -1;
}

static int
s_replicas(verl_bench_run_t *run, verl_error_t *error)
{
    double few, many, one[2];
    if (s_seconds("run.steps=128", "stage.work.replicas=64", &few, error) ||
        s_seconds("run.steps=640", "stage.work.replicas=64", &many, error) ||
        s_seconds("run.steps=2", "stage.work.replicas=1", &one[0], error) ||
        s_seconds("run.steps=6", "stage.work.replicas=1", &one[1], error))
        return -1;
    verl_bench_report(run, "", (many - few) * 1000 / 512, "ms a batch", "a 64th of one replica",
                      (one[1] - one[0]) * 1000 / 4 / 64);
    return 0;
}

VERL_BENCH(replicas, "64 replicas are 64 times as fast as one", s_replicas)
