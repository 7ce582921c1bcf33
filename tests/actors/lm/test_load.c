// Models on disk become configurations and flat vectors; what is wrong with them is one sentence.
#include "actors/lm/load.h"
#include "actors/lm/save.h"
#include "scratch.h"

#include <math.h>

typedef struct {
    verl_lm_config_t config;
    verl_lm_layout_t layout;
    float           *parameters;
} s_model_t;

// Reads path with the vector filled with NaN, so that a float that is not written shows.
static int
s_try(const char *path, s_model_t *model, char *error, size_t error_size)
{
    memset(model, 0, sizeof *model);
    if (verl_lm_config_load(path, &model->config, error, error_size))
        return -1;
    cr_assert_eq(verl_lm_layout_init(&model->layout, &model->config), 0);
    model->parameters = malloc((size_t) model->layout.total * sizeof(float));
    cr_assert(model->parameters);
    memset(model->parameters, 0xff, (size_t) model->layout.total * sizeof(float));
    return verl_lm_parameters_load(path, &model->config, &model->layout, model->parameters, error, error_size);
}

static void
s_done(s_model_t *model)
{
    verl_lm_layout_done(&model->layout);
    free(model->parameters);
    model->parameters = NULL;
}

static s_model_t
s_load(const char *path)
{
    s_model_t model;
    char      error[1024];
    cr_assert_eq(s_try(path, &model, error, sizeof error), 0, "%s", error);
    for (int64_t i = 0; i < model.layout.total; i++)
        cr_assert(isfinite(model.parameters[i]), "%s: float %d was not written", path, (int) i);
    return model;
}

static void
s_refused(const char *path, const char *says)
{
    s_model_t model;
    char      error[1024] = "";
    cr_assert_eq(s_try(path, &model, error, sizeof error), -1, "%s", says);
    cr_assert_says(error, says);
    cr_assert(!strchr(error, '\n'));
    s_done(&model);
}

// The largest difference between the tensors of two models of one shape.
static double
s_distance(const s_model_t *one, const s_model_t *other)
{
    double worst = 0;
    cr_assert_eq(one->layout.total, other->layout.total);
    for (int64_t i = 0; i < one->layout.total; i++)
        worst = fmax(worst, fabs((double) one->parameters[i] - (double) other->parameters[i]));
    return worst;
}

Test(lm_load, every_fixture_loads)
{
    static const char *const names[] = {"llama-tiny", "llama3-tiny", "qwen2-tiny", "qwen2-tiny-sharded", "qwen3-tiny",
                                        "gguf/llama-tiny.gguf", "gguf/llama3-tiny.gguf", "gguf/qwen2-tiny.gguf",
                                        "gguf/qwen3-tiny.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s%s", MODELS, names[i]);
        s_model_t model = s_load(path);
        cr_assert(verl_lm_has_weights(path));
        s_done(&model);
    }
}

// Each format keeps the weights to its own precision; rows of q and k in another order would be off by whole units.
Test(lm_load, gguf_holds_the_weights_of_the_directory)
{
    static const struct {
        const char *directory, *gguf;
        double      within;
    } pairs[] = {{MODELS "llama-tiny", MODELS "gguf/llama-tiny.gguf", 0.01},
                 {MODELS "llama3-tiny", MODELS "gguf/llama3-tiny.gguf", 0.1},
                 {MODELS "qwen2-tiny", MODELS "gguf/qwen2-tiny.gguf", 0.001},
                 {MODELS "qwen3-tiny", MODELS "gguf/qwen3-tiny.gguf", 0.01}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        s_model_t directory = s_load(pairs[i].directory), gguf = s_load(pairs[i].gguf);
        cr_assert_lt(s_distance(&directory, &gguf), pairs[i].within, "%s", pairs[i].gguf);
        cr_assert(memcmp(&directory.config, &gguf.config, sizeof gguf.config) == 0, "%s", pairs[i].gguf);
        s_done(&directory);
        s_done(&gguf);
    }
}

Test(lm_load, shards_are_one_model)
{
    s_model_t whole = s_load(MODELS "qwen2-tiny"), sharded = s_load(MODELS "qwen2-tiny-sharded");
    cr_assert_lt(s_distance(&whole, &sharded), 0.01);
    cr_assert_gt(s_distance(&whole, &sharded), 0);
    s_done(&whole);
    s_done(&sharded);
}

Test(lm_load, a_configuration_alone_is_a_model_without_weights)
{
    char             dir[PATH_MAX], error[512];
    verl_lm_config_t config;
    scratch_make(dir);
    scratch_copy(MODELS "qwen3-tiny", "config.json", dir);
    cr_assert_eq(verl_lm_config_load(dir, &config, error, sizeof error), 0, "%s", error);
    cr_assert(config.qk_norm && config.head_dim == 24 && config.eos_count == 1 && config.eos[0] == 2);
    cr_assert(!verl_lm_has_weights(dir));
    s_refused(dir, "it has no weights: model.safetensors, model.safetensors.index.json or one .gguf file");
    scratch_remove(dir);
}

Test(lm_load, a_directory_of_one_gguf_file_is_that_file)
{
    char dir[PATH_MAX], path[PATH_MAX];
    scratch_make(dir);
    cr_assert(!verl_lm_find_gguf(dir, path, sizeof path));
    scratch_copy(MODELS "gguf", "llama-tiny.gguf", dir);
    cr_assert(verl_lm_find_gguf(dir, path, sizeof path));
    cr_assert(strstr(path, "/llama-tiny.gguf"));
    s_model_t model = s_load(dir);
    s_done(&model);
    scratch_copy(MODELS "gguf", "qwen2-tiny.gguf", dir);
    s_refused(dir, "it has neither config.json nor exactly one .gguf file");
    scratch_remove(dir);
}

Test(lm_load, what_is_not_there_is_said)
{
    s_refused("/nowhere/model", "/nowhere/model: there is no such model");
    s_refused("/dev/null", "config.json");
    s_refused(MODELS "llama-tiny/config.json", "no GGUF file");
}

// Saves a model of one layer with an edit, and expects the sentence.
static void
s_save(const char *dir, const s_model_t *model)
{
    char error[512];
    cr_assert_eq(verl_lm_save(dir, &model->config, &model->layout, model->parameters, NULL, error, sizeof error), 0,
                 "%s", error);
}

Test(lm_load, weights_that_are_not_finite_are_refused)
{
    char      dir[PATH_MAX];
    s_model_t model = s_load(MODELS "qwen2-tiny");
    float    *weight = &model.parameters[model.layout.layer[1].down + 3 * 96 + 5], kept = *weight;
    scratch_make(dir);
    *weight = NAN;
    s_save(dir, &model);
    s_refused(dir, "tensor model.layers.1.mlp.down_proj.weight holds a NaN at row 3, column 5: weights must be finite");
    *weight = -INFINITY;
    s_save(dir, &model);
    s_refused(dir, "tensor model.layers.1.mlp.down_proj.weight holds an infinity at row 3, column 5");
    *weight = kept;
    model.parameters[model.layout.final_norm + 63] = NAN;
    s_save(dir, &model);
    s_refused(dir, "tensor model.norm.weight holds a NaN at row 63, column 0");
    scratch_remove(dir);
    s_done(&model);
}

// The same in a tensor of many pieces, so that the first of several is named whatever thread finds it.
Test(lm_load, the_first_of_several_nans_is_named)
{
    char             dir[PATH_MAX];
    s_model_t        model = {0};
    verl_lm_config_t config = {.family = VERL_LM_LLAMA, .vocab_size = 3000, .hidden_size = 64, .layers = 1, .heads = 2,
                               .kv_heads = 2, .head_dim = 32, .intermediate_size = 8, .max_positions = 8,
                               .norm_eps = 1e-6, .rope_theta = 1e4, .bos = -1, .pad = -1,
                               .tied = true};
    model.config = config;
    cr_assert_eq(verl_lm_layout_init(&model.layout, &config), 0);
    model.parameters = calloc((size_t) model.layout.total, sizeof(float));
    cr_assert(model.parameters);
    model.parameters[64 * 2900 + 1] = model.parameters[64 * 1500 + 7] = model.parameters[64 * 1501] = NAN;
    scratch_make(dir);
    s_save(dir, &model);
    s_refused(dir, "model.embed_tokens.weight holds a NaN at row 1500, column 7");
    scratch_remove(dir);
    s_done(&model);
}

// Replaces a word of config.json in a copy of a model.
static void
s_reconfigure(const char *dir, const char *from, const char *to)
{
    size_t size;
    char   path[PATH_MAX], text[8192];
    cr_assert(snprintf(path, sizeof path, "%s/config.json", dir) < PATH_MAX);
    char *bytes = (char *) scratch_read(path, &size);
    char *at = memmem(bytes, size, from, strlen(from));
    cr_assert(at, "config.json has no %s", from);
    int length = snprintf(text, sizeof text, "%.*s%s%.*s", (int) (at - bytes), bytes, to,
                          (int) (bytes + size - (at + strlen(from))), at + strlen(from));
    scratch_write(dir, "config.json", text, (size_t) length);
    free(bytes);
}

Test(lm_load, weights_that_do_not_fit_the_configuration_are_refused)
{
    static const struct {
        const char *model, *from, *to, *says;
    } cases[] = {
        {"llama-tiny", "\"vocab_size\": 128", "\"vocab_size\": 130",
         "tensor model.embed_tokens.weight has 2 dimensions, 128 x 64: the configuration needs 130 x 64"},
        {"llama-tiny", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3",
         "tensor model.layers.2.input_layernorm.weight is missing"},
        {"llama-tiny", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1",
         "the configuration does not know tensor model.layers.1."},
        {"llama-tiny", "\"attention_bias\": false", "\"attention_bias\": true",
         "tensor model.layers.0.self_attn.q_proj.bias is missing"},
        {"qwen2-tiny", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false",
         "tensor lm_head.weight is missing"},
        {"qwen2-tiny", "\"model_type\": \"qwen2\"", "\"model_type\": \"llama\"",
         "the configuration does not know tensor model.layers.0.self_attn.k_proj.bias"},
        {"qwen3-tiny", "\"head_dim\": 24", "\"head_dim\": 16", "the configuration needs 64 x 64"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char dir[PATH_MAX], from[PATH_MAX];
        snprintf(from, sizeof from, "%s%s", MODELS, cases[i].model);
        scratch_make(dir);
        scratch_copy(from, "config.json", dir);
        scratch_copy(from, "model.safetensors", dir);
        s_reconfigure(dir, cases[i].from, cases[i].to);
        s_refused(dir, cases[i].says);
        scratch_remove(dir);
    }
}

Test(lm_load, a_tensor_that_a_gguf_file_lacks_has_its_name_of_such_files)
{
    char   dir[PATH_MAX];
    size_t size;
    char  *bytes = (char *) scratch_read(MODELS "gguf/llama-tiny.gguf", &size);
    char  *key = memmem(bytes, size, "llama.block_count", 17);
    cr_assert(key && key[21] == 2);                         // behind the key and its type
    key[21] = 3;
    scratch_make(dir);
    scratch_write(dir, "model.gguf", bytes, size);
    free(bytes);
    s_refused(dir, "tensor blk.2.attn_norm.weight is missing");
    scratch_remove(dir);
}

Test(lm_load, a_wrong_index_is_one_sentence)
{
    static const struct {
        const char *index, *says;
    } cases[] = {
        {"{", "model.safetensors.index.json: line 1, column 1"},
        {"{}", "weight_map is missing"},
        {"{\"weight_map\": {\"x\": 1}}", "weight_map must give a file for tensor x"},
        {"{\"weight_map\": {\"x\": \"../model.safetensors\"}}", "it must be a file beside the index"},
        {"{\"weight_map\": {\"x\": \"/etc/passwd\"}}", "it must be a file beside the index"},
        {"{\"weight_map\": {\"x\": \"absent.safetensors\"}}", "absent.safetensors: No such file"},
        {"{\"weight_map\": {\"x\": \"part.safetensors\"}}",
         "weight_map says that tensor x is in part.safetensors, which does not have it"},
        {"{\"weight_map\": {\"lm_head.weight\": \"part.safetensors\", \"model.norm.weight\": \"copy.safetensors\"}}",
         "is both in part.safetensors and in copy.safetensors"},
    };
    char   dir[PATH_MAX];
    size_t size;
    scratch_make(dir);
    scratch_copy(MODELS "llama-tiny", "config.json", dir);
    uint8_t *bytes = scratch_read(MODELS "llama-tiny/model.safetensors", &size);
    scratch_write(dir, "part.safetensors", bytes, size);
    scratch_write(dir, "copy.safetensors", bytes, size);
    free(bytes);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scratch_write(dir, "model.safetensors.index.json", cases[i].index, strlen(cases[i].index));
        s_refused(dir, cases[i].says);
    }
    scratch_remove(dir);
}

Test(lm_load, a_dtype_that_holds_no_weights_is_refused)
{
    const char *header = "{\"model.embed_tokens.weight\":{\"dtype\":\"I32\",\"shape\":[128,64],"
                         "\"data_offsets\":[0,32768]}}";
    char        dir[PATH_MAX];
    size_t      size;
    uint8_t    *bytes = scratch_safetensors(header, NULL, 32768, &size);
    scratch_make(dir);
    scratch_copy(MODELS "llama-tiny", "config.json", dir);
    scratch_write(dir, "model.safetensors", bytes, size);
    s_refused(dir, "tensor model.embed_tokens.weight has dtype I32: F32, F16 and BF16 are supported");
    free(bytes);
    scratch_remove(dir);
}

Test(lm_load, a_head_beside_the_decoder_is_loaded_by_name)
{
    char              dir[PATH_MAX], error[512];
    float             score[64], read[64];
    s_model_t         model = s_load(MODELS "llama-tiny");
    verl_save_extra_t extra = {"score.weight", score, 1, 64, false};
    verl_save_options_t options = {VERL_SAVE_F32, NULL, &extra, 1};
    for (int i = 0; i < 64; i++)
        score[i] = (float) i / 3;
    scratch_make(dir);
    cr_assert_eq(verl_lm_save(dir, &model.config, &model.layout, model.parameters, &options, error, sizeof error), 0,
                 "%s", error);
    cr_assert_eq(verl_lm_extra_load(dir, "score.weight", 1, 64, read, error, sizeof error), 1);
    cr_assert(memcmp(score, read, sizeof read) == 0);
    cr_assert_eq(verl_lm_extra_load(dir, "v_head.weight", 1, 64, read, error, sizeof error), 0);
    cr_assert_eq(verl_lm_extra_load(dir, "score.weight", 2, 32, read, error, sizeof error), -1);
    cr_assert_says(error, "tensor score.weight has 2 dimensions, 1 x 64: the configuration needs 2 x 32");
    cr_assert_eq(verl_lm_extra_load(MODELS "gguf/llama-tiny.gguf", "score.weight", 1, 64, read, error, sizeof error),
                 0);
    s_model_t again = s_load(dir);
    cr_assert_eq(s_distance(&model, &again), 0);
    scratch_remove(dir);
    s_done(&model);
    s_done(&again);
}

// Saves qwen2-tiny, which is tied, with a tensor beside its own.
static void
s_save_beside(const char *dir, const char *name, const float *data, int64_t rows, int64_t cols)
{
    char                error[512];
    s_model_t           model = s_load(MODELS "qwen2-tiny");
    verl_save_extra_t   extra = {name, data, rows, cols, cols == 1};
    verl_save_options_t options = {VERL_SAVE_F32, NULL, &extra, 1};
    cr_assert_eq(verl_lm_save(dir, &model.config, &model.layout, model.parameters, &options, error, sizeof error), 0,
                 "%s", error);
    s_done(&model);
}

Test(lm_load, a_head_that_is_the_tied_embedding_may_be_there)
{
    char      dir[PATH_MAX];
    s_model_t model = s_load(MODELS "qwen2-tiny");
    scratch_make(dir);
    s_save_beside(dir, "lm_head.weight", model.parameters + model.layout.embedding, 128, 64);
    s_model_t again = s_load(dir);
    cr_assert(again.config.tied);
    cr_assert_eq(s_distance(&model, &again), 0);
    scratch_remove(dir);
    s_done(&model);
    s_done(&again);
}

// transformers computes with such a head, whatever the configuration says.
Test(lm_load, a_head_that_differs_from_the_tied_embedding_is_refused)
{
    char      dir[PATH_MAX];
    s_model_t model = s_load(MODELS "qwen2-tiny");
    float    *head = model.parameters + model.layout.embedding;
    scratch_make(dir);
    head[128 * 64 - 1] += 1;
    s_save_beside(dir, "lm_head.weight", head, 128, 64);
    s_refused(dir, "tie_word_embeddings is true, and lm_head.weight differs from model.embed_tokens.weight: leave it "
              "out, or set tie_word_embeddings to false");
    s_save_beside(dir, "lm_head.weight", head, 64, 64);
    s_refused(dir, "tensor lm_head.weight has 2 dimensions, 64 x 64: the configuration needs 128 x 64");
    scratch_remove(dir);
    s_done(&model);
}

Test(lm_load, a_tensor_of_the_decoder_that_is_not_known_is_refused)
{
    static const char *const names[] = {"model.norm.bias", "norm.bias", "lm_head.bias", "embed_tokens.bias"};
    static const float       zeros[64];
    char                     dir[PATH_MAX], says[96];
    scratch_make(dir);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(says, sizeof says, "the configuration does not know tensor %s", names[i]);
        s_save_beside(dir, names[i], zeros, 64, 1);
        s_refused(dir, says);
    }
    scratch_remove(dir);
}

Test(lm_load, a_tensor_with_and_without_its_prefix_is_refused)
{
    static const float zeros[64];
    char               dir[PATH_MAX];
    scratch_make(dir);
    s_save_beside(dir, "norm.weight", zeros, 64, 1);
    s_refused(dir, "tensors norm.weight and model.norm.weight are both there: one of them would be ignored");
    scratch_remove(dir);
}

// Without output.weight the head is the embedding.
Test(lm_load, a_tensor_of_gguf_that_is_not_known_is_refused)
{
    char     dir[PATH_MAX];
    size_t   size;
    uint8_t *bytes = scratch_read(MODELS "gguf/qwen3-tiny.gguf", &size);
    uint8_t *at = memmem(bytes, size, "\0output.weight", 14);
    cr_assert(at);
    memcpy(at + 1, "output_x.bias", 13);
    scratch_make(dir);
    scratch_write(dir, "model.gguf", bytes, size);
    s_refused(dir, "the configuration does not know tensor output_x.bias");
    free(bytes);
    scratch_remove(dir);
}

Test(lm_load, an_adapter_beside_a_model_is_refused)
{
    char dir[PATH_MAX];
    scratch_make(dir);
    scratch_copy(MODELS "llama-tiny", "config.json", dir);
    scratch_copy(MODELS "llama-tiny", "model.safetensors", dir);
    scratch_write(dir, "adapter_config.json", "{}", 2);
    s_refused(dir, "adapter_config.json is there, and adapters are not supported");
    scratch_remove(dir);
}

// A decoder that was saved without its head has no "model." before its names.
Test(lm_load, a_bare_decoder_loads)
{
    char     dir[PATH_MAX];
    size_t   size, header = 0;
    uint8_t *bytes = scratch_read(MODELS "qwen2-tiny/model.safetensors", &size), *at;
    scratch_make(dir);
    scratch_copy(MODELS "qwen2-tiny", "config.json", dir);
    for (int i = 0; i < 8; i++)
        header |= (size_t) bytes[i] << (8 * i);
    while ((at = memmem(bytes + 8, header, "\"model.", 7))) {
        memmove(at + 1, at + 7, (size_t) (bytes + 8 + header - (at + 7)));
        memset(bytes + 8 + header - 6, ' ', 6);
    }
    scratch_write(dir, "model.safetensors", bytes, size);
    s_model_t bare = s_load(dir), whole = s_load(MODELS "qwen2-tiny");
    cr_assert_eq(s_distance(&bare, &whole), 0);
    s_reconfigure(dir, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
    s_refused(dir, "the configuration does not know tensor layers.1.");
    free(bytes);
    s_done(&bare);
    s_done(&whole);
    scratch_remove(dir);
}

// Changes some bytes of a GGUF file; whatever comes of it, it ends without a crash and with a sentence if it fails.
Test(lm_load, damaged_gguf_metadata_never_crashes)
{
    char     dir[PATH_MAX];
    size_t   size;
    uint8_t *bytes = scratch_read(MODELS "gguf/llama3-tiny.gguf", &size);
    uint64_t random = 1;
    scratch_make(dir);
    for (int round = 0; round < 300; round++) {
        s_model_t model;
        char      error[1024] = "";
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t  at = (size_t) (random >> 33) % 2600;
        uint8_t kept = bytes[at];
        bytes[at] = (uint8_t) (random >> 20);
        scratch_write(dir, "model.gguf", bytes, size);
        bytes[at] = kept;
        memset(&model, 0, sizeof model);
        if (verl_lm_config_load(dir, &model.config, error, sizeof error))
            cr_assert(error[0] && !strchr(error, '\n'), "byte %zu", at);
        else if (model.config.layers < 100 && s_try(dir, &model, error, sizeof error))
            cr_assert(error[0] && !strchr(error, '\n'), "byte %zu", at);
        s_done(&model);
    }
    free(bytes);
    scratch_remove(dir);
}
