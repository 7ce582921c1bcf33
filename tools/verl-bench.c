// verl-bench: measures each promise beside its peer or limit, in the same run.
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/bench/bench.h"

struct verl_bench_run {
    const verl_bench_t *bench;
    bool                json;
};

static const char s_help[] =
    "usage: verl-bench [--json] [--list] [NAME…]\n"
    "\n"
    "Measures each promise beside its peer or limit in the same run, and prints name, ours, unit, reference, its\n"
    "value, ratio (ours / reference). Without a NAME: all of them, which takes a few minutes.\n"
    "Exit code: 0 all were measured, 1 one could not be, 2 wrong usage.\n";

// Three figures that count: 0.0123, 1.23, 123, 1234567.
static const char *
s_figure(double value, char *text, size_t size)
{
    double magnitude = fabs(value);
    int decimals = magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : magnitude >= 1 ? 2 : magnitude >= 0.1 ? 3 : 4;
    snprintf(text, size, "%.*f", decimals, value);
    return text;
}

void
verl_bench_report(verl_bench_run_t *run, const char *part, double ours, const char *unit, const char *reference,
                  double value)
{
    char name[128], figures[3][48];
    double ratio = value > 0 ? ours / value : (double) NAN;
    snprintf(name, sizeof name, "%s%s%s", run->bench->name, *part ? "." : "", part);
    if (run->json) {
        json_t *line = json_pack("{s:s, s:f, s:s, s:s, s:f}", "name", name, "ours", ours, "unit", unit, "reference",
                                 reference, "value", value);
        if (line && isfinite(ratio))
            json_object_set_new(line, "ratio", json_real(ratio));
        char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
        printf("%s\n", text ? text : "{}");
        free(text);
        json_decref(line);
    } else
        printf("%-22s %10s %-16s %-44s %10s %7s\n", name, s_figure(ours, figures[0], sizeof figures[0]), unit,
               reference,
               s_figure(value, figures[1], sizeof figures[1]),
               isfinite(ratio) ? s_figure(ratio, figures[2], sizeof figures[2]) : "-");
    fflush(stdout);
}

static const verl_bench_t *
s_find(const char *name)
{
    for (int i = 0; verl_benches[i]; i++)
        if (strcmp(verl_benches[i]->name, name) == 0)
            return verl_benches[i];
    return NULL;
}

static int
s_list(void)
{
    for (int i = 0; verl_benches[i]; i++)
        printf("%-12s %s\n", verl_benches[i]->name, verl_benches[i]->about);
    return 0;
}

static bool
s_run(const verl_bench_t *bench, bool json)
{
    verl_bench_run_t run = { .bench = bench, .json = json };
    verl_error_t error = { "" };
    if (bench->run(&run, &error) == 0)
        return true;
    fprintf(stderr, "verl-bench: %s: %s\n", bench->name, error.text[0] ? error.text : "no reason was given");
    return false;
}

int
main(int count, char **words)
{
    static const struct option options[] = { { "json", no_argument, NULL, 'j' }, { "list", no_argument, NULL, 'l' },
                                             { "help", no_argument, NULL, 'h' }, { 0 } };
    bool json = false, well = true;
    int option;
    while ((option = getopt_long(count, words, "h", options, NULL)) >= 0) {
        if (option == 'l')
            return s_list();
        if (option != 'j') {
            fputs(s_help, option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 2;
        }
        json = true;
    }
    for (int i = optind; i < count; i++)
        if (!s_find(words[i])) {
            fprintf(stderr, "verl-bench: there is no benchmark '%s': verl-bench --list names them\n", words[i]);
            return 2;
        }
    if (!json)
        printf("%-22s %10s %-16s %-44s %10s %7s\n", "name", "ours", "unit", "reference", "value", "ratio");
    fflush(stdout);                         // before anything forks
    for (int i = optind; i < count; i++)
        well &= s_run(s_find(words[i]), json);
    for (int i = 0; optind == count && verl_benches[i]; i++)
        well &= s_run(verl_benches[i], json);
    return well ? 0 : 1;
}
