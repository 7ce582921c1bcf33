// party.h: one of two processes that are joined by our endpoints, as actors of a run are.
#ifndef VERL_BENCH_PARTY_H
#define VERL_BENCH_PARTY_H
#include "runtime/mailbox/endpoint.h"
#include "tests/bench/bench.h"

// The incarnation of the party which (0 or 1).
#define VERL_BENCH_PARTY(which) ((uint64_t) (which) + 2)

typedef struct verl_bench_party {
    void            *zmq;
    verl_endpoint_t *endpoint;
    char             addresses[2][80];      // of both
} verl_bench_party_t;

// For handlers: what is malformed is said on standard error.
void verl_bench_party_malformed(void *context, const char *reason);

// Opens the endpoint of party `which` at an address that both were given, and connects it to the other one. Ends the
// process where it cannot, which verl_bench_pair notices.
void verl_bench_party_open(verl_bench_party_t *self, const char *address, int which,
                           const verl_endpoint_handlers_t *handlers, void *context);
void verl_bench_party_close(verl_bench_party_t *self);

// Measures ours and the reference in turns, each a pair of ends, and reports both medians.
typedef struct verl_bench_pairs {
    verl_bench_end_t ours[2], raw[2];
    int              turns;                 // at most 9
    const char      *part, *unit, *reference;
} verl_bench_pairs_t;
int verl_bench_pairs(verl_bench_run_t *run, const verl_bench_pairs_t *pairs, verl_error_t *error);
#endif
