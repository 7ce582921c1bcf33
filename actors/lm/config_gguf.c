// config_gguf.c: metadata under "ARCHITECTURE.", and what only the tensors tell.
//
// Invariant: the configuration says that a tensor is there exactly where the first layer of the file has it.
#include "actors/lm/config_gguf.h"
#include "actors/lm/refuse.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const verl_gguf_t *file;
    const char        *name, *architecture;
    char              *error;
    size_t             error_size;
} s_reading_t;

#define s_fail(reading, ...) verl_lm_refuse((reading)->name, (reading)->error, (reading)->error_size, __VA_ARGS__)

static const verl_gguf_value_t *
s_get(const s_reading_t *reading, const char *key)
{
    char full[128];
    snprintf(full, sizeof full, "%s.%s", reading->architecture, key);
    return verl_gguf_get(reading->file, full);
}

// A whole number; where it is written once a layer, all must agree. needed: absent is an error.
static int
s_read_int(const s_reading_t *reading, const char *key, bool needed, int64_t *value)
{
    const verl_gguf_value_t *found = s_get(reading, key);
    int64_t                  other;
    if (!found)
        return needed ? s_fail(reading, "the metadata lacks %s.%s", reading->architecture, key) : 0;
    if (!verl_gguf_element_int(found, 0, value))
        return s_fail(reading, "%s.%s must be a whole number", reading->architecture, key);
    for (int64_t i = 1; i < verl_gguf_element_count(found); i++)
        if (!verl_gguf_element_int(found, i, &other) || other != *value)
            return s_fail(reading, "%s.%s differs from layer to layer, which is not supported", reading->architecture,
                          key);
    return 0;
}

static int
s_read_real(const s_reading_t *reading, const char *key, bool needed, double *value)
{
    const verl_gguf_value_t *found = s_get(reading, key);
    if (!found)
        return needed ? s_fail(reading, "the metadata lacks %s.%s", reading->architecture, key) : 0;
    if (verl_gguf_value_type(found) == VERL_GGUF_ARRAY || !verl_gguf_element_real(found, 0, value))
        return s_fail(reading, "%s.%s must be a number", reading->architecture, key);
    return 0;
}

// Metadata holds single precision: 1e-5 comes back as 9.99999974e-06. The decimal number that was meant is the
// shortest one that rounds to the same float.
static double
s_decimal(double value)
{
    char   text[32];
    double meant = value;
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, value);
        if (sscanf(text, "%lf", &meant) == 1 && (float) meant == (float) value)
            return meant;
    }
    return value;
}

static int
s_read_family(const s_reading_t *reading, verl_lm_config_t *config)
{
    static const char *const names[] = {"llama", "qwen2", "qwen3"};
    static const verl_lm_family_t families[] = {VERL_LM_LLAMA, VERL_LM_QWEN2, VERL_LM_QWEN3};
    for (int i = 0; i < 3; i++)
        if (strcmp(reading->architecture, names[i]) == 0) {
            config->family = families[i];
            return 0;
        }
    return s_fail(reading, "general.architecture is %s: llama, qwen2 and qwen3 are supported", reading->architecture);
}

static int
s_read_sizes(const s_reading_t *reading, verl_lm_config_t *config)
{
    const verl_gguf_tensor_t *embedding = verl_gguf_tensor(reading->file, "token_embd.weight");
    if (!embedding || embedding->dims != 2)
        return s_fail(reading, "tensor token_embd.weight is %s", embedding ? "no matrix" : "missing");
    config->vocab_size = embedding->dim[1];
    if (s_read_int(reading, "embedding_length", true, &config->hidden_size)
        || s_read_int(reading, "block_count", true, &config->layers)
        || s_read_int(reading, "attention.head_count", true, &config->heads)
        || s_read_int(reading, "feed_forward_length", true, &config->intermediate_size)
        || s_read_int(reading, "context_length", true, &config->max_positions)
        || s_read_real(reading, "attention.layer_norm_rms_epsilon", true, &config->norm_eps))
        return -1;
    if (config->heads < 1)
        return s_fail(reading, "%s.attention.head_count is %" PRId64 ": it must be at least 1", reading->architecture,
                      config->heads);
    config->kv_heads = config->heads;
    config->head_dim = config->hidden_size / config->heads;
    config->norm_eps = s_decimal(config->norm_eps);
    if (s_read_int(reading, "attention.head_count_kv", false, &config->kv_heads)
        || s_read_int(reading, "attention.key_length", false, &config->head_dim))
        return -1;
    int64_t value_length = config->head_dim, rope_dims = config->head_dim;
    if (s_read_int(reading, "attention.value_length", false, &value_length)
        || s_read_int(reading, "rope.dimension_count", false, &rope_dims))
        return -1;
    if (value_length != config->head_dim || rope_dims != config->head_dim)
        return s_fail(reading, "keys have %" PRId64 " dimensions, values %" PRId64 " and RoPE %" PRId64
                      ": they must be equal", config->head_dim, value_length, rope_dims);
    return 0;
}

static bool
s_is(double value, double other)
{
    return value >= other && value <= other;
}

// What other architectures compute with: each may be there with a value that changes nothing.
static int
s_refuse(const s_reading_t *reading)
{
    static const struct {
        const char *key;
        double      neutral, other;
    } known[] = {{"rope.scaling.attn_factor", 1, 1}, {"attention.scale", 0, 0}, {"attention.causal", 1, 1},
                 {"attention.sliding_window", 0, 0}, {"attention.clamp_kqv", 0, 0}, {"attn_logit_softcapping", 0, 0},
                 {"final_logit_softcapping", 0, 0}, {"logit_scale", 0, 1}, {"residual_scale", 0, 1},
                 {"embedding_scale", 0, 1}, {"expert_count", 0, 0}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        double value = known[i].neutral;
        if (s_read_real(reading, known[i].key, false, &value))
            return -1;
        if (!s_is(value, known[i].neutral) && !s_is(value, known[i].other))
            return s_fail(reading, "%s.%s is %g: only %g is supported", reading->architecture, known[i].key, value,
                          known[i].other);
    }
    return 0;
}

static bool
s_has(const s_reading_t *reading, const char *tensor)
{
    return verl_gguf_tensor(reading->file, tensor) != NULL;
}

static int
s_read_flags(const s_reading_t *reading, verl_lm_config_t *config)
{
    config->tied = !s_has(reading, "output.weight");
    config->qkv_bias = s_has(reading, "blk.0.attn_q.bias");
    config->o_bias = s_has(reading, "blk.0.attn_output.bias");
    config->mlp_bias = s_has(reading, "blk.0.ffn_up.bias");
    config->qk_norm = config->family == VERL_LM_QWEN3;
    bool qwen2 = config->family == VERL_LM_QWEN2;
    if (qwen2 ? !config->qkv_bias || config->o_bias : config->qkv_bias != config->o_bias)
        return s_fail(reading, "the biases of attention (%s on q, %s on the output) do not fit the architecture %s",
                      config->qkv_bias ? "one" : "none", config->o_bias ? "one" : "none", reading->architecture);
    if (config->mlp_bias && config->family != VERL_LM_LLAMA)
        return s_fail(reading, "the feed-forward layers of %s have no biases, and tensor blk.0.ffn_up.bias is there",
                      reading->architecture);
    return 0;
}

// What Llama 3 divides the frequency of pair i of a head by.
// https://huggingface.co/docs/transformers/main/en/internal/rope_utils (llama3)
static double
s_llama3_divisor(const verl_lm_config_t *config, int64_t i)
{
    double frequency = pow(config->rope_theta, -2.0 * (double) i / (double) config->head_dim);
    double turns = (double) config->rope_scaling.original_max_positions * frequency / 6.283185307179586;
    double low = config->rope_scaling.low_freq_factor, high = config->rope_scaling.high_freq_factor;
    double smooth = fmin(fmax((turns - low) / (high - low), 0), 1);
    return 1 / ((1 - smooth) / config->rope_scaling.factor + smooth);
}

// rope_freqs holds the divisors alone. Their largest is the factor; the rest of the scaling is that of every Llama 3
// that was published, which the divisors then have to confirm.
static int
s_read_divisors(const s_reading_t *reading, const verl_gguf_tensor_t *tensor, verl_lm_config_t *config)
{
    float divisors[1 << 11];
    if (tensor->type != VERL_QUANT_F32 || tensor->count != config->head_dim / 2
        || tensor->count > (int64_t) (sizeof divisors / sizeof divisors[0]))
        return s_fail(reading, "tensor rope_freqs.weight must hold %" PRId64 " numbers of F32", config->head_dim / 2);
    verl_dequantize(tensor->type, tensor->data, tensor->count, divisors);
    config->rope_scaling.type = VERL_ROPE_LLAMA3;
    config->rope_scaling.low_freq_factor = 1;
    config->rope_scaling.high_freq_factor = 4;
    config->rope_scaling.original_max_positions = 8192;
    config->rope_scaling.factor = 1;
    for (int64_t i = 0; i < tensor->count; i++)
        if ((double) divisors[i] > config->rope_scaling.factor)
            config->rope_scaling.factor = (double) divisors[i];
    if (s_read_int(reading, "rope.scaling.original_context_length", false,
                   &config->rope_scaling.original_max_positions))
        return -1;
    for (int64_t i = 0; i < tensor->count; i++)
        if (!(fabs(s_llama3_divisor(config, i) / (double) divisors[i] - 1) < 1e-3))
            return s_fail(reading, "rope_freqs.weight[%" PRId64 "] is %g: a Llama 3 of factor %g and %" PRId64
                          " original positions has %g, and no other scaling is supported", i, (double) divisors[i],
                          config->rope_scaling.factor, config->rope_scaling.original_max_positions,
                          s_llama3_divisor(config, i));
    return 0;
}

// What positions are divided by: 1 where nothing scales them. As in llama.cpp, a factor without a type is linear.
static int
s_read_factor(const s_reading_t *reading, double *factor)
{
    verl_gguf_string_t       type = {"linear", 6};
    const verl_gguf_value_t *found = s_get(reading, "rope.scaling.type");
    *factor = 1;
    if (found && (verl_gguf_value_type(found) == VERL_GGUF_ARRAY || !verl_gguf_element_string(found, 0, &type)))
        return s_fail(reading, "%s.rope.scaling.type must be a string", reading->architecture);
    if (type.size == 4 && memcmp(type.data, "none", 4) == 0)
        return 0;
    if (type.size != 6 || memcmp(type.data, "linear", 6) != 0)
        return s_fail(reading, "%s.rope.scaling.type is %.*s: none, linear and the rope_freqs of Llama 3 are supported",
                      reading->architecture, (int) (type.size < 64 ? type.size : 64), type.data);
    const char *key = s_get(reading, "rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
    if (s_read_real(reading, key, false, factor))
        return -1;
    *factor = s_is(*factor, 0) ? 1 : s_decimal(*factor);
    return 0;
}

static int
s_read_rope(const s_reading_t *reading, verl_lm_config_t *config)
{
    double factor;
    config->rope_theta = 10000;
    if (s_read_real(reading, "rope.freq_base", false, &config->rope_theta) || s_read_factor(reading, &factor))
        return -1;
    config->rope_theta = s_decimal(config->rope_theta);
    const verl_gguf_tensor_t *divisors = verl_gguf_tensor(reading->file, "rope_freqs.weight");
    if (divisors && !s_is(factor, 1))
        return s_fail(reading, "tensor rope_freqs.weight and a linear scaling of %g are both there: only one of them "
                      "is supported", factor);
    if (divisors)
        return s_read_divisors(reading, divisors, config);
    if (!s_is(factor, 1)) {
        config->rope_scaling.type = VERL_ROPE_LINEAR;
        config->rope_scaling.factor = factor;
    }
    return 0;
}

static int
s_read_id(const s_reading_t *reading, const char *key, int64_t *ret)
{
    *ret = -1;
    if (!verl_gguf_get(reading->file, key))
        return 0;
    if (!verl_gguf_int(reading->file, key, ret) || *ret < 0 || *ret > INT32_MAX)
        return s_fail(reading, "%s must be a token id", key);
    return 0;
}

static int
s_read_ids(const s_reading_t *reading, verl_lm_config_t *config)
{
    int64_t bos, eos, turn;
    if (s_read_id(reading, "tokenizer.ggml.bos_token_id", &bos)
        || s_read_id(reading, "tokenizer.ggml.eos_token_id", &eos)
        || s_read_id(reading, "tokenizer.ggml.eot_token_id", &turn))
        return -1;
    config->bos = (int32_t) bos;
    config->pad = -1;                                       // that of the metadata is the tokenizer's
    if (eos >= 0)
        config->eos[config->eos_count++] = (int32_t) eos;
    if (turn >= 0 && turn != eos)
        config->eos[config->eos_count++] = (int32_t) turn;
    return 0;
}

// The key of the metadata that a word of config.json stands for, behind the architecture; NULL: for none.
static const char *
s_key_of(const char *word, size_t length)
{
    static const char *const keys[][2] = {
        {"hidden_size", "embedding_length"}, {"num_hidden_layers", "block_count"},
        {"num_attention_heads", "attention.head_count"}, {"num_key_value_heads", "attention.head_count_kv"},
        {"head_dim", "attention.key_length"}, {"intermediate_size", "feed_forward_length"},
        {"max_position_embeddings", "context_length"}, {"rope_theta", "rope.freq_base"},
        {"rms_norm_eps", "attention.layer_norm_rms_epsilon"}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strlen(keys[i][0]) == length && memcmp(word, keys[i][0], length) == 0)
            return keys[i][1];
    return NULL;
}

// A sentence about a configuration, with the keys of the metadata in place of those of config.json.
static int
s_fail_check(const s_reading_t *reading, const char *what)
{
    char   said[600] = "";
    size_t used = 0;
    while (*what && used < sizeof said) {
        size_t      length = strspn(what, "abcdefghijklmnopqrstuvwxyz_");
        const char *key = s_key_of(what, length);
        length += length == 0;
        used += (size_t) (key ? snprintf(said + used, sizeof said - used, "%s.%s", reading->architecture, key)
                              : snprintf(said + used, sizeof said - used, "%.*s", (int) length, what));
        what += length;
    }
    return s_fail(reading, "%s", said);
}

int
verl_lm_config_from_gguf(const verl_gguf_t *file, const char *name, verl_lm_config_t *ret_config, char *error,
                         size_t error_size)
{
    char               architecture[32] = "", what[300];
    s_reading_t        reading = {file, name, architecture, error, error_size};
    verl_gguf_string_t text = {"", 0};
    memset(ret_config, 0, sizeof *ret_config);
    if (!verl_gguf_string(file, "general.architecture", &text) || text.size >= sizeof architecture)
        return s_fail(&reading, "the metadata lacks general.architecture, a short string");
    for (size_t i = 0; i < text.size; i++)
        architecture[i] = text.data[i] >= 32 && text.data[i] < 127 ? text.data[i] : '?';
    if (s_read_family(&reading, ret_config) || s_refuse(&reading) || s_read_sizes(&reading, ret_config)
        || s_read_flags(&reading, ret_config) || s_read_rope(&reading, ret_config)
        || s_read_ids(&reading, ret_config))
        return -1;
    return verl_lm_config_check(ret_config, what, sizeof what) ? s_fail_check(&reading, what) : 0;
}

bool
verl_lm_gguf_name(const char *name, char *ret_name, size_t size)
{
    static const char *const whole[][2] = {{"model.embed_tokens.weight", "token_embd.weight"},
                                           {"model.norm.weight", "output_norm.weight"},
                                           {"lm_head.weight", "output.weight"}};
    static const char *const parts[][2] = {
        {"input_layernorm", "attn_norm"}, {"self_attn.q_proj", "attn_q"}, {"self_attn.k_proj", "attn_k"},
        {"self_attn.v_proj", "attn_v"}, {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
        {"self_attn.k_norm", "attn_k_norm"}, {"post_attention_layernorm", "ffn_norm"}, {"mlp.gate_proj", "ffn_gate"},
        {"mlp.up_proj", "ffn_up"}, {"mlp.down_proj", "ffn_down"}};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (strcmp(name, whole[i][0]) == 0) {
            snprintf(ret_name, size, "%s", whole[i][1]);
            return true;
        }
    int64_t layer;
    int     length = 0;
    if (sscanf(name, "model.layers.%" SCNd64 ".%n", &layer, &length) != 1 || length == 0)
        return false;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t stem = strlen(parts[i][0]);
        if (strncmp(name + length, parts[i][0], stem) == 0 && name[(size_t) length + stem] == '.') {
            snprintf(ret_name, size, "blk.%" PRId64 ".%s%s", layer, parts[i][1], name + length + (int) stem);
            return true;
        }
    }
    return false;
}
