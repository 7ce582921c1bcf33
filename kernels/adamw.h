// adamw.h: one AdamW step over flat vectors (Loshchilov and Hutter 2019), and the norm that clipping needs.
#ifndef VERL_KERNELS_ADAMW_H
#define VERL_KERNELS_ADAMW_H
#include <stdint.h>

typedef struct verl_adamw {
    double lr, beta1, beta2, eps, weight_decay;
    double scale;                           // on the gradient: what clipping leaves of it
    double correction1, correction2;        // 1 - beta^step
} verl_adamw_t;

// Sum of x[i]^2, in an order that does not depend on threads.
double verl_sum_of_squares(int64_t count, const float *x, int threads);

// m, v and params change in place.
void verl_adamw_step(const verl_adamw_t *how, int64_t count, const float *gradient, float *m, float *v,
                     float *params, int threads);
#endif
