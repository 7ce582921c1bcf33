// llama.c: see llama.h.
#include "tests/bench/llama.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "actors/lm/vector.h"

int
verl_bench_llama_init(verl_bench_llama_t *self, int64_t layers, int64_t vocab, verl_error_t *error)
{
    char text[256] = "";
    *self = (verl_bench_llama_t) { .config = {
        .family = VERL_LM_LLAMA, .vocab_size = vocab, .hidden_size = 576, .layers = layers, .heads = 9, .kv_heads = 3,
        .head_dim = 64, .intermediate_size = 1536, .max_positions = 2048, .norm_eps = 1e-5, .rope_theta = 1e5,
        .tied = true, .bos = -1 } };
    if (verl_lm_config_check(&self->config, text, sizeof text))
        return verl_error_set(error, "%s", text);
    if (verl_lm_layout_init(&self->layout, &self->config))
        return verl_error_set(error, "no memory for the layout of a model");
    size_t bytes = (size_t) self->layout.total * sizeof(float);
    self->params = verl_lm_vector(bytes);
    if (!self->params || verl_lm_init_params(&self->config, self->params, 0.02, 7))
        return verl_error_set(error, "no memory for a model of %zu MiB", bytes >> 20);
    self->lm = verl_lm_new(&self->config, self->params, VERL_LM_F32, 0, text, sizeof text);
    return self->lm ? 0 : verl_error_set(error, "%s", text);
}

void
verl_bench_llama_done(verl_bench_llama_t *self)
{
    verl_lm_destroy(&self->lm);
    verl_lm_layout_done(&self->layout);
    free(self->params);
    self->params = NULL;
}

void
verl_bench_llama_tokens(const verl_bench_llama_t *self, int32_t *tokens, int64_t count)
{
    uint64_t state = 1;
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (int32_t) ((state >> 33) % (uint64_t) self->config.vocab_size);
    }
}

bool
verl_bench_llama_peer(const verl_bench_llama_t *self, verl_bench_peer_t *peer, const char *left_out, int64_t sequences,
                      int64_t length, int64_t prompt, int64_t tokens)
{
    const verl_lm_config_t *c = &self->config;
    const int64_t numbers[] = { c->layers, c->vocab_size, c->hidden_size, c->intermediate_size, c->heads, c->kv_heads,
                                c->head_dim, sequences, length, prompt, tokens };
    enum { COUNT = sizeof numbers / sizeof numbers[0] };
    char texts[COUNT][24];
    const char *words[COUNT + 1] = { NULL };
    for (int i = 0; i < COUNT; i++) {
        snprintf(texts[i], sizeof texts[i], "%lld", (long long) numbers[i]);
        words[i] = texts[i];
    }
    return verl_bench_peer_start(peer, "torch_llama.py", words, left_out);
}

const char *
verl_bench_llama_peer_name(verl_bench_peer_t *peer)
{
    double fast = 0;
    verl_error_t error = { "" };
    return verl_bench_peer_ask(peer, "blas", &fast, &error) == 0 && fast > 0 ? "the same in PyTorch"
                                                                             : "the same in PyTorch, reference BLAS";
}
