// Messages a second between two processes: ours with the whole guarantee (numbered, kept until they are done with,
// credit, duplicates dropped), beside raw libzmq DEALER → ROUTER over ipc with the same payload and none of it. (None:
// where the sender connects before the receiver binds, or leaves before the last message was read, raw libzmq loses
// some now and then. So the reference waits at both ends.)
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>
#include <zmq.h>
#include "tests/bench/party.h"

#define MESSAGES 600000
#define PAYLOAD  64
#define ROUNDS   5
#define FLYING   16384                      // sent and not done with, at most
#define WINDOW   8192

typedef struct end {
    verl_bench_party_t party;               // 0 receives, 1 sends
    _Atomic int64_t    count;
    double             began, ended;
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
    verl_endpoint_acknowledge(self->party.endpoint, false);
    return 0;
}

static void
s_on_done(void *context, void *tag)
{
    (void) tag;
    atomic_fetch_add_explicit(&((end_t *) context)->count, 1, memory_order_relaxed);
}

static verl_endpoint_t *
s_open(end_t *self, const char *address, int which)
{
    static const verl_endpoint_handlers_t handlers = { .message = s_on_message, .done = s_on_done,
                                                       .malformed = verl_bench_party_malformed };
    verl_bench_party_open(&self->party, address, which, &handlers, self);
    return self->party.endpoint;
}

static double
s_receive(const char *address, void *argument)
{
    (void) argument;
    end_t self = { 0 };
    verl_endpoint_t *endpoint = s_open(&self, address, 0);
    verl_inbound_open(endpoint, VERL_BENCH_PARTY(1), 0, WINDOW, NULL);
    while (atomic_load(&self.count) < MESSAGES)
        verl_endpoint_step(endpoint, -1, 1000);
    verl_endpoint_acknowledge(endpoint, true);
    for (int i = 0; i < 20; i++)            // the last status has to leave
        verl_endpoint_step(endpoint, -1, 10);
    verl_bench_party_close(&self.party);
    return MESSAGES / (self.ended - self.began);
}

static void *
s_mailbox(void *argument)
{
    end_t *self = argument;
    while (atomic_load(&self->count) < MESSAGES)
        verl_endpoint_step(self->party.endpoint, -1, 100);
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
    verl_outbound_t *outbound = verl_outbound_open(endpoint, VERL_BENCH_PARTY(0), 0, WINDOW);
    pthread_create(&mailbox, NULL, s_mailbox, &self);
    for (int64_t i = 0; i < MESSAGES; i++) {
        verl_message_t message = { .batch = i, .parts = 1, .body = payload, .body_size = sizeof payload };
        while (i - atomic_load_explicit(&self.count, memory_order_relaxed) >= FLYING)
            usleep(100);
        verl_outbound_send(outbound, &message, &self);
    }
    verl_outbound_flush(outbound);
    pthread_join(mailbox, NULL);
    verl_bench_party_close(&self.party);
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
    static const verl_bench_pairs_t pairs = {
        { s_receive, s_send }, { s_receive_raw, s_send_raw }, ROUNDS, "", "messages/s",
        "raw libzmq DEALER-ROUTER, ipc, 64 B" };
    return verl_bench_pairs(run, &pairs, error);
}

VERL_BENCH(link, "a million messages a second between two processes, with the whole guarantee", s_link)
