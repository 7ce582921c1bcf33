// model_fixture.h: reads reference/model_*.bin, as make_model_reference.py writes them.
#ifndef TEST_MODEL_FIXTURE_H
#define TEST_MODEL_FIXTURE_H
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "actors/lm/model.h"

static const char *const fixture_names[] = { "llama", "llama_bias", "qwen2", "qwen3" };
enum { FIXTURES = 4 };

typedef struct {
    verl_lm_config_t config;
    verl_lm_layout_t layout;
    float *params, *gradient;               // by layout; expected gradient
    int32_t *tokens;
    verl_lm_segment_t *segments;
    verl_lm_pick_t *picks;
    verl_lm_batch_t batch;
    int64_t pick_count;
    float *logprobs, *entropy, *d_logprobs, *d_entropy;
} fixture_t;

static inline void *
fixture_read(FILE *file, size_t size)
{
    void *data = malloc(size + 1);
    cr_assert_eq(fread(data, 1, size, file), size, "the fixture is too short");
    return data;
}

static inline void
fixture_config(FILE *file, verl_lm_config_t *c)
{
    int64_t *n = fixture_read(file, 15 * sizeof *n);
    double *x = fixture_read(file, 6 * sizeof *x);
    *c = (verl_lm_config_t){ .family = (verl_lm_family_t) n[0], .vocab_size = n[1], .hidden_size = n[2],
                             .layers = n[3], .heads = n[4], .kv_heads = n[5], .head_dim = n[6],
                             .intermediate_size = n[7], .max_positions = n[8], .tied = n[9], .qkv_bias = n[10],
                             .o_bias = n[11], .mlp_bias = n[12], .qk_norm = n[13], .norm_eps = x[0],
                             .rope_theta = x[1], .bos = -1, .pad = -1 };
    c->rope_scaling.type = (verl_rope_type_t) n[14];
    c->rope_scaling.factor = x[2];
    c->rope_scaling.low_freq_factor = x[3];
    c->rope_scaling.high_freq_factor = x[4];
    c->rope_scaling.original_max_positions = (int64_t) x[5];
    free(n);
    free(x);
}

static inline void
fixture_tensor(FILE *file, fixture_t *f)
{
    char *name = fixture_read(file, 96);
    int64_t *shape = fixture_read(file, 2 * sizeof *shape);
    size_t size = (size_t) (shape[0] * shape[1]) * sizeof(float);
    float *value = fixture_read(file, size), *gradient = fixture_read(file, size);
    int found = 0;
    for (int64_t i = 0; i < verl_lm_tensor_count(&f->config); i++) {
        verl_lm_tensor_t t;
        verl_lm_tensor_at(&f->config, &f->layout, i, &t);
        if (strcmp(t.name, name))
            continue;
        cr_assert(t.rows == shape[0] && t.cols == shape[1], "%s has another shape", name);
        memcpy(f->params + t.offset, value, size);
        memcpy(f->gradient + t.offset, gradient, size);
        found++;
    }
    cr_assert_eq(found, 1, "the model has no tensor %s", name);
    free(name);
    free(shape);
    free(value);
    free(gradient);
}

static inline void
fixture_open(fixture_t *f, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/actors/lm/reference/model_%s.bin", VERL_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s cannot be opened", path);
    fixture_config(file, &f->config);
    cr_assert_eq(verl_lm_layout_init(&f->layout, &f->config), 0);
    f->params = calloc((size_t) f->layout.total, sizeof(float));
    f->gradient = calloc((size_t) f->layout.total, sizeof(float));
    int64_t *n = fixture_read(file, 4 * sizeof *n);
    f->tokens = fixture_read(file, (size_t) n[0] * sizeof *f->tokens);
    f->segments = fixture_read(file, (size_t) n[1] * sizeof *f->segments);
    f->picks = fixture_read(file, (size_t) n[2] * sizeof *f->picks);
    f->batch = (verl_lm_batch_t){ f->tokens, n[0], f->segments, n[1] };
    f->pick_count = n[2];
    float **arrays[] = { &f->logprobs, &f->entropy, &f->d_logprobs, &f->d_entropy };
    for (int i = 0; i < 4; i++)
        *arrays[i] = fixture_read(file, (size_t) n[2] * sizeof(float));
    for (int64_t i = 0; i < n[3]; i++)
        fixture_tensor(file, f);
    free(n);
    fclose(file);
}

static inline void
fixture_close(fixture_t *f)
{
    void *arrays[] = { f->params, f->gradient, f->tokens, f->segments, f->picks, f->logprobs, f->entropy,
                       f->d_logprobs, f->d_entropy };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        free(arrays[i]);
    verl_lm_layout_done(&f->layout);
}

// |a - b| / |b|.
static inline double
relative_distance(const float *a, const float *b, int64_t count)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += ((double) a[i] - (double) b[i]) * ((double) a[i] - (double) b[i]);
        norm += (double) b[i] * (double) b[i];
    }
    return sqrt(difference / (norm + 1e-30));
}

static inline double
largest_difference(const float *a, const float *b, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs((double) a[i] - (double) b[i]));
    return most;
}
#endif
