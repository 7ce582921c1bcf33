// model.c: making a model, its parameters and their rounded copy.
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include "actors/lm/model_private.h"
#include "actors/lm/vector.h"
#include "kernels/bf16.h"
#include "kernels/rope.h"
#include "kernels/sampling.h"

// What the arithmetic relies on; the readers of configurations check more.
static int
s_check(const verl_lm_config_t *c, char *error, size_t error_size)
{
    const struct { const char *name; int64_t value; } sizes[] = {
        { "vocab_size", c->vocab_size }, { "hidden_size", c->hidden_size }, { "layers", c->layers },
        { "heads", c->heads }, { "kv_heads", c->kv_heads }, { "head_dim", c->head_dim },
        { "intermediate_size", c->intermediate_size }, { "max_positions", c->max_positions } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].value < 1 || sizes[i].value > 1 << 30)
            return verl_lm_fail(error, error_size, "model: %s is %lld: it must be from 1 to 2^30", sizes[i].name,
                                (long long) sizes[i].value);
    if (c->heads % c->kv_heads)
        return verl_lm_fail(error, error_size, "model: kv_heads %lld does not divide heads %lld",
                            (long long) c->kv_heads, (long long) c->heads);
    if (c->head_dim % 2)
        return verl_lm_fail(error, error_size, "model: head_dim is %lld: rotary embedding needs an even one",
                            (long long) c->head_dim);
    if (!(c->norm_eps >= 0) || !(c->rope_theta > 0))
        return verl_lm_fail(error, error_size, "model: norm_eps %g must be >= 0 and rope_theta %g > 0", c->norm_eps,
                            c->rope_theta);
    return 0;
}

static int
s_frequencies(verl_lm_t *lm)
{
    const verl_lm_config_t *c = &lm->config;
    static const verl_rope_scale_t scales[] = { [VERL_ROPE_DEFAULT] = VERL_ROPE_SCALE_NONE,
                                                [VERL_ROPE_LINEAR] = VERL_ROPE_SCALE_LINEAR,
                                                [VERL_ROPE_LLAMA3] = VERL_ROPE_SCALE_LLAMA3 };
    verl_rope_t rope = { .theta = c->rope_theta, .scale = scales[c->rope_scaling.type],
                         .factor = c->rope_scaling.factor, .low_freq_factor = c->rope_scaling.low_freq_factor,
                         .high_freq_factor = c->rope_scaling.high_freq_factor,
                         .original_max_positions = (double) c->rope_scaling.original_max_positions };
    lm->frequencies = malloc((size_t) c->head_dim * sizeof(float));
    if (!lm->frequencies)
        return -1;
    verl_rope_frequencies(&rope, c->head_dim, lm->frequencies);
    return 0;
}

verl_lm_t *
verl_lm_new(const verl_lm_config_t *config, const float *params, verl_lm_dtype_t dtype, int threads, char *error,
            size_t error_size)
{
    if (s_check(config, error, error_size))
        return NULL;
    verl_lm_t *lm = calloc(1, sizeof *lm);
    if (!lm || (lm->config = *config, verl_lm_layout_init(&lm->layout, config)) || s_frequencies(lm)) {
        verl_lm_fail(error, error_size, "model: no memory for a model of %lld layers", (long long) config->layers);
        verl_lm_destroy(&lm);
        return NULL;
    }
    lm->dtype = dtype;
    lm->threads = threads > 0 ? threads : omp_get_num_procs();
    if (params && verl_lm_set_params(lm, params)) {
        verl_lm_fail(error, error_size, "model: no memory for a bf16 copy of %lld parameters",
                     (long long) lm->layout.total);
        verl_lm_destroy(&lm);
    }
    return lm;
}

void
verl_lm_destroy(verl_lm_t **lm_p)
{
    verl_lm_t *lm = *lm_p;
    if (!lm)
        return;
    verl_lm_layout_done(&lm->layout);
    verl_lm_tape_destroy(&lm->prefill);
    free(lm->bf16);
    free(lm->frequencies);
    free(lm->rope_table);
    free(lm->cache);
    free(lm);
    *lm_p = NULL;
}

int
verl_lm_set_params(verl_lm_t *lm, const float *params)
{
    lm->params = params;
    return verl_lm_weights_changed(lm);
}

int
verl_lm_weights_changed(verl_lm_t *lm)
{
    if (lm->dtype != VERL_LM_BF16)
        return 0;
    if (!lm->bf16)
        lm->bf16 = verl_lm_vector((size_t) lm->layout.total * sizeof lm->bf16[0]);
    if (!lm->bf16)
        return -1;
    verl_bf16_from_f32(lm->layout.total, lm->params, lm->bf16, lm->threads);
    return 0;
}

const verl_lm_config_t *
verl_lm_config(const verl_lm_t *lm)
{
    return &lm->config;
}

const verl_lm_layout_t *
verl_lm_layout(const verl_lm_t *lm)
{
    return &lm->layout;
}

const float *
verl_lm_params(const verl_lm_t *lm)
{
    return lm->params;
}

verl_weight_t
verl_lm_weight(const verl_lm_t *lm, int64_t offset, int64_t inputs)
{
    if (lm->dtype == VERL_LM_BF16)
        return (verl_weight_t){ .bf16 = lm->bf16 + offset, .stride = inputs };
    return (verl_weight_t){ .f32 = lm->params + offset, .stride = inputs };
}

void
verl_lm_round(const verl_lm_t *lm, int64_t count, float *x, int threads)
{
    if (lm->dtype == VERL_LM_BF16)
        verl_bf16_round(count, x, x, threads);
}

verl_attention_t
verl_lm_attention_shape(const verl_lm_config_t *config)
{
    return (verl_attention_t){ .heads = config->heads, .kv_heads = config->kv_heads, .head_dim = config->head_dim,
                               .ld = verl_lm_qkv_width(config),
                               .scale = (float) (1 / sqrt((double) config->head_dim)) };
}

// The table grows by doubling, so that a generation of n tokens computes it O(n) in all.
int
verl_lm_need_positions(verl_lm_t *lm, int64_t count)
{
    if (count <= lm->rope_positions)
        return 0;
    int64_t head_dim = lm->config.head_dim, old = lm->rope_positions, most = lm->config.max_positions;
    int64_t enough = 2 * old > count ? 2 * old : count;
    enough = enough < 64 ? 64 : enough;
    enough = enough > most && most >= count ? most : enough;
    float *table = realloc(lm->rope_table, (size_t) (enough * head_dim) * sizeof(float));
    if (!table)
        return -1;
    lm->rope_table = table;
    verl_rope_table(head_dim, lm->frequencies, old, enough - old, table + old * head_dim);
    lm->rope_positions = enough;
    return 0;
}
