// chat.c: gives a chat template the variables that the reference gives it, and encodes what comes out.
#include "actors/text/chat.h"
#include "actors/text/source.h"
#include "actors/text/jinja.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_LIMIT = 256 * 1024 * 1024, DEEPEST = 50 };

// What can be wrong with the variables, and how it is said.
enum { NO_MEMORY = 1, TOO_DEEP };
static const char *const s_wrong[] = {
    [NO_MEMORY] = "too many messages for the memory",
    [TOO_DEEP] = "a message is nested too deep",
};

static verl_jinja_string_t
s_key(const char *name)
{
    return (verl_jinja_string_t) { name, strlen(name) };
}

// A special token under its name; a model without one leaves the name undefined.
static int
s_add_special(verl_jinja_dict_t *variables, verl_jinja_arena_t *arena, verl_tokenizer_t *tokenizer, const char *name,
              int32_t id)
{
    size_t length = 0;
    const char *content = verl_tokenizer_id_to_token(tokenizer, id, &length);
    return content ? verl_jinja_dict_set(variables, arena, s_key(name), verl_jinja_string(content, length)) : 0;
}

static int s_from_json(verl_jinja_arena_t *arena, const json_t *json, int depth, verl_jinja_value_t *ret);

static int
s_from_array(verl_jinja_arena_t *arena, const json_t *json, int depth, verl_jinja_value_t *ret)
{
    size_t count = json_array_size(json);
    *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_LIST, .count = count };
    ret->items = verl_jinja_arena_take(arena, (count + 1) * sizeof *ret->items);
    int rc = ret->items ? 0 : NO_MEMORY;
    for (size_t i = 0; i < count && !rc; i++)
        rc = s_from_json(arena, json_array_get(json, i), depth + 1, &ret->items[i]);
    return rc;
}

static int
s_from_object(verl_jinja_arena_t *arena, const json_t *json, int depth, verl_jinja_value_t *ret)
{
    const char *key;
    size_t length;
    json_t *member;
    *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_DICT };
    ret->dict = verl_jinja_arena_take(arena, sizeof *ret->dict);
    int rc = ret->dict ? 0 : NO_MEMORY;
    json_object_keylen_foreach((json_t *) (uintptr_t) json, key, length, member) {
        verl_jinja_value_t value;
        rc = rc ? rc : s_from_json(arena, member, depth + 1, &value);
        if (!rc && verl_jinja_dict_set(ret->dict, arena, (verl_jinja_string_t) { key, length }, value))
            rc = NO_MEMORY;
    }
    return rc;
}

// A real as Python writes it: the fewest digits that bring it back; with an exponent below 1e-4 and from 1e16 on.
static void
s_write_real(double real, char text[40])
{
    int digits = 0;
    do
        snprintf(text, 40, "%.*e", digits, real);
    while (strtod(text, NULL) != real && digits++ < 17);
    int power = atoi(strchr(text, 'e') + 1);
    if (power >= -4 && power < 16)
        snprintf(text, 40, "%.*f", digits > power ? digits - power : 1, real);
}

// Templates calculate with integers up to 2^53; what else is a number can be written.
static int
s_from_number(verl_jinja_arena_t *arena, const json_t *json, verl_jinja_value_t *ret)
{
    const int64_t most = (int64_t) 1 << 53;
    int64_t integer = json_integer_value(json);
    char text[40];
    *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_INT, .integer = integer };
    if (json_is_integer(json) && integer <= most && integer >= -most)
        return 0;
    if (json_is_integer(json))
        snprintf(text, sizeof text, "%" PRId64, integer);
    else
        s_write_real(json_real_value(json), text);
    char *copy = verl_jinja_arena_take(arena, sizeof text);
    if (!copy)
        return NO_MEMORY;
    memcpy(copy, text, sizeof text);
    *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_NUMBER, .string = { copy, strlen(copy) } };
    return 0;
}

// A value of JSON as one of the template; strings stay where they are.
static int
s_from_json(verl_jinja_arena_t *arena, const json_t *json, int depth, verl_jinja_value_t *ret)
{
    if (depth > DEEPEST)
        return TOO_DEEP;
    switch (json_typeof(json)) {
    case JSON_STRING: *ret = verl_jinja_string(json_string_value(json), json_string_length(json)); return 0;
    case JSON_ARRAY:  return s_from_array(arena, json, depth, ret);
    case JSON_OBJECT: return s_from_object(arena, json, depth, ret);
    case JSON_NULL:   *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_NONE }; return 0;
    case JSON_REAL: case JSON_INTEGER: return s_from_number(arena, json, ret);
    default: *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_BOOL, .integer = json_is_true(json) }; return 0;
    }
}

static int
s_from_message(verl_jinja_arena_t *arena, const verl_chat_message_t *message, verl_jinja_value_t *ret)
{
    if (message->whole)
        return s_from_json(arena, message->whole, 0, ret);
    *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_DICT, .dict = verl_jinja_arena_take(arena, sizeof *ret->dict) };
    return !ret->dict
                   || verl_jinja_dict_set(ret->dict, arena, s_key("role"),
                                          verl_jinja_string(message->role, strlen(message->role)))
                   || verl_jinja_dict_set(ret->dict, arena, s_key("content"),
                                          verl_jinja_string(message->content, strlen(message->content)))
               ? NO_MEMORY : 0;
}

static int
s_add_messages(verl_jinja_dict_t *variables, verl_jinja_arena_t *arena, const verl_chat_message_t *messages,
               size_t count)
{
    verl_jinja_value_t list = { .kind = VERL_JINJA_LIST, .count = count };
    list.items = verl_jinja_arena_take(arena, (count + 1) * sizeof *list.items);
    int rc = list.items ? 0 : NO_MEMORY;
    for (size_t i = 0; i < count && !rc; i++)
        rc = s_from_message(arena, &messages[i], &list.items[i]);
    return rc ? rc : verl_jinja_dict_set(variables, arena, s_key("messages"), list) ? NO_MEMORY : 0;
}

// 0, or what is wrong.
static int
s_variables(verl_jinja_dict_t *variables, verl_jinja_arena_t *arena, verl_tokenizer_t *tokenizer,
            const verl_chat_message_t *messages, size_t count, bool generation_prompt)
{
    verl_jinja_value_t none = { .kind = VERL_JINJA_NONE };
    verl_jinja_value_t prompt = { .kind = VERL_JINJA_BOOL, .integer = generation_prompt };
    int rc = s_add_messages(variables, arena, messages, count);
    if (rc)
        return rc;
    rc = verl_jinja_dict_set(variables, arena, s_key("add_generation_prompt"), prompt)
         || verl_jinja_dict_set(variables, arena, s_key("tools"), none)
         || verl_jinja_dict_set(variables, arena, s_key("documents"), none);
    for (verl_named_token_t name = 0; name < VERL_NAMED_TOKENS && !rc; name++)
        rc = s_add_special(variables, arena, tokenizer, verl_named_tokens[name], verl_tokenizer_named(tokenizer, name));
    return rc ? NO_MEMORY : 0;
}

// The template, parsed, and where it stands. NULL with a sentence.
static verl_jinja_t *
s_template(verl_tokenizer_t *tokenizer, char where[512], char *error, size_t error_size)
{
    size_t length;
    if (verl_tokenizer_load(tokenizer, error, error_size))
        return NULL;
    const char *source = verl_tokenizer_chat_template(tokenizer, &length);
    const char *path = verl_tokenizer_path(tokenizer), *file = verl_tokenizer_chat_file(tokenizer);
    const char *name = file ? strrchr(path, '/') : NULL;
    if (!source) {
        verl_text_fail(error, error_size,
                       "%s: has no chat template; messages need a model that was trained on a "
                       "conversation format, or template = \"none\" with a text",
                       path);
        return NULL;
    }
    snprintf(where, 512, "%.*s%s: chat template", file ? (int) (name ? name + 1 - path : 0) : (int) strlen(path), path,
             file ? file : "");
    return verl_jinja_parse(source, length, where, error, error_size);
}

int
verl_chat_check(verl_tokenizer_t *tokenizer, char *error, size_t error_size)
{
    char where[512];
    verl_jinja_t *template = s_template(tokenizer, where, error, error_size);
    int rc = template ? 0 : -1;
    verl_jinja_destroy(&template);
    return rc;
}

int
verl_chat_text(verl_tokenizer_t *tokenizer, const verl_chat_message_t *messages, size_t count, bool generation_prompt,
               verl_text_t *text, char *error, size_t error_size)
{
    char where[512];
    verl_jinja_t *template = s_template(tokenizer, where, error, error_size);
    if (!template)
        return -1;
    verl_jinja_arena_t arena = { .limit = ARENA_LIMIT };
    verl_jinja_dict_t variables = { 0 };
    int wrong = s_variables(&variables, &arena, tokenizer, messages, count, generation_prompt);
    int rc = wrong ? verl_text_fail(error, error_size, "%s: %s", where, s_wrong[wrong])
                   : verl_jinja_run(template, &variables, text, error, error_size);
    verl_jinja_arena_done(&arena);
    verl_jinja_destroy(&template);
    return rc;
}

int
verl_chat_encode(verl_tokenizer_t *tokenizer, const verl_chat_message_t *messages, size_t count, bool generation_prompt,
                 verl_token_ids_t *ids, char *error, size_t error_size)
{
    verl_text_t text = { 0 };
    int rc = verl_chat_text(tokenizer, messages, count, generation_prompt, &text, error, error_size);
    if (!rc)
        rc = verl_tokenizer_encode(tokenizer, text.data ? text.data : "", text.length, VERL_TOKENIZER_PARSE_SPECIAL,
                                   ids, error, error_size);
    verl_text_done(&text);
    return rc;
}
