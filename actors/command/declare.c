// declare.c: what a stage of a program needs and gives, as the program says; and what its kind does beside that, which
// is nothing: the work is the program's.
#include <stdio.h>
#include <string.h>
#include "actors/command/kind.h"

const verl_option_t verl_command_options[] = {
    VERL_OPTION_OF(COMMAND, verl_command_t, command,
                   "the program and its arguments, such as [\"python3\", \"reward.py\"]"),
    VERL_OPTIONS_END
};

const verl_option_t verl_command_work_options[] = {
    VERL_OPTION_OF(STRING, verl_command_work_t, function,
                   "which of the program's stages it is; absent: the one of its own name, or the only one",
                   .optional = true),
    VERL_OPTION_OF(TABLE, verl_command_work_t, options, "options of the program's own", .optional = true),
    VERL_OPTIONS_END
};

static bool
s_is_called(const json_t *stage, const char *name)
{
    const char *called = json_string_value(json_object_get(stage, "name"));
    return called && strcmp(called, name) == 0;
}

const json_t *
verl_command_find(const json_t *said, const char *function, const char *stage, char *error, size_t size)
{
    const json_t *stages = json_object_get(said, "stages");
    size_t count = json_array_size(stages);
    char list[300] = "";
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(stages, i);
        const char *called = json_string_value(json_object_get(item, "name"));
        if (s_is_called(item, *function ? function : stage))
            return item;
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s`%.60s`", used ? ", " : "", called ? called : "?");
    }
    if (!*function && count == 1)
        return json_array_get(stages, 0);
    snprintf(error, size, "the program has no stage `%.100s`: it has %s", *function ? function : stage,
             list[0] ? list : "none");
    return NULL;
}

// "name", "name?", "name:f32[n,*,3]". A kind's other forms hang on options, which are not the program's.
static bool
s_readable(const char *text, bool gives)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
    size_t name = strspn(text, letters);
    const char *rest = text + name;
    if (name == 0 || name > 100)
        return false;
    if (!gives)
        return strcmp(rest, "") == 0 || strcmp(rest, "?") == 0;
    if (*rest != ':')
        return !*rest;
    rest++;
    rest += strspn(rest, " ");
    rest += strspn(rest, "abcdefghijklmnopqrstuvwxyz0123456789");
    return strspn(rest, "[]n,*0123456789 ") == strlen(rest) && strlen(rest) < 50;
}

// Every item of a list of strings to one of the functions below.
static int
s_each(verl_declaration_t *declaration, const json_t *stage, const char *key,
       void (*say)(verl_declaration_t *, const char *))
{
    const json_t *list = json_object_get(stage, key);
    bool gives = say == verl_declare_give;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (text && s_readable(text, gives))
            continue;
        verl_declare_error(declaration, "command", "the program %s '%.100s', which is no column: %s would be right",
                           key, text ? text : "something",
                           gives ? "\"name:f32[n]\" or \"name:text\"" : "\"name\" or \"name?\"");
        return -1;
    }
    if (!json_is_array(list)) {
        verl_declare_error(declaration, "command", "the program does not say in a list what its stage %s", key);
        return -1;
    }
    for (size_t i = 0; i < json_array_size(list); i++)
        say(declaration, json_string_value(json_array_get(list, i)));
    return 0;
}

static int
s_declare_stage(verl_declaration_t *declaration, const json_t *stage)
{
    bool source = json_is_true(json_object_get(stage, "source")), maps = json_is_true(json_object_get(stage, "maps"));
    if (s_each(declaration, stage, "needs", verl_declare_need) ||
        s_each(declaration, stage, "gives", verl_declare_give))
        return -1;
    if (source && !verl_declare_is_source(declaration))
        verl_declare_error(declaration, "depends_on", "the program says that this stage is a source, which depends on "
                           "nothing: leave depends_on out");
    else if (!source && verl_declare_is_source(declaration))
        verl_declare_error(declaration, NULL,
                           "the program says that this stage is given rows, and it depends on nothing "
                           "that gives any: depends_on would be right");
    bool weights = json_is_true(json_object_get(stage, "weights"));
    if (weights && !verl_declare_has_weights(declaration))
        verl_declare_error(declaration, NULL, "the program says that this stage works with published weights: weights = "
                           "the name of a stage that updates some, and a staleness, would be right");
    else if (!weights && verl_declare_has_weights(declaration))
        verl_declare_error(declaration, "weights", "the program says that this stage works without weights: leaving it "
                           "out, or weights=True where the program declares the stage, would be right");
    if (json_is_true(json_object_get(stage, "by_row")))
        verl_declare_by_row(declaration);
    if (maps)
        verl_declare_maps(declaration);
    return 0;
}

static int
s_declare(verl_declaration_t *declaration, const verl_command_t *state, const verl_command_work_t *work, bool keeps)
{
    char error[1000] = "";
    json_t *said = NULL;
    if (verl_command_describe(&state->command, &said, error, sizeof error)) {
        verl_declare_error(declaration, "command", "%s", error);
        return -1;
    }
    const json_t *stage = NULL;
    int failed = 0;
    if (json_integer_value(json_object_get(said, "protocol")) != 1)
        verl_declare_error(declaration, "command",
                           "the program speaks another protocol than 1: a version of its package "
                           "that goes with this one would be right");
    else if (json_is_true(json_object_get(said, "keeps_state")) != keeps)
        verl_declare_error(declaration, "kind", "the program %s: kind = \"%s\" would be right",
                           keeps ? "keeps no state" : "keeps state", keeps ? "command" : "command-state");
    else if (!(stage = verl_command_find(said, work->function, verl_declare_stage(declaration), error, sizeof error)))
        verl_declare_error(declaration, "function", "%s", error);
    else if (verl_command_check_options(json_object_get(stage, "options"), work->options, error, sizeof error))
        verl_declare_error(declaration, "options", "%s", error);
    else
        failed = s_declare_stage(declaration, stage);
    json_decref(said);
    return stage ? failed : -1;
}

int
verl_command_declare(verl_declaration_t *declaration, const void *state, const void *options)
{
    return s_declare(declaration, state, options, false);
}

int
verl_command_declare_stateful(verl_declaration_t *declaration, const void *state, const void *options)
{
    return s_declare(declaration, state, options, true);
}

// Only a runtime that does not know external kinds would call these.
int
verl_command_handle(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out)
{
    (void) in;
    (void) out;
    return verl_fail(stage, "the work of a command is done by its program, which speaks for itself");
}

int
verl_command_keep(verl_stage_t *stage, const char *directory)
{
    return verl_fail(stage, "the state of a command is kept by its program, which %.200s is for", directory);
}
