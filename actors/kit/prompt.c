// prompt.c: see prompt.h.
#include "actors/kit/prompt.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "actors/data/messages.h"
#include "actors/text/chat.h"

int
verl_prompter_init(verl_prompter_t *self, const char *path, char *error, size_t error_size)
{
    *self = (verl_prompter_t) { .tokenizer = verl_tokenizer_open(path, error, error_size), .path = strdup(path) };
    if (self->tokenizer && self->path)
        return 0;
    if (self->tokenizer)
        snprintf(error, error_size, "no memory for the path '%s'", path);
    verl_prompter_done(self);
    return -1;
}

void
verl_prompter_done(verl_prompter_t *self)
{
    verl_tokenizer_close(&self->tokenizer);
    free(self->path);
    *self = (verl_prompter_t) { 0 };
}

static int
s_encode_messages(verl_prompter_t *self, const char *text, size_t bytes, verl_token_ids_t *ids, char *error,
                  size_t error_size)
{
    verl_messages_t *messages = verl_messages_parse(text, bytes, error, error_size);
    if (!messages)
        return -1;
    verl_chat_message_t *items = calloc(messages->count + 1, sizeof *items);
    int rc = -1;
    if (!items)
        snprintf(error, error_size, "no memory for %zu messages", messages->count);
    for (size_t i = 0; items && i < messages->count; i++)
        items[i] = (verl_chat_message_t) { messages->items[i].role, messages->items[i].content,
                                           messages->items[i].whole };
    if (items)
        rc = verl_chat_encode(self->tokenizer, items, messages->count, true, ids, error, error_size);
    free(items);
    verl_messages_destroy(&messages);
    return rc;
}

static int
s_encode_chat(verl_prompter_t *self, const char *text, size_t bytes, verl_token_ids_t *ids, char *error,
              size_t error_size)
{
    if (verl_messages_looks_like(text, bytes))
        return s_encode_messages(self, text, bytes, ids, error, error_size);
    const char *nul = bytes ? memchr(text, 0, bytes) : NULL;
    char *copy = nul ? NULL : malloc(bytes + 1);
    if (!copy) {
        if (nul)
            snprintf(error, error_size, "the prompt has a NUL at byte %td, and a message is text without: a prompt "
                     "without it, or template = \"none\", would be right", nul - text);
        else
            snprintf(error, error_size, "no memory for a prompt of %zu bytes", bytes);
        return -1;
    }
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    verl_chat_message_t message = { .role = "user", .content = copy };
    int rc = verl_chat_encode(self->tokenizer, &message, 1, true, ids, error, error_size);
    free(copy);
    return rc;
}

// Messages that no template is asked to write would be read as the JSON that they are kept as.
static bool
s_are_messages(const char *text, size_t bytes)
{
    char error[256];
    verl_messages_t *messages =
        verl_messages_looks_like(text, bytes) ? verl_messages_parse(text, bytes, error, sizeof error) : NULL;
    bool are = messages;
    verl_messages_destroy(&messages);
    return are;
}

int
verl_prompter_encode(verl_prompter_t *self, int template_choice, const char *text, size_t bytes,
                     verl_token_ids_t *ids, char *error, size_t error_size)
{
    if (template_choice == VERL_TEMPLATE_CHAT)
        return s_encode_chat(self, text, bytes, ids, error, error_size);
    if (s_are_messages(text, bytes)) {
        snprintf(error, error_size, "%s", VERL_PROMPTS_ARE_MESSAGES);
        return -1;
    }
    return verl_tokenizer_encode(self->tokenizer, text, bytes,
                                 VERL_TOKENIZER_ADD_SPECIAL | VERL_TOKENIZER_PARSE_SPECIAL, ids, error, error_size);
}

int
verl_prompter_encode_response(verl_prompter_t *self, const char *text, size_t bytes, int32_t stop,
                              verl_token_ids_t *ids, char *error, size_t error_size)
{
    size_t before = ids->count;
    if (verl_tokenizer_encode(self->tokenizer, text, bytes, VERL_TOKENIZER_PARSE_SPECIAL, ids, error, error_size) != 0)
        return -1;
    if (stop < 0)
        stop = verl_tokenizer_eos(self->tokenizer);
    if (stop < 0 || (ids->count > before && ids->data[ids->count - 1] == stop))
        return 0;
    if (verl_token_ids_add(ids, stop) == 0)
        return 0;
    snprintf(error, error_size, "no memory for the ids of a response");
    return -1;
}

int32_t
verl_prompter_one_token(verl_tokenizer_t *tokenizer, const char *text)
{
    size_t length = strlen(text), have;
    int32_t id = verl_tokenizer_token_to_id(tokenizer, text, length);
    int64_t count = id < 0 && length > 0 ? verl_tokenizer_vocab_size(tokenizer) : 0;
    for (int32_t other = 0; id < 0 && other < count; other++) {
        const char *bytes = verl_tokenizer_token_bytes(tokenizer, other, &have);
        if (bytes && have == length && memcmp(bytes, text, length) == 0)
            id = other;
    }
    return id;
}

bool
verl_prompter_has_template(const char *path)
{
    char error[1024];
    size_t length;
    verl_tokenizer_t *tokenizer = verl_tokenizer_open(path, error, sizeof error);
    bool has = tokenizer && verl_tokenizer_chat_template(tokenizer, &length);
    verl_tokenizer_close(&tokenizer);
    return has;
}

int
verl_prompter_check_template(const char *path, char *error, size_t error_size)
{
    size_t length;
    verl_tokenizer_t *tokenizer = verl_tokenizer_open(path, error, error_size);
    bool loads = tokenizer && verl_tokenizer_load(tokenizer, error, error_size) == 0;
    int rc = loads ? verl_chat_check(tokenizer, error, error_size) : -1;
    if (loads && !verl_tokenizer_chat_template(tokenizer, &length))
        snprintf(error, error_size, "'%s' has no chat template: template = \"none\" would be right", path);
    verl_tokenizer_close(&tokenizer);
    return rc;
}

int64_t
verl_prompter_stray_id(const char *path, int64_t vocab_size)
{
    char error[1024];
    size_t length;
    verl_tokenizer_t *tokenizer = verl_tokenizer_open(path, error, sizeof error);
    int64_t stray = -1, end = tokenizer ? verl_tokenizer_vocab_size(tokenizer) : 0;
    for (int64_t id = vocab_size; stray < 0 && id < end; id++)
        if (verl_tokenizer_id_to_token(tokenizer, (int32_t) id, &length) &&
            !verl_tokenizer_is_special(tokenizer, (int32_t) id))
            stray = id;
    verl_tokenizer_close(&tokenizer);
    return stray;
}

int
verl_prompter_space(const char *path, char space[VERL_SPACE_SIZE], char *error, size_t error_size)
{
    uint64_t hash;
    if (verl_tokenizer_hash(path, &hash, error, error_size) != 0)
        return -1;
    snprintf(space, VERL_SPACE_SIZE, "tokenizer-%016" PRIx64, hash);
    return 0;
}
