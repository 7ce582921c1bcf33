// spy_follow_socket.c: see spy_follow_socket.h.
#include "tools/spy_follow_socket.h"
#include <stdio.h>
#include <unistd.h>
#include <zmq.h>
#include "runtime/wire/pack.h"

#define FRAMES 1000                         // taken at a time
#define BACKLOG 4096                        // actors that connect at once

void *
verl_spy_socket_open(void *zmq, const char *word, char ret_address[VERL_SPY_ADDRESS], verl_error_t *error)
{
    static int number;
    int none = 0, backlog = BACKLOG, uid = (int) getuid();
    snprintf(ret_address, VERL_SPY_ADDRESS, "ipc://@verl-%d-%s-%d-%d", uid, word, (int) getpid(), number++);
    void *router = zmq_socket(zmq, ZMQ_ROUTER);
    if (!router) {
        verl_error_set(error, "cannot make a socket: %s", zmq_strerror(zmq_errno()));
        return NULL;
    }
    zmq_setsockopt(router, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(router, ZMQ_RCVHWM, &none, sizeof none);                // credit bounds it
    zmq_setsockopt(router, ZMQ_SNDHWM, &none, sizeof none);
    zmq_setsockopt(router, ZMQ_BACKLOG, &backlog, sizeof backlog);
    if (zmq_setsockopt(router, ZMQ_IPC_FILTER_UID, &uid, sizeof uid) == 0 && zmq_bind(router, ret_address) == 0)
        return router;
    verl_error_set(error, "cannot bind %s: %s", ret_address, zmq_strerror(zmq_errno()));
    zmq_close(router);
    return NULL;
}

// One frame, if there is one.
static int
s_receive(void *router, verl_spy_merge_t *merge, const verl_spy_listener_t *listener, bool *ret_any,
          verl_error_t *error)
{
    char routing[256];
    int size = zmq_recv(router, routing, sizeof routing, ZMQ_DONTWAIT), failed = 0;
    *ret_any = size >= 0;
    if (size < 0 || (size_t) size > sizeof routing)
        return 0;
    zmq_msg_t message;
    zmq_msg_init(&message);
    bool first = true;
    do {
        if (zmq_msg_recv(&message, router, 0) < 0)
            break;
        const char *bytes = zmq_msg_data(&message);
        size_t length = zmq_msg_size(&message);
        if (first && verl_spy_merge_add(merge, routing, (size_t) size, bytes, length) == 0 && listener &&
            listener->frame)
            failed = listener->frame(listener->context, bytes, length, error);
        first = false;
    } while (zmq_msg_more(&message));
    zmq_msg_close(&message);
    return failed;
}

int
verl_spy_socket_receive(void *router, verl_spy_merge_t *merge, const verl_spy_listener_t *listener, verl_error_t *error)
{
    int frames = 0;
    bool any = true;
    while (any && frames < FRAMES) {
        if (s_receive(router, merge, listener, &any, error))
            return -1;
        frames += any;
    }
    return frames;
}

void
verl_spy_socket_give_credit(void *router, verl_spy_merge_t *merge)
{
    verl_spy_credit_t credit;
    while (verl_spy_merge_credit(merge, &credit)) {
        verl_buffer_t body = { 0 };
        verl_pack_array(&body, 2);
        verl_pack_uint(&body, credit.records);
        if (verl_pack_uint(&body, credit.bytes) == 0 &&
            zmq_send(router, credit.routing, credit.routing_size, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
            zmq_send(router, body.data, body.size, ZMQ_DONTWAIT);
        verl_buffer_done(&body);
    }
}
