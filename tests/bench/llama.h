// llama.h: the model that the benchmarks of computing share: the shape of SmolLM2-135M (Llama, tied head), with as many
// layers and tokens of vocabulary as a benchmark has time for, and random weights.
#ifndef VERL_BENCH_LLAMA_H
#define VERL_BENCH_LLAMA_H
#include "actors/lm/model.h"
#include "runtime/base/error.h"
#include "tests/bench/peer.h"

typedef struct verl_bench_llama {
    verl_lm_config_t config;
    verl_lm_layout_t layout;
    verl_lm_t       *lm;
    float           *params;                // [layout.total]
} verl_bench_llama_t;

// f32, on all processors. 0, or -1 with the reason; done accepts a half-made one.
int  verl_bench_llama_init(verl_bench_llama_t *self, int64_t layers, int64_t vocab, verl_error_t *error);
void verl_bench_llama_done(verl_bench_llama_t *self);

// Tokens without a pattern, the same on every call.
void verl_bench_llama_tokens(const verl_bench_llama_t *self, int32_t *tokens, int64_t count);

// The same model in PyTorch (torch_llama.py), which answers "train" and "decode" with seconds. sequences, length: of a
// training step; prompt, tokens: of decoding. False where it is left out, which has been said.
bool verl_bench_llama_peer(const verl_bench_llama_t *self, verl_bench_peer_t *peer, const char *left_out,
                           int64_t sequences, int64_t length, int64_t prompt, int64_t tokens);
// What to call it: Debian's PyTorch is slow where no fast BLAS is installed, and that is said.
const char *verl_bench_llama_peer_name(verl_bench_peer_t *peer);
#endif
