// inject_names.c: what a name on the command line is in the run: a stage, an actor, or neither. See inject.h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/topology/nearest.h"
#include "tools/inject.h"

#define QUICK_MS 30000                      // for what takes the run no time

json_t *
verl_inject_names(const verl_inject_options_t *options)
{
    verl_error_t error = { "" };
    verl_client_t *client = verl_client_open(options->run, false, &error);
    json_t *plan = client ? verl_client_ask(client, json_pack("{s:s}", "do", "plan"), QUICK_MS, &error) : NULL;
    const char *refusal = plan ? verl_client_refusal(plan) : NULL;
    if (!plan || refusal) {
        verl_inject_failed("%s", refusal ? refusal : error.text);
        json_decref(plan);
        plan = NULL;
    }
    verl_client_close(&client);
    return plan;
}

static bool
s_has(const json_t *plan, const char *list, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(plan, list), i, item) {
        const char *other = json_string_value(json_object_get(item, "name"));
        if (other && strcmp(other, name) == 0)
            return true;
    }
    return false;
}

static void
s_offer(const json_t *plan, const char *list, verl_nearest_t *nearest)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(plan, list), i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name)
            verl_nearest_offer(nearest, name);
    }
}

const char *
verl_inject_section(const json_t *plan, const char *name, verl_error_t *error)
{
    verl_nearest_t nearest;
    if (s_has(plan, "stages", name))
        return "stage";
    if (s_has(plan, "actors", name))
        return "actor";
    verl_nearest_init(&nearest, name);
    s_offer(plan, "stages", &nearest);
    s_offer(plan, "actors", &nearest);
    if (nearest.best)
        verl_error_set(error, "no actor or stage is called \"%s\": did you mean \"%s\"?", name, nearest.best);
    else
        verl_error_set(error, "no actor or stage is called \"%s\": verl-spy graph shows which there are", name);
    return NULL;
}

const char *
verl_inject_bare(const char *name)
{
    return strncmp(name, "stage.", 6) == 0 || strncmp(name, "actor.", 6) == 0 ? name + 6 : name;
}

// An actor, or one that was made of it because a stage's weights may be stale: "policy", "policy.generate".
static bool
s_is_of(const char *actor, const char *name)
{
    size_t length = strlen(name);
    return actor && strncmp(actor, name, length) == 0 && (actor[length] == 0 || actor[length] == '.');
}

char *
verl_inject_unset(const json_t *plan, const char *word)
{
    const char *name = verl_inject_bare(word);
    size_t i, size, count = 0;
    json_t *stage;
    char *text = NULL;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    bool actor = name == word ? !s_has(plan, "stages", name) : strncmp(word, "actor.", 6) == 0;
    fputs("unset = [", out);
    json_array_foreach(json_object_get(plan, "stages"), i, stage) {
        const char *stage_name = json_string_value(json_object_get(stage, "name"));
        const char *runs_in = json_string_value(json_object_get(stage, "actor"));
        if (stage_name && (actor ? s_is_of(runs_in, name) : strcmp(stage_name, name) == 0))
            fprintf(out, "%s\"stage.%s\"", count++ ? ", " : "", stage_name);
    }
    fputs("]\n", out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}
