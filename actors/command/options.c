// options.c: see kind.h. A program declares an option as {"type", "default", "about"} and perhaps "min", "max" and
// "choices"; a topology gives values in `options`.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "actors/command/kind.h"

// Is a value of the type that the program asks for? A real option takes an integer.
static bool
s_suits(const json_t *value, const char *type)
{
    return strcmp(type, "bool") == 0     ? json_is_boolean(value)
           : strcmp(type, "int") == 0    ? json_is_integer(value)
           : strcmp(type, "real") == 0   ? json_is_number(value)
           : strcmp(type, "string") == 0 ? json_is_string(value)
           : strcmp(type, "list") == 0   ? json_is_array(value)
           : strcmp(type, "table") == 0  ? json_is_object(value)
                                         : false;
}

static bool
s_within(const json_t *value, const json_t *option)
{
    const json_t *min = json_object_get(option, "min"), *max = json_object_get(option, "max");
    double number = json_number_value(value);
    return !json_is_number(value) || ((!json_is_number(min) || number >= json_number_value(min)) &&
                                      (!json_is_number(max) || number <= json_number_value(max)));
}

static bool
s_chosen(const json_t *value, const json_t *option)
{
    const json_t *choices = json_object_get(option, "choices");
    if (!json_is_array(choices) || json_array_size(choices) == 0)
        return true;
    for (size_t i = 0; i < json_array_size(choices); i++)
        if (json_equal(json_array_get(choices, i), value))
            return true;
    return false;
}

// A value as JSON, cut to so many bytes, for a sentence.
static const char *
s_shown(const json_t *value, char *text, size_t size)
{
    size_t used = value ? json_dumpb(value, text, size - 1, JSON_ENCODE_ANY | JSON_COMPACT) : 0;
    text[used < size ? used : size - 1] = 0;
    return text;
}

static int
s_check(const char *name, const json_t *value, const json_t *option, char *error, size_t size)
{
    char shown[120], other[120];
    const char *type = json_string_value(json_object_get(option, "type"));
    s_shown(value, shown, sizeof shown);
    if (!type)
        snprintf(error, size, "the program does not say of which type its option `%.100s` is", name);
    else if (!s_suits(value, type))
        snprintf(error, size, "`%.100s` is %s: it must be a %.20s", name, shown, type);
    else if (!s_within(value, option))
        snprintf(error, size, "`%.100s` is %s: it must be from %g to %g", name, shown,
                 json_is_number(json_object_get(option, "min")) ? json_number_value(json_object_get(option, "min"))
                                                                : -HUGE_VAL,
                 json_is_number(json_object_get(option, "max")) ? json_number_value(json_object_get(option, "max"))
                                                                : HUGE_VAL);
    else if (!s_chosen(value, option))
        snprintf(error, size, "`%.100s` is %s: it must be one of %s", name, shown,
                 s_shown(json_object_get(option, "choices"), other, sizeof other));
    else
        return 0;
    return -1;
}

int
verl_command_check_options(const json_t *declared, const char *given, char *error, size_t size)
{
    json_t *values = given ? json_loads(given, 0, NULL) : NULL;
    const char *name;
    json_t *value;
    int failed = 0;
    json_object_foreach(values, name, value)
    {
        const json_t *option = json_object_get(declared, name);
        if (!failed && !json_is_object(option)) {
            char list[300] = "";
            const char *known;
            json_t *ignored;
            json_object_foreach((json_t *) (uintptr_t) declared, known, ignored)
            {
                size_t used = strlen(list);
                snprintf(list + used, sizeof list - used, "%s`%.60s`", used ? ", " : "", known);
            }
            snprintf(error, size, "the program has no option `%.100s`: it has %s", name, list[0] ? list : "none");
            failed = -1;
        } else if (!failed)
            failed = s_check(name, value, option, error, size);
    }
    json_decref(values);
    return failed;
}
