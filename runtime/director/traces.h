// traces.h: who follows the messages of a run: the director's list, from which it orders the actors to trace.
//
// A follower asks with {"do": "trace", "address", "pid", "filter"} (observe/filter.h). Each live actor is ordered to
// trace, and each that begins later; untrace is ordered when the follower asks for it or when its process is gone,
// never because it is slow: a slow one loses copies, which is counted where they are made. One thread, the director's;
// nothing blocks.
#ifndef VERL_DIRECTOR_TRACES_H
#define VERL_DIRECTOR_TRACES_H
#include <jansson.h>
#include <stdint.h>
#include "runtime/base/error.h"
#include "runtime/wire/buffer.h"

#define VERL_TRACES_MAX 16                  // followers of a run at a time

typedef struct verl_traces verl_traces_t;

// Sends an order's body to one party (as given to verl_traces_welcome), or to all that live where party is NULL, the
// director's own tap among them. Returns how many there were.
typedef int (*verl_traces_send_t)(void *context, const verl_buffer_t *body, void *party);

// What has to be waited for is added to epoll_fd (EPOLLIN, level triggered, no data). NULL without memory.
verl_traces_t *verl_traces_new(int epoll_fd, verl_traces_send_t send, void *context, verl_error_t *error);
// Orders nothing: for the end of a run. *traces_p may be NULL.
void           verl_traces_destroy(verl_traces_t **traces_p);

// Answers a request of the watch socket, word "trace" or "untrace" ({"trace": id}): {"trace": id, "parties": how many
// were told}, the caller's; NULL with the sentence of a refusal.
json_t *verl_traces_ask(verl_traces_t *traces, const char *word, const json_t *request, verl_error_t *error);
// The same in two: the id, -1 with a sentence; 0, or -1 where there is no such trace.
int64_t verl_traces_add(verl_traces_t *traces, const json_t *request, int *ret_parties, verl_error_t *error);
int     verl_traces_remove(verl_traces_t *traces, int64_t id, int *ret_parties, verl_error_t *error);

// A party that is there now: it is ordered all traces that there are.
void verl_traces_welcome(verl_traces_t *traces, void *party);
// Ends the traces of processes that are gone. Call it each turn of the loop.
void verl_traces_step(verl_traces_t *traces);
int  verl_traces_count(const verl_traces_t *traces);
#endif
