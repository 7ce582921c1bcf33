// spy_follow_socket.c: see spy_follow_socket.h.
#include "tools/spy_follow_socket.h"
#include "runtime/wire/pack.h"
#include "tools/limits.h"

#define FRAMES  1000                        // taken at a time
#define BACKLOG 4096                        // actors that connect at once

zsock_t *
verl_spy_socket_open(const char *word, char ret_address[VERL_SPY_ADDRESS], verl_error_t *error)
{
    static int number;
    int uid = (int) getuid();
    snprintf(ret_address, VERL_SPY_ADDRESS, "ipc://@verl-%d-%s-%d-%d", uid, word, (int) getpid(), number++);
    if (verl_limits_spare(error))
        return NULL;
    zsys_handler_set(NULL);                                 // signals are the tool's own
    zsock_t *router = zsock_new(ZMQ_ROUTER);
    zsock_set_linger(router, 0);
    zsock_set_rcvhwm(router, 0);                            // credit bounds it
    zsock_set_sndhwm(router, 0);
    zsock_set_backlog(router, BACKLOG);
    if (zmq_setsockopt(zsock_resolve(router), ZMQ_IPC_FILTER_UID, &uid, sizeof uid) == 0 &&
        zsock_bind(router, "%s", ret_address) == 0)
        return router;
    verl_error_set(error, "cannot bind %s: %s", ret_address, zmq_strerror(zmq_errno()));
    zsock_destroy(&router);
    return NULL;
}

bool
verl_spy_socket_wait(zsock_t *router, int milliseconds)
{
    zmq_pollitem_t item = { .socket = zsock_resolve(router), .events = ZMQ_POLLIN };
    return zmq_poll(&item, 1, milliseconds) > 0;
}

// One frame, if there is one.
static int
s_receive(zsock_t *router, verl_spy_merge_t *merge, const verl_spy_listener_t *listener, bool *ret_any,
          verl_error_t *error)
{
    zmsg_t *message = zsock_events(router) & ZMQ_POLLIN ? zmsg_recv(router) : NULL;
    zframe_t *routing = message ? zmsg_first(message) : NULL, *frame = routing ? zmsg_next(message) : NULL;
    int failed = 0;
    *ret_any = message != NULL;
    if (frame) {
        const char *bytes = (const char *) zframe_data(frame);
        size_t size = zframe_size(frame);
        if (verl_spy_merge_add(merge, (const char *) zframe_data(routing), zframe_size(routing), bytes, size) == 0 &&
            listener && listener->frame)
            failed = listener->frame(listener->context, bytes, size, error);
    }
    zmsg_destroy(&message);
    return failed;
}

int
verl_spy_socket_receive(zsock_t *router, verl_spy_merge_t *merge, const verl_spy_listener_t *listener, verl_error_t *error)
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
verl_spy_socket_give_credit(zsock_t *router, verl_spy_merge_t *merge)
{
    verl_spy_credit_t credit;
    while (verl_spy_merge_credit(merge, &credit)) {
        verl_buffer_t body = { 0 };
        verl_pack_array(&body, 2);
        verl_pack_uint(&body, credit.records);
        zmsg_t *message = zmsg_new();
        zmsg_addmem(message, credit.routing, credit.routing_size);
        if (verl_pack_uint(&body, credit.bytes) || zmsg_addmem(message, body.data, body.size) ||
            zmsg_send(&message, router))
            zmsg_destroy(&message);
        verl_buffer_done(&body);
    }
}
