// optimizer.h: AdamW over the flat parameter vector, clipping by global norm, and learning-rate schedules.
//
// State is two flat vectors and a counter, so that a checkpoint is three writes. Steps are the same bits for every
// number of threads.
#ifndef VERL_LM_OPTIMIZER_H
#define VERL_LM_OPTIMIZER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "actors/lm/config.h"

typedef enum { VERL_SCHEDULE_CONSTANT, VERL_SCHEDULE_LINEAR, VERL_SCHEDULE_COSINE } verl_schedule_type_t;

typedef struct verl_schedule {
    verl_schedule_type_t type;
    int64_t warmup;                         // optimizer steps from 0 to the full rate
    int64_t total;                          // optimizer steps of the whole schedule; unused by CONSTANT
    double  min_ratio;                      // of the full rate at the end, [0, 1]
} verl_schedule_t;

// The factor on the learning rate for the step'th optimizer step (0 is the first): step / warmup while step < warmup;
// then 1, or from 1 to min_ratio along a line or half a cosine over total - warmup steps, and min_ratio after them.
// As get_cosine_schedule_with_warmup and its siblings define it, so the first step of a warm-up has factor 0.
double verl_schedule_factor(const verl_schedule_t *schedule, int64_t step);

typedef struct verl_adamw_options {
    double lr;                              // already multiplied by the schedule's factor
    double beta1, beta2, eps;               // usual: 0.9, 0.999, 1e-8
    double weight_decay;                    // decoupled (Loshchilov and Hutter 2019)
    double max_norm;                        // of the gradient over all parameters; 0: no clipping
    bool   decay_all;                       // also norms and biases, which are otherwise left alone
} verl_adamw_options_t;

typedef struct verl_lm_optimizer {
    float  *m, *v;                          // [count] running means of the gradient and of its square
    int64_t count;                          // layout.total
    int64_t step;                           // steps taken
} verl_lm_optimizer_t;

// Zeroed state. 0, or -1 without memory. done accepts zeroed memory.
int  verl_lm_optimizer_init(verl_lm_optimizer_t *self, int64_t count);
void verl_lm_optimizer_done(verl_lm_optimizer_t *self);

// One step: params -= lr * (m^ / (sqrt(v^) + eps) + weight_decay * params), with the gradient scaled by
// min(1, max_norm / (norm + 1e-6)) first; gradient itself is left as it is. *ret_norm (may be NULL) is the norm before
// clipping. A gradient with a norm that is not finite is refused: -1, a sentence in error, nothing changed.
int verl_lm_optimizer_step(verl_lm_optimizer_t *self, const verl_lm_config_t *config, const verl_lm_layout_t *layout,
                           const verl_adamw_options_t *options, float *params, const float *gradient, int threads,
                           double *ret_norm, char *error, size_t error_size);
#endif
