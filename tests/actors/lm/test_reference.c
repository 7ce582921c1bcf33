// What our models compute is what transformers computes: log-probabilities of fixed sequences, each family and format.
#include "actors/lm/load.h"
#include "actors/lm/model.h"
#include "scratch.h"

#include <jansson.h>
#include <math.h>

typedef struct {
    verl_lm_config_t config;
    verl_lm_layout_t layout;
    float           *parameters;
    verl_lm_t       *lm;
    verl_lm_tape_t  *tape;
} s_model_t;

static s_model_t
s_load(const char *path)
{
    s_model_t model;
    char      error[1024];
    cr_assert_eq(verl_lm_config_load(path, &model.config, error, sizeof error), 0, "%s", error);
    cr_assert_eq(verl_lm_layout_init(&model.layout, &model.config), 0);
    model.parameters = malloc((size_t) model.layout.total * sizeof(float));
    cr_assert(model.parameters);
    cr_assert_eq(verl_lm_parameters_load(path, &model.config, &model.layout, model.parameters, error, sizeof error), 0,
                 "%s", error);
    model.lm = verl_lm_new(&model.config, model.parameters, VERL_LM_F32, 0, error, sizeof error);
    cr_assert(model.lm, "%s", error);
    model.tape = verl_lm_tape_new();
    cr_assert(model.tape);
    return model;
}

static void
s_done(s_model_t *model)
{
    verl_lm_tape_destroy(&model->tape);
    verl_lm_destroy(&model->lm);
    verl_lm_layout_done(&model->layout);
    free(model->parameters);
}

// The log-probabilities of tokens[1 … count - 1], each given those before it.
static void
s_score(const s_model_t *model, const int32_t *tokens, int64_t count, float *logprobs)
{
    char              error[1024];
    verl_lm_segment_t segment = {.start = 0, .length = count, .parent = -1};
    verl_lm_batch_t   batch = {tokens, count, &segment, 1};
    verl_lm_pick_t   *picks = calloc((size_t) count, sizeof *picks);
    cr_assert(picks);
    for (int64_t i = 0; i + 1 < count; i++)
        picks[i] = (verl_lm_pick_t) {i, tokens[i + 1], 1};
    cr_assert_eq(verl_lm_forward(model->lm, model->tape, VERL_LM_SCORE, &batch, error, sizeof error), 0, "%s", error);
    cr_assert_eq(verl_lm_logprobs(model->lm, model->tape, picks, count - 1, logprobs, NULL, error, sizeof error), 0,
                 "%s", error);
    free(picks);
}

// The largest difference from an expected.json over all its sequences.
static double
s_difference(const s_model_t *model, const char *expected)
{
    json_error_t why;
    json_t      *root = json_load_file(expected, 0, &why), *sequence;
    double       worst = 0;
    size_t       s, compared = 0;
    cr_assert(root, "%s: %s", expected, why.text);
    json_array_foreach(json_object_get(root, "sequences"), s, sequence) {
        const json_t *ids = json_object_get(sequence, "ids"), *logprobs = json_object_get(sequence, "logprobs");
        int32_t       tokens[256];
        float         ours[256];
        size_t        count = json_array_size(ids);
        cr_assert(count > 1 && count <= 256 && json_array_size(logprobs) == count - 1);
        for (size_t i = 0; i < count; i++)
            tokens[i] = (int32_t) json_integer_value(json_array_get(ids, i));
        s_score(model, tokens, (int64_t) count, ours);
        for (size_t i = 0; i + 1 < count; i++, compared++)
            worst = fmax(worst, fabs((double) ours[i] - json_number_value(json_array_get(logprobs, i))));
    }
    cr_assert_gt(compared, 50);
    json_decref(root);
    return worst;
}

static void
s_compare(const char *model_path, const char *expected)
{
    char model_full[PATH_MAX], expected_full[PATH_MAX];
    snprintf(model_full, sizeof model_full, "%s%s", MODELS, model_path);
    snprintf(expected_full, sizeof expected_full, "%s%s", MODELS, expected);
    s_model_t model = s_load(model_full);
    double    difference = s_difference(&model, expected_full);
    fprintf(stderr, "%s: largest difference %.2e\n", model_path, difference);
    cr_assert_lt(difference, 1e-3, "%s", model_path);
    s_done(&model);
}

Test(lm_reference, llama)
{
    s_compare("llama-tiny", "llama-tiny/expected.json");
    s_compare("gguf/llama-tiny.gguf", "gguf/llama-tiny.expected.json");
}

Test(lm_reference, llama_with_scaled_rope_and_biases)
{
    s_compare("llama3-tiny", "llama3-tiny/expected.json");
    s_compare("gguf/llama3-tiny.gguf", "gguf/llama3-tiny.expected.json");
}

Test(lm_reference, qwen2_with_linear_rope)
{
    s_compare("qwen2-tiny", "qwen2-tiny/expected.json");
    s_compare("qwen2-tiny-sharded", "qwen2-tiny-sharded/expected.json");
    s_compare("gguf/qwen2-tiny.gguf", "gguf/qwen2-tiny.expected.json");
}

Test(lm_reference, qwen3)
{
    s_compare("qwen3-tiny", "qwen3-tiny/expected.json");
    s_compare("gguf/qwen3-tiny.gguf", "gguf/qwen3-tiny.expected.json");
}

// A real model; `make smollm2` fetches it.
Test(lm_reference, smollm2, .timeout = 120)
{
    const char *path = VERL_SOURCE_DIR "/topologies/models/smollm2-135m/model.gguf";
    if (access(path, R_OK) != 0)
        cr_skip_test("topologies/models/smollm2-135m/model.gguf is not there: make smollm2 fetches it");
    s_model_t model = s_load(path);
    double    difference = s_difference(&model, MODELS "smollm2-135m.expected.json");
    fprintf(stderr, "smollm2-135m: largest difference %.2e\n", difference);
    cr_assert_lt(difference, 1e-3);
    s_done(&model);
}
