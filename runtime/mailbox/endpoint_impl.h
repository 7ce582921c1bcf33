// endpoint_impl.h: what the files of the endpoint share. Not for others.
//
// One lock guards peers, outboxes and sockets that send; the ROUTER is the mailbox thread's alone. Counters of an inbound
// channel are atomic, since the worker moves what the mailbox thread reports.
#ifndef VERL_ENDPOINT_IMPL_H
#define VERL_ENDPOINT_IMPL_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "runtime/base/clock.h"
#include "runtime/mailbox/endpoint.h"
#include "runtime/mailbox/outbox.h"

#define VERL_RESEND_NS (2 * VERL_S)         // unanswered so long: sent again
#define VERL_TICK_MS   20                   // what is queued or changed goes at the latest after that

typedef struct peer peer_t;

struct verl_outbound {
    verl_outbound_t *next;
    peer_t          *peer;
    int64_t          edge;
    verl_outbox_t    outbox;                // seq done + 1 … last
    uint64_t         last, sent;            // numbered; handed to the socket
    uint64_t         received, limit, done; // as the receiver told
    int64_t          answered_at, resend_ns;
};

typedef struct stash {                      // came before its turn
    struct stash *next;
    uint64_t      seq;
    size_t        size;
    char          bytes[];
} stash_t;

struct verl_inbound {
    verl_inbound_t  *next;
    atomic_int       refs;                  // the peer's, and those of whoever still has to say that it is done
    uint64_t         from;
    int64_t          edge, window;
    void            *tag;
    _Atomic uint64_t received, taken, done;
    uint64_t         told_received, told_taken, told_done;   // in the last status; under the lock
    bool             repeat;                                 // a duplicate came: the last status was lost
    int64_t          changed_at;                             // when the heartbeat first saw it untold; 0: it is told
    stash_t         *stash;                                  // mailbox thread only, by rising seq
};

struct peer {
    peer_t          *next;
    verl_endpoint_t *endpoint;
    uint64_t         incarnation;
    void            *dealer;
    verl_buffer_t    frame;
    verl_outbound_t *outbound;
    verl_inbound_t  *inbound;
};

struct verl_endpoint {
    void                    *zmq, *router;
    uint64_t                 incarnation;
    verl_endpoint_handlers_t handlers;
    void                    *context;
    int                      wake_fd;
    pthread_mutex_t          lock;
    peer_t                  *peers;
    verl_buffer_t            scratch;       // under the lock
    bool                     sent;          // something was, since the last heartbeat
    int64_t                  queued_at;     // when the heartbeat first saw a frame that is not sent; 0: all are
    int64_t                  sleeps_ms;     // the mailbox thread, at most, if nothing wakes it
};

// peers.c, under the lock, but for the last
peer_t          *verl_peer_find(const verl_endpoint_t *self, uint64_t incarnation);
verl_outbound_t *verl_outbound_find(peer_t *peer, int64_t edge);    // NULL: it has none, or there is no peer
verl_inbound_t  *verl_inbound_find(peer_t *peer, int64_t edge);
void             verl_peer_free(verl_endpoint_t *self, peer_t *peer);

// sending.c, under the lock
void verl_peer_flush(peer_t *peer);
void verl_peers_flush(verl_endpoint_t *self);
bool verl_peers_queued(const verl_endpoint_t *self);                // is a frame begun and not sent?
void verl_peer_put(verl_endpoint_t *self, peer_t *peer, verl_message_t *message);       // a status, a ping, an answer
void verl_outbound_send_from(verl_outbound_t *out, uint64_t from);  // what is numbered, kept and within the limit
bool verl_inbound_untold(const verl_inbound_t *in);
void verl_inbound_tell(verl_endpoint_t *self, peer_t *peer, verl_inbound_t *in);

// receiving.c: one frame, if there is one. The mailbox thread.
bool verl_endpoint_receive(verl_endpoint_t *self);
#endif
