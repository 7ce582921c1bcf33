// checked.c: see checked.h.
#include "tools/checked.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "runtime/base/json.h"
#include "runtime/director/plan_json.h"
#include "tools/inject.h"

// A descriptor that this process has, and that leads to no file. A pipe with a name is none: nobody may ever write to it.
static bool
s_is_pipe(const char *path)
{
    static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/", "/dev/stdin" };
    struct stat status;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (strncmp(path, folders[i], strlen(folders[i])) == 0)
            return stat(path, &status) == 0 && S_ISFIFO(status.st_mode);
    return false;
}

const char *
verl_checked_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : s_is_pipe(path) ? "pipe" : path;
}

verl_plan_t *
verl_checked_load(const char *path, const char *const *sets, int sets_count, verl_topology_errors_t *ret_errors)
{
    verl_error_t error = { "" };
    const char *name = verl_checked_name(path);
    if (name == path)
        return verl_topology_load(path, sets, sets_count, ret_errors);
    char *text = verl_inject_read(path, &error);
    if (text) {
        verl_plan_t *plan = verl_topology_load_text(text, strlen(text), name, sets, sets_count, ret_errors);
        free(text);
        return plan;
    }
    *ret_errors = (verl_topology_errors_t) { .items = calloc(1, sizeof *ret_errors->items) };
    if (ret_errors->items && (ret_errors->items[0] = strdup(error.text)))
        ret_errors->count = 1;
    return NULL;
}

// --- for programs -------------------------------------------------------------------------------------------------

// Takes the object.
static int
s_print(json_t *object, FILE *out)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    int failed = !text || fprintf(out, "%s\n", text) < 0;
    free(text);
    json_decref(object);
    return failed ? -1 : 0;
}

// "FILE:LINE:COLUMN: TEXT" in its parts.
static json_t *
s_error(const char *name, const char *text)
{
    size_t length = strlen(name);
    int line = 0, column = 0, used = 0;
    if (strncmp(text, name, length) == 0)
        sscanf(text + length, ":%d:%d: %n", &line, &column, &used);
    if (!used)
        return json_pack("{s:o}", "text", verl_json_text(text));
    return json_pack("{s:o, s:i, s:i, s:o}", "file", verl_json_text(name), "line", line, "column", column, "text",
                     verl_json_text(text + length + used));
}

int
verl_checked_print(const char *path, const verl_plan_t *plan, const verl_topology_errors_t *errors, FILE *out)
{
    const char *name = verl_checked_name(path);
    if (plan && errors->count == 0)
        return s_print(json_pack("{s:b, s:o, s:i, s:i}", "ok", 1, "topology", verl_json_text(name), "stages",
                                 plan->stages_count, "actors", plan->actors_count), out);
    json_t *list = json_array();
    for (int i = 0; i < errors->count; i++)
        json_array_append_new(list, s_error(name, errors->items[i]));
    return s_print(json_pack("{s:b, s:o, s:o}", "ok", 0, "topology", verl_json_text(name), "errors", list), out);
}

int
verl_checked_plan(const verl_plan_t *plan, FILE *out)
{
    return s_print(verl_plan_json(plan), out);
}

int
verl_checked_kinds(FILE *out)
{
    const verl_kind_t *kind;
    int failed = 0;
    for (int i = 0; !failed && (kind = verl_kind_at(i)); i++) {
        char shown[256];
        json_t *stages = json_array();
        for (int s = 0; s < verl_stage_kind_count(kind); s++)
            json_array_append_new(stages, json_string(kind->stages[s].name));
        failed = s_print(json_pack("{s:s, s:s, s:b, s:o}", "kind", verl_kind_shown(kind, shown, sizeof shown), "about",
                                   kind->about ? kind->about : "", "keeps_state", kind->keeps_state, "stages", stages),
                         out);
    }
    return failed;
}
