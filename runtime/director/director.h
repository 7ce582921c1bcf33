// director.h: runs a plan to its end: starts the actors, grants permits, keeps the ledger, sees deaths, writes what the
// run leaves. The director is never on a tensor's way.
#ifndef VERL_DIRECTOR_H
#define VERL_DIRECTOR_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/error.h"
#include "runtime/topology/plan.h"

// What a stage is doing, for people.
typedef struct verl_stage_view {
    const char *name;
    const char *state;                      // "starting", "preparing", "running", "waiting", "paused", "done"
    int64_t     batch;                      // that it works on, or did last; -1: none yet
    int64_t     done, total;                // batches
    int64_t     queue;                      // batches that its dependencies have done and it has not
    double      age;                        // seconds in the handler that runs now; 0: none does
    double      progress;                   // of that handler, as it says itself
} verl_stage_view_t;

typedef struct verl_run_view {
    int                      stages_count;
    const verl_stage_view_t *stages;        // in the plan's order
    int64_t                  done, total;   // batches of the run
    double                   seconds;       // since the first permit
} verl_run_view_t;

// Called by the director's thread; all optional. They must not block for long.
typedef struct verl_observer {
    void (*step)(void *context, const json_t *metrics);                 // a batch is done everywhere, in order
    void (*sample)(void *context, const char *stage, int64_t batch, const char *prompt, const char *response,
                   double score);
    void (*view)(void *context, const verl_run_view_t *view);           // a few times a second, and at the end
    void (*log)(void *context, const char *text);
    void (*lost)(void *context, const char *text);                      // an actor was, and the run goes on; NULL: log
    void  *context;
} verl_observer_t;

// How a stage spent its time: shares of the whole, which add to 1.
typedef struct verl_stage_times {
    char        name[256];
    int64_t     batches;                    // that it worked on; one that it did again counts again
    double      busy, moving, waiting_data, waiting_weights, blocked, waiting_worker;   // shares; moving: bytes
    double      busy_seconds;
    double      handoff_us;                 // median, from its newest input being ready to its handler's start; 0: unknown
} verl_stage_times_t;

typedef struct verl_run_result {
    bool    interrupted;                    // ended early, as the user asked, and did not fail on the way
    int64_t done;                           // batches
    int64_t revision;                       // that was in force at the end; 0: none was
    verl_plan_t *plan;                      // of that one, destroyed by verl_run_result_done; NULL: it is the config's
    int64_t skipped;                        // of those that this process did, where a stage failed (on_error = "skip")
    double  seconds;                        // since the first permit, with all ways back to a checkpoint
    char    checkpoint[4096];               // the last one; empty: none
    int     stages_count;
    verl_stage_times_t *times;              // freed by it, too
} verl_run_result_t;

typedef struct verl_run_config {
    verl_plan_t       *plan;                // borrowed; where the run is resumed: any of its revisions
    bool               resume;              // go on from the last checkpoint in run_directory
    bool               script;              // a script of the run's own will say when the first permit may be given
    const char        *run_directory;       // exists, with topology.toml in it
    const char        *actor_program;       // path of verl-actor
    int                signal_fd;           // a signalfd for SIGINT and SIGTERM, which the caller has blocked
    bool               watched;             // somebody looks at views: ask for them often
    verl_observer_t    observer;
} verl_run_config_t;

// Blocks until the run has ended and nothing of it is left. Returns 0 when it is done or was drained on request, -1 with
// the reason otherwise.
int  verl_director_run(const verl_run_config_t *config, verl_run_result_t *ret_result, verl_error_t *error);
void verl_run_result_done(verl_run_result_t *result);
#endif
