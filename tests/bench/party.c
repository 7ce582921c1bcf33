// party.c: see party.h.
#include "tests/bench/party.h"
#include <stdio.h>
#include <unistd.h>
#include <zmq.h>

#define TURNS_MOST 9

void
verl_bench_party_malformed(void *context, const char *reason)
{
    (void) context;
    fprintf(stderr, "verl-bench: %s\n", reason);
}

void
verl_bench_party_open(verl_bench_party_t *self, const char *address, int which,
                      const verl_endpoint_handlers_t *handlers, void *context)
{
    verl_error_t error = { "" };
    for (int i = 0; i < 2; i++)
        snprintf(self->addresses[i], sizeof self->addresses[i], "%s-%d", address, i);
    self->zmq = zmq_ctx_new();
    self->endpoint = verl_endpoint_new(self->zmq, VERL_BENCH_PARTY(which), self->addresses[which], handlers, context,
                                       &error);
    usleep(200000);                         // as in a run: all are bound before any connects
    if (!self->endpoint ||
        verl_endpoint_connect(self->endpoint, VERL_BENCH_PARTY(!which), self->addresses[!which], &error))
        _exit(1);
}

void
verl_bench_party_close(verl_bench_party_t *self)
{
    verl_endpoint_destroy(&self->endpoint);
    zmq_ctx_term(self->zmq);
}

int
verl_bench_pairs(verl_bench_run_t *run, const verl_bench_pairs_t *pairs, verl_error_t *error)
{
    double ours[TURNS_MOST], raw[TURNS_MOST];
    for (int i = 0; i < pairs->turns; i++)
        if (verl_bench_pair(pairs->ours[0], pairs->ours[1], NULL, 60, &ours[i], error) ||
            verl_bench_pair(pairs->raw[0], pairs->raw[1], NULL, 60, &raw[i], error))
            return -1;
    verl_bench_report(run, pairs->part, verl_bench_median(ours, pairs->turns), pairs->unit, pairs->reference,
                      verl_bench_median(raw, pairs->turns));
    return 0;
}
