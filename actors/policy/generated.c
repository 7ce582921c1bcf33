// generated.c: what was generated, as columns of a row a sample, and as metrics.
#include <stdlib.h>
#include <string.h>
#include "actors/kit/measure.h"
#include "actors/policy/policy.h"

static int64_t
s_rows(verl_stage_t *stage, const verl_policy_sampled_t *sampled)
{
    const verl_policy_generate_t *options = verl_stage_options(stage);
    return sampled->prompts * options->samples;
}

// The rows that were given, each `samples` times in a row.
static int
s_add_map(verl_stage_t *stage, const verl_policy_sampled_t *sampled, verl_batch_t *out)
{
    const verl_policy_generate_t *options = verl_stage_options(stage);
    int32_t *map = verl_batch_set_map(out, s_rows(stage, sampled));
    for (int64_t row = 0; map && row < s_rows(stage, sampled); row++)
        map[row] = (int32_t) (row / options->samples);
    return map ? 0 : -1;
}

static int
s_add_prompts(verl_stage_t *stage, const verl_policy_sampled_t *sampled, verl_batch_t *out)
{
    const verl_policy_generate_t *options = verl_stage_options(stage);
    int64_t rows = s_rows(stage, sampled), *lengths = calloc((size_t) rows + 1, sizeof *lengths);
    if (!lengths)
        return verl_fail(stage, "no memory for the lengths of %lld prompts", (long long) rows);
    for (int64_t row = 0; row < rows; row++) {
        int64_t prompt = row / options->samples;
        lengths[row] = sampled->prompt_offsets[prompt + 1] - sampled->prompt_offsets[prompt];
    }
    int32_t *ids = verl_batch_add_ragged(out, "prompt_ids", VERL_I32, 1, lengths);
    for (int64_t row = 0; ids && row < rows; row++) {
        const int32_t *from = sampled->prompt_ids.data + sampled->prompt_offsets[row / options->samples];
        memcpy(ids, from, (size_t) lengths[row] * sizeof *ids);
        ids += lengths[row];
    }
    free(lengths);
    return ids ? 0 : -1;
}

static int
s_add_responses(verl_stage_t *stage, const verl_policy_sampled_t *sampled, verl_batch_t *out)
{
    const verl_policy_generate_t *options = verl_stage_options(stage);
    const verl_lm_generated_t *generated = &sampled->generated;
    int64_t rows = s_rows(stage, sampled);
    int32_t *ids = verl_batch_add_ragged(out, "response_ids", VERL_I32, 1, generated->lengths);
    float *logprobs = ids ? verl_batch_add_ragged(out, "rollout_logprobs", VERL_F32, 1, generated->lengths) : NULL;
    if (!ids || !logprobs)
        return -1;
    for (int64_t row = 0; row < rows; row++) {
        size_t length = (size_t) generated->lengths[row], from = (size_t) (row * options->max_new_tokens);
        memcpy(ids, generated->ids + from, length * sizeof *ids);
        memcpy(logprobs, generated->logprobs + from, length * sizeof *logprobs);
        ids += length;
        logprobs += length;
    }
    return 0;
}

static bool
s_is_stop(const verl_policy_sampled_t *sampled, int32_t id)
{
    for (int i = 0; i < sampled->stop_count; i++)
        if (sampled->stop[i] == id)
            return true;
    return false;
}

// Decodes all responses, without their stop tokens.
static int
s_decode(verl_stage_t *stage, const verl_policy_sampled_t *sampled, verl_text_t *texts)
{
    verl_policy_t *self = verl_stage_state(stage);
    const verl_policy_generate_t *options = verl_stage_options(stage);
    char error[1024];
    for (int64_t row = 0; row < s_rows(stage, sampled); row++) {
        const int32_t *ids = sampled->generated.ids + row * options->max_new_tokens;
        int64_t length = sampled->generated.lengths[row];
        if (length > 0 && s_is_stop(sampled, ids[length - 1]))
            length--;
        if (verl_tokenizer_decode(self->prompter.tokenizer, ids, (size_t) length, VERL_TOKENIZER_SKIP_SPECIAL,
                                  &texts[row], error, sizeof error) != 0)
            return verl_fail(stage, "row %lld: %s", (long long) row, error);
    }
    return 0;
}

static int
s_add_texts(verl_stage_t *stage, const verl_policy_sampled_t *sampled, verl_batch_t *out)
{
    size_t rows = (size_t) s_rows(stage, sampled);
    verl_text_t *texts = calloc(rows + 1, sizeof *texts);
    const char **pointers = calloc(rows + 1, sizeof *pointers);
    size_t *bytes = calloc(rows + 1, sizeof *bytes);
    int rc = texts && pointers && bytes ? s_decode(stage, sampled, texts)
                                        : verl_fail(stage, "no memory for %zu texts", rows);
    for (size_t row = 0; rc == 0 && row < rows; row++) {
        pointers[row] = texts[row].data ? texts[row].data : "";
        bytes[row] = texts[row].length;
    }
    if (rc == 0)
        rc = verl_batch_add_texts(out, "response", pointers, bytes);
    for (size_t row = 0; texts && row < rows; row++)
        verl_text_done(&texts[row]);
    free(texts);
    free(pointers);
    free(bytes);
    return rc;
}

// What each row has one value of. A greedy sample has the log-probabilities of the logits as they are: temperature 1.
static int
s_add_fixed(verl_stage_t *stage, const verl_batch_t *in, const verl_policy_sampled_t *sampled, verl_batch_t *out)
{
    const verl_policy_generate_t *options = verl_stage_options(stage);
    int64_t rows = s_rows(stage, sampled);
    uint8_t *truncated = verl_batch_add_u8(out, "truncated");
    float *temperature = truncated ? verl_batch_add_f32(out, "temperature") : NULL;
    int64_t *version = temperature ? verl_batch_add_i64(out, "version") : NULL;
    int64_t *group = version ? verl_batch_add_i64(out, "group") : NULL;
    if (!group)
        return -1;
    for (int64_t row = 0; row < rows; row++) {
        truncated[row] = sampled->generated.truncated[row];
        temperature[row] = options->temperature > 0 ? (float) options->temperature : 1.0f;
        version[row] = verl_stage_version(stage);
        group[row] = verl_batch_first_row(in) + row / options->samples;
    }
    return 0;
}

// Lengths in tokens: of responses with their stop token, and of prompts.
static int
s_measure(verl_stage_t *stage, const verl_policy_sampled_t *sampled)
{
    static const char *const prefixes[][2] = { { "response_length", "prompt_length" },
                                               { "val-aux/response_length", "val-aux/prompt_length" } };
    const verl_policy_generate_t *options = verl_stage_options(stage);
    const char *const *prefix = prefixes[options->metrics];
    int64_t rows = s_rows(stage, sampled);
    verl_metrics_t *metrics = calloc(1, sizeof *metrics);
    int64_t *offsets = calloc((size_t) rows + 1, sizeof *offsets);
    int rc = metrics && offsets ? 0 : verl_fail(stage, "no memory for the lengths of %lld responses", (long long) rows);
    for (int64_t row = 0; rc == 0 && row < rows; row++)
        offsets[row + 1] = offsets[row] + sampled->generated.lengths[row];
    if (rc == 0) {
        verl_ragged_t responses = { .rows = rows, .offsets = offsets };
        verl_ragged_t prompts = { .rows = sampled->prompts, .offsets = sampled->prompt_offsets };
        verl_metrics_of_lengths(metrics, prefix[0], &responses, sampled->generated.truncated);
        verl_metrics_of_lengths(metrics, prefix[1], &prompts, NULL);
        verl_measure_report(stage, metrics);
    }
    free(metrics);
    free(offsets);
    return rc;
}

int
verl_policy_add_generated(verl_stage_t *stage, const verl_batch_t *in, const verl_policy_sampled_t *sampled,
                          bool give_prompts, verl_batch_t *out)
{
    const verl_policy_generate_t *options = verl_stage_options(stage);
    if (s_add_map(stage, sampled, out) != 0 || s_add_responses(stage, sampled, out) != 0 ||
        s_add_fixed(stage, in, sampled, out) != 0)
        return -1;
    if (give_prompts && s_add_prompts(stage, sampled, out) != 0)
        return -1;
    if (options->text && s_add_texts(stage, sampled, out) != 0)
        return -1;
    return s_measure(stage, sampled);
}
