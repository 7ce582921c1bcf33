// spy_ask.c: see spy_ask.h.
#include "tools/spy_ask.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/control/names.h"
#include "tools/spy_views.h"

#define ANSWER_MS 10000

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
