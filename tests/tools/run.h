// run.h: runs the real verl-run on a topology given as text, in a folder of its own, and looks at what it leaves.
#ifndef VERL_TEST_RUN_H
#define VERL_TEST_RUN_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif
#define SLOWER (SANITIZED ? 5 : 1)          // limits of time are so much longer under a sanitizer

typedef struct run {
    char   folder[64];                      // removed by run_done
    char   mark[96];                        // in the environment of all its processes
    pid_t  pid;
    int    code;                            // exit code; 128 + signal where it was killed
    char  *said;                            // both outputs
    double seconds;
} run_t;

// Writes topology.toml, starts verl-run with "--quiet --run-dir FOLDER/run" and the words of `arguments` (may be "").
void run_start(run_t *run, const char *topology, const char *arguments);
// The same after `setup`, shell commands that run in FOLDER (files for the topology, ulimit, export; "": none).
void run_start_after(run_t *run, const char *setup, const char *topology, const char *arguments);
// Waits until it ends, at most `seconds` times SLOWER; then it is killed and the test fails.
void run_wait(run_t *run, double seconds);
// Both, the start and the wait.
void run_whole(run_t *run, const char *topology, const char *arguments);
// Goes on, by `verl-run --resume`, with a run that was waited for: it is the run from now on.
void run_resume(run_t *run);
// Waits until metrics.jsonl has that many lines, at most 10 s.
void run_until_steps(const run_t *run, int steps);
// Checks that nothing of the run is left, and removes its folder.
void run_done(run_t *run);

// A file of the run directory, whole and terminated; "" where there is none. Freed by the caller.
char *run_file(const run_t *run, const char *name);
int   run_lines(const char *text);
// Processes that carry the run's mark, verl-run itself aside; writes up to `room` of their ids.
int   run_processes(const run_t *run, pid_t *ret, int room);
bool  run_said(const run_t *run, const char *words);
// The metrics without what depends on time. Freed by the caller.
char *run_timeless_metrics(const run_t *run);
#endif
