// client.h: a tool's end of the conversation with a run that lives. One thread, one question at a time; a tool that has
// several opens several clients. While it waits it notices within a second that the run is gone.
#ifndef VERL_TOOLS_CLIENT_H
#define VERL_TOOLS_CLIENT_H
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>
#include "runtime/base/error.h"

typedef struct verl_client verl_client_t;

// Why the last call returned what it did.
typedef enum {
    VERL_CLIENT_ANSWERED,
    VERL_CLIENT_LATE,                       // nothing came in time
    VERL_CLIENT_ENDED,                      // the run did
    VERL_CLIENT_INTERRUPTED,                // the descriptor of verl_client_interrupt_by was readable
    VERL_CLIENT_FAILED,                     // out of memory, too big a request, an answer that is none
    VERL_CLIENT_BACK,                       // the run went back to a checkpoint, and has forgotten what was asked
} verl_client_why_t;

// To the run in `run_directory`, or as verl_found_open says where it is NULL; by its socket for changes, or for
// watching. NULL with the reason.
verl_client_t *verl_client_open(const char *run_directory, bool change, verl_error_t *error);
void           verl_client_close(verl_client_t **client_p);

// Sends a request ("id" is added; taken) and waits for the first answer to it. What was asked before is no longer
// listened to. timeout_ms -1: as long as the run lives. The answer may be the run's {"error": …}; NULL with a sentence
// is ours. A request that a run had not answered when it went back to a checkpoint is sent again.
json_t *verl_client_ask(verl_client_t *client, json_t *request, int timeout_ms, verl_error_t *error);
// The next answer to the same request; there is one where the last had "more". Mere signs of life are passed over. With
// timeout 0 neither looks whether the run went back: who has a loop of its own sees to that (verl_found_again).
json_t *verl_client_next(verl_client_t *client, int timeout_ms, verl_error_t *error);

// The sentence of an answer that is a refusal, else NULL. / Do further answers follow it?
const char *verl_client_refusal(const json_t *answer);
bool        verl_client_more(const json_t *answer);

verl_client_why_t verl_client_why(const verl_client_t *client);
// A wait ends too when this descriptor is readable (a signalfd); -1: none. Borrowed, and not read.
void        verl_client_interrupt_by(verl_client_t *client, int fd);
const char *verl_client_directory(const verl_client_t *client);
pid_t       verl_client_pid(const verl_client_t *client);
// For a tool with a loop of its own: the DEALER, to be waited for with zmq_poll and read with verl_client_next at
// timeout 0; a descriptor that is readable when the run is gone. Both borrowed.
void *verl_client_socket(const verl_client_t *client);
int   verl_client_pid_fd(const verl_client_t *client);
#endif
