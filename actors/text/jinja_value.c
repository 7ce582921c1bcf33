// jinja_value.c: the values of templates, and the arena that they live in.
#include "actors/text/jinja_impl.h"
#include "actors/text/utf8.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { BLOCK_SIZE = 64 * 1024, DEEPEST = 50 };

void *
verl_jinja_arena_take(verl_jinja_arena_t *self, size_t bytes)
{
    if (bytes > self->limit || self->total > self->limit - bytes)
        return NULL;
    bytes = (bytes + 15) / 16 * 16;
    if (!self->block || bytes > self->size - self->used) {
        size_t size = 16 + (bytes > BLOCK_SIZE ? bytes : BLOCK_SIZE);
        void **block = calloc(1, size);
        if (!block)
            return NULL;
        *block = self->block;
        self->block = block;
        self->used = 16;
        self->size = size;
    }
    void *taken = (char *) self->block + self->used;
    self->used += bytes;
    self->total += bytes;
    return taken;
}

void
verl_jinja_arena_done(verl_jinja_arena_t *self)
{
    while (self->block) {
        void *before = *(void **) self->block;
        free(self->block);
        self->block = before;
    }
    *self = (verl_jinja_arena_t) { .limit = self->limit };
}

bool
verl_jinja_string_is(verl_jinja_string_t string, const char *text)
{
    return strlen(text) == string.length && memcmp(string.data, text, string.length) == 0;
}

verl_jinja_value_t
verl_jinja_string(const char *data, size_t length)
{
    return (verl_jinja_value_t) { .kind = VERL_JINJA_STRING, .string = { data, length } };
}

static verl_jinja_value_t *
s_find(const verl_jinja_dict_t *dict, verl_jinja_string_t key)
{
    for (size_t i = 0; dict && i < dict->count; i++)
        if (dict->keys[i].length == key.length && memcmp(dict->keys[i].data, key.data, key.length) == 0)
            return &dict->values[i];
    return NULL;
}

const verl_jinja_value_t *
verl_jinja_dict_get(const verl_jinja_dict_t *dict, verl_jinja_string_t key)
{
    return s_find(dict, key);
}

int
verl_jinja_dict_set(verl_jinja_dict_t *dict, verl_jinja_arena_t *arena, verl_jinja_string_t key,
                    verl_jinja_value_t value)
{
    verl_jinja_value_t *there = s_find(dict, key);
    if (there) {
        *there = value;
        return 0;
    }
    if (!dict->keys || !dict->values || dict->count == dict->capacity) {
        size_t capacity = dict->capacity ? dict->capacity * 2 : 8;
        verl_jinja_string_t *keys = verl_jinja_arena_take(arena, capacity * sizeof *keys);
        verl_jinja_value_t *values = verl_jinja_arena_take(arena, capacity * sizeof *values);
        if (!keys || !values)
            return -1;
        if (dict->keys && dict->values) {
            memcpy(keys, dict->keys, dict->count * sizeof *keys);
            memcpy(values, dict->values, dict->count * sizeof *values);
        }
        dict->keys = keys;
        dict->values = values;
        dict->capacity = capacity;
    }
    dict->keys[dict->count] = key;
    dict->values[dict->count++] = value;
    return 0;
}

// As a double, which is what it is compared as.
static double
s_number(const verl_jinja_value_t *value)
{
    return value->kind == VERL_JINJA_NUMBER ? strtod(value->string.data, NULL) : (double) value->integer;
}

static bool
s_is_number(const verl_jinja_value_t *value)
{
    return value->kind == VERL_JINJA_INT || value->kind == VERL_JINJA_BOOL || value->kind == VERL_JINJA_NUMBER;
}

bool
verl_jinja_true(const verl_jinja_value_t *value)
{
    switch (value->kind) {
    case VERL_JINJA_BOOL: case VERL_JINJA_INT: return value->integer != 0;
    case VERL_JINJA_STRING: return value->string.length > 0;
    case VERL_JINJA_NUMBER: return s_number(value) != 0;
    case VERL_JINJA_LIST:   return value->count > 0;
    case VERL_JINJA_DICT:   return value->dict->count > 0;
    case VERL_JINJA_UNDEFINED: case VERL_JINJA_NONE: return false;
    default: return true;
    }
}

static bool
s_equal_dicts(const verl_jinja_dict_t *left, const verl_jinja_dict_t *right, int depth)
{
    if (left == right || left->count != right->count)
        return left == right;
    for (size_t i = 0; i < left->count; i++) {
        const verl_jinja_value_t *other = s_find(right, left->keys[i]);
        if (!other || !verl_jinja_equal(&left->values[i], other, depth))
            return false;
    }
    return true;
}

bool
verl_jinja_equal(const verl_jinja_value_t *left, const verl_jinja_value_t *right, int depth)
{
    if (s_is_number(left) && s_is_number(right)) {
        double before = s_number(left), behind = s_number(right);
        return before >= behind && before <= behind;
    }
    if (left->kind != right->kind || depth > DEEPEST)
        return false;
    if (left->kind == VERL_JINJA_STRING)
        return left->string.length == right->string.length
               && memcmp(left->string.data, right->string.data, left->string.length) == 0;
    if (left->kind == VERL_JINJA_LIST) {
        for (size_t i = 0; left->count == right->count && i < left->count; i++)
            if (!verl_jinja_equal(&left->items[i], &right->items[i], depth + 1))
                return false;
        return left->count == right->count;
    }
    return left->kind == VERL_JINJA_DICT ? s_equal_dicts(left->dict, right->dict, depth + 1)
                                         : left->kind <= VERL_JINJA_NONE;
}

const char *
verl_jinja_kind_name(const verl_jinja_value_t *value)
{
    static const char *const names[] = { "undefined", "none",      "a boolean", "an integer", "a string",
                                         "a list",    "a mapping", "a macro",   "a function",
                                         "a number that is real or too large" };
    return names[value->kind];
}

static int
s_add(verl_text_t *text, const char *string)
{
    return verl_text_add(text, string, strlen(string));
}

// Whether Python writes a character as it is.
static bool
s_printable(uint32_t code)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t) code);
    return code == ' ' || (category < UTF8PROC_CATEGORY_ZS && category != UTF8PROC_CATEGORY_CN);
}

// How a character in quotes is escaped; "" where it stands for itself.
static void
s_escape(uint32_t code, char quote, bool json, char escape[16])
{
    static const char codes[] = "\n\t\r\\\b\f", letters[] = "ntr\\bf";
    const char *known = code && code < 0x80 ? strchr(codes, (int) code) : NULL;
    escape[0] = 0;
    if (code == (unsigned char) quote)
        snprintf(escape, 16, "\\%c", quote);
    else if (known && (json || known - codes < 4))
        snprintf(escape, 16, "\\%c", letters[known - codes]);
    else if (json ? code < 0x20 : !s_printable(code))
        snprintf(escape, 16, json || code > 0xFF ? code > 0xFFFF ? "\\U%08x" : "\\u%04x" : "\\x%02x", (unsigned) code);
}

// A string in quotes: of JSON, or of Python (single quotes, where there are not only such inside).
static int
s_quote(verl_text_t *text, verl_jinja_string_t string, bool json)
{
    bool single = string.length && memchr(string.data, '\'', string.length);
    bool two = string.length && memchr(string.data, '"', string.length);
    char quote = json || (single && !two) ? '"' : '\'', escape[16];
    int rc = verl_text_add(text, &quote, 1);
    for (size_t at = 0, step; at < string.length && !rc; at += step) {
        uint32_t code = 0xFFFD;
        size_t skip;
        step = verl_utf8_next((const uint8_t *) string.data + at, string.length - at, &code, &skip);
        step = step ? step : skip;
        s_escape(code, quote, json, escape);
        rc = escape[0] ? s_add(text, escape) : verl_text_add(text, string.data + at, step);
    }
    return rc || verl_text_add(text, &quote, 1);
}

static int
s_write_dict(verl_text_t *text, const verl_jinja_dict_t *dict, bool json, int depth)
{
    int rc = s_add(text, "{");
    for (size_t i = 0; i < dict->count && !rc; i++) {
        rc = (i && s_add(text, ", ")) || s_quote(text, dict->keys[i], json) || s_add(text, ": ");
        const verl_jinja_value_t *value = &dict->values[i];
        rc = rc || (value->kind == VERL_JINJA_STRING ? s_quote(text, value->string, json)
                                                     : verl_jinja_write(text, value, json, depth + 1));
    }
    return rc || s_add(text, "}");
}

int
verl_jinja_write(verl_text_t *text, const verl_jinja_value_t *value, bool json, int depth)
{
    char number[32];
    int rc;
    if (depth > DEEPEST)
        return -1;
    switch (value->kind) {
    case VERL_JINJA_NONE:
        return s_add(text, json ? "null" : "None");
    case VERL_JINJA_BOOL:
        return s_add(text, value->integer ? (json ? "true" : "True") : json ? "false" : "False");
    case VERL_JINJA_INT:
        snprintf(number, sizeof number, "%" PRId64, value->integer);
        return s_add(text, number);
    case VERL_JINJA_NUMBER:
        return verl_text_add(text, value->string.data, value->string.length);
    case VERL_JINJA_STRING:
        return json ? s_quote(text, value->string, true)
                    : verl_text_add(text, value->string.data, value->string.length);
    case VERL_JINJA_LIST:
        rc = s_add(text, "[");
        for (size_t i = 0; i < value->count && !rc; i++) {
            rc = i ? s_add(text, ", ") : 0;
            rc = rc || (value->items[i].kind == VERL_JINJA_STRING
                            ? s_quote(text, value->items[i].string, json)
                            : verl_jinja_write(text, &value->items[i], json, depth + 1));
        }
        return rc || s_add(text, "]");
    case VERL_JINJA_DICT:
        return s_write_dict(text, value->dict, json, depth);
    default:
        return 0;                           // undefined writes nothing
    }
}
