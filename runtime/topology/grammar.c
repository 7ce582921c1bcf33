// grammar.c: see grammar.h.
#include "runtime/topology/grammar.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/topology/value.h"

int
verl_dtype_find(const char *name, size_t length)
{
    for (int i = 0; i < VERL_DTYPE_COUNT; i++) {
        const char *known = verl_dtype_name((verl_dtype_t) i);
        if (strlen(known) == length && memcmp(known, name, length) == 0)
            return i;
    }
    return -1;
}

static const char *
s_blank(const char *at)
{
    while (*at == ' ' || *at == '\t')
        at++;
    return at;
}

// A copy without the blanks around it.
static char *
s_trim(verl_pool_t *pool, const char *from, const char *to)
{
    from = s_blank(from);
    if (from > to)
        from = to;
    while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
        to--;
    return verl_pool_copy_n(pool, from, (size_t) (to - from));
}

static bool
s_is_word(const char *text)
{
    if (!*text)
        return false;
    for (; *text; text++)
        if (!isalnum((unsigned char) *text) && *text != '_' && *text != '-')
            return false;
    return true;
}

static int
s_condition(const char *text, verl_pool_t *pool, verl_condition_t *ret, const char *whole, verl_error_t *error)
{
    static const struct {
        const char *sign;
        verl_comparison_t comparison;
    } signs[] = { { ">=", VERL_AT_LEAST }, { "<=", VERL_AT_MOST }, { "!=", VERL_UNEQUAL },
                  { "=", VERL_EQUAL },     { ">", VERL_MORE },     { "<", VERL_LESS } };
    const char *end = text + strlen(text);
    const char *sign = strpbrk(text, "=<>!");
    *ret = (verl_condition_t){ .comparison = VERL_TRUE, .option = s_trim(pool, text, sign ? sign : end) };
    for (size_t i = 0; sign && i < sizeof signs / sizeof *signs; i++) {
        size_t length = strlen(signs[i].sign);
        if (strncmp(sign, signs[i].sign, length) == 0) {
            ret->comparison = signs[i].comparison;
            ret->value = s_trim(pool, sign + length, end);
            break;
        }
    }
    bool bad = !s_is_word(ret->option) || (sign && (!ret->value || !*ret->value));
    return !bad ? 0
                : verl_error_set(error,
                                 "'%.100s' has a condition that is not \"if option\", \"if option = value\" or "
                                 "\"if option > number\"",
                                 whole);
}

int
verl_need_parse(const char *text, verl_pool_t *pool, verl_need_text_t *ret_need, verl_error_t *error)
{
    *ret_need = (verl_need_text_t){ 0 };
    const char *condition = strstr(text, " if ");
    const char *end = condition ? condition : text + strlen(text);
    const char *begin = s_blank(text);
    if (*begin == '*') {
        ret_need->listed = true;
        begin++;
    }
    const char *of = strstr(begin, " of ");
    if (of && of < end)
        ret_need->of = s_trim(pool, of + 4, end);
    char *name = s_trim(pool, begin, ret_need->of ? of : end);
    size_t length = strlen(name);
    if (length && name[length - 1] == '?') {
        ret_need->optional = true;
        name[length - 1] = '\0';
    }
    ret_need->name = name;
    if (!*name || (ret_need->of && !*ret_need->of))
        return verl_error_set(error, "'%.100s' names no column that is needed", text);
    return condition ? s_condition(condition + 4, pool, &ret_need->condition, text, error) : 0;
}

// "[n]", "[n,*]", "[n, bytes]": what stands in the brackets.
static int
s_dimensions(const char *at, const char *end, verl_pool_t *pool, verl_give_text_t *give)
{
    if (*at != '[' || end[-1] != ']')
        return -1;
    at++;
    end--;
    for (int index = -1; at <= end; index++) {
        const char *comma = memchr(at, ',', (size_t) (end - at));
        char *word = s_trim(pool, at, comma ? comma : end);
        bool star = strcmp(word, "*") == 0;
        if (index < 0 ? strcmp(word, "n") != 0 : star ? index > 0 : !s_is_word(word))
            return -1;
        if (index >= VERL_DIMENSIONS_MAX)
            return -1;
        if (index >= 0)
            give->dimension[give->dimensions++] = word;
        at = comma ? comma + 1 : end + 1;
    }
    return 0;
}

// The colon behind the name: the first one that a type follows, since a record's field may have colons in its name.
static const char *
s_colon(const char *text, int *ret_dtype, const char **ret_behind)
{
    for (const char *colon = strchr(text, ':'); colon; colon = strchr(colon + 1, ':')) {
        const char *type = s_blank(colon + 1);
        size_t length = 0;
        while (isalnum((unsigned char) type[length]))
            length++;
        *ret_dtype = verl_dtype_find(type, length);
        *ret_behind = s_blank(type + length);
        if (*ret_dtype >= 0 && (!**ret_behind || **ret_behind == '[' || strncmp(*ret_behind, "if ", 3) == 0))
            return colon;
    }
    return NULL;
}

int
verl_give_parse(const char *text, verl_pool_t *pool, verl_give_text_t *ret_give, verl_error_t *error)
{
    *ret_give = (verl_give_text_t){ 0 };
    int dtype = -1;
    const char *at = NULL, *colon = s_colon(text, &dtype, &at);
    if (!colon && strpbrk(text, ":["))
        return verl_error_set(error, "'%.100s' is not \"name:type[n]\", \"name:type[n,*]\" or \"name:text\"", text);
    if (!colon) {                           // a name alone: one real number a row
        colon = strstr(text, " if ") ? strstr(text, " if ") : text + strlen(text);
        at = s_blank(colon);
        dtype = VERL_F32;
    }
    ret_give->dtype = (verl_dtype_t) dtype;
    ret_give->name = s_trim(pool, text, colon);
    if (!*ret_give->name)
        return verl_error_set(error, "'%.100s' names no column that is given", text);
    if (*at == '[') {
        const char *end = strchr(at, ']');
        if (!end || s_dimensions(at, end + 1, pool, ret_give) != 0)
            return verl_error_set(error, "'%.100s' has a shape that is not [n], [n,*] or [n,width]", text);
        at = s_blank(end + 1);
    } else if (dtype != VERL_TEXT && *colon == ':')
        return verl_error_set(error, "'%.100s' has no shape: [n] or [n,*] would be right", text);
    if (*at && strncmp(at, "if ", 3) != 0)
        return verl_error_set(error, "'%.100s' has something behind its type that is no condition", text);
    return *at ? s_condition(at + 3, pool, &ret_give->condition, text, error) : 0;
}

static const verl_value_t *
s_option(const char *name, const verl_value_t *work, const verl_value_t *state)
{
    const verl_value_t *value = verl_value_get(work, name);
    return value ? value : verl_value_get(state, name);
}

char *
verl_give_type(const verl_give_text_t *give, const verl_value_t *work, const verl_value_t *state, verl_pool_t *pool)
{
    if (give->dtype == VERL_TEXT)
        return verl_pool_copy(pool, "text");
    char *text = verl_pool_print(pool, "%s[n", verl_dtype_name(give->dtype));
    for (int i = 0; i < give->dimensions; i++) {
        const verl_value_t *value = s_option(give->dimension[i], work, state);
        if (value && value->type == VERL_VALUE_INT)
            text = verl_pool_print(pool, "%s,%lld", text, (long long) value->integer);
        else
            text = verl_pool_print(pool, "%s,%s", text, give->dimension[i]);
    }
    return verl_pool_print(pool, "%s]", text);
}

static bool
s_is_true(const verl_value_t *value)
{
    switch (value->type) {
    case VERL_VALUE_BOOL:
        return value->boolean;
    case VERL_VALUE_INT:
        return value->integer != 0;
    case VERL_VALUE_REAL:
        return value->real != 0;
    case VERL_VALUE_STRING:
        return *value->string != '\0';
    case VERL_VALUE_ARRAY:
    case VERL_VALUE_TABLE:
        return value->count > 0;
    }
    return false;
}

// Less, equal or more than what the condition names.
static int
s_order(const verl_value_t *value, const char *with)
{
    if (value->type == VERL_VALUE_BOOL)
        return (int) value->boolean - (strcmp(with, "true") == 0 || strcmp(with, "1") == 0);
    if (value->type == VERL_VALUE_STRING)
        return strcmp(value->string, with);
    double number = value->type == VERL_VALUE_REAL  ? value->real
                    : value->type == VERL_VALUE_INT ? (double) value->integer
                                                    : value->count;
    double other = strtod(with, NULL);
    return (number > other) - (number < other);
}

bool
verl_condition_holds(const verl_condition_t *condition, const verl_value_t *work, const verl_value_t *state)
{
    if (condition->comparison == VERL_ALWAYS)
        return true;
    const verl_value_t none = { .type = VERL_VALUE_STRING, .string = (char[]){ "" } };
    const verl_value_t *value = s_option(condition->option, work, state);
    if (!value)
        value = &none;
    if (condition->comparison == VERL_TRUE)
        return s_is_true(value);
    int order = s_order(value, condition->value);
    switch (condition->comparison) {
    case VERL_EQUAL:
        return order == 0;
    case VERL_UNEQUAL:
        return order != 0;
    case VERL_LESS:
        return order < 0;
    case VERL_MORE:
        return order > 0;
    case VERL_AT_MOST:
        return order <= 0;
    default:
        return order >= 0;
    }
}

char *
verl_condition_text(const verl_condition_t *condition, verl_pool_t *pool)
{
    static const char *const signs[] = { "", "", "=", "!=", "<", ">", "<=", ">=" };
    if (condition->comparison == VERL_ALWAYS)
        return verl_pool_copy(pool, "");
    if (condition->comparison == VERL_TRUE)
        return verl_pool_copy(pool, condition->option);
    return verl_pool_print(pool, "%s %s %s", condition->option, signs[condition->comparison], condition->value);
}
