// config_json_write.c: a configuration as config.json and generation_config.json, in the dialect of transformers 4,
// which transformers 5 reads too.
#include "actors/lm/config_json_private.h"

#include <jansson.h>
#include <stdio.h>

static json_t *
s_eos_to_json(const verl_lm_config_t *config)
{
    if (config->eos_count == 0)
        return json_null();
    if (config->eos_count == 1)
        return json_integer(config->eos[0]);
    json_t *list = json_array();
    for (int i = 0; i < config->eos_count; i++)
        json_array_append_new(list, json_integer(config->eos[i]));
    return list;
}

static void
s_put_ids(json_t *root, const verl_lm_config_t *config)
{
    json_object_set_new(root, "bos_token_id", config->bos < 0 ? json_null() : json_integer(config->bos));
    json_object_set_new(root, "eos_token_id", s_eos_to_json(config));
    if (config->pad >= 0)
        json_object_set_new(root, "pad_token_id", json_integer(config->pad));
}

static json_t *
s_scaling_to_json(const verl_lm_config_t *config)
{
    if (config->rope_scaling.type == VERL_ROPE_DEFAULT)
        return json_null();
    json_t *scaling = json_object();
    bool    llama3 = config->rope_scaling.type == VERL_ROPE_LLAMA3;
    json_object_set_new(scaling, "rope_type", json_string(llama3 ? "llama3" : "linear"));
    json_object_set_new(scaling, "factor", json_real(config->rope_scaling.factor));
    if (llama3) {
        json_object_set_new(scaling, "low_freq_factor", json_real(config->rope_scaling.low_freq_factor));
        json_object_set_new(scaling, "high_freq_factor", json_real(config->rope_scaling.high_freq_factor));
        json_object_set_new(scaling, "original_max_position_embeddings",
                            json_integer(config->rope_scaling.original_max_positions));
    }
    return scaling;
}

static void
s_put_numbers(json_t *root, const verl_lm_config_t *config)
{
    json_object_set_new(root, "vocab_size", json_integer(config->vocab_size));
    json_object_set_new(root, "hidden_size", json_integer(config->hidden_size));
    json_object_set_new(root, "num_hidden_layers", json_integer(config->layers));
    json_object_set_new(root, "num_attention_heads", json_integer(config->heads));
    json_object_set_new(root, "num_key_value_heads", json_integer(config->kv_heads));
    json_object_set_new(root, "head_dim", json_integer(config->head_dim));
    json_object_set_new(root, "intermediate_size", json_integer(config->intermediate_size));
    json_object_set_new(root, "max_position_embeddings", json_integer(config->max_positions));
    json_object_set_new(root, "rms_norm_eps", json_real(config->norm_eps));
    json_object_set_new(root, "rope_theta", json_real(config->rope_theta));
    json_object_set_new(root, "rope_scaling", s_scaling_to_json(config));
}

char *
verl_lm_config_to_json(const verl_lm_config_t *config, const char *dtype)
{
    const verl_lm_family_info_t *family = &verl_lm_families[config->family];
    char                         architecture[64];
    json_t                      *root = json_object();
    snprintf(architecture, sizeof architecture, "%sForCausalLM", family->prefix);
    json_object_set_new(root, "architectures", json_pack("[s]", architecture));
    json_object_set_new(root, "model_type", json_string(family->model_type));
    json_object_set_new(root, "torch_dtype", json_string(dtype));
    s_put_numbers(root, config);
    json_object_set_new(root, "hidden_act", json_string("silu"));
    json_object_set_new(root, "tie_word_embeddings", json_boolean(config->tied));
    if (config->family != VERL_LM_QWEN2)
        json_object_set_new(root, "attention_bias", json_boolean(config->qkv_bias));
    if (config->family == VERL_LM_LLAMA)
        json_object_set_new(root, "mlp_bias", json_boolean(config->mlp_bias));
    s_put_ids(root, config);
    char *text = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    return text;
}

char *
verl_lm_generation_to_json(const verl_lm_config_t *config)
{
    json_t *root = json_object();
    s_put_ids(root, config);
    char *text = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    return text;
}
