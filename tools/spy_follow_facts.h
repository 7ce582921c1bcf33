// spy_follow_facts.h: what is counted of the records that are shown: for the closing summary and for assertions.
#ifndef VERL_SPY_FOLLOW_FACTS_H
#define VERL_SPY_FOLLOW_FACTS_H
#include <stdint.h>
#include <stdio.h>
#include "runtime/observe/trace.h"
#include "tools/spy_assert.h"
#include "tools/spy_follow_session.h"

typedef struct verl_spy_tally {
    const verl_spy_assert_t *assertion;     // NULL: only what is cheap is counted
    verl_spy_facts_t         facts;
    uint64_t                 shown;
    int64_t                  first_t, last_t;
    int64_t                  highest;       // batch so far, + 1
    uint8_t                 *batches;       // bits: which were shown
    size_t                   batches_room;  // bytes
} verl_spy_tally_t;

void verl_spy_tally_record(verl_spy_tally_t *tally, const verl_trace_record_t *record);
void verl_spy_tally_done(verl_spy_tally_t *tally);

// Three lines as of tcpdump: shown, filtered, dropped; and what else has to be known. unshown: came beyond the last one
// shown.
void
verl_spy_tally_summary(const verl_spy_tally_t *tally, const verl_spy_totals_t *totals, const char *verb, FILE *out);
// Whether the assertion holds; where not, a line on stderr. name: the program's, for it.
bool verl_spy_tally_holds(verl_spy_tally_t *tally, const verl_spy_totals_t *totals, const char *name, const char *text);
#endif
