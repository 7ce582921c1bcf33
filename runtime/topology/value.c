// value.c: see value.h.
#include "runtime/topology/value.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

const verl_value_t *
verl_value_get(const verl_value_t *table, const char *key)
{
    if (!table || table->type != VERL_VALUE_TABLE)
        return NULL;
    for (int i = 0; i < table->count; i++)
        if (strcmp(table->keys[i], key) == 0)
            return &table->items[i];
    return NULL;
}

void
verl_value_put(verl_pool_t *pool, verl_value_t *table, const char *key, verl_value_t value)
{
    table->items = verl_pool_grow(pool, table->items, table->count, sizeof *table->items);
    table->keys = verl_pool_grow(pool, table->keys, table->count, sizeof *table->keys);
    table->items[table->count] = value;
    table->keys[table->count] = verl_pool_copy(pool, key);
    table->count++;
}

verl_value_t
verl_value_string(verl_pool_t *pool, const char *text)
{
    return (verl_value_t){ .type = VERL_VALUE_STRING, .string = verl_pool_copy(pool, text) };
}

verl_value_t
verl_value_table(void)
{
    return (verl_value_t){ .type = VERL_VALUE_TABLE };
}

static verl_value_t
s_list(verl_pool_t *pool, const verl_node_t *node, verl_value_type_t type)
{
    verl_value_t value = { .type = type, .count = node->count };
    value.items = verl_pool_array(pool, (size_t) node->count, sizeof *value.items);
    if (type == VERL_VALUE_TABLE)
        value.keys = verl_pool_array(pool, (size_t) node->count, sizeof *value.keys);
    for (int i = 0; i < node->count; i++) {
        value.items[i] = verl_value_from_node(pool, node->items[i]);
        if (type == VERL_VALUE_TABLE)
            value.keys[i] = verl_pool_copy(pool, node->keys[i]);
    }
    return value;
}

verl_value_t
verl_value_from_node(verl_pool_t *pool, const verl_node_t *node)
{
    switch (node->type) {
    case VERL_NODE_BOOL:
        return (verl_value_t){ .type = VERL_VALUE_BOOL, .boolean = node->boolean };
    case VERL_NODE_INT:
        return (verl_value_t){ .type = VERL_VALUE_INT, .integer = node->integer };
    case VERL_NODE_REAL:
        return (verl_value_t){ .type = VERL_VALUE_REAL, .real = node->real };
    case VERL_NODE_STRING:
        return verl_value_string(pool, node->string);
    case VERL_NODE_ARRAY:
        return s_list(pool, node, VERL_VALUE_ARRAY);
    case VERL_NODE_TABLE:
        return s_list(pool, node, VERL_VALUE_TABLE);
    case VERL_NODE_DATE:
        break;
    }
    return verl_value_string(pool, "");
}

void
verl_value_print_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *) text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c < 0x20 || *c == 0x7f)
            fprintf(out, "\\u%04X", *c);
        else
            fputc(*c, out);
    }
    fputc('"', out);
}

void
verl_value_print_key(FILE *out, const char *key)
{
    bool bare = *key != '\0';
    for (const unsigned char *c = (const unsigned char *) key; *c; c++)
        bare = bare && (isalnum(*c) || *c == '_' || *c == '-') && *c < 0x80;
    if (bare)
        fputs(key, out);
    else
        verl_value_print_string(out, key);
}

// The shortest digits that read back as the same number, always with a point or an exponent; 60.0 rather than 6e+01.
static void
s_print_real(FILE *out, double value)
{
    char text[40];
    if (isnan(value) || isinf(value)) {
        fputs(isnan(value) ? "nan" : value < 0 ? "-inf" : "inf", out);
        return;
    }
    if (fabs(value) < 1e6 && value == nearbyint(value) && value != 0) {
        fprintf(out, "%.1f", value);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        double back;
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (sscanf(text, "%lf", &back) == 1 && back == value)
            break;
    }
    fputs(text, out);
    if (!strpbrk(text, ".e"))
        fputs(".0", out);
}

static void
s_print_items(FILE *out, const verl_value_t *value)
{
    bool table = value->type == VERL_VALUE_TABLE;
    fputs(table ? "{" : "[", out);
    for (int i = 0; i < value->count; i++) {
        fputs(i ? ", " : table ? " " : "", out);
        if (table) {
            verl_value_print_key(out, value->keys[i]);
            fputs(" = ", out);
        }
        verl_value_print(out, &value->items[i]);
    }
    fputs(table ? (value->count ? " }" : "}") : "]", out);
}

void
verl_value_print(FILE *out, const verl_value_t *value)
{
    switch (value->type) {
    case VERL_VALUE_BOOL:
        fputs(value->boolean ? "true" : "false", out);
        break;
    case VERL_VALUE_INT:
        fprintf(out, "%lld", (long long) value->integer);
        break;
    case VERL_VALUE_REAL:
        s_print_real(out, value->real);
        break;
    case VERL_VALUE_STRING:
        verl_value_print_string(out, value->string);
        break;
    case VERL_VALUE_ARRAY:
    case VERL_VALUE_TABLE:
        s_print_items(out, value);
        break;
    }
}

const char *
verl_value_type_name(verl_value_type_t type)
{
    static const char *const names[] = {
        "a boolean", "an integer", "a real number", "a string", "an array", "a table"
    };
    return names[type];
}

const char *
verl_value_brief(const verl_value_t *value, char *text, size_t size)
{
    switch (value->type) {
    case VERL_VALUE_BOOL:
        snprintf(text, size, "%s", value->boolean ? "true" : "false");
        break;
    case VERL_VALUE_INT:
        snprintf(text, size, "%lld", (long long) value->integer);
        break;
    case VERL_VALUE_REAL:
        snprintf(text, size, "%g", value->real);
        break;
    case VERL_VALUE_STRING:
        snprintf(text, size, "\"%.80s\"", value->string);
        break;
    case VERL_VALUE_ARRAY:
        snprintf(text, size, "[%d items]", value->count);
        break;
    case VERL_VALUE_TABLE:
        snprintf(text, size, "{%d keys}", value->count);
        break;
    }
    return text;
}
