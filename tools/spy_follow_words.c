// spy_follow_words.c: see spy_follow_words.h.
#include "tools/spy_follow_words.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { DEPTH = 8, ITEMS = 10000 };

// --- text ---------------------------------------------------------------------------------------------------------

// The next character: its bytes (1 where it is none), and whether it can be printed as it is.
static size_t
s_character(const char *bytes, size_t size, bool *ret_printable)
{
    utf8proc_int32_t code;
    utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *) bytes, (utf8proc_ssize_t) size, &code);
    *ret_printable = false;
    if (length <= 0)
        return 1;
    utf8proc_category_t category = utf8proc_category(code);
    *ret_printable = category != UTF8PROC_CATEGORY_CC && category != UTF8PROC_CATEGORY_CF &&
                     category != UTF8PROC_CATEGORY_CN && category != UTF8PROC_CATEGORY_CO &&
                     category != UTF8PROC_CATEGORY_ZL && category != UTF8PROC_CATEGORY_ZP;
    return (size_t) length;
}

// What stands for a byte or a character that cannot be printed.
static const char *
s_escape(char byte)
{
    return byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : byte == '\r' ? "\\r" : "·";
}

size_t
verl_spy_words_text(const char *bytes, size_t size, char *ret, size_t room)
{
    static const char more[] = "…";
    size_t at = 0, length = 0, reserve = sizeof more;
    while (at < size) {
        bool printable;
        size_t taken = s_character(bytes + at, size - at, &printable);
        const char *put = printable ? bytes + at : s_escape(bytes[at]);
        size_t put_size = printable ? taken : strlen(put);
        if (length + put_size + reserve > room)
            break;
        memcpy(ret + length, put, put_size);
        length += put_size;
        at += taken;
    }
    if (at < size && length + reserve <= room) {
        memcpy(ret + length, more, sizeof more - 1);
        length += sizeof more - 1;
    }
    ret[length] = 0;
    return length;
}

void
verl_spy_words_bytes(uint64_t bytes, char ret[16])
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB" };
    double value = (double) bytes;
    size_t unit = 0;
    while (value >= 999.5 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1000;
        unit++;
    }
    snprintf(ret, 16, unit && value < 99.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

// --- JSON ---------------------------------------------------------------------------------------------------------

json_t *
verl_spy_words_string(const char *bytes, size_t size)
{
    json_t *string = json_stringn(bytes, size);
    if (string)
        return string;
    char *copy = malloc(size + 1);
    for (size_t at = 0; copy && at < size;) {
        utf8proc_int32_t code;
        utf8proc_ssize_t length =
            utf8proc_iterate((const utf8proc_uint8_t *) bytes + at, (utf8proc_ssize_t) (size - at), &code);
        if (length > 0)
            memcpy(copy + at, bytes + at, (size_t) length);
        else
            copy[at] = '?';
        at += length > 0 ? (size_t) length : 1;
    }
    string = copy ? json_stringn(copy, size) : NULL;
    free(copy);
    return string;
}

static json_t *s_item(verl_reader_t *reader, int depth, int *left);

static json_t *
s_array(verl_reader_t *reader, uint32_t count, bool map, int depth, int *left)
{
    json_t *array = json_array();
    for (uint32_t i = 0; array && i < count * (map ? 2 : 1); i++) {
        if (depth == DEPTH || --*left < 0 || !verl_reader_left(reader)) {
            json_array_append_new(array, json_string("…"));
            reader->at = reader->end;
            break;
        }
        json_array_append_new(array, s_item(reader, depth + 1, left));
    }
    return array;
}

static json_t *
s_binary(size_t size)
{
    char text[40];
    snprintf(text, sizeof text, "<%zu bytes>", size);
    return json_string(text);
}

static json_t *
s_item(verl_reader_t *reader, int depth, int *left)
{
    int64_t integer;
    uint64_t natural;
    double real;
    bool boolean;
    const char *bytes;
    size_t size;
    uint32_t count;
    if (verl_read_int(reader, &integer) == 0)
        return json_integer(integer);
    if (verl_read_uint(reader, &natural) == 0)
        return json_real((double) natural);
    if (verl_read_real(reader, &real) == 0) {
        json_t *number = json_real(real);
        return number ? number : json_null();           // NaN and infinity are no JSON
    }
    if (verl_read_bool(reader, &boolean) == 0)
        return json_boolean(boolean);
    if (verl_read_nil(reader) == 0)
        return json_null();
    if (verl_read_str(reader, &bytes, &size) == 0)
        return verl_spy_words_string(bytes, size);
    if (verl_read_bin(reader, &bytes, &size) == 0)
        return s_binary(size);
    if (verl_read_array(reader, &count) == 0)
        return s_array(reader, count, false, depth, left);
    if (verl_read_map(reader, &count) == 0)
        return s_array(reader, count, true, depth, left);
    reader->at = reader->end;
    return json_string("…");
}

json_t *
verl_spy_words_json(verl_reader_t *reader)
{
    int left = ITEMS;
    return s_item(reader, 0, &left);
}
