// jinja_calls.c: operators, filters, tests, methods and functions of templates.
#include "actors/text/jinja_impl.h"
#include "actors/text/utf8.h"
#include <string.h>
#include <utf8proc.h>

enum { LONGEST_RANGE = 100000 };

static verl_jinja_value_t
s_bool(bool value)
{
    return (verl_jinja_value_t) { .kind = VERL_JINJA_BOOL, .integer = value };
}

static verl_jinja_value_t
s_int(int64_t value)
{
    return (verl_jinja_value_t) { .kind = VERL_JINJA_INT, .integer = value };
}

static bool
s_is_number(const verl_jinja_value_t *value)
{
    return value->kind == VERL_JINJA_INT || value->kind == VERL_JINJA_BOOL;
}

static int
s_compare(verl_jinja_string_t left, verl_jinja_string_t right)
{
    int order = memcmp(left.data, right.data, left.length < right.length ? left.length : right.length);
    return order ? order : (left.length > right.length) - (left.length < right.length);
}

// Where a string is inside another from `from` on, or SIZE_MAX.
static size_t
s_find(verl_jinja_string_t in, verl_jinja_string_t what, size_t from)
{
    for (size_t at = from; at + what.length <= in.length; at++)
        if (memcmp(in.data + at, what.data, what.length) == 0)
            return at;
    return SIZE_MAX;
}

static int
s_contains(verl_jinja_run_t *self, const verl_jinja_node_t *node, const verl_jinja_value_t *item,
           const verl_jinja_value_t *in, verl_jinja_value_t *ret)
{
    *ret = s_bool(false);
    if (in->kind == VERL_JINJA_STRING && item->kind == VERL_JINJA_STRING) {
        *ret = s_bool(s_find(in->string, item->string, 0) != SIZE_MAX);
    } else if (in->kind == VERL_JINJA_LIST) {
        for (size_t i = 0; i < in->count; i++)
            if (verl_jinja_equal(item, &in->items[i], 0))
                *ret = s_bool(true);
    } else if (in->kind == VERL_JINJA_DICT) {
        *ret = s_bool(item->kind == VERL_JINJA_STRING && verl_jinja_dict_get(in->dict, item->string));
    } else if (in->kind != VERL_JINJA_UNDEFINED) {
        return verl_jinja_run_fail(self, node, "%s cannot be in %s", verl_jinja_kind_name(item),
                                   verl_jinja_kind_name(in));
    }
    return 0;
}

static int
s_join_two(verl_jinja_run_t *self, const verl_jinja_value_t *left, const verl_jinja_value_t *right,
           verl_jinja_value_t *ret)
{
    verl_text_t text = { 0 };
    int rc = verl_jinja_write(&text, left, false, 0) || verl_jinja_write(&text, right, false, 0);
    verl_jinja_string_t copy = verl_jinja_run_copy(self, text.data, text.length);
    *ret = verl_jinja_string(copy.data, copy.length);
    verl_text_done(&text);
    return rc ? verl_jinja_run_no_memory(self) : self->failed ? -1 : 0;
}

static int
s_add_lists(verl_jinja_run_t *self, const verl_jinja_value_t *left, const verl_jinja_value_t *right,
            verl_jinja_value_t *ret)
{
    *ret = verl_jinja_run_list(self, left->count + right->count);
    if (!ret->items)
        return -1;
    if (left->count)
        memcpy(ret->items, left->items, left->count * sizeof *ret->items);
    if (right->count)
        memcpy(ret->items + left->count, right->items, right->count * sizeof *ret->items);
    return 0;
}

// + - * // % on integers; floored like Python's. Beyond 2^53 is an error, so that nothing overflows.
static int
s_arithmetic(verl_jinja_run_t *self, const verl_jinja_node_t *node, char operator, int64_t left, int64_t right,
             verl_jinja_value_t *ret)
{
    const int64_t most = (int64_t) 1 << 53;
    int64_t result = 0;
    bool overflow = false;
    if (operator == '+')
        result = left + right;
    else if (operator == '-')
        result = left - right;
    else if (operator == '*')
        overflow = __builtin_mul_overflow(left, right, &result);
    else if (right == 0)
        return verl_jinja_run_fail(self, node, "a division by 0");
    else if (operator == '%')
        result = (left % right + right) % right;
    else
        result = left / right - (left % right != 0 && (left < 0) != (right < 0));
    *ret = s_int(result);
    return overflow || result > most || result < -most ? verl_jinja_run_fail(self, node, "a number is too large") : 0;
}

static bool
s_ordered(const char *operator, size_t length, int order)
{
    bool equal = length == 2;
    return operator[0] == '<' ? order < 0 || (equal && order == 0) : order > 0 || (equal && order == 0);
}

int
verl_jinja_run_binary(verl_jinja_run_t *self, const verl_jinja_node_t *node, const verl_jinja_value_t *left,
                      const verl_jinja_value_t *right, verl_jinja_value_t *ret)
{
    verl_jinja_string_t name = node->text;
    bool numbers = s_is_number(left) && s_is_number(right);
    bool strings = left->kind == VERL_JINJA_STRING && right->kind == VERL_JINJA_STRING;
    if (verl_jinja_string_is(name, "in"))
        return s_contains(self, node, left, right, ret);
    if (name.data[0] == '=' || name.data[0] == '!') {
        *ret = s_bool(verl_jinja_equal(left, right, 0) == (name.data[0] == '='));
        return 0;
    }
    if (name.data[0] == '~' || (name.data[0] == '+' && strings))
        return s_join_two(self, left, right, ret);
    if ((name.data[0] == '<' || name.data[0] == '>') && (numbers || strings)) {
        int order = strings ? s_compare(left->string, right->string)
                            : (left->integer > right->integer) - (left->integer < right->integer);
        *ret = s_bool(s_ordered(name.data, name.length, order));
        return 0;
    }
    if (name.data[0] == '+' && left->kind == VERL_JINJA_LIST && right->kind == VERL_JINJA_LIST)
        return s_add_lists(self, left, right, ret);
    if (numbers && !verl_jinja_string_is(name, "/") && name.data[0] != '<' && name.data[0] != '>')
        return s_arithmetic(self, node, name.data[0], left->integer, right->integer, ret);
    return verl_jinja_run_fail(self, node, "'%.*s' cannot be used on %s and %s", (int) name.length, name.data,
                         verl_jinja_kind_name(left), verl_jinja_kind_name(right));
}

static bool
s_space(uint32_t code)
{
    return (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 || code == 0x1680
           || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F
           || code == 0x3000;
}

// Whether a character goes: white space, or one of a set.
static bool
s_strips(uint32_t code, const verl_jinja_string_t *set)
{
    size_t skip, step;
    uint32_t member;
    if (!set)
        return s_space(code);
    for (size_t at = 0; at < set->length; at += step ? step : skip) {
        step = verl_utf8_next((const uint8_t *) set->data + at, set->length - at, &member, &skip);
        if (step && member == code)
            return true;
    }
    return false;
}

static verl_jinja_value_t
s_strip(verl_jinja_string_t string, const verl_jinja_string_t *set, bool left, bool right)
{
    const uint8_t *data = (const uint8_t *) string.data;
    size_t start = 0, end = string.length, skip;
    uint32_t code;
    while (left && start < end) {
        size_t step = verl_utf8_next(data + start, end - start, &code, &skip);
        if (!step || !s_strips(code, set))
            break;
        start += step;
    }
    while (right && end > start) {
        size_t at = end - 1;
        while (at > start && (data[at] & 0xC0) == 0x80)
            at--;
        if (!verl_utf8_next(data + at, end - at, &code, &skip) || !s_strips(code, set))
            break;
        end = at;
    }
    return verl_jinja_string(string.data + start, end - start);
}

// Where the characters that are white space, or those that are not, end.
static size_t
s_skip(verl_jinja_string_t string, size_t at, bool space)
{
    while (at < string.length) {
        uint32_t code = 0;
        size_t skip, step = verl_utf8_next((const uint8_t *) string.data + at, string.length - at, &code, &skip);
        if ((step && s_space(code)) != space)
            break;
        at += step ? step : skip;
    }
    return at;
}

// Cuts at white space, or at a separator, at most so many times.
static int
s_split(verl_jinja_run_t *self, verl_jinja_string_t string, const verl_jinja_string_t *separator, size_t most,
        verl_jinja_value_t *ret)
{
    *ret = verl_jinja_run_list(self, string.length + 1);
    if (!ret->items)
        return -1;
    size_t count = 0, from = separator ? 0 : s_skip(string, 0, true), end;
    bool more = separator || from < string.length;
    while (more) {
        end = count >= most ? SIZE_MAX : separator ? s_find(string, *separator, from) : s_skip(string, from, false);
        end = end < string.length ? end : string.length;
        ret->items[count++] = verl_jinja_string(string.data + from, end - from);
        from = separator ? end + separator->length : s_skip(string, end, true);
        more = end < string.length && (separator || from < string.length);
    }
    ret->count = count;
    return 0;
}

static int
s_replace(verl_jinja_run_t *self, verl_jinja_string_t string, verl_jinja_string_t what, verl_jinja_string_t with,
          size_t most, verl_jinja_value_t *ret)
{
    verl_text_t text = { 0 };
    size_t from = 0, count = 0;
    int rc = 0;
    for (size_t at; count < most && (at = s_find(string, what, from)) != SIZE_MAX; from = at + what.length, count++)
        rc = rc || verl_text_add(&text, string.data + from, at - from) || verl_text_add(&text, with.data, with.length);
    rc = rc || verl_text_add(&text, string.data + from, string.length - from);
    verl_jinja_string_t copy = verl_jinja_run_copy(self, text.data, text.length);
    *ret = verl_jinja_string(copy.data, copy.length);
    verl_text_done(&text);
    return rc ? verl_jinja_run_no_memory(self) : self->failed ? -1 : 0;
}

// Whether a string has letters beyond ASCII that have a case.
static bool
s_has_case(verl_jinja_string_t string)
{
    for (size_t at = 0, skip; at < string.length;) {
        uint32_t code = 0;
        size_t step = verl_utf8_next((const uint8_t *) string.data + at, string.length - at, &code, &skip);
        utf8proc_int32_t letter = (utf8proc_int32_t) code;
        utf8proc_category_t category = utf8proc_category(letter);
        if (step > 1 && (category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
                         category == UTF8PROC_CATEGORY_LT || utf8proc_toupper(letter) != letter ||
                         utf8proc_tolower(letter) != letter))
            return true;
        at += step ? step : skip;
    }
    return false;
}

// Case of ASCII letters; first_only: the first letter up, the rest down.
static int
s_case(verl_jinja_run_t *self, const verl_jinja_node_t *node, verl_jinja_string_t string, bool upper, bool first_only,
       verl_jinja_value_t *ret)
{
    if (s_has_case(string))
        return verl_jinja_run_fail(self, node, "upper and lower case are supported for ASCII letters only");
    verl_jinja_string_t copy = verl_jinja_run_copy(self, string.data, string.length);
    char *data = (char *) (uintptr_t) copy.data;
    for (size_t i = 0; data && i < copy.length; i++) {
        bool up = first_only ? i == 0 : upper;
        if (up && data[i] >= 'a' && data[i] <= 'z')
            data[i] = (char) (data[i] - 32);
        else if (!up && data[i] >= 'A' && data[i] <= 'Z')
            data[i] = (char) (data[i] + 32);
    }
    *ret = verl_jinja_string(copy.data, copy.length);
    return data ? 0 : -1;
}

static int
s_join(verl_jinja_run_t *self, const verl_jinja_value_t *list, verl_jinja_string_t separator, verl_jinja_value_t *ret)
{
    verl_text_t text = { 0 };
    int rc = 0;
    for (size_t i = 0; i < list->count && !rc; i++)
        rc = (i && verl_text_add(&text, separator.data, separator.length)) ||
             verl_jinja_write(&text, &list->items[i], false, 0);
    verl_jinja_string_t copy = verl_jinja_run_copy(self, text.data, text.length);
    *ret = verl_jinja_string(copy.data, copy.length);
    verl_text_done(&text);
    return rc ? verl_jinja_run_no_memory(self) : self->failed ? -1 : 0;
}

// keys, values or pairs of a mapping.
static int
s_members(verl_jinja_run_t *self, const verl_jinja_dict_t *dict, bool keys, bool values, verl_jinja_value_t *ret)
{
    *ret = verl_jinja_run_list(self, dict->count);
    for (size_t i = 0; ret->items && i < dict->count; i++) {
        verl_jinja_value_t key = verl_jinja_string(dict->keys[i].data, dict->keys[i].length);
        ret->items[i] = keys ? key : dict->values[i];
        if (keys && values) {
            ret->items[i] = verl_jinja_run_list(self, 2);
            if (!ret->items[i].items)
                return -1;
            ret->items[i].items[0] = key;
            ret->items[i].items[1] = dict->values[i];
        }
    }
    return ret->items ? 0 : -1;
}

static int
s_length(verl_jinja_run_t *self, const verl_jinja_node_t *node, const verl_jinja_value_t *value,
         verl_jinja_value_t *ret)
{
    size_t count = 0;
    if (value->kind == VERL_JINJA_STRING)
        for (size_t i = 0; i < value->string.length; i++)
            count += ((uint8_t) value->string.data[i] & 0xC0) != 0x80;
    else if (value->kind == VERL_JINJA_LIST)
        count = value->count;
    else if (value->kind == VERL_JINJA_DICT)
        count = value->dict->count;
    else if (value->kind != VERL_JINJA_UNDEFINED)
        return verl_jinja_run_fail(self, node, "%s has no length", verl_jinja_kind_name(value));
    *ret = s_int((int64_t) count);
    return 0;
}

static int
s_written(verl_jinja_run_t *self, const verl_jinja_value_t *value, bool json, verl_jinja_value_t *ret)
{
    verl_text_t text = { 0 };
    int rc = verl_jinja_write(&text, value, json, 0);
    verl_jinja_string_t copy = verl_jinja_run_copy(self, text.data, text.length);
    *ret = verl_jinja_string(copy.data, copy.length);
    verl_text_done(&text);
    return rc ? verl_jinja_run_no_memory(self) : self->failed ? -1 : 0;
}

static int
s_unsupported(verl_jinja_run_t *self, const verl_jinja_node_t *node, const char *what, verl_jinja_string_t name,
              const verl_jinja_value_t *value)
{
    return verl_jinja_run_fail(self, node, "the %s '%.*s' is not supported on %s", what,
                         (int) (name.length < 60 ? name.length : 60), name.data, verl_jinja_kind_name(value));
}

// What filters, methods and functions can be given. NULL: there is none of this name.
static const char *
s_parameters(verl_jinja_string_t name)
{
    static const char *const known[][2] = {
        { "length", "" }, { "count", "" }, { "tojson", "" }, { "string", "" }, { "safe", "" }, { "first", "" },
        { "last", "" }, { "list", "" }, { "reverse", "" }, { "items", "" }, { "keys", "" }, { "values", "" },
        { "upper", "" }, { "lower", "" }, { "capitalize", "" }, { "default", "default_value,boolean" },
        { "d", "default_value,boolean" }, { "trim", "chars" }, { "replace", "old,new,count" }, { "join", "d" },
        { "strip", "_" }, { "lstrip", "_" }, { "rstrip", "_" }, { "split", "sep,maxsplit" }, { "startswith", "_" },
        { "endswith", "_" }, { "get", "_,_" }, { "range", "_,_,_" }, { "raise_exception", "message" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (verl_jinja_string_is(name, known[i][0]))
            return known[i][1];
    return NULL;
}

// The place of an argument among the parameters, by its name, or by the number of those before it that have none.
static int
s_place(const char *parameters, verl_jinja_string_t name, int before)
{
    int place = 0;
    while (*parameters) {
        size_t length = strcspn(parameters, ",");
        bool same = length == name.length && memcmp(parameters, name.data, length) == 0 && *parameters != '_';
        if (name.length ? same : place == before)
            return place;
        parameters += length + (parameters[length] == ',');
        place++;
    }
    return -1;
}

int
verl_jinja_run_arguments(verl_jinja_run_t *self, const verl_jinja_node_t *node, verl_jinja_string_t what,
                         const char *parameters, verl_jinja_arguments_t *ret)
{
    int before = 0;
    *ret = (verl_jinja_arguments_t) { 0 };
    for (const verl_jinja_node_t *argument = node->b; argument; argument = argument->next) {
        int place = s_place(parameters, argument->text, before);
        if (place < 0 || ret->given[place])
            return verl_jinja_run_fail(self, node, "'%.*s' with %s%.*s%s is not supported",
                                       (int) (what.length < 60 ? what.length : 60), what.data,
                                       argument->text.length ? "the argument '" : "so many arguments",
                                       (int) (argument->text.length < 60 ? argument->text.length : 60),
                                       argument->text.length ? argument->text.data : "",
                                       argument->text.length ? "'" : "");
        before += argument->text.length == 0;
        ret->given[place] = true;
        if (verl_jinja_run_value(self, argument->a, &ret->value[place]))
            return -1;
    }
    return 0;
}

// How many times at most: an argument that may be left out, be none, or be below 0, for all.
static int
s_most(verl_jinja_run_t *self, const verl_jinja_node_t *node, const verl_jinja_value_t *value, size_t *ret_most)
{
    *ret_most = value->kind == VERL_JINJA_INT && value->integer >= 0 ? (size_t) value->integer : SIZE_MAX;
    return value->kind == VERL_JINJA_INT || value->kind == VERL_JINJA_NONE || value->kind == VERL_JINJA_UNDEFINED
               ? 0 : verl_jinja_run_fail(self, node, "a count must be an integer, not %s", verl_jinja_kind_name(value));
}

// A string that may be left out or be none, and then is NULL.
static int
s_optional(verl_jinja_run_t *self, const verl_jinja_node_t *node, const verl_jinja_value_t *value,
           const verl_jinja_string_t **ret)
{
    *ret = value->kind == VERL_JINJA_STRING ? &value->string : NULL;
    return *ret || value->kind == VERL_JINJA_NONE || value->kind == VERL_JINJA_UNDEFINED
               ? 0 : verl_jinja_run_fail(self, node, "%s stands where a string should", verl_jinja_kind_name(value));
}

// What is the same for the filter and the method; 1 for other names.
static int
s_on_string(verl_jinja_run_t *self, const verl_jinja_node_t *node, verl_jinja_string_t name, verl_jinja_string_t string,
            const verl_jinja_arguments_t *given, verl_jinja_value_t *ret)
{
    size_t most;
    if (verl_jinja_string_is(name, "upper") || verl_jinja_string_is(name, "lower") ||
        verl_jinja_string_is(name, "capitalize"))
        return s_case(self, node, string, name.data[0] == 'u', name.data[0] == 'c', ret);
    if (!verl_jinja_string_is(name, "replace"))
        return 1;
    const verl_jinja_value_t *old = &given->value[0], *new = &given->value[1];
    if (old->kind != VERL_JINJA_STRING || new->kind != VERL_JINJA_STRING || old->string.length == 0)
        return verl_jinja_run_fail(self, node, "replace needs two strings, the first of them not empty");
    return s_most(self, node, &given->value[2], &most) ? -1
                                                       : s_replace(self, string, old->string, new->string, most, ret);
}

static int
s_string_filter(verl_jinja_run_t *self, const verl_jinja_node_t *node, const verl_jinja_value_t *value,
                const verl_jinja_arguments_t *given, verl_jinja_value_t *ret)
{
    const verl_jinja_string_t *set;
    if (!verl_jinja_string_is(node->text, "trim")) {
        int rc = s_on_string(self, node, node->text, value->string, given, ret);
        return rc > 0 ? s_unsupported(self, node, "filter", node->text, value) : rc;
    }
    if (s_optional(self, node, &given->value[0], &set))
        return -1;
    *ret = s_strip(value->string, set, true, true);
    return 0;
}

static int
s_list_filter(verl_jinja_run_t *self, const verl_jinja_node_t *node, const verl_jinja_value_t *value,
              const verl_jinja_arguments_t *given, verl_jinja_value_t *ret)
{
    verl_jinja_string_t name = node->text;
    const verl_jinja_string_t *separator;
    if (verl_jinja_string_is(name, "join"))
        return s_optional(self, node, &given->value[0], &separator)
                   ? -1 : s_join(self, value, separator ? *separator : (verl_jinja_string_t) { "", 0 }, ret);
    if (verl_jinja_string_is(name, "first") || verl_jinja_string_is(name, "last")) {
        *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_UNDEFINED, .string = name };
        if (value->count)
            *ret = value->items[name.data[0] == 'f' ? 0 : value->count - 1];
        return 0;
    }
    if (verl_jinja_string_is(name, "list")) {
        *ret = *value;
        return 0;
    }
    if (!verl_jinja_string_is(name, "reverse"))
        return s_unsupported(self, node, "filter", name, value);
    *ret = verl_jinja_run_list(self, value->count);
    for (size_t i = 0; ret->items && i < value->count; i++)
        ret->items[i] = value->items[value->count - 1 - i];
    return ret->items ? 0 : -1;
}

int
verl_jinja_run_filter(verl_jinja_run_t *self, const verl_jinja_node_t *node, const verl_jinja_value_t *value,
                      verl_jinja_value_t *ret)
{
    verl_jinja_string_t name = node->text;
    verl_jinja_arguments_t given;
    const char *parameters = s_parameters(name);
    if (!parameters)
        return s_unsupported(self, node, "filter", name, value);
    if (verl_jinja_run_arguments(self, node, name, parameters, &given))
        return -1;
    if (verl_jinja_string_is(name, "length") || verl_jinja_string_is(name, "count"))
        return s_length(self, node, value, ret);
    if (verl_jinja_string_is(name, "tojson") || verl_jinja_string_is(name, "string"))
        return s_written(self, value, name.data[0] == 't', ret);
    if (verl_jinja_string_is(name, "default") || verl_jinja_string_is(name, "d")) {
        bool otherwise =
            value->kind == VERL_JINJA_UNDEFINED || (verl_jinja_true(&given.value[1]) && !verl_jinja_true(value));
        *ret = !otherwise ? *value : given.given[0] ? given.value[0] : verl_jinja_string("", 0);
        return 0;
    }
    if (verl_jinja_string_is(name, "items") && value->kind == VERL_JINJA_DICT)
        return s_members(self, value->dict, true, true, ret);
    *ret = *value;
    if (verl_jinja_string_is(name, "safe"))
        return 0;
    if (value->kind == VERL_JINJA_STRING)
        return s_string_filter(self, node, value, &given, ret);
    return value->kind == VERL_JINJA_LIST ? s_list_filter(self, node, value, &given, ret)
                                          : s_unsupported(self, node, "filter", name, value);
}

int
verl_jinja_run_test(verl_jinja_run_t *self, const verl_jinja_node_t *node, const verl_jinja_value_t *value, bool *ret)
{
    verl_jinja_string_t name = node->text;
    verl_jinja_kind_t kind = value->kind;
    bool several = kind == VERL_JINJA_STRING || kind == VERL_JINJA_LIST || kind == VERL_JINJA_DICT
                   || kind == VERL_JINJA_UNDEFINED;
    const struct { const char *name; bool holds; } tests[] = {
        { "defined", kind != VERL_JINJA_UNDEFINED }, { "undefined", kind == VERL_JINJA_UNDEFINED },
        { "none", kind == VERL_JINJA_NONE }, { "string", kind == VERL_JINJA_STRING },
        { "mapping", kind == VERL_JINJA_DICT }, { "number", s_is_number(value) || kind == VERL_JINJA_NUMBER }, { "integer", kind == VERL_JINJA_INT },
        { "boolean", kind == VERL_JINJA_BOOL }, { "true", kind == VERL_JINJA_BOOL && value->integer },
        { "false", kind == VERL_JINJA_BOOL && !value->integer },
        { "iterable", several }, { "sequence", several },
        { "callable", kind == VERL_JINJA_MACRO || kind == VERL_JINJA_METHOD },
        { "odd", kind == VERL_JINJA_INT && value->integer % 2 != 0 },
        { "even", kind == VERL_JINJA_INT && value->integer % 2 == 0 },
    };
    verl_jinja_arguments_t given;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (verl_jinja_string_is(name, tests[i].name)) {
            *ret = tests[i].holds;
            return verl_jinja_run_arguments(self, node, name, "", &given);
        }
    verl_jinja_value_t result;
    bool equal =
        verl_jinja_string_is(name, "==") || verl_jinja_string_is(name, "eq") || verl_jinja_string_is(name, "equalto");
    if (!equal && !verl_jinja_string_is(name, "in"))
        return s_unsupported(self, node, "test", name, value);
    if (verl_jinja_run_arguments(self, node, name, "_", &given))
        return -1;
    if (!given.given[0])
        return verl_jinja_run_fail(self, node, "a test needs an argument");
    if (!equal && s_contains(self, node, value, &given.value[0], &result))
        return -1;
    *ret = equal ? verl_jinja_equal(value, &given.value[0], 0) : result.integer != 0;
    return 0;
}

static int
s_dict_method(verl_jinja_run_t *self, const verl_jinja_node_t *call, verl_jinja_string_t name,
              const verl_jinja_dict_t *dict, const verl_jinja_arguments_t *given, verl_jinja_value_t *ret)
{
    if (!verl_jinja_string_is(name, "get"))
        return s_members(self, dict, name.data[0] != 'v', name.data[0] != 'k', ret);
    if (given->value[0].kind != VERL_JINJA_STRING)
        return verl_jinja_run_fail(self, call, "get needs a string");
    const verl_jinja_value_t *found = verl_jinja_dict_get(dict, given->value[0].string);
    *ret = found ? *found : given->given[1] ? given->value[1] : (verl_jinja_value_t) { .kind = VERL_JINJA_NONE };
    return 0;
}

static bool
s_affix(verl_jinja_string_t string, verl_jinja_string_t affix, bool end)
{
    return affix.length <= string.length
           && memcmp(string.data + (end ? string.length - affix.length : 0), affix.data, affix.length) == 0;
}

static int
s_split_method(verl_jinja_run_t *self, const verl_jinja_node_t *call, verl_jinja_string_t string,
               const verl_jinja_arguments_t *given, verl_jinja_value_t *ret)
{
    const verl_jinja_string_t *separator;
    size_t most;
    if (s_optional(self, call, &given->value[0], &separator) || s_most(self, call, &given->value[1], &most))
        return -1;
    if (separator && separator->length == 0)
        return verl_jinja_run_fail(self, call, "the separator of split is empty");
    return s_split(self, string, separator, most, ret);
}

static int
s_string_method(verl_jinja_run_t *self, const verl_jinja_node_t *call, verl_jinja_string_t name,
                verl_jinja_string_t string, const verl_jinja_arguments_t *given, verl_jinja_value_t *ret)
{
    const verl_jinja_value_t *first = &given->value[0];
    const verl_jinja_string_t *set;
    if (verl_jinja_string_is(name, "strip") || verl_jinja_string_is(name, "lstrip") ||
        verl_jinja_string_is(name, "rstrip")) {
        if (s_optional(self, call, first, &set))
            return -1;
        *ret = s_strip(string, set, name.data[0] != 'r', name.data[0] != 'l');
        return 0;
    }
    if (verl_jinja_string_is(name, "split"))
        return s_split_method(self, call, string, given, ret);
    if (verl_jinja_string_is(name, "join") && first->kind == VERL_JINJA_LIST)
        return s_join(self, first, string, ret);
    int rc = s_on_string(self, call, name, string, given, ret);
    if (rc <= 0)
        return rc;
    if (first->kind != VERL_JINJA_STRING ||
        !(verl_jinja_string_is(name, "startswith") || verl_jinja_string_is(name, "endswith")))
        return s_unsupported(self, call, "method", name, first);
    *ret = s_bool(s_affix(string, first->string, name.data[0] == 'e'));
    return 0;
}

// namespace(a=1, b=2) and dict(…).
static int
s_make_namespace(verl_jinja_run_t *self, const verl_jinja_node_t *call, verl_jinja_value_t *ret)
{
    verl_jinja_dict_t *dict = verl_jinja_arena_take(&self->arena, sizeof *dict);
    if (!dict)
        return verl_jinja_run_no_memory(self);
    for (const verl_jinja_node_t *argument = call->b; argument; argument = argument->next) {
        verl_jinja_value_t value;
        if (!argument->text.length)
            return verl_jinja_run_fail(self, call, "a namespace is made of names and values");
        if (verl_jinja_run_value(self, argument->a, &value))
            return -1;
        if (verl_jinja_dict_set(dict, &self->arena, argument->text, value))
            return verl_jinja_run_no_memory(self);
    }
    *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_DICT, .dict = dict };
    return 0;
}

static int
s_make_range(verl_jinja_run_t *self, const verl_jinja_node_t *call, const verl_jinja_arguments_t *given,
             verl_jinja_value_t *ret)
{
    const verl_jinja_value_t *part = given->value;
    for (int i = 0; i < 3; i++)
        if ((i == 0 || given->given[i]) && part[i].kind != VERL_JINJA_INT)
            return verl_jinja_run_fail(self, call, "range needs integers");
    int64_t from = given->given[1] ? part[0].integer : 0, to = part[given->given[1]].integer;
    int64_t step = given->given[2] ? part[2].integer : 1, span = step > 0 ? to - from : from - to;
    if (step == 0)
        return verl_jinja_run_fail(self, call, "a range needs a step other than 0");
    int64_t count = span <= 0 ? 0 : (span - 1) / (step > 0 ? step : -step) + 1;
    if (count > LONGEST_RANGE)
        return verl_jinja_run_fail(self, call, "a range of more than %d numbers", LONGEST_RANGE);
    *ret = verl_jinja_run_list(self, (size_t) count);
    for (int64_t i = 0; ret->items && i < count; i++)
        ret->items[i] = s_int(from + i * step);
    return ret->items ? 0 : -1;
}

int
verl_jinja_run_method(verl_jinja_run_t *self, const verl_jinja_node_t *call, const verl_jinja_value_t *method,
                      verl_jinja_value_t *ret)
{
    verl_jinja_string_t name = method->string;
    verl_jinja_arguments_t given;
    if (!method->items && (verl_jinja_string_is(name, "namespace") || verl_jinja_string_is(name, "dict")))
        return s_make_namespace(self, call, ret);
    const char *parameters = s_parameters(name);
    if (!parameters)
        return s_unsupported(self, call, "method", name, method->items);
    if (verl_jinja_run_arguments(self, call, name, parameters, &given))
        return -1;
    if (method->items)
        return method->items->kind == VERL_JINJA_DICT
                   ? s_dict_method(self, call, name, method->items->dict, &given, ret)
                   : s_string_method(self, call, name, method->items->string, &given, ret);
    if (verl_jinja_string_is(name, "range"))
        return s_make_range(self, call, &given, ret);
    const verl_jinja_value_t *message = &given.value[0];
    bool text = message->kind == VERL_JINJA_STRING;
    return verl_jinja_run_fail(self, call, "the chat template refuses the messages: %.*s",
                               text ? (int) (message->string.length < 400 ? message->string.length : 400) : 9,
                               text ? message->string.data : "no reason");
}
