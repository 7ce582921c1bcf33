// A column of 256 MiB is handed over like one of 1.1 KiB (both lie in a slab): what travels is where it is. One maker
// gives both; its reader asks for the one or the other.
#include <stdio.h>
#include "tests/bench/bench.h"

#define TURNS 7

static const char s_topology[] =
    "[run]\nname = \"slab\"\nsteps = 24\nmax_in_flight = 2\n"
    "max_bytes = 2147483648\n"
    "[stage.source]\nkind = \"synthetic\"\nrows = 140\nbytes = 1917396\n"
    "[stage.sink]\nkind = \"synthetic\"\nreads = [\"id\"]\ndepends_on = [\"source\"]\n";

static int
s_measure(const char *const *settings, double *ret_us, verl_error_t *error)
{
    json_t *end = verl_bench_topology(s_topology, settings, error);
    if (!end)
        return -1;
    *ret_us = verl_bench_stage(end, "sink", "handoff_us");
    json_decref(end);
    return 0;
}

static int
s_slab(verl_bench_run_t *run, verl_error_t *error)
{
    static const char *const large[] = { "stage.sink.reads=[\"payload\"]", "stage.sink.as={payload=\"nothing\"}", NULL };
    double of_large[TURNS], of_small[TURNS];
    for (int i = 0; i < TURNS; i++)
        if (s_measure(large, &of_large[i], error) || s_measure(NULL, &of_small[i], error))
            return -1;
    verl_bench_report(run, "", verl_bench_median(of_large, TURNS), "us", "the same with a column of 1.1 KiB",
                      verl_bench_median(of_small, TURNS));
    return 0;
}

VERL_BENCH(slab, "a column of 256 MiB is handed over as fast as one of 1 KiB", s_slab)
