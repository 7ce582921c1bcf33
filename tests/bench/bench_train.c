// A training step on CPU in f32: forward, log-probabilities, backward, AdamW. The rate is that of its matrix products
// alone (attention, norms, the head's second forward and the optimizer are paid for and not counted), beside the rate
// of oneDNN over exactly these products, and of PyTorch over the same step.
#include <dnnl.h>
#include <stdlib.h>
#include <string.h>
#include "actors/lm/optimizer.h"
#include "tests/bench/bench.h"
#include "tests/bench/llama.h"

#define TURNS     3
#define LAYERS    6
#define VOCAB     8192
#define SEQUENCES 8
#define LENGTH    64
#define ROWS      (SEQUENCES * LENGTH)

typedef struct step {
    verl_bench_llama_t  llama;
    verl_lm_tape_t     *tape;
    verl_lm_optimizer_t optimizer;
    float              *gradient;           // [total]
    float              *in, *out;           // of the products of the reference
    float               logprobs[ROWS], d_logprobs[ROWS];
    int32_t             tokens[ROWS + 1];
    verl_lm_pick_t      picks[ROWS];
    verl_lm_segment_t   segments[SEQUENCES];
    verl_bench_peer_t   torch;
} step_t;

// --- ours ---------------------------------------------------------------------------------------------------------

static int
s_step(step_t *self, double *ret_seconds, verl_error_t *error)
{
    verl_lm_t *lm = self->llama.lm;
    verl_lm_batch_t batch = { self->tokens, ROWS, self->segments, SEQUENCES };
    verl_adamw_options_t adamw = { .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01,
                                   .max_norm = 1 };
    char text[256] = "";
    double begin = verl_bench_now(), norm;
    memset(self->gradient, 0, (size_t) self->llama.layout.total * sizeof(float));
    if (verl_lm_forward(lm, self->tape, VERL_LM_TRAIN, &batch, text, sizeof text) ||
        verl_lm_logprobs(lm, self->tape, self->picks, ROWS, self->logprobs, NULL, text, sizeof text) ||
        verl_lm_logprobs_backward(lm, self->tape, self->picks, ROWS, self->d_logprobs, NULL, self->gradient, text,
                                  sizeof text) ||
        verl_lm_backward(lm, self->tape, self->gradient, text, sizeof text) ||
        verl_lm_optimizer_step(&self->optimizer, &self->llama.config, &self->llama.layout, &adamw, self->llama.params,
                               self->gradient, 0, &norm, text, sizeof text) ||
        verl_lm_weights_changed(lm))
        return verl_error_set(error, "a training step failed: %s", text);
    *ret_seconds = verl_bench_now() - begin;
    return 0;
}

// --- the reference ------------------------------------------------------------------------------------------------

typedef struct shape {
    int64_t offset;                         // of the weight in the model's vector
    int64_t n, k;                           // [n, k]
} shape_t;

// y = x W^T, dx = dy W, dW += dy^T x. Returns their operations.
static double
s_products(const step_t *self, shape_t shape)
{
    const float *w = self->llama.params + shape.offset;
    dnnl_sgemm('N', 'T', ROWS, shape.n, shape.k, 1, self->in, shape.k, w, shape.k, 0, self->out, shape.n);
    dnnl_sgemm('N', 'N', ROWS, shape.k, shape.n, 1, self->out, shape.n, w, shape.k, 0, self->in, shape.k);
    dnnl_sgemm('T', 'N', shape.n, shape.k, ROWS, 1, self->out, shape.n, self->in, shape.k, 1,
               self->gradient + shape.offset, shape.k);
    return 6.0 * ROWS * (double) shape.n * (double) shape.k;
}

// The products of a step in the order of the layers. Their operands are set anew each time, since they would grow.
static double
s_reference(step_t *self, double *ret_operations)
{
    const verl_lm_config_t *c = &self->llama.config;
    double spent = 0, operations = 0;
    for (int64_t layer = 0; layer <= c->layers; layer++) {
        const verl_lm_layer_layout_t *at = &self->llama.layout.layer[layer < c->layers ? layer : 0];
        const shape_t shapes[] = { { at->q, (c->heads + 2 * c->kv_heads) * c->head_dim, c->hidden_size },
                                   { at->o, c->hidden_size, c->heads * c->head_dim },
                                   { at->gate, 2 * c->intermediate_size, c->hidden_size },
                                   { at->down, c->hidden_size, c->intermediate_size } };
        const shape_t head = { self->llama.layout.head, c->vocab_size, c->hidden_size };
        for (int i = 0; i < (layer < c->layers ? 4 : 1); i++) {
            const shape_t *shape = layer < c->layers ? &shapes[i] : &head;
            for (int64_t j = 0; j < ROWS * shape->k; j++)
                self->in[j] = (float) (j % 17) * 0.01f;
            double begin = verl_bench_now();
            operations += s_products(self, *shape);
            spent += verl_bench_now() - begin;
        }
    }
    *ret_operations = operations;
    return spent;
}

// --- both ---------------------------------------------------------------------------------------------------------

static int
s_init(step_t *self, verl_error_t *error)
{
    if (verl_bench_llama_init(&self->llama, LAYERS, VOCAB, error))
        return -1;
    int64_t total = self->llama.layout.total;
    self->tape = verl_lm_tape_new();
    self->gradient = malloc((size_t) total * sizeof(float));
    self->in = malloc(sizeof(float) * ROWS * VOCAB);
    self->out = malloc(sizeof(float) * ROWS * VOCAB);
    if (!self->tape || !self->gradient || !self->in || !self->out ||
        verl_lm_optimizer_init(&self->optimizer, total))
        return verl_error_set(error, "no memory for a training step");
    verl_bench_llama_tokens(&self->llama, self->tokens, ROWS + 1);
    for (int i = 0; i < SEQUENCES; i++)
        self->segments[i] = (verl_lm_segment_t) { .start = i * LENGTH, .length = LENGTH, .parent = -1 };
    for (int i = 0; i < ROWS; i++) {
        self->picks[i] = (verl_lm_pick_t) { .row = i, .target = self->tokens[i + 1], .temperature = 1 };
        self->d_logprobs[i] = -1.0f / ROWS;
    }
    verl_bench_llama_peer(&self->llama, &self->torch, "train.torch", SEQUENCES, LENGTH, 1, 2);
    return 0;
}

static void
s_done(step_t *self)
{
    verl_bench_peer_end(&self->torch);
    verl_lm_tape_destroy(&self->tape);
    verl_lm_optimizer_done(&self->optimizer);
    free(self->gradient);
    free(self->in);
    free(self->out);
    verl_bench_llama_done(&self->llama);
}

// The first turn touches memory for the first time and is not counted.
static int
s_measure(step_t *self, double (*seconds)[TURNS], double *ret_operations, verl_error_t *error)
{
    double first[3];
    for (int i = -1; i < TURNS; i++) {
        double *to[3];
        for (int k = 0; k < 3; k++)
            to[k] = i < 0 ? &first[k] : &seconds[k][i];
        if (s_step(self, to[0], error))
            return -1;
        *to[1] = s_reference(self, ret_operations);
        if (self->torch.pid && verl_bench_peer_ask(&self->torch, "train", to[2], error))
            return -1;
    }
    return 0;
}

static int
s_train(verl_bench_run_t *run, verl_error_t *error)
{
    step_t *self = calloc(1, sizeof *self);
    double seconds[3][TURNS], operations = 0;
    if (!self)
        return verl_error_set(error, "no memory for a training step");
    int rc = s_init(self, error) || s_measure(self, seconds, &operations, error) ? -1 : 0;
    if (rc == 0) {
        double ours = verl_bench_median(seconds[0], TURNS);
        verl_bench_report(run, "products", operations / ours / 1e9, "GFLOP/s", "oneDNN's own products at those shapes",
                          operations / verl_bench_median(seconds[1], TURNS) / 1e9);
        if (self->torch.pid)
            verl_bench_report(run, "torch", ROWS / ours, "tokens/s", verl_bench_llama_peer_name(&self->torch),
                              ROWS / verl_bench_median(seconds[2], TURNS));
    }
    s_done(self);
    free(self);
    return rc;
}

VERL_BENCH(train, "a training step reaches 0.6 of the rate of oneDNN's products at its shapes", s_train)
