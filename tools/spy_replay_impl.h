// spy_replay_impl.h: the run around one replayed actor, for the files that make it: its director and its peers.
#ifndef VERL_SPY_REPLAY_IMPL_H
#define VERL_SPY_REPLAY_IMPL_H
#include "runtime/director/node.h"
#include "runtime/mailbox/address.h"
#include "runtime/mailbox/endpoint.h"
#include "runtime/topology/plan.h"
#include "tools/spy_follow_socket.h"
#include "tools/spy_replay.h"
#include "tools/spy_replay_feed.h"

#define ACTOR   (VERL_DIRECTOR + 1)         // its incarnation; peers are numbered behind it
#define CONTROL 4096                        // window of the control channels

typedef struct peer {
    verl_endpoint_t  *endpoint;
    const char       *actor;
    uint64_t          incarnation;
} peer_t;

typedef struct play {
    const verl_spy_replay_to_t *to;
    verl_plan_t      *plan;
    int               actor;                // its index in the plan
    verl_spy_feed_t   feed;
    void             *zmq;
    zsock_t          *router;
    int               epoll_fd, signal_fd;
    char              run_id[33], directory[4096], address[VERL_SPY_ADDRESS];
    verl_node_t      *node;
    verl_endpoint_t  *director;
    verl_outbound_t  *control;
    int               peers_count;
    peer_t           *peers;
    verl_spy_merge_t *merge;
    int64_t           window;               // of the channels of edges
    bool              wired, broken;
    int64_t           sent, done;           // data messages that were fed; that the actor is done with
    int64_t           progress_at;
    verl_error_t      error;
} play_t;

// spy_replay_talk.c: what the director and the peers say. -1: the reason is in play->error.
int  verl_spy_play_director(play_t *play);          // its endpoint; it answers the actor's reports from then on
int  verl_spy_play_peers(play_t *play);             // theirs; what they get they are done with at once
int  verl_spy_play_feed(play_t *play);              // sends all that was recorded
void verl_spy_play_stop(play_t *play);              // orders the end
#endif
