// Three stages that each take 1 ms a row, one batch of 64 rows at a time: cut into 8 parts by the first, the others begin
// with its first rows. Beside the same in whole batches, which costs the sum of the three.
#include <stdio.h>
#include "tests/bench/bench.h"

static const char s_topology[] =
    "[run]\nname = \"parts\"\nmax_in_flight = 1\n"
    "[stage.source]\nkind = \"synthetic\"\nrows = 64\n"
    "[stage.first]\nkind = \"" VERL_BENCH_KINDS "/slow_rows.so\"\ndepends_on = [\"source\"]\n"
    "[stage.second]\nkind = \"" VERL_BENCH_KINDS "/slow_rows.so\"\ndepends_on = [\"first\"]\n"
    "[stage.third]\nkind = \"" VERL_BENCH_KINDS "/slow_rows.so\"\ndepends_on = [\"second\"]\n";

// Of a batch, from two runs of different length, so that the start does not count.
static int
s_measure(const char *more, double *ret_ms, verl_error_t *error)
{
    double seconds[2];
    for (int i = 0; i < 2; i++) {
        const char *settings[] = { i ? "run.steps=16" : "run.steps=4", more, NULL };
        double from = verl_bench_now();
        json_t *end = verl_bench_topology(s_topology, settings, error);
        seconds[i] = verl_bench_now() - from;
        json_decref(end);
        if (!end)
            return -1;
    }
    *ret_ms = (seconds[1] - seconds[0]) * 1000 / 12;
    return 0;
}

static int
s_parts(verl_bench_run_t *run, verl_error_t *error)
{
    double cut, whole;
    if (s_measure("stage.first.parts=8", &cut, error) || s_measure(NULL, &whole, error))
        return -1;
    verl_bench_report(run, "", cut, "ms a batch", "the same in whole batches", whole);
    return 0;
}

VERL_BENCH(parts, "stages behind each other begin with the first rows of a batch that comes in parts", s_parts)
