// spy_follow_session.h: follows a live run: asks its director for a trace, takes what the actors send, gives them
// credit.
//
// Records are handed over in the order of their times (what comes within 40 ms of each other is put in order); frames
// as they came, for whoever keeps them. The counts of each actor are cumulative and exact. One thread; only step and
// finish wait.
#ifndef VERL_SPY_FOLLOW_SESSION_H
#define VERL_SPY_FOLLOW_SESSION_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/error.h"
#include "runtime/observe/filter.h"
#include "runtime/observe/trace.h"
#include "tools/client.h"

typedef struct verl_spy_session verl_spy_session_t;

typedef struct verl_spy_listener {
    // A record, in order; it and what it points to live until the call returns. False: no more of them.
    bool (*record)(void *context, const verl_trace_record_t *record);
    // Optional: a frame as it came, before its records. -1 with a reason ends the session.
    int  (*frame)(void *context, const char *bytes, size_t size, verl_error_t *error);
    // Optional: what is due was handed over; the session may wait now. False: no more.
    bool (*pause)(void *context);
    void *context;
} verl_spy_listener_t;

typedef struct verl_spy_totals {
    int64_t             parties;            // actors (and the director) that told anything
    int64_t             unfinished;         // of these: did not tell their last counts, since they died
    verl_trace_counts_t counts;             // of all of them
    uint64_t            came;               // records; sent - came were lost on the way
    uint64_t            malformed;          // frames that were none
    char                slowest[VERL_TRACE_NAME];   // whose copies were dropped most; "": nobody's
    uint64_t            slowest_dropped;
} verl_spy_totals_t;

typedef enum {
    VERL_SPY_GOES_ON,
    VERL_SPY_ENOUGH,                        // the listener wants no more
    VERL_SPY_RUN_ENDED,
    VERL_SPY_INTERRUPTED,                   // SIGINT, SIGTERM or SIGHUP
    VERL_SPY_FAILED,
} verl_spy_state_t;

// run: a run directory; NULL: the newest live run. NULL with the reason. Blocks SIGINT, SIGTERM and SIGHUP, which end a
// step from then on.
verl_spy_session_t *verl_spy_session_open(const char *run, const verl_filter_t *filter,
                                          const verl_spy_listener_t *listener, verl_error_t *error);
// Waits up to wait_ms for what comes and hands over what is due.
verl_spy_state_t verl_spy_session_step(verl_spy_session_t *session, int wait_ms, verl_error_t *error);
// Steps until something ends it, or for so many seconds (0: without end): GOES_ON.
verl_spy_state_t verl_spy_session_run(verl_spy_session_t *session, double seconds, verl_error_t *error);
// Ends the trace and waits, at most a second, for the last counts of all; hands over what came until then.
void verl_spy_session_finish(verl_spy_session_t *session);
void verl_spy_session_close(verl_spy_session_t **session_p);

void        verl_spy_session_totals(const verl_spy_session_t *session, verl_spy_totals_t *ret);
const char *verl_spy_session_directory(const verl_spy_session_t *session);
int         verl_spy_session_parties(const verl_spy_session_t *session);   // that were told to trace
// The client, for other questions before the first step. / What is added to times to get ns since 1970.
verl_client_t *verl_spy_session_client(const verl_spy_session_t *session);
int64_t        verl_spy_clock_offset(void);
#endif
