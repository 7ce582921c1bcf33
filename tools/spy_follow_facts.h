// spy_follow_facts.h: what is counted of the records that are shown: for the closing summary and for assertions.
#ifndef VERL_SPY_FOLLOW_FACTS_H
#define VERL_SPY_FOLLOW_FACTS_H
#include <stdint.h>
#include <stdio.h>
#include "runtime/observe/trace.h"
#include "tools/spy_assert.h"
#include "tools/spy_follow_session.h"

typedef struct verl_spy_tally {
    verl_spy_assert_t       *assertion;     // owned; NULL: only what is cheap is counted
    const char              *text;          // what was asked for
    verl_spy_facts_t         facts;
    uint64_t                 shown;
    int64_t                  first_t, last_t;
    uint8_t                 *batches;       // bits: which were shown
    size_t                   batches_room;  // bytes
    uint64_t                 unseen;        // columns that may have NaNs, and bodies, of which the numbers did not come
} verl_spy_tally_t;

// Takes --assert EXPR at words[*at]. Returns 1 where it was that, 0 where not, -1 where it is wrong (said).
int verl_spy_tally_option(verl_spy_tally_t *tally, const char *command, int count, char **words, int *at);
// The assertion needs the numbers of big columns, which their senders have to be asked for (--stats).
bool verl_spy_tally_needs_stats(const verl_spy_tally_t *tally);
void verl_spy_tally_record(verl_spy_tally_t *tally, const verl_trace_record_t *record);
void verl_spy_tally_done(verl_spy_tally_t *tally);

// Three lines as of tcpdump: shown, filtered, dropped; and what else has to be known.
void
verl_spy_tally_summary(const verl_spy_tally_t *tally, const verl_spy_totals_t *totals, const char *verb, FILE *out);
// Whether the assertion holds, if there is one; where not, a line on stderr. name: the program's, for it.
bool verl_spy_tally_holds(verl_spy_tally_t *tally, const verl_spy_totals_t *totals, const char *name);
#endif
