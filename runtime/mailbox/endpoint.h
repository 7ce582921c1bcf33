// endpoint.h: one party of a run: the socket that it is spoken to by, and the channels to and from its peers.
//
// ZeroMQ carries the frames; the guarantee is ours. A channel is one edge between two incarnations: its messages are
// numbered, delivered once and in order, kept by the sender until the receiver is done with them, and sent again while
// they stay unanswered. Every party owns one ROUTER, by which it only receives, and a DEALER to each peer, by which it
// only sends.
//
// Threads: one thread, the mailbox thread, calls verl_endpoint_step and never runs an actor's code. Any thread may
// send, take, finish and flush. Handlers are called by the mailbox thread without a lock of ours held.
#ifndef VERL_ENDPOINT_H
#define VERL_ENDPOINT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/error.h"
#include "runtime/wire/message.h"

typedef struct verl_endpoint verl_endpoint_t;
typedef struct verl_outbound verl_outbound_t;   // a channel, at its sender
typedef struct verl_inbound  verl_inbound_t;    // a channel, at its receiver

typedef struct verl_endpoint_handlers {
    // A numbered message, once and in order. The body is valid until the call returns. -1 (with a reason): it is not
    // what the channel may carry.
    int  (*message)(void *context, verl_inbound_t *inbound, const verl_message_t *message, verl_error_t *error);
    // The receiver is done with a message: its tag comes back.
    void (*done)(void *context, void *tag);
    // Optional. A party asks what the worker does: write the body of the answer. / An answer came.
    void (*ping)(void *context, verl_buffer_t *body);
    void (*pong)(void *context, const verl_message_t *message);
    // Optional. Something came that cannot be believed.
    void (*malformed)(void *context, const char *reason);
    // Optional. A message of this party's own making goes out: a status, a ping, an answer, or one of an edge below 0 (the
    // sender of data has more to tell of it). Called by whoever sends, under the endpoint's lock: it must not call back.
    void (*trace)(void *context, const verl_message_t *message);
} verl_endpoint_handlers_t;

// Binds `address` ("ipc://@name"). zmq is a libzmq context of this process, borrowed.
verl_endpoint_t *verl_endpoint_new(void *zmq, uint64_t incarnation, const char *address,
                                   const verl_endpoint_handlers_t *handlers, void *context, verl_error_t *error);
// Closes all sockets; what is not done with is dropped, so drain before. Only when no other thread uses it any more.
void verl_endpoint_destroy(verl_endpoint_t **endpoint_p);

// Connects to a peer, once. Never blocks: what is sent before the peer is there waits in its socket.
int verl_endpoint_connect(verl_endpoint_t *endpoint, uint64_t incarnation, const char *address, verl_error_t *error);

// Channels. `window`: messages that the receiver lets come before it takes the first (credit); both ends name the same.
// Both return the channel that is there already if there is one, and NULL without memory or peer. They live until
// they are closed, or their peer is. Inbound channels are opened by the mailbox thread, or before it begins.
verl_outbound_t *verl_outbound_open(verl_endpoint_t *endpoint, uint64_t to, int64_t edge, int64_t window);
verl_inbound_t  *verl_inbound_open(verl_endpoint_t *endpoint, uint64_t from, int64_t edge, int64_t window,
                                   void *tag);
void    *verl_inbound_tag(const verl_inbound_t *inbound);
uint64_t verl_inbound_from(const verl_inbound_t *inbound);
uint64_t verl_outbound_to(const verl_outbound_t *outbound);
uint64_t verl_outbound_last(const verl_outbound_t *outbound);    // the number of the message that was queued last
int64_t  verl_outbound_credit(const verl_outbound_t *outbound);  // messages that would go out at once; 0: they wait
// Whoever may still say `done` after the channel is closed holds it meanwhile.
verl_inbound_t *verl_inbound_hold(verl_inbound_t *inbound);
void            verl_inbound_release(verl_inbound_t *inbound);
// Closes a channel, and with the last one the connection to its peer. What was kept comes back by `done`. By the mailbox
// thread, when nobody sends on it any more.
void verl_outbound_close(verl_outbound_t *outbound);
void verl_inbound_close(verl_endpoint_t *endpoint, verl_inbound_t *inbound);
// The receiver of `from` is gone and that of `outbound` takes its place: it gets all that was kept, numbered anew. Returns
// -1 without memory: then the last of it is still in `from`.
int  verl_outbound_inherit(verl_outbound_t *outbound, verl_outbound_t *from);
int64_t  verl_inbound_edge(const verl_inbound_t *inbound);

// Queues one message (fields type, edge, from, to, seq are filled in; the body is copied). It goes out with the next
// flush, or at once where 8 KiB wait, as far as the receiver's limit lets it. Never blocks. -1 without memory.
int  verl_outbound_send(verl_outbound_t *outbound, const verl_message_t *message, void *tag);
// Hands what is queued to the socket: to one peer, to all.
void verl_outbound_flush(verl_outbound_t *outbound);
void verl_endpoint_flush(verl_endpoint_t *endpoint);

// The receiver took `count` more messages out of its mailbox: the limit moves. / It is done with so many more, in the
// order in which they came. The status goes with verl_endpoint_acknowledge, or with the next heartbeat.
void verl_inbound_taken(verl_inbound_t *inbound, int64_t count);
void verl_inbound_done(verl_inbound_t *inbound, int64_t count);
// Sends the statuses that changed, and before them what is queued. `urgent` false: only of channels of which a quarter of
// the window is used up; what stays untold or queued goes within 20 ms.
void verl_endpoint_acknowledge(verl_endpoint_t *endpoint, bool urgent);

int verl_endpoint_ping(verl_endpoint_t *endpoint, uint64_t to, int64_t number);

// The mailbox thread: receives and handles what is there, else waits up to timeout_ms (-1: for ever) for messages, for
// `fd` (-1: none) to be readable, or a wake. Sends again what stayed unanswered. Returns true where fd is readable.
bool verl_endpoint_step(verl_endpoint_t *endpoint, int fd, int timeout_ms);
// Makes the mailbox thread return from its wait. Any thread, and signal handlers.
void verl_endpoint_wake(verl_endpoint_t *endpoint);

// Messages that are kept because their receivers are not done with them: for tests.
int64_t verl_endpoint_unanswered(verl_endpoint_t *endpoint);
#endif
