// config_json.c: config.json in both of its dialects, and the three places in which stop tokens are written.
//
// Invariant: what is absent gets the default of the reference implementation; what is there and of the wrong type is an
// error, never a default.
#include "actors/lm/config_json_private.h"
#include "actors/lm/refuse.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;                       // of the file
    json_t     *root;
    char       *error;
    size_t      error_size;
} s_document_t;

const verl_lm_family_info_t verl_lm_families[VERL_LM_FAMILIES] = {
    [VERL_LM_LLAMA] = {"llama", "Llama", VERL_LM_LLAMA, 2048},
    [VERL_LM_QWEN2] = {"qwen2", "Qwen2", VERL_LM_QWEN2, 32768},
    [VERL_LM_QWEN3] = {"qwen3", "Qwen3", VERL_LM_QWEN3, 32768},
};

#define s_fail(document, ...) verl_lm_refuse((document)->name, (document)->error, (document)->error_size, __VA_ARGS__)

static int
s_open(s_document_t *document, const char *text, size_t size, size_t flags)
{
    json_error_t why;
    if (size > VERL_LM_CONFIG_BYTES)
        return s_fail(document, "the file has %zu bytes: a configuration has at most %d", size, VERL_LM_CONFIG_BYTES);
    document->root = json_loadb(text, size, JSON_REJECT_DUPLICATES | flags, &why);
    if (!document->root)
        return s_fail(document, "line %d, column %d: %s", why.line, why.column, why.text);
    if (!json_is_object(document->root)) {
        json_decref(document->root);
        document->root = NULL;
        return s_fail(document, "the file must hold one JSON object");
    }
    return 0;
}

// A key's value, or NULL where it is absent or null.
static const json_t *
s_get(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static int
s_get_int(const s_document_t *document, const json_t *object, const char *key, int64_t *value)
{
    const json_t *found = s_get(object, key);
    if (found && !json_is_integer(found))
        return s_fail(document, "%s must be a whole number", key);
    if (found)
        *value = json_integer_value(found);
    return 0;
}

static int
s_need_int(const s_document_t *document, const char *key, int64_t *value)
{
    if (!s_get(document->root, key))
        return s_fail(document, "%s is missing: it must be a whole number", key);
    return s_get_int(document, document->root, key, value);
}

static int
s_get_real(const s_document_t *document, const json_t *object, const char *key, double *value)
{
    const json_t *found = s_get(object, key);
    if (found && !json_is_number(found))
        return s_fail(document, "%s must be a number", key);
    if (found)
        *value = json_number_value(found);
    return 0;
}

static int
s_get_bool(const s_document_t *document, const char *key, bool *value)
{
    const json_t *found = s_get(document->root, key);
    if (found && !json_is_boolean(found))
        return s_fail(document, "%s must be true or false", key);
    if (found)
        *value = json_is_true(found);
    return 0;
}

static const verl_lm_family_info_t *
s_find_family(const s_document_t *document)
{
    const char *type = json_string_value(s_get(document->root, "model_type"));
    const char *architecture = json_string_value(json_array_get(s_get(document->root, "architectures"), 0));
    for (int i = 0; i < VERL_LM_FAMILIES; i++) {
        const char *prefix = verl_lm_families[i].prefix;
        if (type ? strcmp(type, verl_lm_families[i].model_type) == 0
                 : architecture && strncmp(architecture, prefix, strlen(prefix)) == 0
                       && strncmp(architecture + strlen(prefix), "For", 3) == 0)
            return &verl_lm_families[i];
    }
    s_fail(document, "model_type is %s%.64s: llama, qwen2 and qwen3 are supported",
           type ? "" : "missing, architecture ", type ? type : architecture ? architecture : "too");
    return NULL;
}

static int
s_read_sizes(const s_document_t *document, const verl_lm_family_info_t *family, verl_lm_config_t *config)
{
    if (s_need_int(document, "vocab_size", &config->vocab_size)
        || s_need_int(document, "hidden_size", &config->hidden_size)
        || s_need_int(document, "num_hidden_layers", &config->layers)
        || s_need_int(document, "num_attention_heads", &config->heads)
        || s_need_int(document, "intermediate_size", &config->intermediate_size))
        return -1;
    config->kv_heads = config->heads;
    config->max_positions = family->max_positions;
    config->norm_eps = 1e-6;
    config->head_dim = family->family == VERL_LM_QWEN3 ? 128 : 0;
    if (s_get_int(document, document->root, "num_key_value_heads", &config->kv_heads)
        || s_get_int(document, document->root, "head_dim", &config->head_dim)
        || s_get_int(document, document->root, "max_position_embeddings", &config->max_positions)
        || s_get_real(document, document->root, "rms_norm_eps", &config->norm_eps))
        return -1;
    if (family->family != VERL_LM_LLAMA && !json_object_get(document->root, "num_key_value_heads"))
        return s_fail(document, "num_key_value_heads is missing: it must be a whole number");
    if (s_get(document->root, "head_dim") || family->family == VERL_LM_QWEN3)
        return 0;
    if (config->heads < 1 || config->hidden_size % config->heads != 0)
        return s_fail(document, "without head_dim, hidden_size (%" PRId64 ") must be a multiple of "
                      "num_attention_heads (%" PRId64 ")", config->hidden_size, config->heads);
    config->head_dim = config->hidden_size / config->heads;
    return 0;
}

static int
s_read_flags(const s_document_t *document, verl_lm_config_t *config)
{
    bool attention_bias = false;
    if (s_get_bool(document, "tie_word_embeddings", &config->tied)
        || s_get_bool(document, "attention_bias", &attention_bias))
        return -1;
    if (config->family == VERL_LM_LLAMA && s_get_bool(document, "mlp_bias", &config->mlp_bias))
        return -1;
    config->qk_norm = config->family == VERL_LM_QWEN3;
    config->qkv_bias = config->family == VERL_LM_QWEN2 || attention_bias;
    config->o_bias = config->family != VERL_LM_QWEN2 && attention_bias;
    return 0;
}

// The numbers of a scaling whose type is known; scaling is rope_scaling or rope_parameters.
static int
s_read_scaling_numbers(const s_document_t *document, const json_t *scaling, verl_lm_config_t *config)
{
    if (s_get_real(document, scaling, "factor", &config->rope_scaling.factor))
        return -1;
    if (config->rope_scaling.type == VERL_ROPE_LINEAR)
        return 0;
    config->rope_scaling.original_max_positions = config->max_positions;
    if (s_get_real(document, scaling, "low_freq_factor", &config->rope_scaling.low_freq_factor)
        || s_get_real(document, scaling, "high_freq_factor", &config->rope_scaling.high_freq_factor)
        || s_get_int(document, scaling, "original_max_position_embeddings",
                     &config->rope_scaling.original_max_positions)
        || s_get_int(document, document->root, "original_max_position_embeddings",      // wins, as in transformers
                     &config->rope_scaling.original_max_positions))
        return -1;
    return 0;
}

static int
s_read_scaling(const s_document_t *document, const char *key, const json_t *scaling, verl_lm_config_t *config)
{
    const char *type = json_string_value(s_get(scaling, s_get(scaling, "rope_type") ? "rope_type" : "type"));
    if (!type && json_object_size(scaling) > (s_get(scaling, "rope_theta") ? 1u : 0u))
        return s_fail(document, "%s needs a rope_type: default, linear or llama3", key);
    if (!type || strcmp(type, "default") == 0)
        return 0;
    if (strcmp(type, "linear") == 0)
        config->rope_scaling.type = VERL_ROPE_LINEAR;
    else if (strcmp(type, "llama3") == 0)
        config->rope_scaling.type = VERL_ROPE_LLAMA3;
    else
        return s_fail(document, "the rope_type of %s is %.64s: default, linear and llama3 are supported", key, type);
    return s_read_scaling_numbers(document, scaling, config);
}

// Do two objects say the same? A rope_theta counts only where the root has another.
static bool
s_is_same_scaling(const s_document_t *document, const json_t *one, const json_t *other)
{
    const json_t *root = s_get(document->root, "rope_theta");
    json_t *bare[] = { json_copy((json_t *) (uintptr_t) one), json_copy((json_t *) (uintptr_t) other) };
    for (int i = 0; i < 2; i++) {
        const json_t *theta = json_object_get(bare[i], "rope_theta");
        double more = json_number_value(theta) - json_number_value(root);
        if (root && json_is_number(theta) && !(more > 0 || more < 0))
            json_object_del(bare[i], "rope_theta");
    }
    bool same = json_equal(bare[0], bare[1]);
    json_decref(bare[0]);
    json_decref(bare[1]);
    return same;
}

// The object that scales RoPE in either dialect, NULL where there is none; an empty one says nothing. Two that differ
// are an error: transformers would take rope_scaling, and lose a rope_theta inside rope_parameters.
static int
s_find_scaling(const s_document_t *document, const char **ret_key, const json_t **ret_scaling)
{
    static const char *const keys[] = {"rope_parameters", "rope_scaling"};
    *ret_key = keys[0];
    *ret_scaling = NULL;
    for (int i = 0; i < 2; i++) {
        const json_t *found = s_get(document->root, keys[i]);
        if (found && !json_is_object(found))
            return s_fail(document, "%s must be an object", keys[i]);
        if (json_object_size(found) == 0)
            continue;
        if (*ret_scaling && !s_is_same_scaling(document, *ret_scaling, found))
            return s_fail(document, "rope_parameters and rope_scaling are both there and differ: give one of them");
        *ret_key = keys[i];
        *ret_scaling = found;
    }
    return 0;
}

static int
s_read_rope(const s_document_t *document, verl_lm_config_t *config)
{
    const char   *key;
    const json_t *scaling;
    double        partial = 1;
    config->rope_theta = 10000;
    if (s_find_scaling(document, &key, &scaling)
        || s_get_real(document, document->root, "rope_theta", &config->rope_theta)
        || s_get_real(document, scaling, "rope_theta", &config->rope_theta)
        || s_get_real(document, document->root, "partial_rotary_factor", &partial)
        || s_get_real(document, scaling, "partial_rotary_factor", &partial))
        return -1;
    if (partial < 1 || partial > 1)
        return s_fail(document, "partial_rotary_factor is %g: only 1 is supported", partial);
    return scaling ? s_read_scaling(document, key, scaling, config) : 0;
}

// What would change the computation without a trace in the names of the tensors.
static int
s_refuse(const s_document_t *document)
{
    const json_t *types = s_get(document->root, "layer_types"), *type;
    const char   *activation = json_string_value(s_get(document->root, "hidden_act"));
    bool          sliding = false;
    size_t        i;
    if (s_get_bool(document, "use_sliding_window", &sliding))
        return -1;
    json_array_foreach(types, i, type)
        if (!json_is_string(type) || strcmp(json_string_value(type), "full_attention") != 0)
            return s_fail(document, "layer_types[%zu] must be \"full_attention\": nothing else is supported", i);
    if (sliding && !types)
        return s_fail(document, "use_sliding_window is true: sliding windows are not supported");
    if (s_get(document->root, "hidden_act") && (!activation || strcmp(activation, "silu") != 0))
        return s_fail(document, "hidden_act is %.64s: only silu is supported", activation ? activation : "no string");
    if (s_get(document->root, "quantization_config"))
        return s_fail(document, "quantization_config is there: the weights must be F32, F16 or BF16");
    return 0;
}

static int
s_set_id(const s_document_t *document, const char *key, const json_t *value, int32_t *ret)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > INT32_MAX)
        return s_fail(document, "%s must be a token id or a list of at most %d of them", key, VERL_LM_MAX_EOS);
    *ret = (int32_t) json_integer_value(value);
    return 0;
}

// bos_token_id and eos_token_id, each over what *config has where the file names it; -1 is none, as some files write.
static int
s_read_ids(const s_document_t *document, verl_lm_config_t *config)
{
    const json_t *bos = s_get(document->root, "bos_token_id"), *eos = s_get(document->root, "eos_token_id");
    if (json_is_array(bos))
        bos = json_array_get(bos, 0);
    if (bos && json_integer_value(bos) != -1 && s_set_id(document, "bos_token_id", bos, &config->bos))
        return -1;
    if (!eos || (json_is_integer(eos) && json_integer_value(eos) == -1))
        return 0;
    config->eos_count = 0;
    if (!json_is_array(eos))
        return s_set_id(document, "eos_token_id", eos, &config->eos[config->eos_count++]);
    if (json_array_size(eos) > VERL_LM_MAX_EOS)
        return s_fail(document, "eos_token_id has %zu ids: at most %d are supported", json_array_size(eos),
                      VERL_LM_MAX_EOS);
    for (size_t i = 0; i < json_array_size(eos); i++)
        if (s_set_id(document, "eos_token_id", json_array_get(eos, i), &config->eos[config->eos_count++]))
            return -1;
    return 0;
}

// pad_token_id of config.json, which changes no computation of ours: it is kept for who trains what we save.
static int
s_read_pad(const s_document_t *document, verl_lm_config_t *config)
{
    int64_t pad = -1;
    if (s_get_int(document, document->root, "pad_token_id", &pad))
        return -1;
    if (pad < -1 || pad >= config->vocab_size || pad > INT32_MAX)
        return s_fail(document, "pad_token_id %" PRId64 " is outside the vocabulary of %" PRId64, pad,
                      config->vocab_size);
    config->pad = (int32_t) pad;
    return 0;
}

static int
s_check(const s_document_t *document, const verl_lm_config_t *config)
{
    char what[300];
    return verl_lm_config_check(config, what, sizeof what) ? s_fail(document, "%s", what) : 0;
}

static int
s_read_config(const s_document_t *document, verl_lm_config_t *config)
{
    const verl_lm_family_info_t *family = s_find_family(document);
    if (!family)
        return -1;
    config->family = family->family;
    config->bos = -1;
    if (s_refuse(document) || s_read_sizes(document, family, config) || s_read_flags(document, config)
        || s_read_rope(document, config) || s_read_ids(document, config) || s_check(document, config))
        return -1;
    return s_read_pad(document, config);
}

int
verl_lm_config_from_json(const char *text, size_t size, const char *name, verl_lm_config_t *ret_config, char *error,
                         size_t error_size)
{
    s_document_t document = {name, NULL, error, error_size};
    memset(ret_config, 0, sizeof *ret_config);
    if (s_open(&document, text, size, 0))
        return -1;
    int result = s_read_config(&document, ret_config);
    json_decref(document.root);
    return result;
}

int
verl_lm_stops_from_generation(const char *text, size_t size, const char *name, verl_lm_config_t *config, char *error,
                              size_t error_size)
{
    s_document_t document = {name, NULL, error, error_size};
    if (s_open(&document, text, size, 0))
        return -1;
    int result = s_read_ids(&document, config) || s_check(&document, config) ? -1 : 0;
    json_decref(document.root);
    return result;
}

// A special token is written as a string, or as an object with a content.
static const char *
s_token_text(const json_t *token)
{
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

int
verl_lm_stops_from_tokenizer(const char *text, size_t size, const char *name, verl_lm_config_t *config, char *error,
                             size_t error_size)
{
    s_document_t document = {name, NULL, error, error_size};
    const char  *key;
    json_t      *token;
    if (config->eos_count > 0)
        return 0;
    // transformers writes a model_max_length of 1e30 as an integer where there is none.
    if (s_open(&document, text, size, JSON_DECODE_INT_AS_REAL))
        return -1;
    const char *eos = s_token_text(json_object_get(document.root, "eos_token"));
    json_object_foreach(json_object_get(document.root, "added_tokens_decoder"), key, token) {
        char       *end;
        const char *content = s_token_text(token);
        long        id = strtol(key, &end, 10);
        if (eos && content && strcmp(eos, content) == 0 && end != key && *end == '\0' && id >= 0 && id <= INT32_MAX) {
            config->eos[0] = (int32_t) id;
            config->eos_count = 1;
            break;
        }
    }
    json_decref(document.root);
    return s_check(&document, config);
}
