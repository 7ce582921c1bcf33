// ledger.h: which stage is done with which batch, and what it measured. A batch is done when all its stages are.
//
// Permits, the end of the run, draining and checkpoints all follow from this one account. One thread uses it.
#ifndef VERL_LEDGER_H
#define VERL_LEDGER_H
#include <jansson.h>
#include "runtime/actor/stage.h"
#include "runtime/topology/plan.h"
#include "runtime/wire/read.h"

typedef struct verl_ledger verl_ledger_t;

verl_ledger_t *verl_ledger_new(const verl_plan_t *plan);
void           verl_ledger_destroy(verl_ledger_t **ledger_p);

// The highest batch that may be granted now, given what is done and max_in_flight; grows only.
int64_t verl_ledger_grantable(const verl_ledger_t *ledger);
void    verl_ledger_grant(verl_ledger_t *ledger, int64_t last);
int64_t verl_ledger_granted(const verl_ledger_t *ledger);              // -1: none
int64_t verl_ledger_done(const verl_ledger_t *ledger);                 // batches 0 … done - 1 are done everywhere
int64_t verl_ledger_stage_done(const verl_ledger_t *ledger, int stage);// batches that it is done with
int64_t verl_ledger_stage_last(const verl_ledger_t *ledger, int stage);// the highest of them; -1: none

// A stage is done with a batch. metrics: what is left of the report, read from it. -1 with a reason: the batch was not
// granted, or was done already.
int verl_ledger_enter(verl_ledger_t *ledger, int stage, int64_t batch, bool skipped, int64_t busy_ns,
                      int64_t handoff_ns, verl_reader_t *metrics, verl_error_t *error);

// The next batch that is done everywhere, as its line of metrics.jsonl; NULL: none is. Caller owns it.
json_t *verl_ledger_take(verl_ledger_t *ledger);

int64_t verl_ledger_skipped(const verl_ledger_t *ledger);              // batches of which a stage was skipped
// Median hand-off of a stage in microseconds, over the last thousand; 0: none was seen.
double  verl_ledger_handoff(const verl_ledger_t *ledger, int stage);
#endif
