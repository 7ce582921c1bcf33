// spy_follow_socket.h: the socket on which copies of messages come: those of a live run, or of an actor that is fed a
// recording. What comes goes into a merge; what was taken out of it goes back as credit.
//
// One thread.
#ifndef VERL_SPY_FOLLOW_SOCKET_H
#define VERL_SPY_FOLLOW_SOCKET_H
#include <czmq.h>
#include "tools/spy_follow_merge.h"

#define VERL_SPY_ADDRESS 100                // bytes of an address with its end

// A ROUTER that only this user's processes reach, at an address of its own, which has `word` in it. The caller destroys
// it. NULL with the reason.
zsock_t *verl_spy_socket_open(const char *word, char ret_address[VERL_SPY_ADDRESS], verl_error_t *error);

// Waits for a frame, at most so long. Is there one?
bool verl_spy_socket_wait(zsock_t *router, int milliseconds);
// All that is there, at most 1000 frames. Returns how many; -1 with a reason where the listener refuses one. listener:
// its `frame` is called; NULL: nobody's.
int verl_spy_socket_receive(zsock_t *router, verl_spy_merge_t *merge, const verl_spy_listener_t *listener,
                            verl_error_t *error);

// Tells the actors whose credit moved what they may send in all.
void verl_spy_socket_give_credit(zsock_t *router, verl_spy_merge_t *merge);
#endif
