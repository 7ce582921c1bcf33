// filter_json.c: a filter as a client asks for it: {"actors": [NAME…], "stages": [NAME…], "edges": [[MAKER, READER]…],
// "kinds": [WORD…], "batches": [[FROM, TO]…], "first": N, "every": K, "values": "none" | "head" | "whole",
// "stats": BOOL, "records": N, "bytes": N}; what is absent is as verl_filter_init says.
#include <stdio.h>
#include <string.h>
#include "runtime/observe/filter.h"

static const char *const s_values[] = { "none", "head", "whole" };

static int
s_take_name(const json_t *item, char ret[VERL_FILTER_BYTES], bool may_be_empty)
{
    const char *text = json_string_value(item);
    if (!text || strlen(text) >= VERL_FILTER_BYTES || (!*text && !may_be_empty))
        return -1;
    snprintf(ret, VERL_FILTER_BYTES, "%s", text);
    return 0;
}

static int
s_take_names(const json_t *array, const char *key, verl_filter_names_t *ret, verl_error_t *error)
{
    if (!json_is_array(array) || json_array_size(array) > VERL_FILTER_NAMES)
        return verl_error_set(error, "filter.%s is not an array of at most %d names", key, VERL_FILTER_NAMES);
    ret->count = (int) json_array_size(array);
    for (int i = 0; i < ret->count; i++)
        if (s_take_name(json_array_get(array, (size_t) i), ret->items[i], false))
            return verl_error_set(error, "filter.%s: a name has 1 to %d bytes", key, VERL_FILTER_BYTES - 1);
    return 0;
}

static int
s_take_edges(const json_t *array, verl_filter_t *ret, verl_error_t *error)
{
    if (!json_is_array(array) || json_array_size(array) > VERL_FILTER_NAMES)
        return verl_error_set(error, "filter.edges is not an array of at most %d pairs", VERL_FILTER_NAMES);
    ret->makers.count = ret->readers.count = (int) json_array_size(array);
    for (int i = 0; i < ret->makers.count; i++) {
        const json_t *pair = json_array_get(array, (size_t) i);
        if (json_array_size(pair) != 2 || s_take_name(json_array_get(pair, 0), ret->makers.items[i], true) ||
            s_take_name(json_array_get(pair, 1), ret->readers.items[i], true))
            return verl_error_set(error, "filter.edges: an edge is [maker, reader], each of at most %d bytes",
                                  VERL_FILTER_BYTES - 1);
    }
    return 0;
}

static int
s_take_kinds(const json_t *array, uint32_t *ret, verl_error_t *error)
{
    size_t index;
    json_t *item;
    if (!json_is_array(array))
        return verl_error_set(error, "filter.kinds is not an array of words");
    *ret = 0;
    json_array_foreach(array, index, item) {
        const char *word = json_string_value(item);
        int kind = word ? verl_trace_kind_of(word) : -1;
        if (kind < 0)
            return verl_error_set(error, "filter.kinds: '%.40s' is none of data, weights, status, ping, pong, order, "
                                  "report, ran", word ? word : "");
        *ret |= 1u << kind;
    }
    return 0;
}

static int
s_take_ranges(const json_t *array, verl_filter_t *ret, verl_error_t *error)
{
    if (!json_is_array(array) || json_array_size(array) > VERL_FILTER_RANGES)
        return verl_error_set(error, "filter.batches is not an array of at most %d ranges", VERL_FILTER_RANGES);
    ret->ranges = (int) json_array_size(array);
    for (int i = 0; i < ret->ranges; i++) {
        const json_t *pair = json_array_get(array, (size_t) i);
        const json_t *from = json_array_get(pair, 0), *to = json_array_get(pair, 1);
        if (json_array_size(pair) != 2 || !json_is_integer(from) || !json_is_integer(to) ||
            json_integer_value(from) > json_integer_value(to))
            return verl_error_set(error, "filter.batches: a range is [from, to] with from <= to");
        ret->from[i] = json_integer_value(from);
        ret->to[i] = json_integer_value(to);
    }
    return 0;
}

static int
s_take_number(const json_t *value, const char *key, int64_t least, int64_t most, uint64_t *ret, verl_error_t *error)
{
    if (!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > most)
        return verl_error_set(error, "filter.%s is not a whole number from %lld to %lld", key, (long long) least,
                              (long long) most);
    *ret = (uint64_t) json_integer_value(value);
    return 0;
}

static int
s_take_values(const json_t *value, verl_filter_values_t *ret, verl_error_t *error)
{
    const char *word = json_string_value(value);
    for (int i = 0; word && i < 3; i++) {
        if (strcmp(word, s_values[i]) == 0) {
            *ret = (verl_filter_values_t) i;
            return 0;
        }
    }
    return verl_error_set(error, "filter.values is none of \"none\", \"head\", \"whole\"");
}

static int
s_take(const char *key, const json_t *value, verl_filter_t *ret, verl_error_t *error)
{
    if (strcmp(key, "actors") == 0)
        return s_take_names(value, key, &ret->actors, error);
    if (strcmp(key, "stages") == 0)
        return s_take_names(value, key, &ret->stages, error);
    if (strcmp(key, "edges") == 0)
        return s_take_edges(value, ret, error);
    if (strcmp(key, "kinds") == 0)
        return s_take_kinds(value, &ret->kinds, error);
    if (strcmp(key, "batches") == 0)
        return s_take_ranges(value, ret, error);
    if (strcmp(key, "first") == 0)
        return s_take_number(value, key, 0, INT64_MAX, &ret->first, error);
    if (strcmp(key, "every") == 0)
        return s_take_number(value, key, 1, INT64_MAX, &ret->every, error);
    if (strcmp(key, "values") == 0)
        return s_take_values(value, &ret->values, error);
    if (strcmp(key, "records") == 0)
        return s_take_number(value, key, 1, VERL_FILTER_RECORDS_MAX, &ret->records, error);
    if (strcmp(key, "bytes") == 0)
        return s_take_number(value, key, 1, VERL_FILTER_CREDIT_MAX, &ret->bytes, error);
    if (strcmp(key, "stats") != 0)
        return verl_error_set(error, "filter.%.40s is unknown", key);
    ret->stats = json_is_true(value);
    return json_is_boolean(value) ? 0 : verl_error_set(error, "filter.stats is neither true nor false");
}

int
verl_filter_from_json(const json_t *object, verl_filter_t *ret, verl_error_t *error)
{
    verl_filter_init(ret);
    if (!object)
        return 0;
    if (!json_is_object(object))
        return verl_error_set(error, "filter is not an object");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *) (uintptr_t) object, key, value)
        if (s_take(key, value, ret, error))
            return -1;
    return 0;
}

static json_t *
s_names(const verl_filter_names_t *names)
{
    json_t *array = json_array();
    for (int i = 0; i < names->count; i++)
        json_array_append_new(array, json_string(names->items[i]));
    return array;
}

json_t *
verl_filter_to_json(const verl_filter_t *filter)
{
    json_t *edges = json_array(), *kinds = json_array(), *batches = json_array();
    for (int i = 0; i < filter->makers.count; i++)
        json_array_append_new(edges, json_pack("[s, s]", filter->makers.items[i], filter->readers.items[i]));
    for (int i = 0; i < VERL_TRACE_KINDS; i++)
        if (filter->kinds >> i & 1u)
            json_array_append_new(kinds, json_string(verl_trace_kind_word((verl_trace_kind_t) i)));
    for (int i = 0; i < filter->ranges; i++)
        json_array_append_new(batches, json_pack("[I, I]", (json_int_t) filter->from[i], (json_int_t) filter->to[i]));
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:s, s:b, s:I, s:I}", "actors", s_names(&filter->actors),
                     "stages", s_names(&filter->stages), "edges", edges, "kinds", kinds, "batches", batches, "first",
                     (json_int_t) filter->first, "every", (json_int_t) filter->every, "values",
                     s_values[filter->values], "stats", (int) filter->stats, "records", (json_int_t) filter->records,
                     "bytes", (json_int_t) filter->bytes);
}
