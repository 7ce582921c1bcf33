// bench.h: what a benchmark is, and what benchmarks share.
//
// A benchmark measures a promise beside its peer or its limit, in the same run and in turns with it, so that whatever
// else the machine does falls on both. One file a benchmark, bench_NAME.c, ends with VERL_BENCH (NAME, …); the build
// finds it.
#ifndef VERL_BENCH_H
#define VERL_BENCH_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/error.h"

typedef struct verl_bench_run verl_bench_run_t;     // of one benchmark

typedef struct verl_bench {
    const char *name;
    const char *about;                      // one sentence without a full stop: the promise
    // Reports figures; -1 with the reason where it cannot measure.
    int (*run)(verl_bench_run_t *run, verl_error_t *error);
} verl_bench_t;

#define VERL_BENCH(symbol, about_, run_) \
    extern const verl_bench_t verl_bench_##symbol; \
    const verl_bench_t verl_bench_##symbol = { .name = #symbol, .about = about_, .run = run_ };

extern const verl_bench_t *const verl_benches[];    // ends with NULL

// One figure: ours beside its reference, both in `unit`. part: what is measured, behind the benchmark's name; "" for
// the only figure. Printed at once.
void verl_bench_report(verl_bench_run_t *run, const char *part, double ours, const char *unit, const char *reference,
                       double value);

double verl_bench_median(double *values, int count);        // sorts them
double verl_bench_now(void);                                // seconds, of the monotonic clock

// Runs the two ends of a link, each in a process of its own that has no thread or socket of ours. Both get `argument`
// and an address that is theirs alone; the first one's result comes back. -1 where one dies or takes over `seconds`.
typedef double (*verl_bench_end_t)(const char *address, void *argument);
int verl_bench_pair(verl_bench_end_t first, verl_bench_end_t second, void *argument, double seconds, double *ret_result,
                    verl_error_t *error);

// A run of the verl-run beside this program, in a folder of its own that is removed.
typedef struct verl_bench_child {
    int  pid;
    char folder[64];
    bool reaped;
} verl_bench_child_t;

// topology: TOML; settings: NULL-terminated KEY=VALUE, or NULL.
int     verl_bench_start(verl_bench_child_t *child, const char *topology, const char *const *settings,
                         verl_error_t *error);
// Waits for its end. Returns the object that `verl-run --json` prints last (decref it), NULL with the reason otherwise.
json_t *verl_bench_finish(verl_bench_child_t *child, verl_error_t *error);
// Both.
json_t *verl_bench_topology(const char *topology, const char *const *settings, verl_error_t *error);
// A figure of one stage in that object ("handoff_us", "busy_seconds"); NaN where there is none.
double  verl_bench_stage(const json_t *end, const char *stage, const char *figure);

// Processes of a run: verl-run and its actors. Returns how many, at most `room`.
int verl_bench_processes(const verl_bench_child_t *child, int *pids, int room);
#endif
