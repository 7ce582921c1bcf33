// inject_states.c: the commands that change no topology: pause, resume, list. See inject.h.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/inject.h"

static int
s_ask(const verl_inject_options_t *options, json_t *request, verl_inject_print_t print)
{
    verl_client_t *client = verl_inject_open(options);
    if (!client) {
        json_decref(request);
        return INJECT_FAILED;
    }
    int code = verl_inject_tell(client, options, verl_inject_ask(client, options, request), print);
    verl_inject_close(&client);
    return code;
}

static void __attribute__((format(printf, 1, 2)))
s_say(const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    if (text)
        verl_inject_text(text);
    free(text);
}

static const char *
s_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && *text ? text : "somebody";
}

static json_int_t
s_number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

// --- pause, resume ------------------------------------------------------------------------------------------------

static void
s_print_paused(const json_t *answer)
{
    const char *name = s_text(answer, "name");
    if (json_object_get(answer, "who"))
        s_say("%s was paused before, by %s, for %.0f s: so it stays until verl-inject resume %s", name,
              s_text(answer, "who"), json_number_value(json_object_get(answer, "seconds")), name);
    else
        s_say("%s is paused: it takes no new batch until verl-inject resume %s", name, name);
}

static void
s_print_resumed(const json_t *answer)
{
    s_say("%s goes on", s_text(answer, "name"));
}

static int
s_name(int count, char **words, const verl_inject_options_t *options, verl_inject_print_t print)
{
    if (count != 2)
        return verl_inject_usage(count < 2 ? "%s names no actor" : "%s takes one name at a time", words[0]);
    json_t *request = json_pack("{s:s, s:s, s:s}", "do", words[0], "name", words[1], "who", verl_inject_who());
    return request ? s_ask(options, request, print) : verl_inject_usage("no actor has such a name");
}

int
verl_inject_pause(int count, char **words, const verl_inject_options_t *options)
{
    return s_name(count, words, options, s_print_paused);
}

int
verl_inject_resume(int count, char **words, const verl_inject_options_t *options)
{
    return s_name(count, words, options, s_print_resumed);
}

// --- list ---------------------------------------------------------------------------------------------------------

static void
s_print_change(const json_t *change)
{
    json_int_t at = s_number(change, "at");
    if (at >= 0)
        s_say("a change by %s, from batch %" JSON_INTEGER_FORMAT " on: %s", s_text(change, "who"), at,
              json_is_true(json_object_get(change, "prepares")) ? "it is prepared" : "its turn comes");
    else
        s_say("a change by %s: %s", s_text(change, "who"),
              json_is_true(json_object_get(change, "prepares")) ? "it is prepared" : "its turn comes");
}

static void
s_print_list(const json_t *answer)
{
    size_t i, last = json_array_size(json_object_get(answer, "revisions")) - 1;
    json_t *item;
    json_array_foreach(json_object_get(answer, "revisions"), i, item)
        s_say("revision %" JSON_INTEGER_FORMAT " from batch %" JSON_INTEGER_FORMAT " on%s", s_number(item, "revision"),
              s_number(item, "first"), i == last ? "" : ", until its last batch is done");
    json_array_foreach(json_object_get(answer, "changes"), i, item)
        s_print_change(item);
    json_array_foreach(json_object_get(answer, "paused"), i, item)
        s_say("%s is paused by %s, for %.0f s", s_text(item, "actor"), s_text(item, "who"),
              json_number_value(json_object_get(item, "seconds")));
    if (s_number(answer, "granted") < 0)
        s_say("no batch has a permit yet");
    else
        s_say("%" JSON_INTEGER_FORMAT " batches are done, and batch %" JSON_INTEGER_FORMAT " is the last with a permit",
              s_number(answer, "done"), s_number(answer, "granted"));
}

int
verl_inject_list(int count, char **words, const verl_inject_options_t *options)
{
    if (count != 1)
        return verl_inject_usage("list takes no word such as '%s'", words[1]);
    return s_ask(options, json_pack("{s:s}", "do", "list"), s_print_list);
}
