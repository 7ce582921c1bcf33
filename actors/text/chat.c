// chat.c: gives a chat template the variables that the reference gives it, and encodes what comes out.
#include "actors/text/chat.h"
#include "actors/text/source.h"
#include "actors/text/jinja.h"
#include <stdio.h>
#include <string.h>

enum { ARENA_LIMIT = 256 * 1024 * 1024 };

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

static int
s_add_messages(verl_jinja_dict_t *variables, verl_jinja_arena_t *arena, const verl_chat_message_t *messages,
               size_t count)
{
    verl_jinja_value_t list = { .kind = VERL_JINJA_LIST, .count = count };
    list.items = verl_jinja_arena_take(arena, (count + 1) * sizeof *list.items);
    for (size_t i = 0; i < count && list.items; i++) {
        verl_jinja_dict_t *message = verl_jinja_arena_take(arena, sizeof *message);
        if (!message ||
            verl_jinja_dict_set(message, arena, s_key("role"),
                                verl_jinja_string(messages[i].role, strlen(messages[i].role))) ||
            verl_jinja_dict_set(message, arena, s_key("content"),
                                verl_jinja_string(messages[i].content, strlen(messages[i].content))))
            return -1;
        list.items[i] = (verl_jinja_value_t) { .kind = VERL_JINJA_DICT, .dict = message };
    }
    return list.items ? verl_jinja_dict_set(variables, arena, s_key("messages"), list) : -1;
}

static int
s_variables(verl_jinja_dict_t *variables, verl_jinja_arena_t *arena, verl_tokenizer_t *tokenizer,
            const verl_chat_message_t *messages, size_t count, bool generation_prompt)
{
    verl_jinja_value_t none = { .kind = VERL_JINJA_NONE };
    verl_jinja_value_t prompt = { .kind = VERL_JINJA_BOOL, .integer = generation_prompt };
    return s_add_messages(variables, arena, messages, count)
           || verl_jinja_dict_set(variables, arena, s_key("add_generation_prompt"), prompt)
           || verl_jinja_dict_set(variables, arena, s_key("tools"), none)
           || verl_jinja_dict_set(variables, arena, s_key("documents"), none)
           || s_add_special(variables, arena, tokenizer, "bos_token", verl_tokenizer_bos(tokenizer))
           || s_add_special(variables, arena, tokenizer, "eos_token", verl_tokenizer_eos(tokenizer))
           || s_add_special(variables, arena, tokenizer, "pad_token", verl_tokenizer_pad(tokenizer));
}

int
verl_chat_text(verl_tokenizer_t *tokenizer, const verl_chat_message_t *messages, size_t count, bool generation_prompt,
               verl_text_t *text, char *error, size_t error_size)
{
    char where[512];
    size_t length;
    if (verl_tokenizer_load(tokenizer, error, error_size))
        return -1;
    const char *source = verl_tokenizer_chat_template(tokenizer, &length);
    const char *path = verl_tokenizer_path(tokenizer);
    if (!source)
        return verl_text_fail(error, error_size,
                              "%s: has no chat template; messages need a model that was trained on a "
                              "conversation format, or template = \"none\" with a text",
                              path);
    snprintf(where, sizeof where, "%s: chat template", path);
    verl_jinja_t *template = verl_jinja_parse(source, length, where, error, error_size);
    if (!template)
        return -1;
    verl_jinja_arena_t arena = { .limit = ARENA_LIMIT };
    verl_jinja_dict_t variables = { 0 };
    int rc = s_variables(&variables, &arena, tokenizer, messages, count, generation_prompt)
                 ? verl_text_fail(error, error_size, "%s: too many messages for the memory", where)
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
