// From a handler's return to the start of its consumer's handler in another process, on real actors, paced: beside the
// one-way time of a raw libzmq message at the same pace. The reference is of two processes that do nothing else.
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>
#include "tests/bench/bench.h"

#define TURNS   7
#define SAMPLES 200
#define PACE_MS 5

static const char s_topology[] =
    "[run]\nname = \"handoff\"\nsteps = 200\n"
    "[stage.source]\nkind = \"synthetic\"\nbusy_ms = 5\n"
    "[stage.sink]\nkind = \"synthetic\"\ndepends_on = [\"source\"]\n";

// Median one-way microseconds of SAMPLES messages that each carry the time of their sending.
static double
s_receive(const char *address, void *argument)
{
    (void) argument;
    void *zmq = zmq_ctx_new(), *router = zmq_socket(zmq, ZMQ_ROUTER);
    double times[SAMPLES];
    char name[256];
    if (zmq_bind(router, address))
        _exit(1);
    for (int i = 0; i < SAMPLES; i++) {
        double payload[12];
        if (zmq_recv(router, name, sizeof name, 0) < 0 ||
            zmq_recv(router, payload, sizeof payload, 0) != (int) sizeof payload)
            _exit(1);
        times[i] = (verl_bench_now() - payload[0]) * 1e6;
    }
    zmq_close(router);
    zmq_ctx_term(zmq);
    return verl_bench_median(times, SAMPLES);
}

static double
s_send(const char *address, void *argument)
{
    (void) argument;
    void *zmq = zmq_ctx_new(), *dealer = zmq_socket(zmq, ZMQ_DEALER);
    usleep(100000);
    if (zmq_connect(dealer, address))
        _exit(1);
    for (int i = 0; i < SAMPLES; i++) {
        usleep(PACE_MS * 1000);
        double payload[12] = { verl_bench_now() };
        if (zmq_send(dealer, payload, sizeof payload, 0) != (int) sizeof payload)
            _exit(1);
    }
    usleep(100000);
    zmq_close(dealer);
    zmq_ctx_term(zmq);
    return 0;
}

static int
s_handoff(verl_bench_run_t *run, verl_error_t *error)
{
    double ours[TURNS], raw[TURNS];
    for (int i = 0; i < TURNS; i++) {
        json_t *end = verl_bench_topology(s_topology, NULL, error);
        if (!end)
            return -1;
        ours[i] = verl_bench_stage(end, "sink", "handoff_us");
        json_decref(end);
        if (verl_bench_pair(s_receive, s_send, NULL, 30, &raw[i], error))
            return -1;
    }
    verl_bench_report(run, "", verl_bench_median(ours, TURNS), "us", "raw libzmq DEALER-ROUTER, ipc, one way",
                      verl_bench_median(raw, TURNS));
    return 0;
}

VERL_BENCH(handoff, "at most 1.5 times a raw message from a handler's return to the next handler's start", s_handoff)
