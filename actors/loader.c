// loader.c: batches of records from JSON-lines files. Every field of a record becomes a column.
//
// Batch k is a function of (stage seed, k) alone, so that a successor needs no cursor and any batch can be made again.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <verl.h>
#include "actors/data/jsonl.h"
#include "actors/data/random.h"
#include "actors/data/sampler.h"
#include "actors/kit/prompt.h"

#define LONGEST_NAME 255                    // of a field
#define LOOK_BYTES (8 << 20)                // data sets up to this size are read whole before a start

enum { LONG_ERROR, LONG_CUT_LEFT, LONG_SKIP };

typedef struct {
    verl_strings_t  files;                  // options
    const char     *tokenizer;
    int             template;
    verl_jsonl_t   *data;
    verl_prompter_t prompter;
} loader_t;

typedef struct {
    int64_t rows, epochs, max_prompt_tokens;
    bool    shuffle, drop_last;
    int     too_long;
} loader_options_t;

static const verl_option_t s_state_options[] = {
    VERL_OPTION_OF(PATHS, loader_t, files, "JSON-lines files, read as one data set in this order", .must_exist = true,
                   .also = "verl:data.train_files verl:data.val_files trl:dataset_name openrlhf:--prompt_data"),
    VERL_OPTION_OF(PATH, loader_t, tokenizer,
                   "model directory, tokenizer.json or .gguf: gives prompt_ids, and response_ids of a response field",
                   .optional = true, .must_exist = true,
                   .also = "verl:actor_rollout_ref.model.tokenizer_path"),
    VERL_CHOICE(loader_t, template, "none", VERL_TEMPLATE_CHOICES,
                "how a prompt is written for the model: as it is, or by the tokenizer's chat template",
                .also = "openrlhf:--apply_chat_template"),
    VERL_OPTIONS_END
};

static const verl_option_t s_work_options[] = {
    { .name = "rows", .type = VERL_OPTION_INT, .offset = offsetof(loader_options_t, rows), .fallback = NULL, .min = 0,
      .max = 16777216, .unit = "prompts", .about = "prompts of a batch; 0: all that the files have",
      .also = "verl:data.train_batch_size trl:per_device_train_batch_size openrlhf:--rollout_batch_size" },
    VERL_INT(loader_options_t, epochs, 0, 0, 1e9, "epochs", "passes over the data after which the run ends; 0: no end",
             .also = "verl:trainer.total_epochs trl:num_train_epochs openrlhf:--num_episodes"),
    VERL_BOOL(loader_options_t, shuffle, true, "a new order in every epoch, the same in every run",
              .also = "verl:data.shuffle"),
    VERL_BOOL(loader_options_t, drop_last, false, "an epoch ends with its last whole batch"),
    VERL_INT(loader_options_t, max_prompt_tokens, 0, 0, 1e9, "tokens", "longest prompt; 0: any",
             .also = "verl:data.max_prompt_length trl:max_prompt_length openrlhf:--prompt_max_len"),
    VERL_CHOICE(loader_options_t, too_long, "error", "error|cut-left|skip",
                "what becomes of a longer prompt: the run fails, its first tokens go, or its row is left out",
                .also = "verl:data.truncation verl:data.filter_overlong_prompts"),
    VERL_OPTIONS_END
};

// The records of one batch and what is made of them.
typedef struct {
    int64_t           count;
    verl_record_t   **records;
    int64_t          *numbers;              // of the records in the data set
    verl_token_ids_t  prompt_ids, response_ids;
    int64_t          *prompt_lengths, *response_lengths;
} load_t;

// ---------------------------------------------------------------------------------------------------------------
// What is given, from the schema

static bool
s_is_given(const loader_t *self, const verl_schema_t *schema, const char *ids, const char *text)
{
    return self->tokenizer && *self->tokenizer && verl_schema_find(schema, ids) < 0 &&
           verl_schema_find(schema, text) >= 0;
}

static const char *
s_type_of(verl_field_type_t type)
{
    switch (type) {
    case VERL_FIELD_I64:      return "i64[n]";
    case VERL_FIELD_F32:      return "f32[n]";
    case VERL_FIELD_I32_LIST: return "i32[n,*]";
    case VERL_FIELD_F32_LIST: return "f32[n,*]";
    default:                  return "text";
    }
}

static void
s_declare_columns(verl_declaration_t *declaration, const loader_t *self, const verl_schema_t *schema)
{
    char column[512];
    if (verl_schema_find(schema, "id") < 0)
        verl_declare_give(declaration, "id:i64[n]");
    for (size_t i = 0; i < schema->count; i++) {
        if (strlen(schema->fields[i].name) > LONGEST_NAME) {
            verl_declare_error(declaration, "files", "a record of '%s' has a field '%.40s…' with a name of %zu bytes: "
                               "at most %d would be right", self->files.items[0], schema->fields[i].name,
                               strlen(schema->fields[i].name), LONGEST_NAME);
            return;
        }
        snprintf(column, sizeof column, "%s:%s", schema->fields[i].name, s_type_of(schema->fields[i].type));
        verl_declare_give(declaration, column);
    }
    if (s_is_given(self, schema, "prompt_ids", "prompt"))
        verl_declare_give(declaration, "prompt_ids:i32[n,*]");
    if (s_is_given(self, schema, "response_ids", "response"))
        verl_declare_give(declaration, "response_ids:i32[n,*]");
}

static void
s_declare_tokenizer(verl_declaration_t *declaration, const loader_t *self, const loader_options_t *options,
                    const verl_schema_t *schema)
{
    char error[1024], space[VERL_SPACE_SIZE];
    if (!self->tokenizer || !*self->tokenizer) {
        if (self->template != VERL_TEMPLATE_NONE)
            verl_declare_error(declaration, "template", "a chat template belongs to a tokenizer, and there is none: "
                               "tokenizer = \"DIR\" would be right");
        if (options->max_prompt_tokens > 0 && verl_schema_find(schema, "prompt_ids") < 0)
            verl_declare_error(declaration, "max_prompt_tokens", "tokens can be counted only by a tokenizer, and there "
                               "is none: tokenizer = \"DIR\" would be right");
        return;
    }
    if (verl_schema_find(schema, "prompt") < 0 && verl_schema_find(schema, "prompt_ids") < 0)
        verl_declare_error(declaration, "tokenizer", "the records of '%s' have no field prompt that it could read",
                           self->files.items[0]);
    if (verl_prompter_space(self->tokenizer, space, error, sizeof error) != 0) {
        verl_declare_error(declaration, "tokenizer", "%s", error);
        return;
    }
    if (self->template != VERL_TEMPLATE_NONE && !verl_prompter_has_template(self->tokenizer))
        verl_declare_error(declaration, "template", "'%s' has no chat template: template = \"none\" would be right",
                           self->tokenizer);
    if (s_is_given(self, schema, "prompt_ids", "prompt"))
        verl_declare_space(declaration, "prompt_ids", space, self->tokenizer);
    if (s_is_given(self, schema, "response_ids", "response"))
        verl_declare_space(declaration, "response_ids", space, self->tokenizer);
}

static verl_sampler_t
s_sampler(const loader_options_t *options, int64_t records, uint64_t seed)
{
    return (verl_sampler_t) { .records = records, .rows = options->rows > 0 ? options->rows : records,
                              .epochs = options->epochs, .seed = seed, .shuffle = options->shuffle,
                              .drop_last = options->drop_last };
}

static void
s_declare_batches(verl_declaration_t *declaration, const loader_t *self, const loader_options_t *options)
{
    char error[1024];
    verl_jsonl_t *data = verl_jsonl_open(self->files.items, (size_t) self->files.count, error, sizeof error);
    if (!data) {
        verl_declare_error(declaration, "files", "%s", error);
        return;
    }
    verl_sampler_t sampler = s_sampler(options, verl_jsonl_records(data), 0);
    verl_jsonl_destroy(&data);
    if (verl_sampler_check(&sampler, error, sizeof error) != 0)
        verl_declare_error(declaration, "rows", "%s", error);
    else if (options->epochs > 0)
        verl_declare_batches(declaration, verl_sampler_batches(&sampler));
}

static bool
s_are_small(const verl_strings_t *files)
{
    struct stat status;
    int64_t bytes = 0;
    for (int i = 0; i < files->count; i++)
        bytes += stat(files->items[i], &status) == 0 ? (int64_t) status.st_size : 0;
    return bytes <= LOOK_BYTES;
}

// Reads every record of a small data set, so that a broken line is known before the start.
static void
s_declare_records(verl_declaration_t *declaration, const loader_t *self)
{
    char error[1024];
    verl_jsonl_t *data = verl_jsonl_open(self->files.items, (size_t) self->files.count, error, sizeof error);
    bool whole = data;
    for (int64_t i = 0; whole && i < verl_jsonl_records(data); i++) {
        verl_record_t *record = verl_jsonl_read(data, i, error, sizeof error);
        whole = record;
        verl_jsonl_release(&record);
    }
    if (!whole)
        verl_declare_error(declaration, "files", "%s", error);
    verl_jsonl_destroy(&data);
}

static int
s_declare(verl_declaration_t *declaration, const void *state, const void *options)
{
    const loader_t *self = state;
    const loader_options_t *work = options;
    char error[1024];
    verl_schema_t schema = { 0 };
    if (self->files.count == 0) {
        verl_declare_error(declaration, "files", "no file is named: one JSON-lines file at least would be right");
        return 0;
    }
    if (verl_jsonl_discover(self->files.items, (size_t) self->files.count, &schema, error, sizeof error) != 0) {
        verl_declare_error(declaration, "files", "%s", error);
        return 0;
    }
    if (s_are_small(&self->files))
        s_declare_records(declaration, self);
    s_declare_columns(declaration, self, &schema);
    s_declare_tokenizer(declaration, self, work, &schema);
    if (work->epochs > 0 || work->drop_last)
        s_declare_batches(declaration, self, work);
    verl_schema_done(&schema);
    return 0;
}

// ---------------------------------------------------------------------------------------------------------------
// One batch

static int
s_prepare(verl_stage_t *stage)
{
    loader_t *self = verl_stage_state(stage);
    char error[1024];
    double begin = verl_clock();
    self->data = verl_jsonl_open(self->files.items, (size_t) self->files.count, error, sizeof error);
    if (!self->data)
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
    loader_t *self = verl_stage_state(stage);
    verl_jsonl_destroy(&self->data);
    verl_prompter_done(&self->prompter);
}

static void
s_load_done(load_t *load)
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
s_read(verl_stage_t *stage, const loader_t *self, const verl_sampler_t *sampler, int64_t batch, load_t *load)
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

// Cuts the last `length` ids of the list to at most `limit`, from the left.
static int64_t
s_cut_left(verl_token_ids_t *ids, int64_t length, int64_t limit)
{
    int32_t *begin = ids->data + ids->count - length;
    memmove(begin, begin + (length - limit), (size_t) limit * sizeof *begin);
    ids->count -= (size_t) (length - limit);
    return limit;
}

// What is wrong with the record of a row, behind the place where it stands.
static int __attribute__((format(printf, 4, 5)))
s_fail_row(verl_stage_t *stage, const loader_t *self, int64_t number, const char *format, ...)
{
    char place[1024], text[900];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    verl_jsonl_place(self->data, number, place, sizeof place);
    return verl_fail(stage, "%s: %s", place, text);
}

// Encodes the prompt (and response) of record `row` and says in *ret_keep whether the row stays.
static int
s_encode_row(verl_stage_t *stage, loader_t *self, const verl_schema_t *schema, int64_t row, load_t *load,
             bool *ret_keep)
{
    const loader_options_t *options = verl_stage_options(stage);
    char error[1024];
    size_t prompts_before = load->prompt_ids.count, responses_before = load->response_ids.count;
    const verl_value_t *values = load->records[row]->values;
    int64_t number = load->numbers[row];
    *ret_keep = true;
    if (s_is_given(self, schema, "prompt_ids", "prompt")) {
        const verl_value_t *prompt = &values[verl_schema_find(schema, "prompt")];
        if (verl_prompter_encode(&self->prompter, self->template, prompt->text, (size_t) prompt->count,
                                 &load->prompt_ids, error, sizeof error) != 0)
            return s_fail_row(stage, self, number, "%s", error);
        int64_t length = (int64_t) (load->prompt_ids.count - prompts_before), limit = options->max_prompt_tokens;
        if (length == 0)
            return s_fail_row(stage, self, number, "its prompt has no tokens; one at least is what a response can "
                              "follow");
        if (limit > 0 && length > limit && options->too_long == LONG_ERROR)
            return s_fail_row(stage, self, number, "its prompt has %lld tokens, more than max_prompt_tokens = %lld; "
                              "too_long = \"cut-left\" or \"skip\" would go on", (long long) length, (long long) limit);
        if (limit > 0 && length > limit && options->too_long == LONG_SKIP) {
            load->prompt_ids.count = prompts_before;
            *ret_keep = false;
            return 0;
        }
        load->prompt_lengths[row] =
            limit > 0 && length > limit ? s_cut_left(&load->prompt_ids, length, limit) : length;
    }
    if (s_is_given(self, schema, "response_ids", "response")) {
        const verl_value_t *response = &values[verl_schema_find(schema, "response")];
        if (verl_prompter_encode_response(&self->prompter, response->text, (size_t) response->count, -1,
                                          &load->response_ids, error, sizeof error) != 0)
            return s_fail_row(stage, self, number, "%s", error);
        load->response_lengths[row] = (int64_t) (load->response_ids.count - responses_before);
    }
    return 0;
}

// Encodes all rows; the ones left out are closed up.
static int
s_encode(verl_stage_t *stage, loader_t *self, const verl_schema_t *schema, load_t *load)
{
    int64_t kept = 0, count = load->count;
    for (int64_t row = 0; row < count; row++) {
        bool keep;
        if (s_encode_row(stage, self, schema, row, load, &keep) != 0)
            return -1;
        if (!keep) {
            verl_jsonl_release(&load->records[row]);
            continue;
        }
        verl_record_t *record = load->records[row];
        load->records[row] = NULL;
        load->records[kept] = record;
        load->numbers[kept] = load->numbers[row];
        load->prompt_lengths[kept] = load->prompt_lengths[row];
        load->response_lengths[kept] = load->response_lengths[row];
        kept++;
    }
    load->count = kept;
    return kept > 0 ? 0 : verl_fail(stage, "every prompt of the batch is longer than max_prompt_tokens");
}

static int
s_add_texts(verl_stage_t *stage, verl_batch_t *out, const char *name, const load_t *load, size_t field)
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
s_add_lists(verl_stage_t *stage, verl_batch_t *out, const char *name, const load_t *load, size_t field,
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
s_add_field(verl_stage_t *stage, verl_batch_t *out, const verl_field_t *field, const load_t *load, size_t index)
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
s_add_columns(verl_stage_t *stage, const loader_t *self, const verl_schema_t *schema, const load_t *load,
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
    if (s_is_given(self, schema, "prompt_ids", "prompt") &&
        s_add_ids(out, "prompt_ids", &load->prompt_ids, load->prompt_lengths) != 0)
        return -1;
    return s_is_given(self, schema, "response_ids", "response")
               ? s_add_ids(out, "response_ids", &load->response_ids, load->response_lengths)
               : 0;
}

static int
s_load(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out)
{
    loader_t *self = verl_stage_state(stage);
    const verl_schema_t *schema = verl_jsonl_schema(self->data);
    verl_sampler_t sampler = s_sampler(verl_stage_options(stage), verl_jsonl_records(self->data),
                                       verl_stage_seed(stage));
    load_t load = { 0 };
    int rc = s_read(stage, self, &sampler, verl_batch_id(in), &load);
    if (rc == 0)
        rc = s_encode(stage, self, schema, &load);
    if (rc == 0)
        rc = s_add_columns(stage, self, schema, &load, out);
    s_load_done(&load);
    return rc;
}

VERL_KIND(loader,
    .about = "reads batches of records from JSON-lines files; every field becomes a column",
    .state_size = sizeof(loader_t), .options = s_state_options,
    .stages = { { "load", s_load, .about = "makes a batch of records",
                  .options_size = sizeof(loader_options_t), .options = s_work_options,
                  .source_only = true, .declare = s_declare } },
    .prepare = s_prepare, .finish = s_finish)
