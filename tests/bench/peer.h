// peer.h: a Python program that measures the same as we do with a library that others use, when it is told to.
//
// It is started before anything is measured, says whether it has its library, and then answers each line with one
// number; so its turns come between ours. Where the library is missing its figures are left out, and that is said.
#ifndef VERL_BENCH_PEER_H
#define VERL_BENCH_PEER_H
#include <stdbool.h>
#include "runtime/base/error.h"

typedef struct verl_bench_peer {
    int pid;                                // 0: there is none
    int in, out;                            // our ends: its input, its output
} verl_bench_peer_t;

// Runs tests/bench/SCRIPT with the words (ending with NULL) by the first python3 that has what it imports. Returns
// true once it is ready; false, with a sentence on standard error that names `left_out`, where no python3 has it.
bool verl_bench_peer_start(verl_bench_peer_t *self, const char *script, const char *const *words, const char *left_out);

// Has it do `what` and reads the number that it answers. Waits at most two minutes. -1 with the reason where it died.
int  verl_bench_peer_ask(verl_bench_peer_t *self, const char *what, double *ret_value, verl_error_t *error);

// Ends it. Accepts one that was not started.
void verl_bench_peer_end(verl_bench_peer_t *self);
#endif
