// spy_follow_merge.h: what came from many actors, put in the order of its times; what of it was taken, as their credit.
//
// Invariant: an actor's credit moves only when what it sent was handed over, so that what waits here is bounded. No
// sockets.
#ifndef VERL_SPY_FOLLOW_MERGE_H
#define VERL_SPY_FOLLOW_MERGE_H
#include "tools/spy_follow_session.h"

#define VERL_SPY_HOLD_NS (40 * 1000000LL)   // what is that old is not waited for any more

typedef struct verl_spy_merge verl_spy_merge_t;

// records, bytes: the credit that each actor begins with. NULL without memory.
verl_spy_merge_t *verl_spy_merge_new(uint64_t records, uint64_t bytes);
void              verl_spy_merge_destroy(verl_spy_merge_t **merge_p);

// Copies a frame of the actor behind a routing id. -1: malformed (counted), or no memory.
int
verl_spy_merge_add(verl_spy_merge_t *merge, const char *routing, size_t routing_size, const char *bytes, size_t size);
// The oldest record if it is not younger than `until` (ns), valid until pop; NULL: there is none.
const verl_trace_record_t *verl_spy_merge_next(verl_spy_merge_t *merge, int64_t until);
void verl_spy_merge_pop(verl_spy_merge_t *merge);
// Milliseconds until the oldest record is old enough; -1: there is none.
int  verl_spy_merge_wait_ms(const verl_spy_merge_t *merge);

typedef struct verl_spy_credit {
    const char *routing;
    size_t      routing_size;
    uint64_t    records, bytes;             // allowed in all
} verl_spy_credit_t;
// The next actor whose credit has moved by a quarter; false: none.
bool verl_spy_merge_credit(verl_spy_merge_t *merge, verl_spy_credit_t *ret);

void verl_spy_merge_totals(const verl_spy_merge_t *merge, verl_spy_totals_t *ret);
int  verl_spy_merge_finished(const verl_spy_merge_t *merge);       // actors that told their last counts
#endif
