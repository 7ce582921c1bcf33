// options.c: see options.h.
#include "runtime/topology/options.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/topology/nearest.h"
#include "runtime/topology/toml.h"
#include "runtime/topology/value.h"

const verl_option_t *
verl_option_find(const verl_option_t *table, const char *name)
{
    for (; table && table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

const char *
verl_option_type_name(verl_option_type_t type)
{
    static const char *const names[] = { "boolean", "integer",         "real",          "string", "choice",
                                         "path",    "list of strings", "list of paths", "weights",
                                         "table",   "command" };
    return names[type];
}

static const char *
s_wanted(verl_option_type_t type)
{
    static const char *const names[] = { "true or false",
                                         "an integer",
                                         "a number",
                                         "a string",
                                         "a string",
                                         "a path in quotes",
                                         "an array of strings",
                                         "an array of paths",
                                         "a table of numbers, { name = 1.0 }, or an array of names",
                                         "a table, { name = value }",
                                         "an array of strings, a program and its arguments" };
    return names[type];
}

int
verl_option_choice(const char *choices, const char *word)
{
    size_t length = strlen(word);
    int index = 0;
    for (const char *at = choices; at && *at; index++) {
        size_t size = strcspn(at, "|");
        if (size == length && memcmp(at, word, size) == 0)
            return index;
        at += size + (at[size] == '|');
    }
    return -1;
}

static int
s_wrong_type(const verl_option_t *option, const verl_value_t *given, verl_option_fault_t *fault)
{
    char brief[100];
    return verl_error_set(&fault->error, "is %s, %s: it must be %s", verl_value_type_name(given->type),
                          verl_value_brief(given, brief, sizeof brief), s_wanted(option->type));
}

// Written so that NaN is refused. A table that says no range at all means any number.
static int
s_check_range(const verl_option_t *option, double value, const char *shown, verl_option_fault_t *fault)
{
    bool any = option->min == 0 && option->max == 0;
    if (any ? isfinite(value) : value >= option->min && value <= option->max)
        return 0;
    const char *unit = option->unit ? option->unit : "", *space = *unit ? " " : "";
    if (any)
        return verl_error_set(&fault->error, "is %s: it must be a finite number", shown);
    return verl_error_set(&fault->error, "is %s%s%s: it must be from %.15g to %.15g%s%s", shown, space, unit,
                          option->min, option->max, space, unit);
}

static int
s_check_number(const verl_option_t *option, const verl_value_t *given, verl_value_t *ret, verl_option_fault_t *fault)
{
    bool whole = option->type == VERL_OPTION_INT;
    char brief[100];
    if (given->type == VERL_VALUE_REAL && whole && nearbyint(given->real) == given->real && fabs(given->real) < 1e15)
        return verl_error_set(&fault->error, "is a real number, %g: it must be an integer, written %.0f", given->real,
                              given->real);
    if (given->type != VERL_VALUE_INT && (whole || given->type != VERL_VALUE_REAL))
        return s_wrong_type(option, given, fault);
    double value = given->type == VERL_VALUE_INT ? (double) given->integer : given->real;
    if (s_check_range(option, value, verl_value_brief(given, brief, sizeof brief), fault) != 0)
        return -1;
    *ret = whole ? *given : (verl_value_t){ .type = VERL_VALUE_REAL, .real = value };
    return 0;
}

static int
s_check_choice(const verl_option_t *option, const verl_value_t *given, verl_value_t *ret, verl_option_fault_t *fault)
{
    if (given->type != VERL_VALUE_STRING)
        return s_wrong_type(option, given, fault);
    if (verl_option_choice(option->choices, given->string) >= 0) {
        *ret = *given;
        return 0;
    }
    char list[400], *to = list;
    for (const char *at = option->choices; *at && to < list + sizeof list - 64;) {
        size_t size = strcspn(at, "|");
        to += snprintf(to, 64, "%s\"%.*s\"", to == list ? "" : ", ", (int) (size < 48 ? size : 48), at);
        at += size + (at[size] == '|');
    }
    return verl_error_set(&fault->error, "is \"%.80s\": it must be one of %s", given->string, list);
}

static int
s_check_path(const verl_option_t *option, const verl_value_t *given, verl_pool_t *pool, const char *folder,
             verl_value_t *ret, verl_option_fault_t *fault)
{
    if (given->type != VERL_VALUE_STRING)
        return s_wrong_type(option, given, fault);
    const char *path = given->string;
    if (!*path) {
        if (!option->optional)
            return verl_error_set(&fault->error, "is empty: it must be a path");
        *ret = *given;
        return 0;
    }
    char *whole = *path == '/' || !folder ? verl_pool_copy(pool, path) : verl_pool_print(pool, "%s/%s", folder, path);
    if (option->must_exist && access(whole, F_OK) != 0) {
        char reason[128];
        return verl_error_set(&fault->error, "names '%.300s', which is not there (%s): looked for it at '%.400s'", path,
                              strerror_r(errno, reason, sizeof reason), whole);
    }
    *ret = (verl_value_t){ .type = VERL_VALUE_STRING, .string = whole };
    return 0;
}

// "src, mid" as the array that was meant: ["src", "mid"]. A command's words stand between blanks, other names between
// commas; a path may have either in it, and so may what has quotes.
static int
s_wrong_string(const verl_option_t *option, const char *text, verl_option_fault_t *fault)
{
    const char *between = option->type == VERL_OPTION_COMMAND ? " " : option->type == VERL_OPTION_STRINGS ? "," : "";
    between = strpbrk(text, "\"'") ? "" : between;
    char list[200] = "";
    size_t length = 0;
    for (const char *at = text; *at && length < sizeof list - 90;) {
        at += strspn(at, " ");
        size_t size = strcspn(at, between), word = size;
        while (word > 0 && at[word - 1] == ' ')
            word--;
        if (word > 0)
            length += (size_t) snprintf(list + length, sizeof list - length, "%s\"%.*s\"", length ? ", " : "",
                                        (int) (word < 80 ? word : 80), at);
        at += size + (at[size] != '\0');
    }
    return verl_error_set(&fault->error, "is a string, \"%.80s\": it must be %s, [%s]", text, s_wanted(option->type),
                          length ? list : "\"\"");
}

static int
s_check_list(const verl_option_t *option, const verl_value_t *given, verl_pool_t *pool, const char *folder,
             verl_value_t *ret, verl_option_fault_t *fault)
{
    if (given->type == VERL_VALUE_STRING)
        return s_wrong_string(option, given->string, fault);
    if (given->type != VERL_VALUE_ARRAY)
        return s_wrong_type(option, given, fault);
    *ret = (verl_value_t){ .type = VERL_VALUE_ARRAY, .count = given->count };
    ret->items = verl_pool_array(pool, (size_t) given->count, sizeof *ret->items);
    verl_option_t item = *option;
    item.type = option->type == VERL_OPTION_PATHS ? VERL_OPTION_PATH : VERL_OPTION_STRING;
    item.optional = false;
    for (int i = 0; i < given->count; i++)
        if (verl_option_check(&item, &given->items[i], pool, folder, &ret->items[i], fault) != 0) {
            fault->item = i;
            return -1;
        }
    return 0;
}

static int
s_check_weights(const verl_option_t *option, const verl_value_t *given, verl_pool_t *pool, verl_value_t *ret,
                verl_option_fault_t *fault)
{
    bool table = given->type == VERL_VALUE_TABLE;
    if (!table && given->type != VERL_VALUE_ARRAY)
        return s_wrong_type(option, given, fault);
    *ret = verl_value_table();
    for (int i = 0; i < given->count; i++) {
        const verl_value_t *item = &given->items[i];
        if (table ? item->type != VERL_VALUE_INT && item->type != VERL_VALUE_REAL : item->type != VERL_VALUE_STRING) {
            fault->item = i;
            return verl_error_set(&fault->error, "has %s in it: it must be %s", verl_value_type_name(item->type),
                                  s_wanted(option->type));
        }
        double weight = !table ? 1 : item->type == VERL_VALUE_INT ? (double) item->integer : item->real;
        const char *name = table ? given->keys[i] : item->string;
        if (!isfinite(weight) || verl_value_get(ret, name)) {
            fault->item = i;
            return verl_error_set(&fault->error, "has `%.80s` %s", name,
                                  isfinite(weight)
                                      ? "twice: once would be right"
                                      : "at a weight that is no finite number: a number such as 1.0 would be right");
        }
        verl_value_put(pool, ret, name, (verl_value_t){ .type = VERL_VALUE_REAL, .real = weight });
    }
    return 0;
}

// JSON has no number for what is not finite.
static bool
s_is_finite(const verl_value_t *value)
{
    bool finite = value->type != VERL_VALUE_REAL || isfinite(value->real);
    for (int i = 0; i < value->count && finite; i++)
        finite = s_is_finite(&value->items[i]);
    return finite;
}

static int
s_check_table(const verl_option_t *option, const verl_value_t *given, verl_value_t *ret, verl_option_fault_t *fault)
{
    if (given->type != VERL_VALUE_TABLE)
        return s_wrong_type(option, given, fault);
    if (!s_is_finite(given))
        return verl_error_set(&fault->error, "has a number in it that is not finite: a finite one would be right");
    *ret = *given;
    return 0;
}

// A word that names a file beside the topology; a program is looked for in PATH unless it has a '/'.
static char *
s_word(verl_pool_t *pool, const char *folder, const char *word, bool program)
{
    struct stat status;
    if (*word == '/' || !*word || !folder || (program && !strchr(word, '/')))
        return verl_pool_copy(pool, word);
    char *whole = verl_pool_print(pool, "%s/%s", folder, word);
    return stat(whole, &status) == 0 && S_ISREG(status.st_mode) ? whole : verl_pool_copy(pool, word);
}

static int
s_check_command(const verl_option_t *option, const verl_value_t *given, verl_pool_t *pool, const char *folder,
                verl_value_t *ret, verl_option_fault_t *fault)
{
    if (s_check_list(option, given, pool, folder, ret, fault) != 0)
        return -1;
    if (ret->count == 0 || !*ret->items[0].string)
        return verl_error_set(&fault->error, "is empty: it must be %s", s_wanted(option->type));
    for (int i = 0; i < ret->count; i++)
        ret->items[i].string = s_word(pool, folder, ret->items[i].string, i == 0);
    return 0;
}

int
verl_option_check(const verl_option_t *option, const verl_value_t *given, verl_pool_t *pool, const char *folder,
                  verl_value_t *ret_value, verl_option_fault_t *fault)
{
    *fault = (verl_option_fault_t){ .item = -1 };
    verl_value_type_t plain = option->type == VERL_OPTION_BOOL ? VERL_VALUE_BOOL : VERL_VALUE_STRING;
    switch (option->type) {
    case VERL_OPTION_BOOL:
    case VERL_OPTION_STRING:
        if (given->type != plain)
            return s_wrong_type(option, given, fault);
        *ret_value = *given;
        return 0;
    case VERL_OPTION_INT:
    case VERL_OPTION_REAL:
        return s_check_number(option, given, ret_value, fault);
    case VERL_OPTION_CHOICE:
        return s_check_choice(option, given, ret_value, fault);
    case VERL_OPTION_PATH:
        return s_check_path(option, given, pool, folder, ret_value, fault);
    case VERL_OPTION_STRINGS:
    case VERL_OPTION_PATHS:
        return s_check_list(option, given, pool, folder, ret_value, fault);
    case VERL_OPTION_WEIGHTS:
        return s_check_weights(option, given, pool, ret_value, fault);
    case VERL_OPTION_TABLE:
        return s_check_table(option, given, ret_value, fault);
    case VERL_OPTION_COMMAND:
        return s_check_command(option, given, pool, folder, ret_value, fault);
    }
    return verl_error_set(&fault->error, "has no type that is known");
}

// A plain number or boolean, which most defaults are, without the parser.
static bool
s_plain_default(const verl_option_t *option, verl_value_t *ret)
{
    char *end = NULL;
    const char *text = option->fallback;
    if (option->type == VERL_OPTION_BOOL) {
        *ret = (verl_value_t){ .type = VERL_VALUE_BOOL, .boolean = strcmp(text, "true") == 0 };
        return ret->boolean || strcmp(text, "false") == 0;
    }
    errno = 0;
    if (option->type == VERL_OPTION_INT)
        *ret = (verl_value_t){ .type = VERL_VALUE_INT, .integer = strtoll(text, &end, 10) };
    else if (option->type == VERL_OPTION_REAL)
        *ret = (verl_value_t){ .type = VERL_VALUE_REAL, .real = strtod(text, &end) };
    return end && end != text && !*end && errno == 0;
}

static int
s_parse_default(const verl_option_t *option, verl_pool_t *pool, verl_value_t *ret)
{
    if (s_plain_default(option, ret))
        return 0;
    verl_toml_error_t error;
    char *text = verl_pool_print(pool, "v = %s\n", option->fallback);
    verl_node_t *root = verl_toml_parse(text, strlen(text), pool, &error);
    verl_node_t *node = verl_node_get(root, "v");
    if (!node || root->count != 1)
        return -1;
    *ret = verl_value_from_node(pool, node);
    // a C literal such as 1e6 may stand for an integer
    if (option->type == VERL_OPTION_INT && ret->type == VERL_VALUE_REAL && fabs(ret->real) < 9e15 &&
        nearbyint(ret->real) == ret->real)
        *ret = (verl_value_t){ .type = VERL_VALUE_INT, .integer = (int64_t) ret->real };
    return 0;
}

static bool
s_is_text(verl_option_type_t type)
{
    return type == VERL_OPTION_STRING || type == VERL_OPTION_CHOICE || type == VERL_OPTION_PATH;
}

int
verl_option_default(const verl_option_t *option, verl_pool_t *pool, const char *folder, verl_value_t *ret_value,
                    verl_option_fault_t *fault)
{
    *fault = (verl_option_fault_t){ .item = -1 };
    if (!option->fallback)
        return 0;
    verl_value_t value = { 0 };
    if (s_is_text(option->type))
        value = (verl_value_t){ .type = VERL_VALUE_STRING, .string = verl_pool_copy(pool, option->fallback) };
    else if (s_parse_default(option, pool, &value) != 0)
        return verl_error_set(&fault->error, "has the default '%.80s', which is no TOML value", option->fallback);
    if (option->type == VERL_OPTION_PATH && !*option->fallback) {
        *ret_value = value;
        return 1;
    }
    verl_option_t lax = *option;
    lax.must_exist = false;
    return verl_option_check(&lax, &value, pool, folder, ret_value, fault) != 0 ? -1 : 1;
}
