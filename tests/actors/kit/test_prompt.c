// test_prompt.c: ids of prompts and responses, with and without the chat template.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "actors/kit/prompt.h"

#define ADDITION "topologies/models/addition-init"
#define OTHER    "tests/fixtures/tokenizers/gpt2-small"

static char s_error[1024];

static void
s_open(verl_prompter_t *self, const char *path)
{
    cr_assert_eq(verl_prompter_init(self, path, s_error, sizeof s_error), 0, "%s", s_error);
}

Test(prompt, text_is_taken_as_it_is)
{
    verl_prompter_t prompter;
    verl_token_ids_t ids = { 0 };
    const int32_t expected[] = { 2, 3, 11, 4, 5, 12 };
    s_open(&prompter, ADDITION);
    cr_assert_eq(verl_prompter_encode(&prompter, VERL_TEMPLATE_NONE, "12+34=", 6, &ids, s_error, sizeof s_error), 0,
                 "%s", s_error);
    cr_assert_eq(ids.count, 6);
    cr_assert_arr_eq(ids.data, expected, sizeof expected);
    verl_token_ids_done(&ids);
    verl_prompter_done(&prompter);
}

Test(prompt, a_response_ends_with_the_stop_token_once)
{
    verl_prompter_t prompter;
    s_open(&prompter, ADDITION);
    const char *const texts[] = { "46", "46<eos>", "" };
    const size_t counts[] = { 3, 3, 1 };
    for (int i = 0; i < 3; i++) {
        verl_token_ids_t ids = { 0 };
        cr_assert_eq(verl_prompter_encode_response(&prompter, texts[i], strlen(texts[i]), -1, &ids, s_error,
                                                   sizeof s_error), 0, "%s", s_error);
        cr_assert_eq(ids.count, counts[i], "%s: %zu ids", texts[i], ids.count);
        cr_assert_eq(ids.data[ids.count - 1], 13);
        verl_token_ids_done(&ids);
    }
    verl_prompter_done(&prompter);
}

// As a user writes it, and as the file has it; a text of several tokens is none.
Test(prompt, a_stop_is_one_token)
{
    verl_tokenizer_t *tokenizer = verl_tokenizer_open(OTHER, s_error, sizeof s_error);
    cr_assert(tokenizer, "%s", s_error);
    int32_t newline = verl_prompter_one_token(tokenizer, "\n");
    cr_assert_geq(newline, 0);
    cr_assert_eq(verl_prompter_one_token(tokenizer, "\u010a"), newline);
    cr_assert_eq(verl_prompter_one_token(tokenizer, "<|endoftext|>"), 0);
    cr_assert_eq(verl_prompter_one_token(tokenizer, "two lines\n"), -1);
    cr_assert_eq(verl_prompter_one_token(tokenizer, ""), -1);
    verl_tokenizer_close(&tokenizer);
}

// The addition tokenizer with a chat template: `what` of every message between + and =, the assistant begins with ==.
static void
s_make_chat(char *directory, const char *what)
{
    char path[128];
    cr_assert(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/tokenizer_config.json", directory);
    FILE *file = fopen(path, "w");
    cr_assert(file);
    fprintf(file, "{\"eos_token\": \"<eos>\", \"chat_template\": \"{%% for m in messages %%}+{{ %s }}={%% endfor %%}"
            "{%% if add_generation_prompt %%}=={%% endif %%}\"}\n", what);
    fclose(file);
    snprintf(path, sizeof path, "%s/tokenizer.json", directory);
    cr_assert_eq(symlink(VERL_SOURCE_DIR "/" ADDITION "/tokenizer.json", path), 0);
}

static void
s_remove_chat(const char *directory)
{
    char path[128];
    snprintf(path, sizeof path, "%s/tokenizer.json", directory);
    cr_assert_eq(unlink(path), 0);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", directory);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(rmdir(directory), 0);
}

Test(prompt, a_chat_is_a_list_of_messages_or_one_text_of_the_user)
{
    verl_prompter_t prompter;
    char directory[] = "/tmp/verl-prompt-XXXXXX";
    s_make_chat(directory, "m['content']");
    s_open(&prompter, directory);
    const char *const prompts[] = {
        "12", "[{\"role\": \"user\", \"content\": \"12\"}]",
        "[{\"role\": \"system\", \"content\": \"0\"}, {\"role\": \"user\", \"content\": \"12\"}]"
    };
    const int32_t expected[] = { 11, 2, 3, 12, 12, 12 }, two[] = { 11, 1, 12, 11, 2, 3, 12, 12, 12 };
    for (int i = 0; i < 3; i++) {
        verl_token_ids_t ids = { 0 };
        cr_assert_eq(verl_prompter_encode(&prompter, VERL_TEMPLATE_CHAT, prompts[i], strlen(prompts[i]), &ids, s_error,
                                          sizeof s_error), 0, "%s", s_error);
        cr_assert_eq(ids.count, i < 2 ? 6 : 9);
        cr_assert_arr_eq(ids.data, i < 2 ? expected : two, ids.count * sizeof *ids.data);
        verl_token_ids_done(&ids);
    }
    verl_token_ids_t ids = { 0 };
    cr_assert_eq(verl_prompter_encode(&prompter, VERL_TEMPLATE_CHAT, "[{\"role\": 3}]", 13, &ids, s_error,
                                      sizeof s_error), -1);
    cr_assert(strstr(s_error, "role"), "%s", s_error);
    verl_token_ids_done(&ids);
    verl_prompter_done(&prompter);
    s_remove_chat(directory);
}

Test(prompt, messages_without_a_template_are_refused)
{
    verl_prompter_t prompter;
    verl_token_ids_t ids = { 0 };
    static const char messages[] = " [{\"role\": \"user\", \"content\": \"12\"}]", other[] = "[{\"a\": 1}]";
    s_open(&prompter, ADDITION);
    cr_assert_eq(verl_prompter_encode(&prompter, VERL_TEMPLATE_NONE, messages, strlen(messages), &ids, s_error,
                                      sizeof s_error), -1);
    cr_assert_str_eq(s_error, "the prompts are messages: template = \"chat\" would be right");
    cr_assert_eq(verl_prompter_encode(&prompter, VERL_TEMPLATE_NONE, other, strlen(other), &ids, s_error,
                                      sizeof s_error), 0, "%s", s_error);
    verl_token_ids_done(&ids);
    verl_prompter_done(&prompter);
}

Test(prompt, a_nul_in_a_message_is_refused)
{
    verl_prompter_t prompter;
    verl_token_ids_t ids = { 0 };
    char directory[] = "/tmp/verl-prompt-XXXXXX";
    s_make_chat(directory, "m['content']");
    s_open(&prompter, directory);
    cr_assert_eq(verl_prompter_encode(&prompter, VERL_TEMPLATE_CHAT, "1\0" "2", 3, &ids, s_error, sizeof s_error), -1);
    cr_assert(strstr(s_error, "a NUL at byte 1"), "%s", s_error);
    cr_assert_eq(ids.count, 0);
    verl_token_ids_done(&ids);
    verl_prompter_done(&prompter);
    s_remove_chat(directory);
}

Test(prompt, other_keys_of_a_message_reach_the_template)
{
    verl_prompter_t prompter;
    verl_token_ids_t ids = { 0 };
    char directory[] = "/tmp/verl-prompt-XXXXXX";
    static const char messages[] = "[{\"role\": \"user\", \"content\": \"1\", \"name\": \"2\"}]";
    const int32_t expected[] = { 11, 3, 12, 12, 12 };
    s_make_chat(directory, "m['name']");
    s_open(&prompter, directory);
    cr_assert_eq(verl_prompter_encode(&prompter, VERL_TEMPLATE_CHAT, messages, strlen(messages), &ids, s_error,
                                      sizeof s_error), 0, "%s", s_error);
    cr_assert_eq(ids.count, 5);
    cr_assert_arr_eq(ids.data, expected, sizeof expected);
    verl_token_ids_done(&ids);
    verl_prompter_done(&prompter);
    s_remove_chat(directory);
}

Test(prompt, a_tokenizer_without_a_template_says_so)
{
    verl_prompter_t prompter;
    verl_token_ids_t ids = { 0 };
    s_open(&prompter, ADDITION);
    cr_assert_eq(verl_prompter_encode(&prompter, VERL_TEMPLATE_CHAT, "1+1=", 4, &ids, s_error, sizeof s_error), -1);
    cr_assert(strstr(s_error, "template"), "%s", s_error);
    verl_token_ids_done(&ids);
    verl_prompter_done(&prompter);
}

Test(prompt, two_copies_of_a_tokenizer_are_one_space)
{
    char a[VERL_SPACE_SIZE], b[VERL_SPACE_SIZE], c[VERL_SPACE_SIZE];
    cr_assert_eq(verl_prompter_space(ADDITION, a, s_error, sizeof s_error), 0, "%s", s_error);
    cr_assert_eq(verl_prompter_space(ADDITION "/tokenizer.json", b, s_error, sizeof s_error), 0, "%s", s_error);
    cr_assert_eq(verl_prompter_space(OTHER, c, s_error, sizeof s_error), 0, "%s", s_error);
    cr_assert_str_eq(a, b);
    cr_assert_str_neq(a, c);
    cr_assert_eq(verl_prompter_space("no/such/place", c, s_error, sizeof s_error), -1);
}
