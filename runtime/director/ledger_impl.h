// ledger_impl.h: what the files of the ledger share. Not for others.
#ifndef VERL_LEDGER_IMPL_H
#define VERL_LEDGER_IMPL_H
#include "runtime/director/ledger.h"

typedef struct entry {                      // of one stage, for one batch
    bool                 done;
    int64_t              busy_ns, done_at;
    int                  count;
    verl_metric_value_t *metrics;
} entry_t;

typedef struct record {                     // of one batch
    struct record     *next;
    const verl_plan_t *plan;
    int64_t            batch;
    int                pending;             // stages that are not done
    bool               skipped;             // one of them was
    int64_t            granted_at;
    entry_t           *entries;             // one a stage
} record_t;

// ledger_line.c. The caller owns what they return.
// Of a batch that is done now; before: when the one before it was, 0: it is the first. owners: whose each metric's name
// is in the lines before, {name: {"stage", "since"}}; those of this one are added.
json_t *verl_ledger_line(const record_t *record, json_t *owners, int64_t before, int64_t now);
// As verl_ledger_way has it.
json_t *verl_ledger_record_way(const record_t *record);
#endif
