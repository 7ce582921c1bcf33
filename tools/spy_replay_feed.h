// spy_replay_feed.h: what one actor was sent in a recorded run, and the plan by which it was.
#ifndef VERL_SPY_REPLAY_FEED_H
#define VERL_SPY_REPLAY_FEED_H
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/error.h"
#include "runtime/topology/plan.h"

typedef struct verl_spy_morsel {            // one message
    int     edge;                           // of the plan
    int64_t revision, batch, part, parts;
    char   *body;                           // a packed batch with all its bytes inside; empty: skipped
    size_t  size;
} verl_spy_morsel_t;

typedef struct verl_spy_feed {
    size_t             count, room;         // all of one revision
    verl_spy_morsel_t *items;               // by rising batch and part on each edge, each once
    int64_t            first, last;         // batches of data
} verl_spy_feed_t;

// Reads a recording: of a revision (0: the newest that sent the actor anything) the first stretch of batches of which
// all came that the actor waits for. Kinds have to be registered before. -1 with a reason: no such actor or revision,
// nothing for it, bytes missing (it was recorded without --values). *ret_plan, of that revision, is the caller's.
int  verl_spy_feed_read(verl_spy_feed_t *feed, const char *path, const char *actor, int64_t revision,
                        verl_plan_t **ret_plan, verl_error_t *error);
void verl_spy_feed_done(verl_spy_feed_t *feed);
#endif
