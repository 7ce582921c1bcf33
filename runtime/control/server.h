// server.h: how a run is spoken to while it lives: two sockets, one to watch it and one to change it, each request one
// frame of JSON, each answer too. Nobody who asks can stop or slow the run: what a client does not read is its loss.
//
// The names of the sockets are in RUNDIR/control.json; only the run's user is admitted. Everything here is called by
// one thread, the director's, and nothing blocks.
#ifndef VERL_CONTROL_SERVER_H
#define VERL_CONTROL_SERVER_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/error.h"

#define VERL_CONTROL_REQUEST_BYTES (1 << 20)    // of a request; a bigger one is answered with an error

typedef struct verl_control verl_control_t;

typedef struct verl_control_request {
    bool          change;                   // it came by the socket for changes
    uint64_t      token;                    // for the answers; never used twice, never 0
    const char   *word;                     // what to do
    const json_t *body;                     // the whole request, an object; borrowed, until the handler returns
} verl_control_request_t;

// Called by verl_control_step for each request that is one. It may answer at once, later, or often.
typedef void (*verl_control_handler_t)(void *context, const verl_control_request_t *request);

// Binds both sockets, adds what has to be waited for to epoll_fd (level triggered, EPOLLIN, no data) and writes
// run_directory/control.json whole. zmq, a libzmq context, is borrowed. NULL with the reason.
verl_control_t *verl_control_new(void *zmq, const char *run_id, const char *run_directory, int epoll_fd,
                                 verl_control_handler_t handler, void *context, verl_error_t *error);
// Removes control.json. Answers that had room are still sent while the context ends, for at most a second; last answers
// that waited for room are lost, and their clients see the run's end.
void verl_control_destroy(verl_control_t **control_p);

// Handles what has come, up to a bound; where more is left, epoll_fd stays readable. Call it each turn of the loop.
void verl_control_step(verl_control_t *control);

// Answers a request: `answer`, an object, is taken; "id" is added, and "more" where it is not the last. A last answer
// waits until its client has room for it; others are lost where it has none, and the last one says with "lost" how many.
// A token that is done with, or whose client is gone, is unknown: the answer is dropped.
void verl_control_answer(verl_control_t *control, uint64_t token, json_t *answer, bool last);
// The same with {"error": sentence}.
void verl_control_refuse(verl_control_t *control, uint64_t token, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Is somebody still there for more answers? Known within 2 s of the client's end.
bool verl_control_alive(const verl_control_t *control, uint64_t token);
#endif
