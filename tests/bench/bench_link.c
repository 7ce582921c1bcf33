// Messages a second between two processes: ours with the whole guarantee (numbered, kept until they are done with,
// credit, duplicates dropped), beside raw libzmq DEALER → ROUTER over ipc with the same payload and none of it. (None:
// where the sender connects before the receiver binds, or leaves before the last message was read, raw libzmq loses
// some now and then. So the reference waits at both ends.)
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>
#include "runtime/mailbox/endpoint.h"
#include "tests/bench/bench.h"

#define MESSAGES 600000
#define PAYLOAD  64
#define ROUNDS   5
#define FLYING   16384                      // sent and not done with, at most
#define WINDOW   8192

typedef struct end {
    char             addresses[2][80];      // receiver's, sender's
    void            *zmq;
    verl_endpoint_t *endpoint;
    _Atomic int64_t  count;
    double           began, ended;
} end_t;

// --- ours ---------------------------------------------------------------------------------------------------------

static int
s_on_message(void *context, verl_inbound_t *inbound, const verl_message_t *message, verl_error_t *error)
{
    end_t *self = context;
    (void) error;
    if (message->body_size != PAYLOAD)
        return -1;
    int64_t before = atomic_fetch_add_explicit(&self->count, 1, memory_order_relaxed);
    if (before == 0)
        self->began = verl_bench_now();
    if (before == MESSAGES - 1)
        self->ended = verl_bench_now();
    verl_inbound_taken(inbound, 1);
    verl_inbound_done(inbound, 1);
    verl_endpoint_acknowledge(self->endpoint, false);
    return 0;
}

static void
s_on_done(void *context, void *tag)
{
    (void) tag;
    atomic_fetch_add_explicit(&((end_t *) context)->count, 1, memory_order_relaxed);
}

static void
s_on_malformed(void *context, const char *reason)
{
    (void) context;
    fprintf(stderr, "verl-bench: link: %s\n", reason);
}

static verl_endpoint_t *
s_open(end_t *self, const char *address, int which)
{
    static const verl_endpoint_handlers_t handlers = { .message = s_on_message, .done = s_on_done,
                                                       .malformed = s_on_malformed };
    verl_error_t error = { "" };
    for (int i = 0; i < 2; i++)
        snprintf(self->addresses[i], sizeof self->addresses[i], "%s-%d", address, i);
    self->zmq = zmq_ctx_new();
    uint64_t mine = (uint64_t) which + 2, other = (uint64_t) !which + 2;
    self->endpoint = verl_endpoint_new(self->zmq, mine, self->addresses[which], &handlers, self, &error);
    usleep(200000);                         // as in a run: all are bound before any connects
    if (!self->endpoint || verl_endpoint_connect(self->endpoint, other, self->addresses[!which], &error))
        _exit(1);
    return self->endpoint;
}

static double
s_receive(const char *address, void *argument)
{
    (void) argument;
    end_t self = { 0 };
    verl_endpoint_t *endpoint = s_open(&self, address, 0);
    verl_inbound_open(endpoint, 3, 0, WINDOW, NULL);
    while (atomic_load(&self.count) < MESSAGES)
        verl_endpoint_step(endpoint, -1, 1000);
    verl_endpoint_acknowledge(endpoint, true);
    for (int i = 0; i < 20; i++)            // the last status has to leave
        verl_endpoint_step(endpoint, -1, 10);
    verl_endpoint_destroy(&endpoint);
    zmq_ctx_term(self.zmq);
    return MESSAGES / (self.ended - self.began);
}

static void *
s_mailbox(void *argument)
{
    end_t *self = argument;
    while (atomic_load(&self->count) < MESSAGES)
        verl_endpoint_step(self->endpoint, -1, 100);
    return NULL;
}

static double
s_send(const char *address, void *argument)
{
    (void) argument;
    end_t self = { 0 };
    char payload[PAYLOAD] = { 1 };
    pthread_t mailbox;
    verl_endpoint_t *endpoint = s_open(&self, address, 1);
    verl_outbound_t *outbound = verl_outbound_open(endpoint, 2, 0, WINDOW);
    pthread_create(&mailbox, NULL, s_mailbox, &self);
    for (int64_t i = 0; i < MESSAGES; i++) {
        verl_message_t message = { .batch = i, .parts = 1, .body = payload, .body_size = sizeof payload };
        while (i - atomic_load_explicit(&self.count, memory_order_relaxed) >= FLYING)
            usleep(100);
        verl_outbound_send(outbound, &message, &self);
    }
    verl_outbound_flush(outbound);
    pthread_join(mailbox, NULL);
    verl_endpoint_destroy(&endpoint);
    zmq_ctx_term(self.zmq);
    return 0;
}

// --- the reference ------------------------------------------------------------------------------------------------

static double
s_receive_raw(const char *address, void *argument)
{
    (void) argument;
    void *zmq = zmq_ctx_new(), *router = zmq_socket(zmq, ZMQ_ROUTER);
    char name[256], payload[PAYLOAD];
    double began = 0;
    int name_size = 0;
    if (zmq_bind(router, address))
        _exit(1);
    for (int64_t i = 0; i < MESSAGES; i++) {
        name_size = zmq_recv(router, name, sizeof name, 0);
        if (name_size < 0 || zmq_recv(router, payload, sizeof payload, 0) != PAYLOAD)
            _exit(1);
        if (i == 0)
            began = verl_bench_now();
    }
    double spent = verl_bench_now() - began;
    zmq_send(router, name, (size_t) name_size, ZMQ_SNDMORE);
    zmq_send(router, "", 0, 0);
    zmq_close(router);
    zmq_ctx_term(zmq);
    return MESSAGES / spent;
}

static double
s_send_raw(const char *address, void *argument)
{
    (void) argument;
    void *zmq = zmq_ctx_new(), *dealer = zmq_socket(zmq, ZMQ_DEALER);
    char payload[PAYLOAD] = { 1 };
    usleep(100000);
    if (zmq_connect(dealer, address))
        _exit(1);
    for (int64_t i = 0; i < MESSAGES; i++)
        if (zmq_send(dealer, payload, sizeof payload, 0) != PAYLOAD)
            _exit(1);
    zmq_recv(dealer, payload, sizeof payload, 0);
    zmq_close(dealer);
    zmq_ctx_term(zmq);
    return 0;
}

static int
s_link(verl_bench_run_t *run, verl_error_t *error)
{
    double ours[ROUNDS], raw[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        if (verl_bench_pair(s_receive, s_send, NULL, 60, &ours[i], error) ||
            verl_bench_pair(s_receive_raw, s_send_raw, NULL, 60, &raw[i], error))
            return -1;
    verl_bench_report(run, "", verl_bench_median(ours, ROUNDS), "messages/s", "raw libzmq DEALER-ROUTER, ipc, 64 B",
                      verl_bench_median(raw, ROUNDS));
    return 0;
}

VERL_BENCH(link, "a million messages a second between two processes, with the whole guarantee", s_link)
