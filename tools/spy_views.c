// spy_views.c: see spy_views.h.
#include "tools/spy_views.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/control/names.h"

#define ANSWER_MS 10000

// --- asking -------------------------------------------------------------------------------------------------------

verl_client_t *
verl_spy_open(const verl_spy_options_t *options, const char *name)
{
    verl_error_t error = { "" };
    verl_client_t *client = verl_client_open(options->run, false, &error);
    if (!client)
        fprintf(stderr, "%s: %s\n", name, error.text);
    return client;
}

json_t *
verl_spy_ask(verl_client_t *client, json_t *request, const char *name)
{
    verl_error_t error = { "" };
    json_t *answer = verl_client_ask(client, request, ANSWER_MS, &error);
    const char *refusal = answer ? verl_client_refusal(answer) : error.text;
    json_object_del(answer, "id");          // of the conversation
    if (!refusal)
        return answer;
    if (verl_client_why(client) != VERL_CLIENT_INTERRUPTED)
        fprintf(stderr, "%s: %s\n", name, refusal);
    json_decref(answer);
    return NULL;
}

// The last profile in a run.log; NULL: there is none. A line that is cut off is none either.
static json_t *
s_logged_profile(const char *directory)
{
    char path[4200], *line = NULL;
    size_t room = 0;
    ssize_t length;
    json_t *last = NULL;
    snprintf(path, sizeof path, "%s/run.log", directory);
    FILE *file = fopen(path, "re");
    while (file && (length = getline(&line, &room, file)) > 0) {
        json_t *event = strstr(line, "\"profile\"") ? json_loadb(line, (size_t) length, 0, NULL) : NULL;
        if (strcmp(verl_spy_text(event, "event"), "profile") == 0) {
            json_decref(last);
            last = json_incref(event);
        }
        json_decref(event);
    }
    free(line);
    if (file)
        fclose(file);
    return last;
}

static json_t *
s_past(const char *run, const char *name, char *directory, size_t size)
{
    json_t *profile = s_logged_profile(run);
    snprintf(directory, size, "%s", run);
    if (!profile)
        fprintf(stderr, "%s: no run lives in %s, and its run.log holds no profile of one that has ended\n", name, run);
    return profile;
}

json_t *
verl_spy_profile(const verl_spy_options_t *options, const char *name, char *directory, size_t size, bool *ret_live)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", options->run ? options->run : ".", VERL_CONTROL_FILE);
    *ret_live = !options->run || access(path, R_OK) == 0;
    if (!*ret_live)
        return s_past(options->run, name, directory, size);
    verl_client_t *client = verl_spy_open(options, name);
    if (!client)
        return NULL;
    snprintf(directory, size, "%s", verl_client_directory(client));
    json_t *profile = verl_spy_ask(client, json_pack("{s:s}", "do", "profile"), name);
    verl_client_close(&client);
    return profile;
}

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
