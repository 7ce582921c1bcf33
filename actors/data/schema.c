// schema.c: types of JSON values, and records of one schema; see schema.h.
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
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

static const char *const s_type_names[] = {
    [VERL_FIELD_TEXT] = "text",         [VERL_FIELD_I64] = "i64",           [VERL_FIELD_F32] = "f32",
    [VERL_FIELD_I32_LIST] = "i32 list", [VERL_FIELD_F32_LIST] = "f32 list", [VERL_FIELD_MESSAGES] = "messages",
    [VERL_FIELD_JSON] = "json",
};

// How each type is written, for error sentences.
static const char *const s_type_words[] = {
    [VERL_FIELD_TEXT] = "text",
    [VERL_FIELD_I64] = "an integer",
    [VERL_FIELD_F32] = "a number",
    [VERL_FIELD_I32_LIST] = "a list of integers",
    [VERL_FIELD_F32_LIST] = "a list of numbers",
    [VERL_FIELD_MESSAGES] = "a list of {\"role\", \"content\"} messages",
    [VERL_FIELD_JSON] = "an object",
};

const char *
verl_field_type_name(verl_field_type_t type)
{
    return s_type_names[type];
}

int64_t
verl_schema_find(const verl_schema_t *schema, const char *name)
{
    for (size_t i = 0; i < schema->count; i++)
        if (strcmp(schema->fields[i].name, name) == 0)
            return (int64_t) i;
    return -1;
}

void
verl_schema_done(verl_schema_t *schema)
{
    for (size_t i = 0; i < schema->count; i++)
        free(schema->fields[i].name);
    free(schema->fields);
    *schema = (verl_schema_t){ 0 };
}

// Makes a sentence fit for a terminal: a quoted piece of a broken line may hold any byte.
static void
s_defuse(char *text)
{
    for (; *text; text++)
        if ((unsigned char) *text < 0x20 || *text == 0x7f)
            *text = '?';
}

int
verl_line_fail(const verl_line_t *line, const char *format, ...)
{
    int used = snprintf(line->error, line->error_size, "%s:%" PRId64 ": ", line->path, line->number);
    if (used < 0 || (size_t) used >= line->error_size)
        return -1;
    va_list args;
    va_start(args, format);
    vsnprintf(line->error + used, line->error_size - (size_t) used, format, args);
    va_end(args);
    s_defuse(line->error + used);
    return -1;
}

// What would be right, for the mistakes that the parser tells apart.
static const char *
s_cure(const json_error_t *found)
{
    switch (json_error_code(found)) {
    case json_error_invalid_utf8:
        return "write the file in UTF-8";
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return "text holds no NUL character: take it out";
    case json_error_duplicate_key:
        return "each field stands once in a record";
    case json_error_numeric_overflow:
        return "integers have 64 bits, and reals are at most 1.8e308";
    case json_error_end_of_input_expected:
        return "put one object on a line";
    case json_error_premature_end_of_input:
        return "a record is a whole JSON object on one line";
    case json_error_stack_overflow:
        return "nest less deeply";
    default:
        return "a line is one JSON object, as in {\"prompt\": \"1+1=\", \"answer\": \"2\"}";
    }
}

static const char *
s_word(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "text";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a real";
    case JSON_NULL:
        return "null";
    default:
        return "true or false";
    }
}

json_t *
verl_line_parse(const verl_line_t *line, const char *text, size_t bytes)
{
    json_error_t found;
    if (memchr(text, 0, bytes)) {
        verl_line_fail(line, "the line holds a NUL byte: a file of JSON lines is text in UTF-8");
        return NULL;
    }
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &found);
    if (!root) {
        verl_line_fail(line, "not JSON at column %d: %s: %s", found.column, found.text, s_cure(&found));
        return NULL;
    }
    if (json_is_object(root) && json_object_size(root) > 0)
        return root;
    if (json_is_object(root))
        verl_line_fail(line, "the record has no fields: give at least one, as in {\"prompt\": \"1+1=\"}");
    else
        verl_line_fail(line, "is %s: a line is one JSON object, as in {\"prompt\": \"1+1=\", \"answer\": \"2\"}",
                       s_word(root));
    json_decref(root);
    return NULL;
}

// The type of a list, by its first element; -1 where no list of ours begins so.
static int
s_list_type(const json_t *list)
{
    const json_t *first = json_array_get(list, 0);
    if (!first || json_is_integer(first))
        return VERL_FIELD_I32_LIST;
    if (json_is_real(first))
        return VERL_FIELD_F32_LIST;
    return json_is_object(first) ? VERL_FIELD_MESSAGES : -1;
}

static int
s_type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return VERL_FIELD_JSON;
    case JSON_ARRAY:
        return s_list_type(value);
    case JSON_STRING:
        return VERL_FIELD_TEXT;
    case JSON_REAL:
        return VERL_FIELD_F32;
    case JSON_NULL:
        return -1;
    default:
        return VERL_FIELD_I64;
    }
}

static int
s_fail_type(const verl_line_t *line, const char *name, const json_t *value)
{
    if (json_is_null(value))
        return verl_line_fail(line, "field \"%s\" is null: give it a value, or take the field out of every record",
                              name);
    return verl_line_fail(line,
                          "field \"%s\" is a list of %s: a list holds integers, reals or {\"role\", \"content\"}"
                          " messages",
                          name, json_is_array(json_array_get(value, 0)) ? "lists" : "other things");
}

int
verl_schema_infer(const verl_line_t *line, json_t *root, verl_schema_t *schema, int *open)
{
    const char *name;
    json_t *value;
    *schema = (verl_schema_t){ .fields = calloc(json_object_size(root), sizeof(verl_field_t)) };
    *open = 0;
    if (!schema->fields)
        return verl_line_fail(line, "no memory for the schema: free some");
    json_object_foreach(root, name, value)
    {
        int type = s_type_of(value);
        char *copy = type < 0 || !*name ? NULL : strdup(name);
        if (!copy) {
            if (!*name)
                verl_line_fail(line, "a field has an empty name: name it");
            else if (type < 0)
                s_fail_type(line, name, value);
            else
                verl_line_fail(line, "no memory for the schema: free some");
            verl_schema_done(schema);
            return -1;
        }
        *open |= json_is_array(value) && json_array_size(value) == 0;
        schema->fields[schema->count++] = (verl_field_t){ copy, (verl_field_type_t) type };
    }
    return 0;
}

static int
s_fail_value(const verl_line_t *line, const verl_field_t *field, const json_t *value)
{
    const char *advice = field->type == VERL_FIELD_I64 && json_is_real(value)
                             ? " (write it with a decimal point there to have reals throughout)"
                             : "";
    return verl_line_fail(line, "field \"%s\" is %s: the first record has %s there, so every record has it%s",
                          field->name, s_word(value), s_type_words[field->type], advice);
}

// Reads one number as f32; -1 where it is none or does not fit.
static int
s_read_f32(const json_t *value, float *number)
{
    double wide = json_number_value(value);
    *number = (float) wide;
    return json_is_number(value) && isfinite(*number) ? 0 : -1;
}

static int
s_read_ints(const verl_line_t *line, const verl_field_t *field, const json_t *list, int32_t *items)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t wide = json_integer_value(item);
        if (!json_is_integer(item))
            return verl_line_fail(line, "element %zu of field \"%s\" is %s: this list holds integers", i, field->name,
                                  s_word(item));
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
                                  s_word(item));
        if (s_read_f32(item, &items[i]))
            return verl_line_fail(line, "element %zu of field \"%s\" is %g: reals are at most 3.4e38", i, field->name,
                                  json_number_value(item));
    }
    return 0;
}

// Turns a list into an array of 4-byte elements, which *block then owns.
static int
s_read_list(const verl_line_t *line, const verl_field_t *field, const json_t *list, verl_value_t *value, void **block)
{
    if (!json_is_array(list) || s_list_type(list) < 0)
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
        return s_read_f32(json, &value->real) == 0
                   ? 0
                   : verl_line_fail(line, "field \"%s\" is %g: reals are at most 3.4e38", field->name,
                                    json_number_value(json));
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
