// values.c: records of one schema: JSON values as the types that the schema says; see schema.h.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actors/data/messages.h"
#include "actors/data/schema.h"

// What a record's values point into.
typedef struct memory {
    json_t *root;
    void **blocks; // one a field; NULL where the field needs none
    size_t count;
} memory_t;

static int
s_fail_value(const verl_line_t *line, const verl_field_t *field, const json_t *value)
{
    const char *advice = field->type == VERL_FIELD_I64 && json_is_real(value)
                             ? " (write it with a decimal point there to have reals throughout)"
                             : "";
    return verl_line_fail(line, "field \"%s\" is %s: the first record has %s there, so every record has it%s",
                          field->name, verl_data_word(value), verl_field_type_words(field->type), advice);
}

// Reads one number as f32: rounded, but an integer only where nothing of it is lost. element: of a list; -1: no list.
static int
s_read_f32(const verl_line_t *line, const verl_field_t *field, int64_t element, const json_t *value, float *number)
{
    char where[48] = "";
    json_int_t integer = json_integer_value(value);
    *number = (float) json_number_value(value);
    bool exact = !json_is_integer(value) || (long double) *number == (long double) integer;
    if (isfinite(*number) && exact)
        return 0;
    if (element >= 0)
        snprintf(where, sizeof where, "element %" PRId64 " of ", element);
    if (exact)
        return verl_line_fail(line, "%sfield \"%s\" is %g: reals are at most 3.4e38", where, field->name,
                              json_number_value(value));
    return verl_line_fail(line,
                          "%sfield \"%s\" is %" JSON_INTEGER_FORMAT ": a real has 32 bits and cannot hold this integer: "
                          "text would be right, or a decimal point where the nearest real will do",
                          where, field->name, integer);
}

static int
s_read_ints(const verl_line_t *line, const verl_field_t *field, const json_t *list, int32_t *items)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t wide = json_integer_value(item);
        if (!json_is_integer(item))
            return verl_line_fail(line, "element %zu of field \"%s\" is %s: this list holds integers", i, field->name,
                                  verl_data_word(item));
        if (wide < INT32_MIN || wide > INT32_MAX)
            return verl_line_fail(
                line, "element %zu of field \"%s\" is %" JSON_INTEGER_FORMAT ": a list holds integers of 32 bits", i,
                field->name, wide);
        items[i] = (int32_t) wide;
    }
    return 0;
}

static int
s_read_reals(const verl_line_t *line, const verl_field_t *field, const json_t *list, float *items)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        if (!json_is_number(item))
            return verl_line_fail(line, "element %zu of field \"%s\" is %s: this list holds numbers", i, field->name,
                                  verl_data_word(item));
        if (s_read_f32(line, field, (int64_t) i, item, &items[i]))
            return -1;
    }
    return 0;
}

// Turns a list into an array of 4-byte elements, which *block then owns.
static int
s_read_list(const verl_line_t *line, const verl_field_t *field, const json_t *list, verl_value_t *value, void **block)
{
    if (!json_is_array(list) || verl_data_list_type(list) < 0)
        return s_fail_value(line, field, list);
    value->count = (int64_t) json_array_size(list);
    *block = calloc((size_t) value->count + 1, 4);
    if (!*block)
        return verl_line_fail(line, "no memory for field \"%s\": free some", field->name);
    if (field->type == VERL_FIELD_I32_LIST) {
        value->ints = *block;
        return s_read_ints(line, field, list, *block);
    }
    value->reals = *block;
    return s_read_reals(line, field, list, *block);
}

// Turns an object or a list of messages into compact JSON text, which *block then owns.
static int
s_read_json(const verl_line_t *line, const verl_field_t *field, const json_t *json, verl_value_t *value, void **block)
{
    char reason[256];
    if (field->type == VERL_FIELD_JSON ? !json_is_object(json) : !json_is_array(json))
        return s_fail_value(line, field, json);
    if (field->type == VERL_FIELD_MESSAGES && verl_messages_check(json, reason, sizeof reason))
        return verl_line_fail(line, "field \"%s\": %s", field->name, reason);
    char *text = json_dumps(json, JSON_COMPACT);
    if (!text)
        return verl_line_fail(line, "no memory for field \"%s\": free some", field->name);
    *block = text;
    value->text = text;
    value->count = (int64_t) strlen(text);
    return 0;
}

static int
s_read_field(const verl_line_t *line, const verl_field_t *field, const json_t *json, verl_value_t *value, void **block)
{
    switch (field->type) {
    case VERL_FIELD_TEXT:
        value->text = json_string_value(json);
        value->count = (int64_t) json_string_length(json);
        return json_is_string(json) ? 0 : s_fail_value(line, field, json);
    case VERL_FIELD_I64:
        value->integer = json_is_true(json) ? 1 : json_integer_value(json);
        return json_is_integer(json) || json_is_boolean(json) ? 0 : s_fail_value(line, field, json);
    case VERL_FIELD_F32:
        if (!json_is_number(json))
            return s_fail_value(line, field, json);
        return s_read_f32(line, field, -1, json, &value->real);
    case VERL_FIELD_I32_LIST:
    case VERL_FIELD_F32_LIST:
        return s_read_list(line, field, json, value, block);
    default:
        return s_read_json(line, field, json, value, block);
    }
}

// A field of the record that the schema does not know, there being at least one.
static int
s_fail_unknown(const verl_line_t *line, const verl_schema_t *schema, json_t *root)
{
    const char *name;
    json_t *value;
    json_object_foreach(root, name, value) if (verl_schema_find(schema, name) < 0) return verl_line_fail(
        line, "field \"%s\" is not in the first record: add it there, or take it out here", name);
    return -1;
}

static int
s_fill(const verl_line_t *line, const verl_schema_t *schema, json_t *root, verl_record_t *record, memory_t *memory)
{
    for (size_t i = 0; i < schema->count; i++) {
        const verl_field_t *field = &schema->fields[i];
        const json_t *json = json_object_get(root, field->name);
        if (!json)
            return verl_line_fail(line, "field \"%s\" is missing: the first record has it, so every record has it",
                                  field->name);
        if (s_read_field(line, field, json, &record->values[i], &memory->blocks[i]))
            return -1;
    }
    return json_object_size(root) > schema->count ? s_fail_unknown(line, schema, root) : 0;
}

verl_record_t *
verl_schema_apply(const verl_line_t *line, const verl_schema_t *schema, json_t *root)
{
    verl_record_t *record = calloc(1, sizeof *record);
    memory_t *memory = calloc(1, sizeof *memory);
    if (record && memory) {
        record->memory = memory;
        record->count = memory->count = schema->count;
        record->values = calloc(schema->count + 1, sizeof *record->values);
        memory->blocks = calloc(schema->count + 1, sizeof *memory->blocks);
        memory->root = json_incref(root);
        if (record->values && memory->blocks) {
            if (s_fill(line, schema, root, record, memory) == 0)
                return record;
            verl_jsonl_release(&record);
            return NULL;
        }
        verl_jsonl_release(&record);
    } else {
        free(record);
        free(memory);
    }
    verl_line_fail(line, "no memory for the record: free some");
    return NULL;
}

void
verl_jsonl_release(verl_record_t **record_p)
{
    verl_record_t *record = *record_p;
    if (!record)
        return;
    memory_t *memory = record->memory;
    for (size_t i = 0; memory->blocks && i < memory->count; i++)
        free(memory->blocks[i]);
    free(memory->blocks);
    json_decref(memory->root);
    free(memory);
    free(record->values);
    free(record);
    *record_p = NULL;
}
