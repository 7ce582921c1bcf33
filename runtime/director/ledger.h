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

// first: the batch that the run begins with; > 0 where it goes on from a checkpoint.
verl_ledger_t *verl_ledger_new(int64_t first);
void           verl_ledger_destroy(verl_ledger_t **ledger_p);

// The highest batch that may be granted now under a plan, given what is done and its max_in_flight; grows only.
int64_t verl_ledger_grantable(const verl_ledger_t *ledger, const verl_plan_t *plan);
// Grants up to `last` under a plan (borrowed while batches of it are alive, and known by its pointer).
void    verl_ledger_grant(verl_ledger_t *ledger, int64_t last, const verl_plan_t *plan);
int64_t verl_ledger_granted(const verl_ledger_t *ledger);              // first - 1: none
int64_t verl_ledger_done(const verl_ledger_t *ledger);                 // batches before it are done everywhere
// By the name of a stage, whatever revisions it was of: batches that it is done with, and the highest of them; -1: none.
int64_t verl_ledger_stage_done(const verl_ledger_t *ledger, const char *stage);
int64_t verl_ledger_stage_last(const verl_ledger_t *ledger, const char *stage);
// Of a batch that is alive: is a stage of its plan done with it, and the plan. NULL: it is not alive.
const verl_plan_t *verl_ledger_plan(const verl_ledger_t *ledger, int64_t batch);
bool    verl_ledger_has_done(const verl_ledger_t *ledger, int64_t batch, int stage);
// Nobody waits for a stage any more: it counts as done with all batches of the plan, also with later ones.
void    verl_ledger_ignore(verl_ledger_t *ledger, const verl_plan_t *plan, int stage);
// The plan goes, of which no batch is alive: another may come to lie where it lay.
void    verl_ledger_forget(verl_ledger_t *ledger, const verl_plan_t *plan);

// A stage of a plan is done with a batch. metrics: what is left of the report, read from it. A batch that it was done with
// already (a successor does some again) is passed over. -1 with a reason: the batch was never granted under this plan.
int verl_ledger_enter(verl_ledger_t *ledger, const verl_plan_t *plan, int stage, int64_t batch, bool skipped,
                      int64_t busy_ns, int64_t handoff_ns, verl_reader_t *metrics, verl_error_t *error);

// The way of a batch that is alive, or is one of the last 64: {"seconds" since its permit, or all that it took, "revision",
// "stages": [{"name", "from", "to"}]} of those that are done with it, in seconds after the permit; from: as if its handler
// had run without a break until it was done. NULL: it is not known any more, or not yet. Caller owns it.
json_t *verl_ledger_way(const verl_ledger_t *ledger, int64_t batch);

// The next batch that is done everywhere, as its line of metrics.jsonl, and whether some stage skipped it; NULL: none
// is. Caller owns it.
json_t *verl_ledger_take(verl_ledger_t *ledger, bool *ret_skipped);

// Whose a metric's name is, as lines of batches below `before` show it: {name: stage}, for a life that goes on from there.
// Caller owns it. / Borrowed; NULL: nothing is known of lines before the first.
json_t *verl_ledger_owners(const verl_ledger_t *ledger, int64_t before);
void    verl_ledger_own(verl_ledger_t *ledger, json_t *owners);

// Median hand-off of a stage in microseconds, over the last thousand; 0: none was seen.
double  verl_ledger_handoff(const verl_ledger_t *ledger, const char *stage);
#endif
