// spy_views.c: see spy_views.h.
#include "tools/spy_views.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/spy.h"

// --- members ------------------------------------------------------------------------------------------------------

double
verl_spy_number(const json_t *object, const char *key)
{
    double value = json_number_value(json_object_get(object, key));
    return isfinite(value) ? value : 0;
}

const char *
verl_spy_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

bool
verl_spy_flag(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

json_t *
verl_spy_list(const json_t *object, const char *key)
{
    json_t *list = json_object_get(object, key);
    return json_is_array(list) ? list : NULL;
}

json_t *
verl_spy_named(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(verl_spy_text(json_array_get(list, i), "name"), name) == 0)
            return json_array_get(list, i);
    return NULL;
}

// --- figures ------------------------------------------------------------------------------------------------------

const char *
verl_spy_size(double bytes, char *text, size_t size)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    int unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++)
        bytes /= 1024;
    snprintf(text, size, unit && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

const char *
verl_spy_percent(double share, char *text, size_t size)
{
    if (share < 0.0005)
        snprintf(text, size, "-");
    else
        snprintf(text, size, share < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * share);
    return text;
}

const char *
verl_spy_seconds(double seconds, char *text, size_t size)
{
    if (seconds < 1e-3)
        snprintf(text, size, "%.0f us", 1e6 * seconds);
    else if (seconds < 0.1)
        snprintf(text, size, seconds < 0.01 ? "%.1f ms" : "%.0f ms", 1e3 * seconds);
    else
        snprintf(text, size, seconds < 10 ? "%.3f s" : "%.1f s", seconds);
    return text;
}

const char *
verl_spy_rate(double rate, char *text, size_t size)
{
    snprintf(text, size, rate >= 100 || rate <= 0 ? "%.0f" : rate >= 10 ? "%.1f" : "%.2f", rate > 0 ? rate : 0);
    return text;
}

// --- writing ------------------------------------------------------------------------------------------------------

int
verl_spy_print_json(json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(10)) : NULL;
    json_decref(object);
    if (!text)
        return verl_spy_no_memory("verl-spy");
    printf("%s\n", text);
    free(text);
    return verl_spy_written("verl-spy");
}

int
verl_spy_print(verl_buffer_t *text)
{
    bool failed = text->failed;
    if (!failed && text->size)
        fwrite(text->data, 1, text->size, stdout);
    verl_buffer_done(text);
    return failed ? verl_spy_no_memory("verl-spy") : verl_spy_written("verl-spy");
}
