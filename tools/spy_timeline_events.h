// spy_timeline_events.h: what was seen of a run, as a timeline that trace viewers (Perfetto, chrome://tracing) show:
// processes are actors, threads their stages, complete events their handlers' runs; a flow leads from the run that sent
// data to the run that took it, a counter says how many batches wait for a stage.
//
// Everything is kept until it is written, since a flow's ends are known only then. A flow is written where both of its
// runs were seen, else it is counted as open.
#ifndef VERL_SPY_TIMELINE_EVENTS_H
#define VERL_SPY_TIMELINE_EVENTS_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "runtime/observe/trace.h"

#define VERL_TIMELINE_MOST (1 << 21)        // runs and messages together

typedef struct verl_timeline verl_timeline_t;

typedef struct verl_timeline_counts {
    int64_t runs, messages, flows, open;    // open: messages one end of whose flow was not seen
    bool    full;                           // there was more than may be kept
} verl_timeline_counts_t;

verl_timeline_t *verl_timeline_new(void);   // NULL without memory
void             verl_timeline_destroy(verl_timeline_t **timeline_p);

// A record of kind RAN or DATA; others are passed over. False: it is full, or there is no memory.
bool verl_timeline_add(verl_timeline_t *timeline, const verl_trace_record_t *record);

// The whole as one JSON object of the trace event format. title: of the run. -1: it could not be written.
int verl_timeline_write(verl_timeline_t *timeline, FILE *out, const char *title, verl_timeline_counts_t *ret_counts);
#endif
