// sampling.h: one token from a row of logits, and the random numbers for it.
#ifndef VERL_KERNELS_SAMPLING_H
#define VERL_KERNELS_SAMPLING_H
#include <stdint.h>

// The index'th number of the stream key, uniform in [0, 1): Philox4x32-10 (Salmon et al. 2011), so that any number of
// any stream is computed alone.
double verl_keyed_uniform(uint64_t key, uint64_t index);

// Two independent standard normal numbers (Box and Muller 1958) from the same stream.
void verl_keyed_normal(uint64_t key, uint64_t index, double ret_pair[2]);

typedef struct verl_sampling {
    double  temperature;                    // 0: the largest logit, the smallest id of equals
    int64_t top_k;                          // <= 0: off
    double  top_p;                          // >= 1: off
} verl_sampling_t;

// Draws by inverting the cumulative distribution in the order of ids at uniform, in [0, 1). top_k keeps the k largest
// logits; top_p then keeps the smallest set of largest probabilities that holds at least top_p of what top_k left; of
// equal ones the smaller ids stay. *ret_logprob is that of softmax(logits / temperature) before both (temperature 0:
// of softmax(logits)). scratch: n floats. 0, or -1 where a logit is not finite. n >= 1.
int verl_sample_token(const verl_sampling_t *how, int64_t n, const float *logits, double uniform, float *scratch,
                int32_t *ret_id, float *ret_logprob);
#endif
