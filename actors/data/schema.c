// schema.c: lines of JSON, and the schema that the first of them has; see schema.h.
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actors/data/messages.h"
#include "actors/data/schema.h"

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

const char *
verl_field_type_words(verl_field_type_t type)
{
    return s_type_words[type];
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

const char *
verl_data_word(const json_t *value)
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
                       verl_data_word(root));
    json_decref(root);
    return NULL;
}

int
verl_data_list_type(const json_t *list)
{
    const json_t *first = json_array_get(list, 0);
    if (first && !json_is_number(first))
        return json_is_object(first) ? VERL_FIELD_MESSAGES : -1;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_is_real(json_array_get(list, i)))
            return VERL_FIELD_F32_LIST;
    return VERL_FIELD_I32_LIST;
}

int
verl_data_type(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return VERL_FIELD_JSON;
    case JSON_ARRAY:
        return verl_data_list_type(value);
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
verl_schema_infer(const verl_line_t *line, json_t *root, verl_schema_t *schema)
{
    const char *name;
    json_t *value;
    *schema = (verl_schema_t){ .fields = calloc(json_object_size(root), sizeof(verl_field_t)) };
    if (!schema->fields)
        return verl_line_fail(line, "no memory for the schema: free some");
    json_object_foreach(root, name, value)
    {
        int type = verl_data_type(value);
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
        schema->fields[schema->count++] = (verl_field_t){ copy, (verl_field_type_t) type };
    }
    return 0;
}
