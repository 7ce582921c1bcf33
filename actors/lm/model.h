// model.h: a decoder-only transformer over one flat parameter vector: scoring, gradients and generation on CPU.
//
// Families: Llama, Qwen2, Qwen3 (config.h). Every result is the same bits from run to run and for every number of
// threads: work is cut over rows, columns and heads, never over a sum. Generation is also independent of the other
// rows of its batch.
//
// Threads: one verl_lm_t or tape is used by one caller at a time; several models may read the same parameters.
// Nothing here blocks on anything but computation. Functions that can fail return 0, or -1 with one sentence in
// error (which may be NULL); the outputs are then unspecified, and the model and tape can be used again.
#ifndef VERL_LM_MODEL_H
#define VERL_LM_MODEL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "actors/lm/config.h"
#include "kernels/segment.h"

// BF16: the inputs of every matrix product are rounded to bfloat16 and summed in f32; parameters, gradients and all
// else stay f32.
typedef enum { VERL_LM_F32, VERL_LM_BF16 } verl_lm_dtype_t;

typedef struct verl_lm verl_lm_t;
typedef struct verl_lm_tape verl_lm_tape_t;
typedef verl_segment_t verl_lm_segment_t;

// --- Model ---------------------------------------------------------------------------------------------------------

// A model of config's shape that reads params: layout.total floats, borrowed, which must outlive it or be replaced by
// verl_lm_set_params. params may be NULL when they are set later. The configuration is copied. threads: 0 means all
// processors that this process may use. NULL on failure.
verl_lm_t *verl_lm_new(const verl_lm_config_t *config, const float *params, verl_lm_dtype_t dtype, int threads,
                       char *error, size_t error_size);
void verl_lm_destroy(verl_lm_t **lm_p);

// Reads parameters elsewhere from now on (a published version). 0, or -1 without memory for the rounded copy.
int verl_lm_set_params(verl_lm_t *lm, const float *params);

// To be called after the parameters changed in place. 0, or -1 without memory for the rounded copy.
int verl_lm_weights_changed(verl_lm_t *lm);

const verl_lm_config_t *verl_lm_config(const verl_lm_t *lm);
const verl_lm_layout_t *verl_lm_layout(const verl_lm_t *lm);
const float            *verl_lm_params(const verl_lm_t *lm);

// Random parameters for a fresh model: matrices normal(0, std), o and down divided by sqrt(2 * layers), norms 1,
// biases 0, gaps between tensors 0. A function of (config, std, seed) only. 0, or -1 without memory.
int verl_lm_init_params(const verl_lm_config_t *config, float *params, double std, uint64_t seed);

// --- Scoring -------------------------------------------------------------------------------------------------------

#define VERL_LM_MAX_CHAIN 256               // segments from a root to a leaf

// A packed ragged batch. Segments cover the rows 0 … rows - 1 in order, without gaps; a parent comes before its
// children. Positions continue from the parent's end. A token attends to its whole chain of parents and to its own
// segment up to itself. Borrowed during each call.
typedef struct verl_lm_batch {
    const int32_t *tokens;                  // [rows]
    int64_t rows;
    const verl_lm_segment_t *segments;
    int64_t segment_count;
} verl_lm_batch_t;

// The activations of one forward pass; memory is kept from one pass to the next. NULL without memory.
verl_lm_tape_t *verl_lm_tape_new(void);
void verl_lm_tape_destroy(verl_lm_tape_t **tape_p);

typedef enum {
    VERL_LM_SCORE,                          // log-probabilities only; memory does not grow with layers
    VERL_LM_TRAIN,                          // keeps what verl_lm_backward needs
    VERL_LM_TRAIN_RECOMPUTE                 // keeps each layer's input only; backward computes the rest again
} verl_lm_mode_t;

// Bytes that a tape holds for a batch of so many rows, for the choice of a micro-batch.
int64_t verl_lm_tape_bytes(const verl_lm_t *lm, verl_lm_mode_t mode, int64_t rows);

// Runs the model over batch. Fails on a token outside the vocabulary, a context longer than max_positions, segments
// that are no valid cover, or when memory is short. Tokens and segments are copied into the tape.
int verl_lm_forward(verl_lm_t *lm, verl_lm_tape_t *tape, verl_lm_mode_t mode, const verl_lm_batch_t *batch,
                    char *error, size_t error_size);

// Hidden states after the final norm, [rows, hidden_size]; valid until the next forward. Entry point of other heads.
const float *verl_lm_tape_hidden(const verl_lm_tape_t *tape);
// Gradient of the loss by those, [rows, hidden_size]: zero after a forward in a TRAIN mode; a head adds its part.
float *verl_lm_tape_d_hidden(verl_lm_tape_t *tape);

// One log-probability: log softmax(logits of hidden row `row` / temperature)[target]. Row r predicts the token after
// r, so the first response token is read at the last row of the prompt; several picks may share a row, whose logits
// are then computed once (adjacent picks of one row and temperature share the most). temperature > 0.
typedef struct verl_lm_pick {
    int64_t row;
    int32_t target;
    float   temperature;
} verl_lm_pick_t;

// logprobs[count], and entropy[count] in nats of the same distributions (NULL: not wanted). Fails on a row or target
// out of range, on a temperature that is not positive and finite, and on logits that are not finite (naming the first
// such row; one broken row may break others of its tree).
int verl_lm_logprobs(verl_lm_t *lm, verl_lm_tape_t *tape, const verl_lm_pick_t *picks, int64_t count,
                     float *logprobs, float *entropy, char *error, size_t error_size);

// Given d loss / d logprobs and d loss / d entropy (either may be NULL) adds the head's gradient to gradient
// (layout.total floats) and the rest to the tape's d_hidden. Computes the logits again. After verl_lm_forward in a
// TRAIN mode; may be called several times before verl_lm_backward.
int verl_lm_logprobs_backward(verl_lm_t *lm, verl_lm_tape_t *tape, const verl_lm_pick_t *picks, int64_t count,
                              const float *d_logprobs, const float *d_entropy, float *gradient,
                              char *error, size_t error_size);

// Takes the tape's d_hidden through all layers and adds to gradient, so that micro-batches accumulate. Once a
// forward. Parameters must be those of the forward.
int verl_lm_backward(verl_lm_t *lm, verl_lm_tape_t *tape, float *gradient, char *error, size_t error_size);

// --- Generation ----------------------------------------------------------------------------------------------------

typedef struct verl_lm_generate_options {
    int64_t samples;                        // for each prompt, >= 1
    int64_t max_new_tokens;                 // >= 1
    double  temperature;                    // 0: greedy (the smallest id wins a tie)
    int64_t top_k;                          // 0 or -1: off
    double  top_p;                          // (0, 1]; 1: off
    const int32_t *stop;                    // ids that end a response; they are part of it
    int     stop_count;
    int64_t max_bytes;                      // of key/value cache; prompts go in waves that fit. 0: 4 GiB
    int (*progress)(void *context, int64_t tokens, int64_t rows); // after each step: tokens made so far, rows alive;
                                            // non-zero ends the generation. May be NULL
    void   *context;
} verl_lm_generate_options_t;

// Prompts: ragged ids; prompt p is ids[offsets[p] … offsets[p + 1]), at least one token each.
typedef struct verl_lm_prompts {
    const int32_t *ids;
    const int64_t *offsets;                 // [count + 1]
    int64_t count;
} verl_lm_prompts_t;

// Row r = p * samples + s. Arrays are the caller's.
typedef struct verl_lm_generated {
    int32_t *ids;                           // [count * samples, max_new_tokens]; unused places are 0
    float   *logprobs;                      // same shape: of logits / temperature before top-k and top-p
                                            // (greedy: of the logits); NULL: not wanted
    int64_t *lengths;                       // [count * samples], including the stop token
    uint8_t *truncated;                     // [count * samples]: 1 where max_new_tokens ended it; NULL: not wanted
} verl_lm_generated_t;

#define VERL_LM_CANCELLED 1                 // what verl_lm_generate returns when progress ended it

// Generates. keys[count * samples]: row r's random stream is a function of keys[r] and the index of the token alone;
// its result does not depend on other rows, waves or threads. Fails when prompt + max_new_tokens exceeds
// max_positions, on a bad option or token, or on logits that are not finite (naming prompt, sample and token).
int verl_lm_generate(verl_lm_t *lm, const verl_lm_prompts_t *prompts, const verl_lm_generate_options_t *options,
                     const uint64_t *keys, const verl_lm_generated_t *ret_generated, char *error, size_t error_size);
#endif
