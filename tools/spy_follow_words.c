// spy_follow_words.c: see spy_follow_words.h.
#include "tools/spy_follow_words.h"
#include <stdbool.h>
#include <stdio.h>
#include "runtime/base/json.h"

enum { DEPTH = 8, ITEMS = 10000 };

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
        return verl_json_bytes(bytes, size);
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
