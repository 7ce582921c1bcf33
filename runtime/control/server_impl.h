// server_impl.h: what the files of the server share. Not for others; one thread, the director's.
#ifndef VERL_CONTROL_SERVER_IMPL_H
#define VERL_CONTROL_SERVER_IMPL_H
#include <zmq.h>
#include "runtime/control/server.h"

#define PEER_BYTES      256                 // longest name that a ROUTER gives or takes

enum { WATCH, CHANGE, SOCKETS };

typedef struct question {
    struct question *next;
    uint64_t         token;
    int              socket;
    json_t          *id;                    // as the client wrote it; NULL: it did not
    char            *last;                  // its last answer, which waits for room
    int64_t          told_at, lost;
    bool             gone;                  // its client is
    size_t           peer_size;
    char             peer[PEER_BYTES];
} question_t;

struct verl_control {
    void                  *sockets[SOCKETS];
    int                    wake_fd;         // readable while a step has more to do than a bound let it
    verl_control_handler_t handler;
    void                  *context;
    uint64_t               last_token;
    int                    questions_count;
    question_t            *questions;
    bool                   written;
    char                   path[4200];      // of control.json
};

// questions.c: a token is an open question. NULL: no memory, or none of this token.
question_t *verl_question_open(verl_control_t *self, int socket, zmq_msg_t *peer, const json_t *id);
question_t *verl_question_find(const verl_control_t *self, uint64_t token);
void        verl_question_forget(verl_control_t *self, question_t *question);
// Last answers that waited for room; a sign of life for who has heard nothing for a while; and who is gone.
void        verl_questions_tend(verl_control_t *self);
// More may have come while a socket was used, of which its descriptor tells nothing any more.
void        verl_control_look(verl_control_t *self, int socket);
#endif
