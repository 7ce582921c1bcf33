// generate.c: samples responses for the prompts of a batch.
//
// A response depends on (stage seed, batch, its row in the whole batch), the weights and its own prompt: never on the
// part that it came in, on its neighbours, or on time.
#include <stdlib.h>
#include "actors/data/random.h"
#include "actors/policy/policy.h"

// ---------------------------------------------------------------------------------------------------------------
// What is asked for

static int
s_take_ids(verl_stage_t *stage, const verl_column_t *ids, int64_t row, verl_token_ids_t *to)
{
    const int32_t *id = verl_column_i32(ids, row);
    for (int64_t i = 0; i < verl_column_length(ids, row); i++)
        if (verl_token_ids_add(to, id[i]) != 0)
            return verl_fail(stage, "no memory for the prompt of row %lld", (long long) row);
    return 0;
}

static int
s_encode(verl_stage_t *stage, verl_policy_t *self, const verl_column_t *prompt, int64_t row, verl_token_ids_t *to)
{
    const verl_policy_generate_t *options = verl_stage_options(stage);
    char error[1024];
    size_t bytes;
    const char *text = verl_column_text(prompt, row, &bytes);
    if (verl_prompter_encode(&self->prompter, options->template, text, bytes, to, error, sizeof error) != 0)
        return verl_fail(stage, "row %lld: %s", (long long) row, error);
    return 0;
}

static int
s_check_prompt(verl_stage_t *stage, const verl_policy_t *self, int64_t row, const int32_t *ids, int64_t length)
{
    const verl_policy_generate_t *options = verl_stage_options(stage);
    if (length == 0)
        return verl_fail(stage, "row %lld: its prompt has no tokens; one at least is what a response can follow",
                         (long long) row);
    if (length + options->max_new_tokens > self->config.max_positions)
        return verl_fail(stage,
                         "row %lld: a prompt of %lld tokens and max_new_tokens = %lld are longer than the model's "
                         "context of %lld: max_prompt_tokens = %lld at the loader, and too_long = \"skip\" or "
                         "\"cut-left\", would be right",
                         (long long) row, (long long) length, (long long) options->max_new_tokens,
                         (long long) self->config.max_positions,
                         (long long) (self->config.max_positions - options->max_new_tokens));
    for (int64_t i = 0; i < length; i++)
        if (ids[i] < 0 || ids[i] >= self->config.vocab_size)
            return verl_fail(stage,
                             "row %lld: its prompt has the id %d at place %lld, and the model's vocabulary ends at "
                             "%lld",
                             (long long) row, (int) ids[i], (long long) i, (long long) self->config.vocab_size - 1);
    return 0;
}

// Collects the ids of all prompts, from prompt_ids or from the text of prompt.
static int
s_collect(verl_stage_t *stage, verl_policy_t *self, const verl_batch_t *in, verl_policy_sampled_t *sampled)
{
    const verl_column_t *ids = verl_batch_column(in, "prompt_ids"), *text = verl_batch_column(in, "prompt");
    if (ids && (!ids->ragged || ids->dtype != VERL_I32 || ids->width != 1))
        return verl_fail(stage, "column prompt_ids is not i32[n,*]");
    if (!ids && (!text || text->dtype != VERL_TEXT))
        return verl_fail(stage, "there is neither a column prompt_ids nor a text prompt");
    sampled->prompts = verl_batch_rows(in);
    sampled->prompt_offsets = calloc((size_t) sampled->prompts + 1, sizeof *sampled->prompt_offsets);
    if (!sampled->prompt_offsets)
        return verl_fail(stage, "no memory for %lld prompts", (long long) sampled->prompts);
    for (int64_t row = 0; row < sampled->prompts; row++) {
        int64_t before = (int64_t) sampled->prompt_ids.count;
        if (ids ? s_take_ids(stage, ids, row, &sampled->prompt_ids)
                : s_encode(stage, self, text, row, &sampled->prompt_ids))
            return -1;
        sampled->prompt_offsets[row + 1] = (int64_t) sampled->prompt_ids.count;
        if (s_check_prompt(stage, self, row, sampled->prompt_ids.data + before,
                           sampled->prompt_offsets[row + 1] - before) != 0)
            return -1;
    }
    return 0;
}

// The ids that end a response: the model's own, or its tokenizer's where it names none, and those of the option.
static int
s_find_stops(verl_stage_t *stage, verl_policy_t *self, verl_policy_sampled_t *sampled)
{
    const verl_policy_generate_t *options = verl_stage_options(stage);
    size_t room = (size_t) self->config.eos_count + (size_t) options->stop.count + 1;
    sampled->stop = calloc(room, sizeof *sampled->stop);
    if (!sampled->stop)
        return verl_fail(stage, "no memory for the stop tokens");
    for (int i = 0; i < self->config.eos_count; i++)
        sampled->stop[sampled->stop_count++] = self->config.eos[i];
    if (self->config.eos_count == 0 && verl_tokenizer_eos(self->prompter.tokenizer) >= 0)
        sampled->stop[sampled->stop_count++] = verl_tokenizer_eos(self->prompter.tokenizer);
    for (int i = 0; i < options->stop.count; i++) {
        const char *text = options->stop.items[i];
        int32_t id = verl_prompter_one_token(self->prompter.tokenizer, text);
        if (id < 0 || id >= self->config.vocab_size)
            return verl_fail(stage, "stop: \"%s\" is not one token of '%s'; a response ends at whole tokens", text,
                             verl_policy_tokenizer_path(self));
        sampled->stop[sampled->stop_count++] = id;
    }
    return 0;
}

static int
s_reserve(verl_stage_t *stage, const verl_batch_t *in, int64_t rows, verl_policy_sampled_t *sampled)
{
    const verl_policy_generate_t *options = verl_stage_options(stage);
    size_t tokens = (size_t) rows * (size_t) options->max_new_tokens, count = rows > 0 ? (size_t) rows : 1;
    verl_lm_generated_t *generated = &sampled->generated;
    generated->ids = malloc((tokens ? tokens : 1) * sizeof *generated->ids);
    generated->logprobs = malloc((tokens ? tokens : 1) * sizeof *generated->logprobs);
    generated->lengths = malloc(count * sizeof *generated->lengths);
    generated->truncated = malloc(count * sizeof *generated->truncated);
    sampled->keys = malloc(count * sizeof *sampled->keys);
    if (!generated->ids || !generated->logprobs || !generated->lengths || !generated->truncated || !sampled->keys)
        return verl_fail(stage, "no memory for %lld responses of %lld tokens", (long long) rows,
                         (long long) options->max_new_tokens);
    int64_t first = verl_batch_first_row(in) * options->samples;
    for (int64_t row = 0; row < rows; row++) {
        verl_random_t stream = verl_random_stream(verl_stage_seed(stage), NULL, verl_batch_id(in), first + row);
        sampled->keys[row] = verl_random_u64(&stream);
    }
    return 0;
}

// ---------------------------------------------------------------------------------------------------------------
// Generation

static int
s_progress(void *context, int64_t tokens, int64_t rows)
{
    verl_stage_t *stage = context;
    const verl_policy_generate_t *options = verl_stage_options(stage);
    (void) rows;
    return verl_progress(stage, (double) tokens / (double) options->max_new_tokens);
}

static int
s_sample(verl_stage_t *stage, verl_policy_t *self, verl_policy_sampled_t *sampled)
{
    const verl_policy_generate_t *options = verl_stage_options(stage);
    char error[1024];
    if (sampled->prompts == 0)
        return 0;
    verl_lm_prompts_t prompts = { .ids = sampled->prompt_ids.data, .offsets = sampled->prompt_offsets,
                                  .count = sampled->prompts };
    verl_lm_generate_options_t how = {
        .samples = options->samples, .max_new_tokens = options->max_new_tokens, .temperature = options->temperature,
        .top_k = options->top_k, .top_p = options->top_p, .stop = sampled->stop, .stop_count = sampled->stop_count,
        .max_bytes = options->max_cache_bytes, .progress = s_progress, .context = stage,
    };
    int rc = verl_lm_generate(self->lm, &prompts, &how, sampled->keys, &sampled->generated, error, sizeof error);
    if (rc == VERL_LM_CANCELLED)
        return -1;
    return rc == 0 ? 0 : verl_fail(stage, "%s", error);
}

static void
s_sampled_done(verl_policy_sampled_t *sampled)
{
    verl_token_ids_done(&sampled->prompt_ids);
    free(sampled->prompt_offsets);
    free(sampled->generated.ids);
    free(sampled->generated.logprobs);
    free(sampled->generated.lengths);
    free(sampled->generated.truncated);
    free(sampled->keys);
    free(sampled->stop);
}

int
verl_policy_run_generate(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out)
{
    verl_policy_t *self = verl_stage_state(stage);
    const verl_policy_generate_t *options = verl_stage_options(stage);
    verl_policy_sampled_t sampled = { 0 };
    int rc = s_collect(stage, self, in, &sampled);
    if (rc == 0)
        rc = s_find_stops(stage, self, &sampled);
    if (rc == 0)
        rc = s_reserve(stage, in, sampled.prompts * options->samples, &sampled);
    if (rc == 0)
        rc = s_sample(stage, self, &sampled);
    if (rc == 0)
        rc = verl_policy_add_generated(stage, in, &sampled, !verl_batch_column(in, "prompt_ids"), out);
    s_sampled_done(&sampled);
    return rc;
}
