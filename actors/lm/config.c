// config.c: lays the tensors of a model out in one flat vector, and names them.
//
// One table says what a layer holds; the layout, the count and the names all come from it, so they cannot disagree.
// Invariant: offsets grow in the order of the table, no two tensors overlap, and what no tensor covers is padding.
#include "actors/lm/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { DIM_ONE, DIM_HIDDEN, DIM_QUERIES, DIM_KEYS, DIM_HEAD, DIM_INTERMEDIATE } s_dim_t;
typedef enum { WHEN_ALWAYS, WHEN_QKV_BIAS, WHEN_O_BIAS, WHEN_QK_NORM, WHEN_MLP_BIAS } s_when_t;

typedef struct {
    const char *name;                       // after "model.layers.N."
    size_t      member;                     // of verl_lm_layer_layout_t
    s_dim_t     rows, cols;
    s_when_t    when;
    bool        joined;                     // follows the one before it without a gap
} s_entry_t;

#define ENTRY(name, member, rows, cols, when, joined) \
    {name, offsetof(verl_lm_layer_layout_t, member), rows, cols, when, joined}

static const s_entry_t s_entries[] = {
    ENTRY("input_layernorm.weight", input_norm, DIM_HIDDEN, DIM_ONE, WHEN_ALWAYS, false),
    ENTRY("self_attn.q_proj.weight", q, DIM_QUERIES, DIM_HIDDEN, WHEN_ALWAYS, false),
    ENTRY("self_attn.k_proj.weight", k, DIM_KEYS, DIM_HIDDEN, WHEN_ALWAYS, true),
    ENTRY("self_attn.v_proj.weight", v, DIM_KEYS, DIM_HIDDEN, WHEN_ALWAYS, true),
    ENTRY("self_attn.q_proj.bias", q_bias, DIM_QUERIES, DIM_ONE, WHEN_QKV_BIAS, false),
    ENTRY("self_attn.k_proj.bias", k_bias, DIM_KEYS, DIM_ONE, WHEN_QKV_BIAS, true),
    ENTRY("self_attn.v_proj.bias", v_bias, DIM_KEYS, DIM_ONE, WHEN_QKV_BIAS, true),
    ENTRY("self_attn.q_norm.weight", q_norm, DIM_HEAD, DIM_ONE, WHEN_QK_NORM, false),
    ENTRY("self_attn.k_norm.weight", k_norm, DIM_HEAD, DIM_ONE, WHEN_QK_NORM, false),
    ENTRY("self_attn.o_proj.weight", o, DIM_HIDDEN, DIM_QUERIES, WHEN_ALWAYS, false),
    ENTRY("self_attn.o_proj.bias", o_bias, DIM_HIDDEN, DIM_ONE, WHEN_O_BIAS, false),
    ENTRY("post_attention_layernorm.weight", post_norm, DIM_HIDDEN, DIM_ONE, WHEN_ALWAYS, false),
    ENTRY("mlp.gate_proj.weight", gate, DIM_INTERMEDIATE, DIM_HIDDEN, WHEN_ALWAYS, false),
    ENTRY("mlp.up_proj.weight", up, DIM_INTERMEDIATE, DIM_HIDDEN, WHEN_ALWAYS, true),
    ENTRY("mlp.gate_proj.bias", gate_bias, DIM_INTERMEDIATE, DIM_ONE, WHEN_MLP_BIAS, false),
    ENTRY("mlp.up_proj.bias", up_bias, DIM_INTERMEDIATE, DIM_ONE, WHEN_MLP_BIAS, true),
    ENTRY("mlp.down_proj.weight", down, DIM_HIDDEN, DIM_INTERMEDIATE, WHEN_ALWAYS, false),
    ENTRY("mlp.down_proj.bias", down_bias, DIM_HIDDEN, DIM_ONE, WHEN_MLP_BIAS, false),
};
enum { ENTRIES = sizeof s_entries / sizeof s_entries[0] };

static int64_t
s_dim(const verl_lm_config_t *config, s_dim_t dim)
{
    switch (dim) {
    case DIM_ONE:          return 1;
    case DIM_HIDDEN:       return config->hidden_size;
    case DIM_QUERIES:      return config->heads * config->head_dim;
    case DIM_KEYS:         return config->kv_heads * config->head_dim;
    case DIM_HEAD:         return config->head_dim;
    case DIM_INTERMEDIATE: return config->intermediate_size;
    }
    return 0;
}

static bool
s_present(const verl_lm_config_t *config, s_when_t when)
{
    switch (when) {
    case WHEN_ALWAYS:   return true;
    case WHEN_QKV_BIAS: return config->qkv_bias;
    case WHEN_O_BIAS:   return config->o_bias;
    case WHEN_QK_NORM:  return config->qk_norm;
    case WHEN_MLP_BIAS: return config->mlp_bias;
    }
    return false;
}

static int64_t *
s_member(verl_lm_layer_layout_t *layer, const s_entry_t *entry)
{
    return (int64_t *) (void *) ((char *) layer + entry->member);
}

static int64_t
s_align(int64_t offset)
{
    return (offset + VERL_LM_ALIGNMENT - 1) / VERL_LM_ALIGNMENT * VERL_LM_ALIGNMENT;
}

static int64_t
s_lay_layer(verl_lm_layer_layout_t *layer, const verl_lm_config_t *config, int64_t at)
{
    for (int i = 0; i < ENTRIES; i++) {
        const s_entry_t *entry = &s_entries[i];
        if (!s_present(config, entry->when)) {
            *s_member(layer, entry) = -1;
            continue;
        }
        if (!entry->joined)
            at = s_align(at);
        *s_member(layer, entry) = at;
        at += s_dim(config, entry->rows) * s_dim(config, entry->cols);
    }
    return s_align(at);
}

int
verl_lm_layout_init(verl_lm_layout_t *layout, const verl_lm_config_t *config)
{
    memset(layout, 0, sizeof *layout);
    layout->layer = calloc((size_t) config->layers, sizeof *layout->layer);
    if (!layout->layer)
        return -1;
    int64_t embedding_size = s_align(config->vocab_size * config->hidden_size);
    int64_t at = embedding_size;
    for (int64_t i = 0; i < config->layers; i++)
        at = s_lay_layer(&layout->layer[i], config, at);
    layout->final_norm = at;
    at = s_align(at + config->hidden_size);
    if (!config->tied) {
        layout->head = at;
        at += embedding_size;
    }
    layout->total = at;
    return 0;
}

void
verl_lm_layout_done(verl_lm_layout_t *layout)
{
    free(layout->layer);
    memset(layout, 0, sizeof *layout);
}

static int64_t
s_layer_count(const verl_lm_config_t *config)
{
    int64_t count = 0;
    for (int i = 0; i < ENTRIES; i++)
        count += s_present(config, s_entries[i].when);
    return count;
}

int64_t
verl_lm_tensor_count(const verl_lm_config_t *config)
{
    return 2 + !config->tied + config->layers * s_layer_count(config);
}

static void
s_set(verl_lm_tensor_t *tensor, const char *name, int64_t offset, int64_t rows, int64_t cols)
{
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    tensor->offset = offset;
    tensor->rows = rows;
    tensor->cols = cols;
}

void
verl_lm_tensor_at(const verl_lm_config_t *config, const verl_lm_layout_t *layout, int64_t index,
                  verl_lm_tensor_t *ret_tensor)
{
    int64_t per_layer = s_layer_count(config), inside = config->layers * per_layer;
    if (index == 0) {
        s_set(ret_tensor, "model.embed_tokens.weight", layout->embedding, config->vocab_size, config->hidden_size);
        return;
    }
    if (index > inside) {
        bool norm = index == inside + 1;
        s_set(ret_tensor, norm ? "model.norm.weight" : "lm_head.weight", norm ? layout->final_norm : layout->head,
              norm ? config->hidden_size : config->vocab_size, norm ? 1 : config->hidden_size);
        return;
    }
    int64_t layer = (index - 1) / per_layer, nth = (index - 1) % per_layer;
    const s_entry_t *entry = s_entries;
    for (;; entry++)
        if (s_present(config, entry->when) && nth-- == 0)
            break;
    char name[sizeof ret_tensor->name];
    snprintf(name, sizeof name, "model.layers.%" PRId64 ".%s", layer, entry->name);
    s_set(ret_tensor, name, *s_member(&layout->layer[layer], entry), s_dim(config, entry->rows),
          s_dim(config, entry->cols));
}

// One row of the table of limits: a number of the configuration, and the range in which a model can be held.
typedef struct {
    const char *name;
    int64_t     value, least, most;
} s_limit_t;

static int
s_check_sizes(const verl_lm_config_t *config, char *error, size_t error_size)
{
    const s_limit_t limits[] = {
        {"vocab_size", config->vocab_size, 1, 1 << 24},
        {"hidden_size", config->hidden_size, 1, 1 << 20},
        {"num_hidden_layers", config->layers, 1, 4096},
        {"num_attention_heads", config->heads, 1, 1 << 16},
        {"num_key_value_heads", config->kv_heads, 1, 1 << 16},
        {"head_dim", config->head_dim, 2, 1 << 16},
        {"intermediate_size", config->intermediate_size, 1, 1 << 22},
        {"max_position_embeddings", config->max_positions, 1, 1 << 30},
    };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        if (limits[i].value < limits[i].least || limits[i].value > limits[i].most) {
            snprintf(error, error_size, "%s is %" PRId64 ": it must be between %" PRId64 " and %" PRId64,
                     limits[i].name, limits[i].value, limits[i].least, limits[i].most);
            return -1;
        }
    if (config->heads % config->kv_heads != 0) {
        snprintf(error, error_size, "num_attention_heads (%" PRId64 ") must be a multiple of num_key_value_heads (%"
                 PRId64 ")", config->heads, config->kv_heads);
        return -1;
    }
    if (config->head_dim % 2 != 0 || config->heads * config->head_dim > 1 << 22) {
        snprintf(error, error_size, "head_dim (%" PRId64 ") must be even, and %" PRId64 " heads of it at most %d wide",
                 config->head_dim, config->heads, 1 << 22);
        return -1;
    }
    return 0;
}

static bool
s_within(double value, double least, double most)
{
    return value >= least && value <= most;             // false for NaN
}

static int
s_check_rope(const verl_lm_config_t *config, char *error, size_t error_size)
{
    if (!s_within(config->rope_theta, 1, 1e12)) {
        snprintf(error, error_size, "rope_theta is %g: it must be between 1 and 1e12", config->rope_theta);
        return -1;
    }
    if (config->rope_scaling.type == VERL_ROPE_DEFAULT)
        return 0;
    if (!s_within(config->rope_scaling.factor, 1, 1e6)) {
        snprintf(error, error_size, "the factor of rope_scaling is %g: it must be between 1 and 1e6",
                 config->rope_scaling.factor);
        return -1;
    }
    if (config->rope_scaling.type == VERL_ROPE_LINEAR)
        return 0;
    double low = config->rope_scaling.low_freq_factor, high = config->rope_scaling.high_freq_factor;
    if (!s_within(low, 1e-6, 1e6) || !s_within(high, 1e-6, 1e6) || high <= low) {
        snprintf(error, error_size, "rope_scaling has low_freq_factor %g and high_freq_factor %g: both must be "
                 "positive and the second larger", low, high);
        return -1;
    }
    if (config->rope_scaling.original_max_positions < 1) {
        snprintf(error, error_size, "original_max_position_embeddings of rope_scaling is %" PRId64
                 ": it must be at least 1", config->rope_scaling.original_max_positions);
        return -1;
    }
    return 0;
}

static int
s_check_ids(const verl_lm_config_t *config, char *error, size_t error_size)
{
    if (config->bos < -1 || config->bos >= config->vocab_size) {
        snprintf(error, error_size, "bos_token_id %" PRId32 " is outside the vocabulary of %" PRId64, config->bos,
                 config->vocab_size);
        return -1;
    }
    if (config->eos_count < 0 || config->eos_count > VERL_LM_MAX_EOS) {
        snprintf(error, error_size, "there are %d eos tokens: at most %d are supported", config->eos_count,
                 VERL_LM_MAX_EOS);
        return -1;
    }
    for (int i = 0; i < config->eos_count; i++)
        if (config->eos[i] < 0 || config->eos[i] >= config->vocab_size) {
            snprintf(error, error_size, "eos_token_id %" PRId32 " is outside the vocabulary of %" PRId64,
                     config->eos[i], config->vocab_size);
            return -1;
        }
    return 0;
}

int
verl_lm_config_check(const verl_lm_config_t *config, char *error, size_t error_size)
{
    if (s_check_sizes(config, error, error_size) || s_check_rope(config, error, error_size)
        || s_check_ids(config, error, error_size))
        return -1;
    if (!s_within(config->norm_eps, 0, 1)) {
        snprintf(error, error_size, "rms_norm_eps is %g: it must be between 0 and 1", config->norm_eps);
        return -1;
    }
    return 0;
}
