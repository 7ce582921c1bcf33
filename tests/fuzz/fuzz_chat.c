// fuzz_chat.c: a chat template, run on three messages: it writes, or fails with a sentence.
#include "actors/text/jinja.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static verl_jinja_string_t
s_key(const char *name)
{
    return (verl_jinja_string_t) { name, strlen(name) };
}

static void
s_message(verl_jinja_arena_t *arena, verl_jinja_value_t *ret, const char *role, const char *content)
{
    verl_jinja_dict_t *dict = verl_jinja_arena_take(arena, sizeof *dict);
    if (!dict || verl_jinja_dict_set(dict, arena, s_key("role"), verl_jinja_string(role, strlen(role)))
        || verl_jinja_dict_set(dict, arena, s_key("content"), verl_jinja_string(content, strlen(content))))
        abort();
    *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_DICT, .dict = dict };
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[1024] = "";
    verl_jinja_arena_t arena = { .limit = 1 << 20 };
    verl_jinja_dict_t variables = { 0 };
    verl_jinja_value_t items[3], list = { .kind = VERL_JINJA_LIST, .items = items, .count = 3 };
    verl_text_t out = { 0 };
    s_message(&arena, &items[0], "system", "Be brief.");
    s_message(&arena, &items[1], "user", "  2+2? \xE4\xBD\xA0 ");
    s_message(&arena, &items[2], "assistant", "<think>\nsum\n</think>\n\n4");
    if (verl_jinja_dict_set(&variables, &arena, s_key("messages"), list)
        || verl_jinja_dict_set(&variables, &arena, s_key("bos_token"), verl_jinja_string("<s>", 3)))
        abort();
    verl_jinja_t *template = verl_jinja_parse((const char *) data, size, "fuzz", error, sizeof error);
    if (template ? verl_jinja_run(template, &variables, &out, error, sizeof error) != 0 : true)
        if (!error[0] || out.length)
            abort();
    verl_jinja_destroy(&template);
    verl_jinja_arena_done(&arena);
    verl_text_done(&out);
    return 0;
}
