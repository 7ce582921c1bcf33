// stage.h: a stage as its handler knows it (verl_stage_t): options, state, what it says while it runs.
//
// A stage has no sockets. What it says goes to a reporter, which the host sends to the director and a test keeps.
#ifndef VERL_STAGE_H
#define VERL_STAGE_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "runtime/base/error.h"
#include "runtime/include/verl.h"
#include "runtime/topology/plan.h"

// How a metric's values become one: by its last part.
typedef enum { VERL_REDUCE_MEAN, VERL_REDUCE_MAX, VERL_REDUCE_MIN, VERL_REDUCE_SUM } verl_reduce_t;
verl_reduce_t verl_reduce_of(const char *metric);

#define VERL_REPORT_NAME 256                // bytes, with its end, of a metric's name or of what was loaded, at most

typedef struct verl_metric_value {
    char  *name;
    double value, weight;                   // mean: weighted sum and sum of weights
} verl_metric_value_t;

typedef struct verl_reporter {
    void (*sample)(void *context, const verl_stage_t *stage, const char *prompt, const char *response, double score);
    void (*log)(void *context, const verl_stage_t *stage, const char *text);
    void (*loaded)(void *context, const verl_stage_t *stage, const char *what, double seconds);
    void *context;
} verl_reporter_t;

struct verl_stage {
    const char              *name;
    const verl_kind_t       *kind;
    const verl_stage_kind_t *handler;
    void                    *state;         // the actor's, shared by its stages
    void                    *options;
    uint64_t                 seed;          // of its random streams
    int64_t                  steps;
    verl_span_t              span;          // of its batches; every one, unless the host says otherwise
    verl_reporter_t          reporter;
    const atomic_bool       *stopping;      // of the host
    pthread_mutex_t         *stop_lock;     // under which it is set, and …
    pthread_cond_t          *stop_signal;   // … what tells (CLOCK_MONOTONIC); NULL: nobody does

    int64_t                  first;         // the first batch that may be its own
    int64_t                  batch;         // that it works on
    int64_t                  version;       // of the weights
    verl_error_t             error;
    _Atomic double           progress;
    int64_t                  moved;         // ns of this run of the handler that it says went into moving bytes
    int                      metrics_count, metrics_room;
    verl_metric_value_t     *metrics;       // of this batch, in the order in which they were first named
};

// Sets up a stage: options from values, its seed from the run's seed and its name. state is borrowed. Returns 0 or -1.
int  verl_stage_init(verl_stage_t *stage, const char *name, const verl_kind_t *kind, const verl_stage_kind_t *handler,
                     void *state, const verl_value_t *options, uint64_t run_seed, int64_t steps, verl_error_t *error);
void verl_stage_done(verl_stage_t *stage);
void verl_stage_forget_metrics(verl_stage_t *stage);
// Why it failed; `fallback` where it gave no reason.
const char *verl_stage_reason(const verl_stage_t *stage, const char *fallback);

// The value of a reduced metric.
double verl_metric_reduced(const verl_metric_value_t *metric);
#endif
