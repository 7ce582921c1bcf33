// softmax.h: the distribution softmax(logits / temperature) of one row: its normaliser, entropy and gradient.
#ifndef VERL_KERNELS_SOFTMAX_H
#define VERL_KERNELS_SOFTMAX_H
#include <stdint.h>

// *ret_lse: log of the sum of exp(logits * inverse_temperature), so that a log-probability is
// logits[i] * inverse_temperature - lse. *ret_entropy in nats (NULL: not wanted). 0, or -1 where a logit is not
// finite; then nothing is set. n >= 1.
int verl_softmax_measure(int64_t n, const float *logits, float inverse_temperature, float *ret_lse,
                         float *ret_entropy);

// The first logit that is not finite, or -1.
int64_t verl_softmax_not_finite(int64_t n, const float *logits);

// Replaces logits by their gradient less the targets' own part: of a loss whose derivatives by log-probabilities of
// this distribution sum to d_logprobs, and by its entropy is d_entropy. The caller then adds
// inverse_temperature * d_logprob at each target.
void verl_softmax_backward(int64_t n, float *logits, float inverse_temperature, float lse, float entropy,
                           float d_logprobs, float d_entropy);
#endif
