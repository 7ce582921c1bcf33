// spy_report_window.c: what happened between two profiles of a run. See spy_report_causes.h.
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "tools/spy_report_causes.h"
#include "tools/spy_views.h"

// Takes the numbers of `before` off those of the same names, in objects and in lists of things of the same name.
static void
s_take_off(json_t *now, const json_t *before)
{
    static const char *const sums[] = { "seconds", "done",    "batches", "busy",       "moving",
                                        "data",    "weights", "room",    "worker",     "out",
                                        "again",   "unseen",  "times",   "in_batches", "batch_seconds" };
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        json_t *value = json_object_get(now, sums[i]);
        if (json_is_number(value))
            json_object_set_new(now, sums[i],
                                json_real(fmax(json_number_value(value) - verl_spy_number(before, sums[i]), 0)));
        else if (json_is_object(value))
            s_take_off(value, json_object_get(before, sums[i]));
    }
}

// Shares of what is left.
static void
s_share(json_t *stage)
{
    json_t *shares = json_object();
    const json_t *seconds = json_object_get(stage, "seconds");
    const char *key;
    json_t *value;
    double whole = 0;
    json_object_foreach((json_t *) (uintptr_t) seconds, key, value)
        whole += json_number_value(value);
    json_object_foreach((json_t *) (uintptr_t) seconds, key, value)
        json_object_set_new(shares, key, json_real(whole > 0 ? json_number_value(value) / whole : 0));
    json_object_set_new(stage, "shares", shares);
}

static const json_t *
s_same_load(const json_t *loads, const json_t *load)
{
    for (size_t i = 0; i < json_array_size(loads); i++)
        if (strcmp(verl_spy_text(json_array_get(loads, i), "stage"), verl_spy_text(load, "stage")) == 0 &&
            strcmp(verl_spy_text(json_array_get(loads, i), "what"), verl_spy_text(load, "what")) == 0)
            return json_array_get(loads, i);
    return NULL;
}

void
verl_profile_narrow(json_t *profile, const json_t *before)
{
    const json_t *stages = verl_spy_list(profile, "stages"), *loads = verl_spy_list(profile, "loads");
    s_take_off(profile, before);
    for (size_t i = 0; i < json_array_size(stages); i++) {
        json_t *stage = json_array_get(stages, i), *bytes = json_object_get(stage, "bytes");
        const json_t *then = verl_spy_named(verl_spy_list(before, "stages"), verl_spy_text(stage, "name"));
        s_take_off(stage, then);
        s_take_off(bytes, json_object_get(then, "bytes"));
        s_share(stage);
    }
    for (size_t i = 0; i < json_array_size(loads); i++)
        s_take_off(json_array_get(loads, i), s_same_load(verl_spy_list(before, "loads"), json_array_get(loads, i)));
}
