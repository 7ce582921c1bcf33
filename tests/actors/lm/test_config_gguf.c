// The configuration that the metadata of a GGUF file gives, and metadata that no computation of ours follows.
#include "actors/lm/config_gguf.h"
#include "gguf_file.h"
#include "scratch.h"

enum { HIDDEN = 16, VOCABULARY = 4, ENTRIES = 4 };

// One entry of the metadata under "llama.": a string, or a number of that type.
typedef struct {
    const char      *key, *text;
    verl_gguf_type_t type;
    double           number;
} s_entry_t;

// Entries beside those that every model has; the first without a key is the end.
typedef struct {
    s_entry_t entries[ENTRIES];
    bool      divisors;                     // rope_freqs.weight is there, of ones
} s_model_t;

static void
s_put_key(gguf_file_t *file, const char *key, verl_gguf_type_t type)
{
    char full[64];
    snprintf(full, sizeof full, "llama.%s", key);
    gguf_text(file, full);
    gguf_number(file, type, 4);
}

static void
s_put_float(gguf_file_t *file, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    gguf_number(file, bits, 4);
}

static void
s_put_entry(gguf_file_t *file, const s_entry_t *entry)
{
    s_put_key(file, entry->key, entry->type);
    if (entry->type == VERL_GGUF_STRING)
        gguf_text(file, entry->text);
    else if (entry->type == VERL_GGUF_F32)
        s_put_float(file, (float) entry->number);
    else
        gguf_number(file, (uint64_t) entry->number, entry->type == VERL_GGUF_BOOL ? 1 : 4);
}

static void
s_put_metadata(gguf_file_t *file, const s_model_t *model)
{
    static const s_entry_t common[] = {{"embedding_length", NULL, VERL_GGUF_U32, HIDDEN},
                                       {"block_count", NULL, VERL_GGUF_U32, 1},
                                       {"attention.head_count", NULL, VERL_GGUF_U32, 2},
                                       {"feed_forward_length", NULL, VERL_GGUF_U32, 8},
                                       {"context_length", NULL, VERL_GGUF_U32, 64},
                                       {"attention.layer_norm_rms_epsilon", NULL, VERL_GGUF_F32, 1e-6}};
    uint64_t more = 0;
    while (more < ENTRIES && model->entries[more].key)
        more++;
    gguf_head(file, 3, model->divisors ? 2 : 1, 1 + 6 + more);
    gguf_text(file, "general.architecture");
    gguf_number(file, VERL_GGUF_STRING, 4);
    gguf_text(file, "llama");
    for (int i = 0; i < 6; i++)
        s_put_entry(file, &common[i]);
    for (uint64_t i = 0; i < more; i++)
        s_put_entry(file, &model->entries[i]);
}

static void
s_write(gguf_file_t *file, const s_model_t *model)
{
    s_put_metadata(file, model);
    gguf_text(file, "token_embd.weight");
    gguf_number(file, 2, 4);
    gguf_number(file, HIDDEN, 8);
    gguf_number(file, VOCABULARY, 8);
    gguf_number(file, VERL_QUANT_F32, 4);
    gguf_number(file, 0, 8);
    if (model->divisors)
        gguf_tensor(file, "rope_freqs.weight", HIDDEN / 4, VERL_QUANT_F32, 4 * HIDDEN * VOCABULARY);
    gguf_data(file, 4 * HIDDEN * VOCABULARY);
    for (int i = 0; model->divisors && i < HIDDEN / 4; i++)
        s_put_float(file, 1);
}

static int
s_read(const s_model_t *model, verl_lm_config_t *config, char *error, size_t error_size)
{
    gguf_file_t file;
    s_write(&file, model);
    verl_gguf_t *reader = verl_gguf_open_memory(file.bytes, file.size, "f", error, error_size);
    cr_assert(reader, "%s", error);
    int result = verl_lm_config_from_gguf(reader, "f", config, error, error_size);
    verl_gguf_close(&reader);
    return result;
}

// The factor of linear scaling that a model has, 0 where it has none.
static double
s_factor(const s_model_t *model)
{
    verl_lm_config_t config;
    char             error[512];
    cr_assert_eq(s_read(model, &config, error, sizeof error), 0, "%s", error);
    cr_assert_neq(config.rope_scaling.type, VERL_ROPE_LLAMA3);
    return config.rope_scaling.type == VERL_ROPE_LINEAR ? config.rope_scaling.factor : 0;
}

static void
s_refused(const s_model_t *model, const char *says)
{
    verl_lm_config_t config;
    char             error[512] = "";
    cr_assert_eq(s_read(model, &config, error, sizeof error), -1, "%s", says);
    cr_assert_says(error, says);
    cr_assert(!strchr(error, '\n'));
}

#define TEXT(key, text)  {key, text, VERL_GGUF_STRING, 0}
#define REAL(key, value) {key, NULL, VERL_GGUF_F32, value}
#define MODEL(...)       (&(s_model_t) {{__VA_ARGS__}, false})
#define DIVIDED(...)     (&(s_model_t) {{__VA_ARGS__}, true})

Test(lm_config_gguf, a_model_without_a_scaling_has_none)
{
    cr_assert_eq(s_factor(&(s_model_t) {.divisors = false}), 0);
}

Test(lm_config_gguf, a_linear_scaling_has_its_factor)
{
    cr_assert_eq(s_factor(MODEL(TEXT("rope.scaling.type", "linear"), REAL("rope.scaling.factor", 4))), 4);
}

Test(lm_config_gguf, a_factor_without_a_type_is_linear)
{
    cr_assert_eq(s_factor(MODEL(REAL("rope.scaling.factor", 4))), 4);
}

Test(lm_config_gguf, the_old_key_of_the_factor_is_read)
{
    cr_assert_eq(s_factor(MODEL(REAL("rope.scale_linear", 4))), 4);
}

Test(lm_config_gguf, the_new_key_of_the_factor_wins)
{
    cr_assert_eq(s_factor(MODEL(REAL("rope.scale_linear", 4), REAL("rope.scaling.factor", 2))), 2);
}

Test(lm_config_gguf, a_scaling_of_type_none_has_no_factor)
{
    cr_assert_eq(s_factor(MODEL(TEXT("rope.scaling.type", "none"), REAL("rope.scaling.factor", 4))), 0);
}

Test(lm_config_gguf, a_factor_of_one_or_zero_scales_nothing)
{
    cr_assert_eq(s_factor(MODEL(TEXT("rope.scaling.type", "linear"), REAL("rope.scaling.factor", 1))), 0);
    cr_assert_eq(s_factor(MODEL(REAL("rope.scaling.factor", 0))), 0);
}

Test(lm_config_gguf, a_factor_that_shrinks_is_refused)
{
    s_refused(MODEL(REAL("rope.scaling.factor", 0.5)), "the factor of rope_scaling is 0.5");
}

Test(lm_config_gguf, another_type_of_scaling_is_refused)
{
    s_refused(MODEL(TEXT("rope.scaling.type", "yarn"), REAL("rope.scaling.factor", 4)),
              "f: llama.rope.scaling.type is yarn: none, linear and the rope_freqs of Llama 3 are supported");
}

Test(lm_config_gguf, a_type_of_scaling_that_is_no_string_is_refused)
{
    s_refused(MODEL({"rope.scaling.type", NULL, VERL_GGUF_U32, 7}),
              "llama.rope.scaling.type must be a string");
}

Test(lm_config_gguf, divisors_beside_a_linear_scaling_are_refused)
{
    s_refused(DIVIDED(REAL("rope.scaling.factor", 4)),
              "tensor rope_freqs.weight and a linear scaling of 4 are both there: only one of them is supported");
}

Test(lm_config_gguf, divisors_beside_another_type_of_scaling_are_refused)
{
    s_refused(DIVIDED(TEXT("rope.scaling.type", "yarn")), "llama.rope.scaling.type is yarn");
}

Test(lm_config_gguf, divisors_beside_a_scaling_of_type_none_are_read)
{
    verl_lm_config_t config;
    char             error[512];
    s_model_t        model = {{TEXT("rope.scaling.type", "none"), REAL("rope.scaling.factor", 4)}, true};
    cr_assert_eq(s_read(&model, &config, error, sizeof error), 0, "%s", error);
    cr_assert_eq(config.rope_scaling.type, VERL_ROPE_LLAMA3);
    cr_assert_eq(config.rope_scaling.factor, 1);
}

Test(lm_config_gguf, what_only_other_architectures_compute_is_refused)
{
    static const struct {
        s_entry_t   entry;
        const char *says;
    } cases[] = {{REAL("rope.scaling.attn_factor", 2), "llama.rope.scaling.attn_factor is 2: only 1 is supported"},
                 {REAL("attention.scale", 0.5), "llama.attention.scale is 0.5: only 0 is supported"},
                 {REAL("attention.clamp_kqv", 8), "llama.attention.clamp_kqv is 8: only 0 is supported"},
                 {REAL("attn_logit_softcapping", 50), "llama.attn_logit_softcapping is 50: only 0 is supported"},
                 {REAL("final_logit_softcapping", 30), "llama.final_logit_softcapping is 30: only 0 is supported"},
                 {REAL("logit_scale", 0.25), "llama.logit_scale is 0.25: only 1 is supported"},
                 {REAL("residual_scale", 0.5), "llama.residual_scale is 0.5: only 1 is supported"},
                 {REAL("embedding_scale", 12), "llama.embedding_scale is 12: only 1 is supported"},
                 {{"expert_count", NULL, VERL_GGUF_U32, 8}, "llama.expert_count is 8: only 0 is supported"},
                 {{"attention.sliding_window", NULL, VERL_GGUF_U32, 4},
                  "llama.attention.sliding_window is 4: only 0 is supported"},
                 {{"attention.causal", NULL, VERL_GGUF_BOOL, 0}, "llama.attention.causal is 0: only 1 is supported"},
                 {TEXT("logit_scale", "much"), "llama.logit_scale must be a number"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        s_refused(MODEL(cases[i].entry), cases[i].says);
}

Test(lm_config_gguf, what_is_out_of_range_is_named_as_the_file_names_it)
{
    s_refused(MODEL(REAL("rope.freq_base", 0.5)), "f: llama.rope.freq_base is 0.5: it must be between");
    s_refused(MODEL({"attention.head_count_kv", NULL, VERL_GGUF_U32, 3}),
              "llama.attention.head_count (2) must be a multiple of llama.attention.head_count_kv (3)");
    s_refused(MODEL({"attention.key_length", NULL, VERL_GGUF_U32, 3}), "llama.attention.key_length (3) must be even");
}

Test(lm_config_gguf, values_that_change_nothing_may_be_there)
{
    s_factor(MODEL(REAL("rope.scaling.attn_factor", 1), REAL("attention.scale", 0), REAL("logit_scale", 1),
                            {"expert_count", NULL, VERL_GGUF_U32, 0}));
    s_factor(MODEL(REAL("logit_scale", 0), {"attention.causal", NULL, VERL_GGUF_BOOL, 1},
                            {"attention.sliding_window", NULL, VERL_GGUF_U32, 0}));
}
