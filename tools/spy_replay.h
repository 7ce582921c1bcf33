// spy_replay.h: what the files of verl-spy replay share.
#ifndef VERL_SPY_REPLAY_H
#define VERL_SPY_REPLAY_H
#include <stdbool.h>
#include "tools/spy_follow_facts.h"
#include "tools/spy_follow_show.h"

typedef struct verl_spy_replay_to {
    const char      *path;                  // of the recording
    const char      *actor;
    int64_t          revision;              // 0: the newest whose messages were recorded for it
    verl_spy_view_t *view;                  // how what it gives is shown
    verl_spy_tally_t *tally;                // counts it, and says what has to hold
    double           timeout;               // seconds in which a batch has to be worked off; 0: 60
    bool             quiet;
} verl_spy_replay_to_t;

// Starts the actor anew from the recorded topology, feeds it the recorded batches that it was sent, and shows what it
// gives. Returns the exit code; what went wrong was said.
int verl_spy_replay_to(const verl_spy_replay_to_t *to);
#endif
