// loader.c: batches of records from JSON-lines files. Every field of a record becomes a column.
//
// Batch k is a function of (stage seed, k) alone, so that a successor needs no cursor and any batch can be made again.
#include <stdlib.h>
#include <string.h>
#include "actors/loader/loader.h"

static const verl_option_t s_state_options[] = {
    VERL_OPTION_OF(PATHS, verl_loader_t, files, "JSON-lines files, read as one data set in this order",
                   .must_exist = true, .also = "verl:data.train_files verl:data.val_files trl:dataset_name openrlhf:--prompt_data"),
    VERL_OPTION_OF(PATH, verl_loader_t, tokenizer,
                   "model directory, tokenizer.json or .gguf: gives prompt_ids, and response_ids of a response field",
                   .optional = true, .must_exist = true,
                   .also = "verl:actor_rollout_ref.model.tokenizer_path"),
    VERL_CHOICE(verl_loader_t, template, "none", VERL_TEMPLATE_CHOICES,
                "how a prompt is written for the model: as it is, or by the tokenizer's chat template",
                .also = "openrlhf:--apply_chat_template"),
    VERL_OPTIONS_END
};

static const verl_option_t s_work_options[] = {
    { .name = "rows", .type = VERL_OPTION_INT, .offset = offsetof(verl_loader_options_t, rows), .fallback = NULL,
      .min = 0, .max = 16777216, .unit = "prompts", .about = "prompts of a batch; 0: all that the files have (a held-out set of fewer: again = true)",
      .also = "verl:data.train_batch_size trl:per_device_train_batch_size openrlhf:--rollout_batch_size" },
    VERL_INT(verl_loader_options_t, epochs, 0, 0, 1e9, "epochs",
             "passes over the data after which the run ends; 0: no end", .also = "verl:trainer.total_epochs trl:num_train_epochs openrlhf:--num_episodes"),
    VERL_BOOL(verl_loader_options_t, shuffle, true, "a new order in every epoch, the same in every run",
              .also = "verl:data.shuffle"),
    VERL_BOOL(verl_loader_options_t, again, false,
              "every batch has the rows of the first: a held-out set of fewer rows than the files have"),
    VERL_BOOL(verl_loader_options_t, drop_last, false, "an epoch ends with its last whole batch"),
    VERL_INT(verl_loader_options_t, max_prompt_tokens, 0, 0, 1e9, "tokens", "longest prompt; 0: any",
             .also = "verl:data.max_prompt_length trl:max_prompt_length openrlhf:--prompt_max_len"),
    VERL_CHOICE(verl_loader_options_t, too_long, "error", "error|cut-left|skip",
                "what becomes of a longer prompt: the run fails, its first tokens go, or its row is left out",
                .also = "verl:data.truncation verl:data.filter_overlong_prompts"),
    VERL_OPTIONS_END
};

// ---------------------------------------------------------------------------------------------------------------
// One batch

static int
s_prepare(verl_stage_t *stage)
{
    verl_loader_t *self = verl_stage_state(stage);
    char error[1024];
    double begin = verl_clock();
    self->data = verl_jsonl_open(self->files.items, (size_t) self->files.count, error, sizeof error);
    if (!self->data || verl_loader_check_fields(self, verl_jsonl_schema(self->data), error, sizeof error) != 0)
        return verl_fail(stage, "%s", error);
    if (self->tokenizer && *self->tokenizer &&
        (verl_prompter_init(&self->prompter, self->tokenizer, error, sizeof error) != 0 ||
         verl_tokenizer_load(self->prompter.tokenizer, error, sizeof error) != 0))
        return verl_fail(stage, "%s", error);
    verl_loaded(stage, self->tokenizer && *self->tokenizer ? "records and tokenizer" : "records",
                verl_clock() - begin);
    return 0;
}

static void
s_finish(verl_stage_t *stage)
{
    verl_loader_t *self = verl_stage_state(stage);
    verl_jsonl_destroy(&self->data);
    verl_prompter_done(&self->prompter);
}

static void
s_load_done(verl_load_t *load)
{
    for (int64_t i = 0; load->records && i < load->count; i++)
        verl_jsonl_release(&load->records[i]);
    free(load->records);
    free(load->numbers);
    free(load->prompt_lengths);
    free(load->response_lengths);
    verl_token_ids_done(&load->prompt_ids);
    verl_token_ids_done(&load->response_ids);
}

// Reads the records of the batch. load->count is how many it has.
static int
s_read(verl_stage_t *stage, const verl_loader_t *self, const verl_sampler_t *sampler, int64_t batch, verl_load_t *load)
{
    char error[1024];
    int64_t rows = verl_sampler_rows(sampler, batch);
    if (rows <= 0)
        return verl_fail(stage, "the data end before this batch");
    load->records = calloc((size_t) rows, sizeof *load->records);
    load->numbers = calloc((size_t) rows, sizeof *load->numbers);
    load->prompt_lengths = calloc((size_t) rows, sizeof *load->prompt_lengths);
    load->response_lengths = calloc((size_t) rows, sizeof *load->response_lengths);
    if (!load->records || !load->numbers || !load->prompt_lengths || !load->response_lengths)
        return verl_fail(stage, "no memory for %lld records", (long long) rows);
    for (load->count = 0; load->count < rows; load->count++) {
        int64_t number = verl_sampler_record(sampler, batch, load->count, NULL);
        load->numbers[load->count] = number;
        load->records[load->count] = verl_jsonl_read(self->data, number, error, sizeof error);
        if (!load->records[load->count])
            return verl_fail(stage, "%s", error);
    }
    return 0;
}

static int
s_add_texts(verl_stage_t *stage, verl_batch_t *out, const char *name, const verl_load_t *load, size_t field)
{
    const char **texts = calloc((size_t) load->count, sizeof *texts);
    size_t *bytes = calloc((size_t) load->count, sizeof *bytes);
    int rc = texts && bytes ? 0 : verl_fail(stage, "no memory for the texts of %lld records", (long long) load->count);
    for (int64_t row = 0; rc == 0 && row < load->count; row++) {
        texts[row] = load->records[row]->values[field].text;
        bytes[row] = (size_t) load->records[row]->values[field].count;
    }
    if (rc == 0)
        rc = verl_batch_add_texts(out, name, texts, bytes);
    free(texts);
    free(bytes);
    return rc;
}

static int
s_add_lists(verl_stage_t *stage, verl_batch_t *out, const char *name, const verl_load_t *load, size_t field,
            verl_dtype_t dtype)
{
    int64_t *lengths = calloc((size_t) load->count, sizeof *lengths);
    if (!lengths)
        return verl_fail(stage, "no memory for the lists of %lld records", (long long) load->count);
    for (int64_t row = 0; row < load->count; row++)
        lengths[row] = load->records[row]->values[field].count;
    char *to = verl_batch_add_ragged(out, name, dtype, 1, lengths);
    for (int64_t row = 0; to && row < load->count; row++) {
        const verl_value_t *value = &load->records[row]->values[field];
        size_t bytes = (size_t) value->count * 4;
        if (bytes > 0)
            memcpy(to, dtype == VERL_I32 ? (const void *) value->ints : (const void *) value->reals, bytes);
        to += bytes;
    }
    free(lengths);
    return to ? 0 : -1;
}

static int
s_add_field(verl_stage_t *stage, verl_batch_t *out, const verl_field_t *field, const verl_load_t *load, size_t index)
{
    if (field->type == VERL_FIELD_I32_LIST || field->type == VERL_FIELD_F32_LIST)
        return s_add_lists(stage, out, field->name, load, index,
                           field->type == VERL_FIELD_I32_LIST ? VERL_I32 : VERL_F32);
    if (field->type != VERL_FIELD_I64 && field->type != VERL_FIELD_F32)
        return s_add_texts(stage, out, field->name, load, index);
    int64_t *integers = field->type == VERL_FIELD_I64 ? verl_batch_add_i64(out, field->name) : NULL;
    float *reals = field->type == VERL_FIELD_F32 ? verl_batch_add_f32(out, field->name) : NULL;
    if (!integers && !reals)
        return -1;
    for (int64_t row = 0; row < load->count; row++) {
        if (integers)
            integers[row] = load->records[row]->values[index].integer;
        else
            reals[row] = load->records[row]->values[index].real;
    }
    return 0;
}

static int
s_add_ids(verl_batch_t *out, const char *name, const verl_token_ids_t *ids, const int64_t *lengths)
{
    void *to = verl_batch_add_ragged(out, name, VERL_I32, 1, lengths);
    if (to && ids->count > 0)
        memcpy(to, ids->data, ids->count * sizeof *ids->data);
    return to ? 0 : -1;
}

static int
s_add_columns(verl_stage_t *stage, const verl_loader_t *self, const verl_schema_t *schema, const verl_load_t *load,
              verl_batch_t *out)
{
    if (verl_batch_set_rows(out, load->count) != 0)
        return -1;
    if (verl_schema_find(schema, "id") < 0) {
        int64_t *id = verl_batch_add_i64(out, "id");
        if (!id)
            return -1;
        memcpy(id, load->numbers, (size_t) load->count * sizeof *id);
    }
    for (size_t i = 0; i < schema->count; i++)
        if (s_add_field(stage, out, &schema->fields[i], load, i) != 0)
            return -1;
    if (verl_loader_gives(self, schema, "prompt_ids", "prompt") &&
        s_add_ids(out, "prompt_ids", &load->prompt_ids, load->prompt_lengths) != 0)
        return -1;
    return verl_loader_gives(self, schema, "response_ids", "response")
               ? s_add_ids(out, "response_ids", &load->response_ids, load->response_lengths)
               : 0;
}

// What it has made before is where it is in its data: with `every` or `begin` no record is passed over.
static int
s_load(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out)
{
    (void) in;
    verl_loader_t *self = verl_stage_state(stage);
    const verl_loader_options_t *options = verl_stage_options(stage);
    const verl_schema_t *schema = verl_jsonl_schema(self->data);
    verl_sampler_t sampler = verl_loader_sampler(options, verl_jsonl_records(self->data), verl_stage_seed(stage));
    verl_load_t load = { 0 };
    int rc = s_read(stage, self, &sampler, options->again ? 0 : verl_stage_ordinal(stage), &load);
    if (rc == 0)
        rc = verl_loader_encode(stage, self, schema, &load);
    if (rc == 0)
        rc = s_add_columns(stage, self, schema, &load, out);
    s_load_done(&load);
    return rc;
}

VERL_KIND(loader,
    .about = "reads batches of records from JSON-lines files; every field becomes a column",
    .state_size = sizeof(verl_loader_t), .options = s_state_options,
    .stages = { { "load", s_load, .about = "makes a batch of records",
                  .options_size = sizeof(verl_loader_options_t), .options = s_work_options,
                  .source_only = true, .declare = verl_loader_declare } },
    .prepare = s_prepare, .finish = s_finish)
