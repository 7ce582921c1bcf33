// declare.c: what a loader gives and what is wrong with its files, before anything starts. See loader.h.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "actors/loader/loader.h"

#define LONGEST_NAME 255                    // of a field

bool
verl_loader_gives(const verl_loader_t *self, const verl_schema_t *schema, const char *ids, const char *text)
{
    return self->tokenizer && *self->tokenizer && verl_schema_find(schema, ids) < 0 &&
           verl_schema_find(schema, text) >= 0;
}

int
verl_loader_check_fields(const verl_loader_t *self, const verl_schema_t *schema, char *error, size_t error_size)
{
    static const char *const fields[][2] = { { "prompt_ids", "prompt" }, { "response_ids", "response" } };
    for (int i = 0; i < 2; i++) {
        if (!verl_loader_gives(self, schema, fields[i][0], fields[i][1]))
            continue;
        verl_field_type_t type = schema->fields[verl_schema_find(schema, fields[i][1])].type;
        bool prompt = i == 0;
        if (type == VERL_FIELD_TEXT || (prompt && type == VERL_FIELD_MESSAGES))
            continue;
        snprintf(error, error_size, "%s: field \"%s\" is %s: text%s would be right where there is a tokenizer",
                 self->files.items[0], fields[i][1], verl_field_type_words(type),
                 prompt ? ", or a list of {\"role\", \"content\"} messages," : "");
        return -1;
    }
    return 0;
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
s_declare_columns(verl_declaration_t *declaration, const verl_loader_t *self, const verl_schema_t *schema)
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
    if (verl_loader_gives(self, schema, "prompt_ids", "prompt"))
        verl_declare_give(declaration, "prompt_ids:i32[n,*]");
    if (verl_loader_gives(self, schema, "response_ids", "response"))
        verl_declare_give(declaration, "response_ids:i32[n,*]");
}

static void
s_declare_tokenizer(verl_declaration_t *declaration, const verl_loader_t *self, const verl_loader_options_t *options,
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
    if (verl_loader_check_fields(self, schema, error, sizeof error) != 0)
        verl_declare_error(declaration, "files", "%s", error);
    if (verl_prompter_space(self->tokenizer, space, error, sizeof error) != 0) {
        verl_declare_error(declaration, "tokenizer", "%s", error);
        return;
    }
    if (self->template != VERL_TEMPLATE_NONE &&
        verl_prompter_check_template(self->tokenizer, error, sizeof error) != 0 &&
        (verl_loader_gives(self, schema, "prompt_ids", "prompt") || !verl_prompter_has_template(self->tokenizer)))
        verl_declare_error(declaration, "template", "%s", error);
    if (self->template == VERL_TEMPLATE_NONE && verl_loader_gives(self, schema, "prompt_ids", "prompt") &&
        schema->fields[verl_schema_find(schema, "prompt")].type == VERL_FIELD_MESSAGES)
        verl_declare_error(declaration, "template", "%s", VERL_PROMPTS_ARE_MESSAGES);
    if (verl_loader_gives(self, schema, "prompt_ids", "prompt"))
        verl_declare_space(declaration, "prompt_ids", space, self->tokenizer);
    if (verl_loader_gives(self, schema, "response_ids", "response"))
        verl_declare_space(declaration, "response_ids", space, self->tokenizer);
}

verl_sampler_t
verl_loader_sampler(const verl_loader_options_t *options, int64_t records, uint64_t seed)
{
    return (verl_sampler_t) { .records = records, .rows = options->rows > 0 ? options->rows : records,
                              .epochs = options->epochs, .seed = seed, .shuffle = options->shuffle,
                              .drop_last = options->drop_last };
}

static void
s_declare_batches(verl_declaration_t *declaration, const verl_loader_t *self, const verl_loader_options_t *options)
{
    char error[1024];
    verl_jsonl_t *data = verl_jsonl_open(self->files.items, (size_t) self->files.count, error, sizeof error);
    if (!data) {
        verl_declare_error(declaration, "files", "%s", error);
        return;
    }
    int64_t records = verl_jsonl_records(data);
    verl_sampler_t sampler = verl_loader_sampler(options, records, 0);
    verl_jsonl_destroy(&data);
    if (options->rows == 0 && options->too_long != VERL_LONG_PROMPT_SKIP)
        verl_declare_rows(declaration, records);
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
    return bytes <= VERL_JSONL_SMALL;
}

// Reads every record of a small data set, so that a broken line is known before the start.
static void
s_declare_records(verl_declaration_t *declaration, const verl_loader_t *self)
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

int
verl_loader_declare(verl_declaration_t *declaration, const void *state, const void *options)
{
    const verl_loader_t *self = state;
    const verl_loader_options_t *work = options;
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
    if (work->epochs > 0 || work->drop_last || work->rows == 0)
        s_declare_batches(declaration, self, work);
    verl_schema_done(&schema);
    return 0;
}
