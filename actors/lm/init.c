// init.c: random parameters of a fresh model.
#include <math.h>
#include <string.h>
#include "actors/lm/model.h"
#include "kernels/sampling.h"

static void
s_fill_normal(float *to, int64_t count, double std, uint64_t key)
{
    for (int64_t i = 0; i < count; i += 2) {
        double pair[2];
        verl_keyed_normal(key, (uint64_t) i, pair);
        to[i] = (float) (std * pair[0]);
        if (i + 1 < count)
            to[i + 1] = (float) (std * pair[1]);
    }
}

static void
s_fill_one(float *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = 1;
}

static bool
s_ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

// Each tensor has a stream of its own, keyed by its place, so that one tensor's size moves no other's values.
int
verl_lm_init_params(const verl_lm_config_t *config, float *params, double std, uint64_t seed)
{
    verl_lm_layout_t layout;
    if (verl_lm_layout_init(&layout, config))
        return -1;
    memset(params, 0, (size_t) layout.total * sizeof(float));
    int64_t count = verl_lm_tensor_count(config);
    for (int64_t i = 0; i < count; i++) {
        verl_lm_tensor_t t;
        verl_lm_tensor_at(config, &layout, i, &t);
        bool narrow = s_ends_with(t.name, "o_proj.weight") || s_ends_with(t.name, "down_proj.weight");
        double scaled = narrow ? std / sqrt(2.0 * (double) config->layers) : std;
        if (s_ends_with(t.name, "norm.weight"))
            s_fill_one(params + t.offset, t.rows * t.cols);
        else if (!s_ends_with(t.name, ".bias"))
            s_fill_normal(params + t.offset, t.rows * t.cols, scaled,
                          seed * 0x9E3779B97F4A7C15u + (uint64_t) i * 0xD1B54A32D192ED03u);
    }
    verl_lm_layout_done(&layout);
    return 0;
}
