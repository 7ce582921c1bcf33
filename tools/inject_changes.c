// inject_changes.c: the commands that change a topology: apply, swap, remove, set. All of them are one request, a
// fragment that the run merges into its topology. See inject.h.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/json.h"
#include "tools/inject.h"

typedef struct change {
    const char *path;                       // that mistakes are reported under
    const char *swap;                       // a name; NULL: nothing is swapped
    const char *fragment;
    char *const *words;                     // of the command line, of which its lines were made; NULL: it is a file
    int         words_count;
} change_t;

static json_t *
s_request(const change_t *self, const verl_inject_options_t *options)
{
    json_t *request = json_pack("{s:s, s:s, s:s, s:s, s:b, s:b}", "do", "apply", "fragment",
                                self->fragment, "path", self->path, "who", verl_inject_who(), "plan", options->plan,
                                "now", options->now);
    if (request && options->at >= 0)
        json_object_set_new(request, "at", json_integer(options->at));
    if (request && options->timeout > 0)
        json_object_set_new(request, "timeout", json_real(options->timeout));
    if (request && self->swap)
        json_object_set_new(request, "swap", json_pack("[s]", self->swap));
    return request;
}

// "revision 3 is in force from batch 58 on: replaced mid; mid#3 -> mid#5"
static void
s_print_revision(const json_t *answer, FILE *out)
{
    size_t i;
    json_t *pair, *followers = json_object_get(answer, "followers");
    const char *what = json_string_value(json_object_get(answer, "what"));
    fprintf(out, "revision %" JSON_INTEGER_FORMAT " is in force from batch %" JSON_INTEGER_FORMAT " on%s%s",
            json_integer_value(json_object_get(answer, "revision")),
            json_integer_value(json_object_get(answer, "first")), what ? ": " : "", what ? what : "");
    json_array_foreach(followers, i, pair) {
        const char *old = json_string_value(json_array_get(pair, 0)), *new = json_string_value(json_array_get(pair, 1));
        fprintf(out, "%s%s -> %s", i ? ", " : "; ", old ? old : "?", new ? new : "?");
    }
    fputc('\n', out);
}

static void
s_print(const json_t *answer)
{
    char *text = NULL;
    size_t size;
    const char *shown = json_string_value(json_object_get(answer, "text"));
    FILE *out = shown ? NULL : open_memstream(&text, &size);
    if (out) {
        s_print_revision(answer, out);
        fclose(out);
    }
    verl_inject_text(shown ? shown : text ? text : "done");
    free(text);
}

// A mistake is told with the words that it was made of, which stand in no line of a file.
static void
s_name_words(const change_t *self, json_t *answer)
{
    const char *refusal = verl_client_refusal(answer);
    char *text = NULL;
    if (refusal && self->words)
        text = verl_inject_unplaced(refusal, self->path, self->words, self->words_count);
    if (text)
        json_object_set_new(answer, "error", verl_json_text(text));
    free(text);
}

static int
s_make(const change_t *self, const verl_inject_options_t *options)
{
    json_t *request = s_request(self, options);
    if (!request)
        return verl_inject_usage("what it says is not UTF-8");
    verl_client_t *client = verl_inject_open(options);
    if (!client) {
        json_decref(request);
        return INJECT_FAILED;
    }
    json_t *answer = verl_inject_ask(client, options, request);
    s_name_words(self, answer);
    int code = verl_inject_tell(client, options, answer, s_print);
    verl_inject_close(&client);
    return code;
}

// A fragment under way: lines of TOML, or what was wrong with the first that is none, which is told.
typedef struct lines {
    char  *text;
    size_t size;
    FILE  *out;
    int    code;                            // INJECT_DONE: nothing is wrong so far
} lines_t;

static void
s_add_line(lines_t *self, const char *section, const char *assignment)
{
    verl_error_t error = { "" };
    if (!self->out)
        self->out = open_memstream(&self->text, &self->size);
    char *line = self->code ? NULL : verl_inject_line(section, assignment, &error);
    if (line && self->out)
        fputs(line, self->out);
    else if (!self->code)
        self->code = verl_inject_usage("%s", self->out ? error.text : "out of memory");
    free(line);
}

// Takes the lines.
static int
s_make_lines(lines_t *self, change_t *change, const verl_inject_options_t *options)
{
    if (self->out && fclose(self->out) && !self->code)
        self->code = verl_inject_failed("out of memory");
    change->fragment = self->text ? self->text : "";
    int code = self->code ? self->code : s_make(change, options);
    free(self->text);
    return code;
}

// "stage" or "actor"; NULL, told: there is no such name.
static const char *
s_section(const json_t *names, const char *name, const verl_inject_options_t *options)
{
    verl_error_t error = { "" };
    const char *section = verl_inject_section(names, name, &error);
    if (!section)
        verl_inject_refused(options, json_pack("{s:o}", "error", verl_json_text(error.text)));
    return section;
}

// --- the commands -------------------------------------------------------------------------------------------------

int
verl_inject_apply(int count, char **words, const verl_inject_options_t *options)
{
    verl_error_t error = { "" };
    char whole[PATH_MAX];
    if (count != 2)
        return verl_inject_usage(count < 2 ? "apply names no fragment: a file, or - for standard input"
                                           : "apply takes one fragment at a time");
    bool standard = strcmp(words[1], "-") == 0;
    char *text = verl_inject_read(words[1], &error);
    if (!text)
        return verl_inject_failed("%s", error.text);
    change_t change = { .path = standard ? "standard input" : realpath(words[1], whole) ? whole : words[1],
                        .fragment = text };
    int code = s_make(&change, options);
    free(text);
    return code;
}

int
verl_inject_swap(int count, char **words, const verl_inject_options_t *options)
{
    char section[300];
    lines_t lines = { 0 };
    if (count < 2)
        return verl_inject_usage("swap names no actor");
    const char *name = verl_inject_bare(words[1]);
    change_t change = { .path = "swap", .swap = name, .words = words + 2, .words_count = count - 2 };
    json_t *names = verl_inject_names(options);
    const char *kind = names ? s_section(names, name, options) : NULL;
    snprintf(section, sizeof section, "%s.%.200s", kind ? kind : "", name);
    for (int i = 2; kind && i < count; i++)
        s_add_line(&lines, section, words[i]);
    json_decref(names);
    return kind ? s_make_lines(&lines, &change, options) : INJECT_FAILED;
}

int
verl_inject_remove(int count, char **words, const verl_inject_options_t *options)
{
    if (count != 2)
        return verl_inject_usage(count < 2 ? "remove names no stage or actor" : "remove takes one name at a time");
    const char *name = verl_inject_bare(words[1]);
    json_t *names = verl_inject_names(options);
    bool known = names && s_section(names, name, options);
    char *text = known ? verl_inject_unset(names, words[1]) : NULL;
    json_decref(names);
    if (!known)
        return INJECT_FAILED;
    change_t change = { .path = "remove", .fragment = text, .words = words + 1, .words_count = 1 };
    int code = text ? s_make(&change, options) : verl_inject_failed("out of memory");
    free(text);
    return code;
}

// Does a key say itself where it belongs?
static bool
s_is_whole(const char *assignment)
{
    static const char *const sections[] = { "stage.", "actor.", "run.", "mesh." };
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (strncmp(assignment, sections[i], strlen(sections[i])) == 0)
            return true;
    return false;
}

// "lr=1e-5" of "update.lr=1e-5", or of "\"update\".lr=1e-5", goes to the section of `update`. False, told: there is no
// such name.
static bool
s_add_short(lines_t *lines, const json_t *names, const char *assignment, const verl_inject_options_t *options)
{
    const char *quote = *assignment == '"' || *assignment == '\'' ? strchr(assignment + 1, *assignment) : NULL;
    char *name = quote ? strndup(assignment + 1, (size_t) (quote - assignment - 1))
                       : strndup(assignment, strcspn(assignment, "."));
    const char *section = name ? s_section(names, name, options) : NULL;
    if (section)
        s_add_line(lines, section, assignment);
    free(name);
    return section != NULL;
}

int
verl_inject_set(int count, char **words, const verl_inject_options_t *options)
{
    lines_t lines = { 0 };
    bool shortened = false, known = true;
    if (count < 2)
        return verl_inject_usage("set names no key: stage.update.lr=1e-5 would be right");
    for (int i = 1; i < count; i++) {
        const char *equals = strchr(words[i], '='), *dot = strchr(words[i], '.');
        if (!equals || !dot || dot > equals)
            return verl_inject_usage("'%s' is not of the form NAME.KEY=VALUE: stage.update.lr=1e-5 would be right",
                                     words[i]);
        shortened |= !s_is_whole(words[i]);
    }
    json_t *names = shortened ? verl_inject_names(options) : NULL;
    known = !shortened || names;
    for (int i = 1; known && i < count; i++)
        if (s_is_whole(words[i]))
            s_add_line(&lines, "", words[i]);
        else
            known = s_add_short(&lines, names, words[i], options);
    json_decref(names);
    change_t change = { .path = "set", .words = words + 1, .words_count = count - 1 };
    if (!known)
        lines.code = INJECT_FAILED;
    return s_make_lines(&lines, &change, options);
}
