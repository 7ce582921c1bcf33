// How soon a party answers while its process computes on all cores: beside a raw libzmq echo under the same load. The
// slowest of all, since a stuck actor is told from a busy one by it.
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>
#include <zmq.h>
#include "tests/bench/party.h"

#define TURNS   5
#define PINGS   200
#define PACE_US 5000
#define WORKERS 2

typedef struct end {
    verl_bench_party_t party;               // 0 asks, 1 answers
    double             slowest, asked;
    int64_t            answered;
    atomic_bool        ends;
} end_t;

static void *
s_compute(void *argument)
{
    end_t *self = argument;
    volatile double x = 1;
    while (!atomic_load_explicit(&self->ends, memory_order_relaxed))
        x = sqrt(x + 1);
    return NULL;
}

static void
s_work(end_t *self, pthread_t *workers)
{
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, s_compute, self);
}

static void
s_rest(end_t *self, const pthread_t *workers)
{
    atomic_store(&self->ends, true);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
}

// --- ours ---------------------------------------------------------------------------------------------------------

static int
s_on_message(void *context, verl_inbound_t *inbound, const verl_message_t *message, verl_error_t *error)
{
    (void) context;
    (void) inbound;
    (void) message;
    return verl_error_set(error, "no message was sent");
}

static void
s_on_done(void *context, void *tag)
{
    (void) context;
    (void) tag;
}

static void
s_on_pong(void *context, const verl_message_t *message)
{
    end_t *self = context;
    self->answered = message->batch;
    self->slowest = fmax(self->slowest, verl_bench_now() - self->asked);
    verl_endpoint_wake(self->party.endpoint);
}

static void
s_on_ping(void *context, verl_buffer_t *body)
{
    (void) body;                            // nothing to say of a worker
    end_t *self = context;
    self->answered++;
    verl_endpoint_wake(self->party.endpoint);     // a step handles what is there, and then waits
}

static void
s_open(end_t *self, const char *address, int which)
{
    static const verl_endpoint_handlers_t handlers = { .message = s_on_message, .done = s_on_done, .ping = s_on_ping,
                                                       .pong = s_on_pong, .malformed = verl_bench_party_malformed };
    verl_bench_party_open(&self->party, address, which, &handlers, self);
}

static double
s_ask(const char *address, void *argument)
{
    (void) argument;
    end_t self = { 0 };
    s_open(&self, address, 0);
    for (int64_t i = 1; i <= PINGS; i++) {
        usleep(PACE_US);
        self.asked = verl_bench_now();
        verl_endpoint_ping(self.party.endpoint, VERL_BENCH_PARTY(1), i);
        while (self.answered < i)
            verl_endpoint_step(self.party.endpoint, -1, 1000);
        if (i == 1)
            self.slowest = 0;               // the connection was being made
    }
    verl_bench_party_close(&self.party);
    return self.slowest * 1000;
}

static double
s_answer(const char *address, void *argument)
{
    (void) argument;
    end_t self = { 0 };
    pthread_t workers[WORKERS];
    s_open(&self, address, 1);
    s_work(&self, workers);
    while (self.answered < PINGS)
        verl_endpoint_step(self.party.endpoint, -1, 1000);
    usleep(100000);                         // the last answer has to leave
    s_rest(&self, workers);
    verl_bench_party_close(&self.party);
    return 0;
}

// --- the reference ------------------------------------------------------------------------------------------------

static double
s_ask_raw(const char *address, void *argument)
{
    (void) argument;
    void *zmq = zmq_ctx_new(), *dealer = zmq_socket(zmq, ZMQ_DEALER);
    double slowest = 0;
    char payload[64] = { 1 };
    usleep(100000);
    if (zmq_connect(dealer, address))
        _exit(1);
    for (int i = 0; i < PINGS; i++) {
        usleep(PACE_US);
        double asked = verl_bench_now();
        if (zmq_send(dealer, payload, sizeof payload, 0) < 0 || zmq_recv(dealer, payload, sizeof payload, 0) < 0)
            _exit(1);
        slowest = i ? fmax(slowest, verl_bench_now() - asked) : 0;
    }
    zmq_close(dealer);
    zmq_ctx_term(zmq);
    return slowest * 1000;
}

static double
s_answer_raw(const char *address, void *argument)
{
    (void) argument;
    end_t self = { 0 };
    pthread_t workers[WORKERS];
    void *zmq = zmq_ctx_new(), *router = zmq_socket(zmq, ZMQ_ROUTER);
    char name[256], payload[64];
    if (zmq_bind(router, address))
        _exit(1);
    s_work(&self, workers);
    for (int i = 0; i < PINGS; i++) {
        int size = zmq_recv(router, name, sizeof name, 0);
        if (size < 0 || zmq_recv(router, payload, sizeof payload, 0) < 0)
            _exit(1);
        zmq_send(router, name, (size_t) size, ZMQ_SNDMORE);
        zmq_send(router, payload, sizeof payload, 0);
    }
    s_rest(&self, workers);
    zmq_close(router);
    zmq_ctx_term(zmq);
    return 0;
}

static int
s_ping(verl_bench_run_t *run, verl_error_t *error)
{
    static const verl_bench_pairs_t pairs = { { s_ask, s_answer }, { s_ask_raw, s_answer_raw }, TURNS, "slowest", "ms",
                                              "raw libzmq echo under the same load" };
    return verl_bench_pairs(run, &pairs, error);
}

VERL_BENCH(ping, "a party that computes on all cores answers within 20 ms", s_ping)
