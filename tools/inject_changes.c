// inject_changes.c: the commands that change a topology: apply, swap, remove, set. All of them are one request, a
// fragment that the run merges into its topology. See inject.h.
//
// A name on the command line may be a stage's or an actor's, and a topology has its keys under [stage.*] or [actor.*].
// Each way of writing a short form down is shown to the run first, and the first that is right is applied.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/inject.h"

#define WAYS 4                              // to write one thing down

typedef struct change {
    const char *path;                       // that mistakes are reported under
    const char *swap;                       // a name; NULL: nothing is swapped
    int         ways;
    char       *fragments[WAYS];
} change_t;

static void
s_done(change_t *self)
{
    for (int i = 0; i < self->ways; i++)
        free(self->fragments[i]);
}

static json_t *
s_request(const change_t *self, const verl_inject_options_t *options, const char *fragment, bool plan)
{
    json_t *request = json_pack("{s:s, s:s, s:s, s:s, s:b, s:b}", "do", "apply", "fragment", fragment, "path",
                                self->path, "who", verl_inject_who(), "plan", plan, "now", options->now);
    if (request && options->at >= 0)
        json_object_set_new(request, "at", json_integer(options->at));
    if (request && options->timeout > 0)
        json_object_set_new(request, "timeout", json_real(options->timeout));
    if (request && self->swap)
        json_object_set_new(request, "swap", json_pack("[s]", self->swap));
    return request;
}

// Which way of writing is right; the first where none is, so that its mistakes are told. -1: the run does not answer.
static int
s_choose(verl_client_t *client, const change_t *self, const verl_inject_options_t *options)
{
    for (int i = 0; self->ways > 1 && i < self->ways; i++) {
        json_t *answer = verl_inject_try(client, s_request(self, options, self->fragments[i], true));
        bool right = answer && !verl_client_refusal(answer);
        json_decref(answer);
        if (!answer || right)
            return answer ? i : -1;
    }
    return 0;
}

// What would change; or "revision 3 is in force from batch 58 on: replaced advantage".
static void
s_print(const json_t *answer)
{
    char *text = NULL;
    const char *shown = json_string_value(json_object_get(answer, "text"));
    const char *what = json_string_value(json_object_get(answer, "what"));
    if (shown)
        verl_inject_text(shown);
    else if (asprintf(&text, "revision %" JSON_INTEGER_FORMAT " is in force from batch %" JSON_INTEGER_FORMAT " on%s%s",
                      json_integer_value(json_object_get(answer, "revision")),
                      json_integer_value(json_object_get(answer, "first")), what ? ": " : "", what ? what : "") >= 0) {
        verl_inject_text(text);
        free(text);
    }
}

static int
s_make(change_t *self, const verl_inject_options_t *options)
{
    verl_client_t *client = verl_inject_open(options);
    if (!client)
        return INJECT_FAILED;
    int way = s_choose(client, self, options), code;
    if (way >= 0) {
        json_t *request = s_request(self, options, self->fragments[way], options->plan);
        code = verl_inject_tell(client, options, verl_inject_ask(client, options, request), s_print);
    } else
        code = verl_client_why(client) == VERL_CLIENT_INTERRUPTED ? INJECT_INTERRUPTED : INJECT_FAILED;
    verl_inject_close(&client);
    return code;
}

// The lines of a fragment: KEY=VALUE words under a section. 0, or -1 with the reason told.
static int
s_add_way(change_t *self, const char *section, int count, char **words)
{
    verl_error_t error = { "" };
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (int i = 0; out && i < count && !error.text[0]; i++) {
        char *line = verl_inject_line(section, words[i], &error);
        fputs(line ? line : "", out);
        free(line);
    }
    if (!out || fclose(out))
        verl_error_set(&error, "out of memory");
    if (!error.text[0]) {
        self->fragments[self->ways++] = text;
        return 0;
    }
    free(text);
    verl_inject_usage("%s", error.text);
    return -1;
}

static int
s_add_text(change_t *self, const char *format, const char *one, const char *two)
{
    char *text = NULL;
    if (asprintf(&text, format, one, two) < 0) {
        verl_inject_failed("out of memory");
        return -1;
    }
    self->fragments[self->ways++] = text;
    return 0;
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
    change_t change = { .path = standard ? "standard input" : realpath(words[1], whole) ? whole : words[1], .ways = 1,
                        .fragments = { text } };
    json_t *utf8 = json_string(text);
    int code = utf8 ? s_make(&change, options) : verl_inject_failed("%s is not UTF-8", words[1]);
    json_decref(utf8);
    s_done(&change);
    return code;
}

int
verl_inject_swap(int count, char **words, const verl_inject_options_t *options)
{
    if (count < 2)
        return verl_inject_usage("swap names no actor");
    change_t change = { .path = "swap", .swap = words[1] };
    char *name = verl_inject_key(words[1]), section[2][300];
    int code = INJECT_WRONG;
    snprintf(section[0], sizeof section[0], "stage.%.200s", name ? name : "");
    snprintf(section[1], sizeof section[1], "actor.%.200s", name ? name : "");
    bool wrong = s_add_way(&change, section[0], count - 2, words + 2) ||
                 (count > 2 && s_add_way(&change, section[1], count - 2, words + 2));
    if (!wrong)
        code = s_make(&change, options);
    free(name);
    s_done(&change);
    return code;
}

int
verl_inject_remove(int count, char **words, const verl_inject_options_t *options)
{
    if (count != 2)
        return verl_inject_usage(count < 2 ? "remove names no stage or actor" : "remove takes one name at a time");
    for (const unsigned char *c = (const unsigned char *) words[1]; *c; c++)
        if (*c < 0x20 || *c == 0x7f || *c == '"' || *c == '\\')
            return verl_inject_usage("no stage or actor has such a name");
    change_t change = { .path = "remove" };
    int code = INJECT_FAILED;
    if (s_add_text(&change, "unset = [\"stage.%s\"]\n", words[1], NULL) == 0 &&
        s_add_text(&change, "unset = [\"stage.%s\", \"actor.%s\"]\n", words[1], words[1]) == 0 &&
        s_add_text(&change, "unset = [\"actor.%s\"]\n", words[1], NULL) == 0)
        code = s_make(&change, options);
    s_done(&change);
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

int
verl_inject_set(int count, char **words, const verl_inject_options_t *options)
{
    if (count < 2)
        return verl_inject_usage("set names no key: stage.update.lr=1e-5 would be right");
    bool whole = true;
    for (int i = 1; i < count; i++) {
        const char *equals = strchr(words[i], '='), *dot = strchr(words[i], '.');
        if (!equals || !dot || dot > equals)
            return verl_inject_usage("'%s' is not of the form NAME.KEY=VALUE: stage.update.lr=1e-5 would be right",
                                     words[i]);
        whole = whole && s_is_whole(words[i]);
    }
    change_t change = { .path = "set" };
    int code = INJECT_WRONG;
    if (s_add_way(&change, whole ? "" : "stage", count - 1, words + 1) == 0 &&
        (whole || s_add_way(&change, "actor", count - 1, words + 1) == 0))
        code = s_make(&change, options);
    s_done(&change);
    return code;
}
