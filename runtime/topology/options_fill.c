// options_fill.c: from a table of options and checked values to the struct that a kind works with. See plan.h.
//
// The lists of a struct are one block each, pointers first and the bytes that they point to behind, so that
// verl_options_done frees a list with one call.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/topology/options.h"
#include "runtime/topology/value.h"

size_t
verl_option_bytes(verl_option_type_t type)
{
    static const size_t sizes[] = {
        sizeof(bool),   sizeof(int64_t),        sizeof(double),         sizeof(char *),        sizeof(int),
        sizeof(char *), sizeof(verl_strings_t), sizeof(verl_strings_t), sizeof(verl_weights_t), sizeof(char *),
        sizeof(verl_strings_t)
    };
    return (size_t) type < sizeof sizes / sizeof *sizes ? sizes[type] : 0;
}

size_t
verl_options_bytes(const verl_option_t *table, size_t given)
{
    size_t most = given;
    for (int i = 0; !given && table && i < VERL_OPTIONS_MAX && table[i].name; i++) {
        size_t end = table[i].offset + verl_option_bytes(table[i].type);
        most = end > most ? end : most;
    }
    return given ? given : (most + 15) / 16 * 16;
}

// Pointers to `count` strings and copies of them, in one block. NULL without memory.
static const char **
s_block(char *const *strings, int count)
{
    size_t bytes = ((size_t) count + 1) * sizeof(char *);
    for (int i = 0; i < count; i++)
        bytes += strlen(strings[i]) + 1;
    const char **block = calloc(1, bytes);
    if (!block)
        return NULL;
    char *to = (char *) (block + count + 1);
    for (int i = 0; i < count; i++) {
        size_t size = strlen(strings[i]) + 1;
        block[i] = memcpy(to, strings[i], size);
        to += size;
    }
    return block;
}

static int
s_store_strings(const verl_value_t *value, verl_strings_t *field)
{
    char **strings = calloc((size_t) value->count + 1, sizeof *strings);
    if (!strings)
        return -1;
    for (int i = 0; i < value->count; i++)
        strings[i] = value->items[i].string;
    field->items = s_block(strings, value->count);
    field->count = field->items ? value->count : 0;
    free(strings);
    return field->items ? 0 : -1;
}

static int
s_store_weights(const verl_value_t *value, verl_weights_t *field)
{
    field->values = calloc((size_t) value->count + 1, sizeof *field->values);
    field->names = s_block(value->keys, value->count);
    if (!field->values || !field->names)
        return -1;
    for (int i = 0; i < value->count; i++)
        field->values[i] = value->items[i].real;
    field->count = value->count;
    return 0;
}

static json_t *
s_json(const verl_value_t *value)
{
    json_t *list = value->type == VERL_VALUE_TABLE ? json_object() : json_array();
    switch (value->type) {
    case VERL_VALUE_BOOL:
    case VERL_VALUE_INT:
    case VERL_VALUE_REAL:
    case VERL_VALUE_STRING:
        json_decref(list);
        return value->type == VERL_VALUE_BOOL  ? json_boolean(value->boolean)
               : value->type == VERL_VALUE_INT ? json_integer(value->integer)
               : value->type == VERL_VALUE_REAL ? json_real(value->real)
                                                : json_string(value->string);
    case VERL_VALUE_ARRAY:
    case VERL_VALUE_TABLE:
        break;
    }
    for (int i = 0; i < value->count; i++) {
        json_t *item = s_json(&value->items[i]);
        int failed = value->type == VERL_VALUE_TABLE ? json_object_set_new(list, value->keys[i], item)
                                                     : json_array_append_new(list, item);
        if (failed) {                       // no memory, or a string that is no UTF-8
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int
s_store_json(const verl_value_t *value, char **field)
{
    json_t *json = s_json(value);
    *field = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return *field ? 0 : -1;
}

// The value is in the form that verl_option_check gives.
static int
s_store(const verl_option_t *option, const verl_value_t *value, char *field, verl_error_t *error)
{
    int rc = 0;
    switch (option->type) {
    case VERL_OPTION_BOOL:
        *(bool *) field = value->boolean;
        break;
    case VERL_OPTION_INT:
        *(int64_t *) field = value->integer;
        break;
    case VERL_OPTION_REAL:
        *(double *) field = value->real;
        break;
    case VERL_OPTION_CHOICE:
        *(int *) field = verl_option_choice(option->choices, value->string);
        break;
    case VERL_OPTION_STRING:
    case VERL_OPTION_PATH:
        *(const char **) field = value->string;
        break;
    case VERL_OPTION_STRINGS:
    case VERL_OPTION_PATHS:
    case VERL_OPTION_COMMAND:
        rc = s_store_strings(value, (verl_strings_t *) field);
        break;
    case VERL_OPTION_WEIGHTS:
        rc = s_store_weights(value, (verl_weights_t *) field);
        break;
    case VERL_OPTION_TABLE:
        rc = s_store_json(value, (char **) field);
        break;
    }
    return rc == 0 ? 0 : verl_error_set(error, "no memory for the option `%s`", option->name);
}

// Strings of the result must outlive the pool: they are the given value's, or the table's.
static int
s_fill_one(const verl_option_t *option, const verl_value_t *given, verl_pool_t *pool, char *field, verl_error_t *error)
{
    verl_option_t lax = *option; // files may have moved since the topology was checked; the kind will say so
    lax.must_exist = false;
    verl_option_fault_t fault;
    verl_value_t value;
    if (given) {
        if (verl_option_check(&lax, given, pool, NULL, &value, &fault) != 0)
            return verl_error_set(error, "option `%s` %.900s", option->name, fault.error.text);
        if (value.type == VERL_VALUE_STRING)
            value.string = given->string;
        return s_store(option, &value, field, error);
    }
    int found = verl_option_default(option, pool, NULL, &value, &fault);
    if (found < 0)
        return verl_error_set(error, "option `%s` %.900s", option->name, fault.error.text);
    if (found == 0 && !option->optional)
        return verl_error_set(error, "option `%s` is missing: it has no default", option->name);
    if (found == 0 && (option->type == VERL_OPTION_STRING || option->type == VERL_OPTION_PATH))
        *(const char **) field = "";
    if (found == 0)
        return 0;
    if (value.type == VERL_VALUE_STRING)
        value.string = (char *) (uintptr_t) option->fallback;
    return s_store(option, &value, field, error);
}

typedef struct fill {
    const verl_option_t *table;
    const verl_value_t *values;
    char *options;
    verl_error_t *error;
    verl_pool_t pool;
    int rc;
} fill_t;

static void
s_fill(void *argument)
{
    fill_t *self = argument;
    for (const verl_option_t *option = self->table; option && option->name && self->rc == 0; option++)
        self->rc = s_fill_one(option, verl_value_get(self->values, option->name), &self->pool,
                              self->options + option->offset, self->error);
}

int
verl_options_fill(const verl_option_t *table, const verl_value_t *values, void *options, verl_error_t *error)
{
    fill_t self = { .table = table, .values = values, .options = options, .error = error };
    if (!verl_pool_run(&self.pool, s_fill, &self))
        self.rc = verl_error_set(error, "no memory for options");
    verl_pool_done(&self.pool);
    if (self.rc != 0)
        verl_options_done(table, options);
    return self.rc;
}

void
verl_options_done(const verl_option_t *table, void *options)
{
    for (const verl_option_t *option = table; option && option->name; option++) {
        char *field = (char *) options + option->offset;
        if (option->type == VERL_OPTION_STRINGS || option->type == VERL_OPTION_PATHS ||
            option->type == VERL_OPTION_COMMAND) {
            verl_strings_t *strings = (verl_strings_t *) field;
            free(strings->items);
            *strings = (verl_strings_t){ 0 };
        } else if (option->type == VERL_OPTION_WEIGHTS) {
            verl_weights_t *weights = (verl_weights_t *) field;
            free(weights->names);
            free(weights->values);
            *weights = (verl_weights_t){ 0 };
        } else if (option->type == VERL_OPTION_TABLE) {
            free(*(char **) field);
            *(char **) field = NULL;
        }
    }
}
