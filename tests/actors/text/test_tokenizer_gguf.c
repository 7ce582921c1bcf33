// A GGUF file made of a tokenizer.json gives the same ids, the same id space and the chat template; damaged ones do no
// harm.
#include "text_fixture.h"
#include "actors/text/chat.h"
#include <jansson.h>

TestSuite(tokenizer_gguf, .init = fixture_setup, .fini = fixture_teardown, .timeout = 120);

static const char s_template[] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}";

static void
s_put(verl_text_t *file, const void *data, size_t length)
{
    cr_assert_eq(verl_text_add(file, data, length), 0);
}

static void
s_put_u32(verl_text_t *file, uint32_t value)
{
    s_put(file, &value, sizeof value);
}

static void
s_put_string(verl_text_t *file, const char *text, uint64_t length)
{
    s_put(file, &length, sizeof length);
    s_put(file, text, length);
}

// A key with the type of its value: 4 u32, 5 i32, 8 string, 9 list.
static void
s_put_key(verl_text_t *file, const char *key, uint32_t type)
{
    s_put_string(file, key, strlen(key));
    s_put_u32(file, type);
}

static void
s_put_text(verl_text_t *file, const char *key, const char *value)
{
    s_put_key(file, key, 8);
    s_put_string(file, value, strlen(value));
}

static void
s_put_list(verl_text_t *file, const char *key, uint32_t type, uint64_t count)
{
    s_put_key(file, key, 9);
    s_put_u32(file, type);
    s_put(file, &count, sizeof count);
}

// The contents by id and which are added, out of a tokenizer.json.
static void
s_put_tokens(verl_text_t *file, const json_t *root)
{
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab"),
           *added = json_object_get(root, "added_tokens");
    size_t total = json_object_size(vocab) + json_array_size(added), index;
    const char **content = calloc(total, sizeof *content), *key;
    int32_t *type = calloc(total, sizeof *type);
    json_t *value;
    json_object_foreach(vocab, key, value)
    {
        content[json_integer_value(value)] = key;
        type[json_integer_value(value)] = 1;
    }
    json_array_foreach(added, index, value)
    {
        size_t id = (size_t) json_integer_value(json_object_get(value, "id"));
        content[id] = json_string_value(json_object_get(value, "content"));
        type[id] = json_is_true(json_object_get(value, "special")) ? 3 : 4;
    }
    s_put_list(file, "tokenizer.ggml.tokens", 8, total);
    for (size_t id = 0; id < total; id++)
        s_put_string(file, content[id], strlen(content[id]));
    s_put_list(file, "tokenizer.ggml.token_type", 5, total);
    s_put(file, type, total * sizeof *type);
    free(content);
    free(type);
}

static void
s_put_merges(verl_text_t *file, const json_t *merges)
{
    size_t index;
    json_t *merge;
    s_put_list(file, "tokenizer.ggml.merges", 8, json_array_size(merges));
    json_array_foreach(merges, index, merge)
    {
        char both[4096];
        snprintf(both, sizeof both, "%s %s", json_string_value(json_array_get(merge, 0)),
                 json_string_value(json_array_get(merge, 1)));
        s_put_string(file, both, strlen(both));
    }
}

// llama3-small as a GGUF file.
static verl_text_t
s_make(const char *model, const char *pre)
{
    json_t *root = json_load_file(FIXTURES "llama3-small/tokenizer.json", 0, NULL);
    verl_text_t file = { 0 };
    uint64_t counts[2] = { 0, 9 };
    cr_assert(root);
    s_put(&file, "GGUF\3\0\0\0", 8);
    s_put(&file, counts, sizeof counts);
    s_put_text(&file, "general.architecture", "llama");
    s_put_text(&file, "tokenizer.ggml.model", model);
    s_put_text(&file, "tokenizer.ggml.pre", pre);
    s_put_tokens(&file, root);
    s_put_merges(&file, json_object_get(json_object_get(root, "model"), "merges"));
    s_put_key(&file, "tokenizer.ggml.bos_token_id", 4);
    s_put_u32(&file, 1800);
    s_put_key(&file, "tokenizer.ggml.eos_token_id", 4);
    s_put_u32(&file, 1804);
    s_put_text(&file, "tokenizer.chat_template", s_template);
    json_decref(root);
    return file;
}

Test(tokenizer_gguf, it_is_the_same_tokenizer)
{
    static const char text[] = "Hello  world's 12345\n\n你好 😀 café<|eot_id|> x";
    verl_text_t file = s_make("gpt2", "llama-bpe");
    fixture_write("model.gguf", file.data, file.length);
    verl_tokenizer_t *gguf = fixture_open(g_folder), *json = fixture_open(FIXTURES "llama3-small");
    for (unsigned flags = 0; flags < 4; flags++) {
        verl_token_ids_t one = fixture_encode(gguf, text, sizeof text - 1, flags);
        verl_token_ids_t two = fixture_encode(json, text, sizeof text - 1, flags);
        cr_assert_eq(one.count, two.count);
        cr_assert_arr_eq(one.data, two.data, one.count * sizeof *one.data);
        verl_token_ids_done(&one);
        verl_token_ids_done(&two);
    }
    uint64_t one = 1, two = 2;
    char error[1024] = "";
    cr_assert_eq(verl_tokenizer_hash(g_folder, &one, error, sizeof error), 0, "%s", error);
    cr_assert_eq(verl_tokenizer_hash(FIXTURES "llama3-small", &two, error, sizeof error), 0, "%s", error);
    cr_assert_eq(one, two, "the same ids stand for the same tokens, whatever the file");
    cr_assert_eq(verl_tokenizer_bos(gguf), 1800);
    cr_assert_eq(verl_tokenizer_eos(gguf), 1804);
    verl_text_t chat = { 0 };
    static const verl_chat_message_t hi = { .role = "user", .content = "hi" };
    cr_assert_eq(verl_chat_text(gguf, &hi, 1, false, &chat, error, sizeof error), 0, "%s", error);
    cr_assert_str_eq(chat.data, "<user>hi<|eot_id|>");
    verl_text_done(&chat);
    verl_text_done(&file);
    verl_tokenizer_close(&gguf);
    verl_tokenizer_close(&json);
}

// The ids are those of the Python package tokenizers, with llama.cpp's four splits one after the other.
Test(tokenizer_gguf, the_default_cuts_punctuation_first_and_digits_by_threes)
{
    static const char text[] = "Hello, world's 1234567 (x+1)==a~b  12!\n\n";
    static const int32_t expected[] = { 39, 68, 452, 78, 11, 967, 630, 75, 67, 6, 82, 220, 457, 1021, 22,
                                        220, 7, 87, 10, 16, 8, 267, 64, 93, 65, 220, 220, 441, 0, 277 };
    verl_text_t file = s_make("gpt2", "default");
    fixture_write("model.gguf", file.data, file.length);
    verl_tokenizer_t *gguf = fixture_open(g_folder);
    verl_token_ids_t ids = fixture_encode(gguf, text, sizeof text - 1, 0);
    cr_assert_eq(ids.count, sizeof expected / sizeof *expected);
    cr_assert_arr_eq(ids.data, expected, sizeof expected);
    verl_token_ids_done(&ids);
    verl_text_done(&file);
    verl_tokenizer_close(&gguf);
}

Test(tokenizer_gguf, what_is_not_supported_is_named)
{
    static const struct { const char *model, *pre, *named;
    } cases[] = { { "llama", "default", "tokenizer.ggml.model is \"llama\"" },
                  { "gpt2", "nobody-knows", "\"nobody-knows\" is not known" } };
    for (size_t i = 0; i < 2; i++) {
        char error[1024] = "";
        verl_text_t file = s_make(cases[i].model, cases[i].pre);
        const char *path = fixture_write("model.gguf", file.data, file.length);
        cr_assert_eq(verl_tokenizer_check(path, error, sizeof error), -1);
        cr_assert(strstr(error, cases[i].named) && strstr(error, "model.gguf"), "%s", error);
        verl_text_done(&file);
    }
}

// Cut anywhere, or one byte of its first part wrong: a sentence, or a tokenizer; never a crash.
Test(tokenizer_gguf, damage_does_no_harm)
{
    verl_text_t file = s_make("gpt2", "llama-bpe");
    uint32_t state = 99;
    for (size_t trial = 0; trial < 300; trial++) {
        char error[1024] = "", *data = malloc(file.length);
        memcpy(data, file.data, file.length);
        state = state * 1664525 + 1013904223;
        size_t length = trial < 64 ? file.length * trial / 64 : file.length;
        if (trial >= 64)
            data[(state >> 8) % (trial < 180 ? 600 : file.length)] ^= (char) (1u << (state >> 5) % 8);
        const char *path = fixture_write("model.gguf", data, length);
        verl_tokenizer_t *tokenizer = fixture_open(path);
        verl_token_ids_t ids = { 0 };
        int rc = verl_tokenizer_encode(tokenizer, "Hello 123 é", 12, 3, &ids, error, sizeof error);
        cr_assert(rc == 0 || strstr(error, "model.gguf"), "trial %zu: %s", trial, error);
        cr_assert(trial >= 64 || rc == -1, "trial %zu loaded", trial);
        verl_token_ids_done(&ids);
        verl_tokenizer_close(&tokenizer);
        free(data);
    }
    verl_text_done(&file);
}
