// The layout of a model's tensors, and configurations as JSON.
#include "actors/lm/config.h"
#include "actors/lm/config_json.h"
#include "scratch.h"

static verl_lm_config_t
s_config(verl_lm_family_t family)
{
    verl_lm_config_t config = {
        .family = family, .vocab_size = 11, .hidden_size = 12, .layers = 3, .heads = 6, .kv_heads = 2, .head_dim = 2,
        .intermediate_size = 7, .max_positions = 64, .norm_eps = 1e-6, .rope_theta = 1e4, .bos = -1, .pad = -1,
        .qkv_bias = family == VERL_LM_QWEN2, .qk_norm = family == VERL_LM_QWEN3, .tied = family == VERL_LM_QWEN2};
    return config;
}

// Every tensor lies after the one before it, inside the vector, and gaps are only what alignment asks for.
static void
s_check_layout(const verl_lm_config_t *config)
{
    verl_lm_layout_t layout;
    verl_lm_tensor_t tensor;
    int64_t          end = 0;
    cr_assert_eq(verl_lm_layout_init(&layout, config), 0);
    for (int64_t i = 0; i < verl_lm_tensor_count(config); i++) {
        verl_lm_tensor_at(config, &layout, i, &tensor);
        cr_assert(tensor.offset >= end && tensor.offset - end < VERL_LM_ALIGNMENT, "%s", tensor.name);
        cr_assert(tensor.offset == end || tensor.offset % VERL_LM_ALIGNMENT == 0, "%s", tensor.name);
        end = tensor.offset + tensor.rows * tensor.cols;
    }
    cr_assert(layout.total >= end && layout.total - end < VERL_LM_ALIGNMENT);
    cr_assert_eq(layout.total % VERL_LM_ALIGNMENT, 0);
    verl_lm_layout_done(&layout);
}

Test(lm_config, tensors_follow_one_another)
{
    for (verl_lm_family_t family = VERL_LM_LLAMA; family <= VERL_LM_QWEN3; family++) {
        verl_lm_config_t config = s_config(family);
        s_check_layout(&config);
        config.o_bias = config.mlp_bias = config.qkv_bias = true;
        s_check_layout(&config);
    }
}

Test(lm_config, products_that_are_made_together_are_adjacent)
{
    verl_lm_config_t config = s_config(VERL_LM_LLAMA);
    verl_lm_layout_t layout;
    config.qkv_bias = config.o_bias = config.mlp_bias = true;
    cr_assert_eq(verl_lm_layout_init(&layout, &config), 0);
    for (int64_t i = 0; i < config.layers; i++) {
        const verl_lm_layer_layout_t *layer = &layout.layer[i];
        cr_assert_eq(layer->k - layer->q, 12 * 12);
        cr_assert_eq(layer->v - layer->k, 4 * 12);
        cr_assert_eq(layer->k_bias - layer->q_bias, 12);
        cr_assert_eq(layer->v_bias - layer->k_bias, 4);
        cr_assert_eq(layer->up - layer->gate, 7 * 12);
        cr_assert_eq(layer->up_bias - layer->gate_bias, 7);
        cr_assert_eq(layer->q % VERL_LM_ALIGNMENT, 0);
        cr_assert_eq(layer->q_norm, -1);
    }
    verl_lm_layout_done(&layout);
}

Test(lm_config, a_tied_head_is_the_embedding_and_no_tensor)
{
    verl_lm_config_t config = s_config(VERL_LM_QWEN2);
    verl_lm_layout_t tied, untied;
    cr_assert_eq(verl_lm_layout_init(&tied, &config), 0);
    int64_t count = verl_lm_tensor_count(&config);
    config.tied = false;
    cr_assert_eq(verl_lm_layout_init(&untied, &config), 0);
    cr_assert_eq(verl_lm_tensor_count(&config), count + 1);
    cr_assert_eq(tied.head, tied.embedding);
    cr_assert_eq(untied.total - tied.total, 144);           // 11 * 12, aligned
    cr_assert_eq(untied.head, tied.total);
    verl_lm_layout_done(&tied);
    verl_lm_layout_done(&untied);
}

Test(lm_config, names_are_those_of_hugging_face)
{
    verl_lm_config_t config = s_config(VERL_LM_QWEN3);
    verl_lm_layout_t layout;
    verl_lm_tensor_t tensor;
    bool             found = false;
    cr_assert_eq(verl_lm_layout_init(&layout, &config), 0);
    for (int64_t i = 0; i < verl_lm_tensor_count(&config); i++) {
        verl_lm_tensor_at(&config, &layout, i, &tensor);
        if (strcmp(tensor.name, "model.layers.2.self_attn.k_norm.weight") != 0)
            continue;
        found = true;
        cr_assert_eq(tensor.offset, layout.layer[2].k_norm);
        cr_assert(tensor.rows == 2 && tensor.cols == 1);
    }
    cr_assert(found);
    verl_lm_tensor_at(&config, &layout, 0, &tensor);
    cr_assert_str_eq(tensor.name, "model.embed_tokens.weight");
    verl_lm_tensor_at(&config, &layout, verl_lm_tensor_count(&config) - 1, &tensor);
    cr_assert_str_eq(tensor.name, "lm_head.weight");
    cr_assert(tensor.rows == 11 && tensor.cols == 12 && tensor.offset == layout.head);
    verl_lm_layout_done(&layout);
}

#define SIZES "\"vocab_size\": 100, \"hidden_size\": 16, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, " \
              "\"intermediate_size\": 24, \"num_key_value_heads\": 2"

static int
s_parse(const char *text, verl_lm_config_t *config, char *error, size_t error_size)
{
    return verl_lm_config_from_json(text, strlen(text), "config.json", config, error, error_size);
}

static verl_lm_config_t
s_must_parse(const char *text)
{
    verl_lm_config_t config;
    char             error[512];
    cr_assert_eq(s_parse(text, &config, error, sizeof error), 0, "%s", error);
    return config;
}

Test(lm_config, absent_keys_get_the_defaults_of_the_reference)
{
    verl_lm_config_t config = s_must_parse("{\"model_type\": \"llama\", " SIZES "}");
    cr_assert_eq(config.family, VERL_LM_LLAMA);
    cr_assert_eq(config.head_dim, 4);
    cr_assert_eq(config.max_positions, 2048);
    cr_assert_eq(config.rope_theta, 10000);
    cr_assert_eq(config.norm_eps, 1e-6);
    cr_assert_eq(config.rope_scaling.type, VERL_ROPE_DEFAULT);
    cr_assert(!config.tied && !config.qkv_bias && !config.o_bias && !config.mlp_bias && !config.qk_norm);
    cr_assert(config.bos == -1 && config.eos_count == 0);
    config = s_must_parse("{\"model_type\": \"qwen2\", " SIZES "}");
    cr_assert(config.qkv_bias && !config.o_bias && config.max_positions == 32768);
    config = s_must_parse("{\"model_type\": \"qwen3\", " SIZES "}");
    cr_assert(config.qk_norm && !config.qkv_bias && config.head_dim == 128);
}

Test(lm_config, both_dialects_of_rope_say_the_same)
{
    verl_lm_config_t old = s_must_parse(
        "{\"model_type\": \"llama\", " SIZES ", \"rope_theta\": 500000, \"rope_scaling\": {\"rope_type\": \"llama3\", "
        "\"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4.0, "
        "\"original_max_position_embeddings\": 8192}}");
    verl_lm_config_t new = s_must_parse(
        "{\"model_type\": \"llama\", " SIZES ", \"rope_parameters\": {\"rope_theta\": 500000.0, \"rope_type\": "
        "\"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
        "\"original_max_position_embeddings\": 8192}}");
    cr_assert(memcmp(&old, &new, sizeof old) == 0);
    cr_assert(old.rope_theta == 500000 && old.rope_scaling.type == VERL_ROPE_LLAMA3 && old.rope_scaling.factor == 8
              && old.rope_scaling.original_max_positions == 8192);
    old = s_must_parse("{\"model_type\": \"llama\", " SIZES
                       ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}");
    cr_assert(old.rope_scaling.type == VERL_ROPE_LINEAR && old.rope_scaling.factor == 2);
}

Test(lm_config, an_empty_object_of_rope_says_nothing)
{
    verl_lm_config_t config = s_must_parse("{\"model_type\": \"llama\", " SIZES ", \"rope_theta\": 777, "
                                           "\"rope_parameters\": {}, "
                                           "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}}");
    cr_assert(config.rope_scaling.type == VERL_ROPE_LINEAR && config.rope_scaling.factor == 4);
    cr_assert_eq(config.rope_theta, 777);
    config = s_must_parse("{\"model_type\": \"llama\", " SIZES ", \"rope_scaling\": {}, "
                          "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2, \"rope_theta\": 888}}");
    cr_assert(config.rope_scaling.type == VERL_ROPE_LINEAR && config.rope_scaling.factor == 2);
    cr_assert_eq(config.rope_theta, 888);
}

Test(lm_config, both_objects_of_rope_may_say_the_same)
{
    verl_lm_config_t config = s_must_parse(
        "{\"model_type\": \"llama\", " SIZES ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 4}, "
        "\"rope_parameters\": {\"factor\": 4, \"rope_type\": \"linear\"}}");
    cr_assert(config.rope_scaling.type == VERL_ROPE_LINEAR && config.rope_scaling.factor == 4);
    config = s_must_parse("{\"model_type\": \"llama\", " SIZES ", \"rope_theta\": 5000, "
                          "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 4}, "
                          "\"rope_parameters\": {\"factor\": 4, \"rope_type\": \"linear\", \"rope_theta\": 5000.0}}");
    cr_assert_eq(config.rope_theta, 5000);
}

Test(lm_config, original_positions_beside_the_scaling_win)
{
    verl_lm_config_t config = s_must_parse(
        "{\"model_type\": \"llama\", " SIZES ", \"original_max_position_embeddings\": 16, \"rope_scaling\": "
        "{\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4, "
        "\"original_max_position_embeddings\": 64}}");
    cr_assert_eq(config.rope_scaling.original_max_positions, 16);
}

Test(lm_config, a_padding_token_is_kept)
{
    verl_lm_config_t config = s_must_parse("{\"model_type\": \"llama\", " SIZES ", \"pad_token_id\": 0}");
    cr_assert_eq(config.pad, 0);
    config = s_must_parse("{\"model_type\": \"llama\", " SIZES ", \"pad_token_id\": -1}");
    cr_assert_eq(config.pad, -1);
    config = s_must_parse("{\"model_type\": \"llama\", " SIZES "}");
    cr_assert_eq(config.pad, -1);
}

// transformers would train another model than the one that was saved.
Test(lm_config, no_padding_token_is_written_where_there_is_none)
{
    verl_lm_config_t config = s_config(VERL_LM_LLAMA);
    char            *text = verl_lm_config_to_json(&config, "float32");
    cr_assert(text && !strstr(text, "pad_token_id"));
    free(text);
}

Test(lm_config, an_architecture_stands_in_for_a_model_type)
{
    verl_lm_config_t config = s_must_parse("{\"architectures\": [\"Qwen2ForCausalLM\"], " SIZES "}");
    cr_assert_eq(config.family, VERL_LM_QWEN2);
}

Test(lm_config, what_is_written_reads_back_the_same)
{
    const char *texts[] = {
        "{\"model_type\": \"llama\", " SIZES ", \"attention_bias\": true, \"mlp_bias\": true, \"bos_token_id\": 1, "
        "\"pad_token_id\": 0, \"eos_token_id\": [2, 7], \"rms_norm_eps\": 1e-5, \"rope_parameters\": "
        "{\"rope_type\": \"llama3\", \"factor\": 32.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
        "\"original_max_position_embeddings\": 512}}",
        "{\"model_type\": \"qwen2\", " SIZES ", \"tie_word_embeddings\": true, \"eos_token_id\": 3, \"rope_scaling\": "
        "{\"type\": \"linear\", \"factor\": 1.5}}",
        "{\"model_type\": \"qwen3\", " SIZES ", \"head_dim\": 6, \"rope_theta\": 1000000.0}"};
    for (int i = 0; i < 3; i++) {
        verl_lm_config_t config = s_must_parse(texts[i]);
        char            *text = verl_lm_config_to_json(&config, "float32");
        cr_assert(text);
        verl_lm_config_t again = s_must_parse(text);
        cr_assert(memcmp(&config, &again, sizeof config) == 0, "%s", text);
        free(text);
    }
}

Test(lm_config, stop_tokens_of_generation_win)
{
    char             error[512];
    const char      *generation = "{\"bos_token_id\": 5, \"eos_token_id\": [6, 7, 8]}";
    verl_lm_config_t config = s_must_parse("{\"model_type\": \"llama\", " SIZES ", \"eos_token_id\": 2}");
    cr_assert_eq(verl_lm_stops_from_generation(generation, strlen(generation), "g", &config, error, sizeof error), 0);
    cr_assert(config.bos == 5 && config.eos_count == 3 && config.eos[2] == 8);
    cr_assert_eq(verl_lm_stops_from_generation("{}", 2, "g", &config, error, sizeof error), 0);
    cr_assert_eq(config.eos_count, 3);
    cr_assert_eq(verl_lm_stops_from_generation("{\"eos_token_id\": 100}", 21, "g", &config, error, sizeof error), -1);
    cr_assert_says(error, "g: eos_token_id 100 is outside the vocabulary of 100");
}

Test(lm_config, a_tokenizer_names_the_stop_token_where_nobody_else_does)
{
    char             error[512];
    const char      *tokenizer = "{\"model_max_length\": 1000000000000000019884624838656, "
                                 "\"eos_token\": {\"content\": \"</s>\"}, \"added_tokens_decoder\": "
                                 "{\"1\": {\"content\": \"<s>\"}, \"42\": {\"content\": \"</s>\"}}}";
    verl_lm_config_t config = s_must_parse("{\"model_type\": \"llama\", " SIZES "}");
    cr_assert_eq(verl_lm_stops_from_tokenizer(tokenizer, strlen(tokenizer), "t", &config, error, sizeof error), 0);
    cr_assert(config.eos_count == 1 && config.eos[0] == 42);
    config.eos[0] = 9;
    cr_assert_eq(verl_lm_stops_from_tokenizer(tokenizer, strlen(tokenizer), "t", &config, error, sizeof error), 0);
    cr_assert_eq(config.eos[0], 9);
}

#define LLAMA "{\"model_type\": \"llama\", " SIZES

Test(lm_config, each_thing_wrong_is_one_sentence)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"{", "config.json: line 1, column 1: "},
        {"[]", "must hold one JSON object"},
        {"{\"model_type\": \"gpt2\"}", "model_type is gpt2: llama, qwen2 and qwen3 are supported"},
        {"{}", "model_type is missing"},
        {"{\"model_type\": \"llama\"}", "vocab_size is missing"},
        {"{\"model_type\": \"llama\", \"vocab_size\": \"many\"}", "vocab_size must be a whole number"},
        {"{\"model_type\": \"llama\", \"model_type\": \"llama\"}", "duplicate object key"},
        {LLAMA ", \"hidden_act\": \"gelu\"}", "hidden_act is gelu: only silu"},
        {LLAMA ", \"use_sliding_window\": true}", "sliding windows are not supported"},
        {LLAMA ", \"layer_types\": [\"full_attention\", \"sliding_attention\"]}", "layer_types[1]"},
        {LLAMA ", \"quantization_config\": {}}", "quantization_config"},
        {LLAMA ", \"rope_scaling\": {\"type\": \"yarn\"}}", "rope_type of rope_scaling is yarn"},
        {LLAMA ", \"rope_scaling\": {\"factor\": 2}}", "rope_scaling needs a rope_type"},
        {LLAMA ", \"rope_scaling\": {\"type\": \"linear\"}}", "the factor of rope_scaling is 0"},
        {LLAMA ", \"rope_scaling\": 3}", "rope_scaling must be an object"},
        {LLAMA ", \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1e6}, \"rope_scaling\": "
         "{\"type\": \"yarn\", \"factor\": 4}}",
         "rope_parameters and rope_scaling are both there and differ: give one of them"},
        {LLAMA ", \"rope_parameters\": {\"rope_type\": \"default\"}, \"rope_scaling\": 3}",
         "rope_scaling must be an object"},
        {LLAMA ", \"original_max_position_embeddings\": \"x\", \"rope_scaling\": {\"rope_type\": \"llama3\"}}",
         "original_max_position_embeddings must be a whole number"},
        {LLAMA ", \"rope_parameters\": {\"full_attention\": {}}}", "rope_parameters needs a rope_type"},
        {LLAMA ", \"rope_theta\": -1}", "rope_theta is -1"},
        {LLAMA ", \"partial_rotary_factor\": 0.5}", "partial_rotary_factor is 0.5"},
        {LLAMA ", \"head_dim\": 3}", "head_dim (3) must be even"},
        {LLAMA ", \"rms_norm_eps\": 2}", "rms_norm_eps is 2"},
        {LLAMA ", \"tie_word_embeddings\": 1}", "tie_word_embeddings must be true or false"},
        {LLAMA ", \"eos_token_id\": 100}", "eos_token_id 100 is outside the vocabulary of 100"},
        {LLAMA ", \"eos_token_id\": [1, \"x\"]}", "eos_token_id must be a token id"},
        {LLAMA ", \"pad_token_id\": 100}", "pad_token_id 100 is outside the vocabulary of 100"},
        {"{\"model_type\": \"llama\", \"vocab_size\": -1, \"hidden_size\": 9, \"num_hidden_layers\": 1, "
         "\"num_attention_heads\": 1, \"intermediate_size\": 1}", "vocab_size is -1: it must be between 1 and"},
        {LLAMA ", \"pad_token_id\": [1]}", "pad_token_id must be a whole number"},
        {LLAMA ", \"eos_token_id\": [1,2,3,4,5,6,7,8,9]}", "eos_token_id has 9 ids: at most 8"},
        {LLAMA ", \"max_position_embeddings\": 0}", "max_position_embeddings is 0"},
        {"{\"model_type\": \"llama\", \"vocab_size\": 9223372036854775807, \"hidden_size\": 9, "
         "\"num_hidden_layers\": 1, \"num_attention_heads\": 1, \"intermediate_size\": 1}",
         "vocab_size is 9223372036854775807"},
        {"{\"model_type\": \"llama\", \"vocab_size\": 9, \"hidden_size\": 9, \"num_hidden_layers\": 1, "
         "\"num_attention_heads\": 0, \"intermediate_size\": 1}", "num_attention_heads"},
        {"{\"model_type\": \"llama\", \"vocab_size\": 9, \"hidden_size\": 16, \"num_hidden_layers\": 1, "
         "\"num_attention_heads\": 8, \"num_key_value_heads\": 3, \"intermediate_size\": 1}",
         "num_attention_heads (8) must be a multiple of num_key_value_heads (3)"},
        {"{\"model_type\": \"qwen2\", \"vocab_size\": 9, \"hidden_size\": 16, \"num_hidden_layers\": 1, "
         "\"num_attention_heads\": 8, \"intermediate_size\": 1}", "num_key_value_heads is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        verl_lm_config_t config;
        char             error[512] = "";
        cr_assert_eq(s_parse(cases[i].text, &config, error, sizeof error), -1, "%s", cases[i].text);
        cr_assert_says(error, cases[i].says);
        cr_assert(!strchr(error, '\n'));
    }
}

Test(lm_config, deep_nesting_is_refused)
{
    verl_lm_config_t config;
    char             error[512];
    char            *text = malloc(200001);
    cr_assert(text);
    memset(text, '[', 200000);
    text[200000] = '\0';
    cr_assert_eq(s_parse(text, &config, error, sizeof error), -1);
    free(text);
}
