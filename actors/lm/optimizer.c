// optimizer.c: AdamW with clipping over the flat vector; norms and biases are spared the decay.
#include "actors/lm/optimizer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "actors/lm/refuse.h"
#include "actors/lm/vector.h"
#include "kernels/adamw.h"

int
verl_lm_optimizer_init(verl_lm_optimizer_t *self, int64_t count)
{
    *self = (verl_lm_optimizer_t){ .count = count };
    size_t bytes = (size_t) count * sizeof(float);
    self->m = verl_lm_vector(bytes);
    self->v = verl_lm_vector(bytes);
    if (!self->m || !self->v) {
        verl_lm_optimizer_done(self);
        return -1;
    }
    memset(self->m, 0, bytes);
    memset(self->v, 0, bytes);
    return 0;
}

void
verl_lm_optimizer_done(verl_lm_optimizer_t *self)
{
    free(self->m);
    free(self->v);
    *self = (verl_lm_optimizer_t){ 0 };
}

static int
s_check(const verl_lm_optimizer_t *self, const verl_lm_layout_t *layout, const verl_adamw_options_t *o, char *error,
        size_t error_size)
{
    if (self->count != layout->total)
        return verl_lm_fail(error, error_size, "optimizer: its state is for %lld parameters, but the model has %lld",
                            (long long) self->count, (long long) layout->total);
    if (!(o->beta1 >= 0 && o->beta1 < 1) || !(o->beta2 >= 0 && o->beta2 < 1))
        return verl_lm_fail(error, error_size, "optimizer: betas %g and %g must be in [0, 1)", o->beta1, o->beta2);
    if (!(o->eps > 0) || !isfinite(o->lr) || !(o->weight_decay >= 0) || !(o->max_norm >= 0))
        return verl_lm_fail(error, error_size, "optimizer: lr %g must be finite, eps %g positive, weight_decay %g and "
                            "max_norm %g at least 0", o->lr, o->eps, o->weight_decay, o->max_norm);
    return 0;
}

// Neighbours in the vector that decay alike, as one pass over memory.
typedef struct {
    int64_t begin, end;
    bool decays;
} s_run_t;

static void
s_update_run(verl_lm_optimizer_t *self, const verl_adamw_t *how, const s_run_t *run, float *params,
             const float *gradient, int threads)
{
    verl_adamw_t own = *how;
    own.weight_decay = run->decays ? how->weight_decay : 0;
    verl_adamw_step(&own, run->end - run->begin, gradient + run->begin, self->m + run->begin, self->v + run->begin,
                    params + run->begin, threads);
}

// Tensors of one column are norms and biases. Gaps between tensors hold zeros, and stay so.
static void
s_update(verl_lm_optimizer_t *self, const verl_lm_config_t *config, const verl_lm_layout_t *layout,
         const verl_adamw_t *how, bool decay_all, float *params, const float *gradient, int threads)
{
    int64_t count = verl_lm_tensor_count(config);
    s_run_t run = { 0 };
    for (int64_t i = 0; i < count; i++) {
        verl_lm_tensor_t t;
        verl_lm_tensor_at(config, layout, i, &t);
        bool decays = decay_all || t.cols > 1;
        if (decays != run.decays || t.offset < run.end || t.offset > run.end + 16) {
            s_update_run(self, how, &run, params, gradient, threads);
            run = (s_run_t){ .begin = t.offset, .decays = decays };
        }
        run.end = t.offset + t.rows * t.cols;
    }
    s_update_run(self, how, &run, params, gradient, threads);
}

int
verl_lm_optimizer_step(verl_lm_optimizer_t *self, const verl_lm_config_t *config, const verl_lm_layout_t *layout,
                       const verl_adamw_options_t *o, float *params, const float *gradient, int threads,
                       double *ret_norm, char *error, size_t error_size)
{
    if (s_check(self, layout, o, error, error_size))
        return -1;
    double norm = sqrt(verl_sum_of_squares(layout->total, gradient, threads));
    if (ret_norm)
        *ret_norm = norm;
    if (!isfinite(norm))
        return verl_lm_fail(error, error_size, "optimizer: the gradient's norm at step %lld is %g, so the step was not "
                            "taken", (long long) self->step, norm);
    double clipped = o->max_norm > 0 && norm + 1e-6 > o->max_norm ? o->max_norm / (norm + 1e-6) : 1;
    self->step++;
    verl_adamw_t how = { .lr = o->lr, .beta1 = o->beta1, .beta2 = o->beta2, .eps = o->eps,
                         .weight_decay = o->weight_decay, .scale = clipped,
                         .correction1 = 1 - pow(o->beta1, (double) self->step),
                         .correction2 = 1 - pow(o->beta2, (double) self->step) };
    s_update(self, config, layout, &how, o->decay_all, params, gradient, threads);
    return 0;
}
