// prompts.c: the token ids of a batch, and what becomes of prompts that are too long. See loader.h.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "actors/loader/loader.h"

// What is wrong with the record of a row, behind the place where it stands.
static int __attribute__((format(printf, 4, 5)))
s_fail_row(verl_stage_t *stage, const verl_loader_t *self, int64_t number, const char *format, ...)
{
    char place[1024], text[900];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    verl_jsonl_place(self->data, number, place, sizeof place);
    return verl_fail(stage, "%s: %s", place, text);
}

// How many of the ids of a prompt go on, the last ones; 0: its row is left out; -1: the batch fails.
static int64_t
s_keep(verl_stage_t *stage, const verl_loader_t *self, int64_t number, int64_t length)
{
    const verl_loader_options_t *options = verl_stage_options(stage);
    int64_t limit = options->max_prompt_tokens;
    if (length == 0)
        return s_fail_row(stage, self, number, "its prompt has no tokens; one at least is what a response can follow");
    if (limit == 0 || length <= limit)
        return length;
    if (options->too_long == VERL_LONG_PROMPT_ERROR)
        return s_fail_row(stage, self, number, "its prompt has %lld tokens, more than max_prompt_tokens = %lld; "
                          "too_long = \"cut-left\" or \"skip\" would go on", (long long) length, (long long) limit);
    return options->too_long == VERL_LONG_PROMPT_SKIP ? 0 : limit;
}

// Ids that the record brings. 1; 0: its row is left out; -1: the batch fails.
static int
s_measure(verl_stage_t *stage, const verl_loader_t *self, int64_t number, verl_value_t *ids)
{
    int64_t keep = s_keep(stage, self, number, ids->count);
    if (keep <= 0)
        return (int) keep;
    ids->ints += ids->count - keep;
    ids->count = keep;
    return 1;
}

// Appends the ids of a prompt; the same.
static int
s_encode_prompt(verl_stage_t *stage, verl_loader_t *self, const verl_value_t *prompt, int64_t row, verl_load_t *load)
{
    char error[1024];
    verl_token_ids_t *ids = &load->prompt_ids;
    size_t before = ids->count;
    if (verl_prompter_encode(&self->prompter, self->template, prompt->text, (size_t) prompt->count, ids, error,
                             sizeof error) != 0)
        return s_fail_row(stage, self, load->numbers[row], "%s", error);
    int64_t length = (int64_t) (ids->count - before), keep = s_keep(stage, self, load->numbers[row], length);
    if (keep < 0)
        return -1;
    memmove(ids->data + before, ids->data + ids->count - keep, (size_t) keep * sizeof *ids->data);
    ids->count = before + (size_t) keep;
    load->prompt_lengths[row] = keep;
    return keep > 0;
}

// 1; 0: the row is left out; -1: the batch fails.
static int
s_encode_row(verl_stage_t *stage, verl_loader_t *self, const verl_schema_t *schema, int64_t row, verl_load_t *load)
{
    const verl_loader_options_t *options = verl_stage_options(stage);
    char error[1024];
    size_t before = load->response_ids.count;
    verl_value_t *values = load->records[row]->values;
    int64_t ids = verl_schema_find(schema, "prompt_ids");
    int kept = 1;
    if (verl_loader_gives(self, schema, "prompt_ids", "prompt"))
        kept = s_encode_prompt(stage, self, &values[verl_schema_find(schema, "prompt")], row, load);
    else if (ids >= 0 && schema->fields[ids].type == VERL_FIELD_I32_LIST && options->max_prompt_tokens > 0)
        kept = s_measure(stage, self, load->numbers[row], &values[ids]);
    if (kept <= 0 || !verl_loader_gives(self, schema, "response_ids", "response"))
        return kept;
    const verl_value_t *response = &values[verl_schema_find(schema, "response")];
    if (verl_prompter_encode_response(&self->prompter, response->text, (size_t) response->count, -1,
                                      &load->response_ids, error, sizeof error) != 0)
        return s_fail_row(stage, self, load->numbers[row], "%s", error);
    load->response_lengths[row] = (int64_t) (load->response_ids.count - before);
    return 1;
}

int
verl_loader_encode(verl_stage_t *stage, verl_loader_t *self, const verl_schema_t *schema, verl_load_t *load)
{
    int64_t kept = 0, count = load->count;
    for (int64_t row = 0; row < count; row++) {
        int stays = s_encode_row(stage, self, schema, row, load);
        if (stays < 0)
            return -1;
        if (!stays) {
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
