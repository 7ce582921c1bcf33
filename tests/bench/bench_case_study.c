// The case study: topologies/case-study/after.toml beside before.toml, in batches a second once they are under way
// (from two runs of different length).
#include <stdio.h>
#include <stdlib.h>
#include "tests/bench/bench.h"

static char *
s_topology(const char *name, verl_error_t *error)
{
    char path[600], *text = NULL;
    size_t room = 0;
    snprintf(path, sizeof path, VERL_SOURCE_DIR "/topologies/case-study/%s.toml", name);
    FILE *file = fopen(path, "re");
    if (!file || getdelim(&text, &room, 0, file) < 0) {
        verl_error_set(error, "cannot read %s", path);
        free(text);
        text = NULL;
    }
    if (file)
        fclose(file);
    return text;
}

static int
s_seconds(const char *topology, const char *steps, double *ret_seconds, verl_error_t *error)
{
    const char *settings[] = { steps, NULL };
    json_t *end = verl_bench_topology(topology, settings, error);
    *ret_seconds = end ? json_number_value(json_object_get(end, "seconds")) : 0;
    json_decref(end);
    return end ? 0 : -1;
}

static int
s_rate(const char *name, double *ret_rate, verl_error_t *error)
{
    char *topology = s_topology(name, error);
    double few, many;
    int failed = !topology || s_seconds(topology, "run.steps=8", &few, error) ||
                 s_seconds(topology, "run.steps=32", &many, error);
    free(topology);
    if (failed)
        return -1;
    *ret_rate = 24 / (many - few);
    return 0;
}

static int
s_case_study(verl_bench_run_t *run, verl_error_t *error)
{
    double before, after;
    if (s_rate("before", &before, error) || s_rate("after", &after, error))
        return -1;
    verl_bench_report(run, "", after, "batches a second", "2.9 times as many as before.toml", 2.9 * before);
    return 0;
}

VERL_BENCH(case_study, "a run with three diseases is at least 2.9 times as fast without them", s_case_study)
