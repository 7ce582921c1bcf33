// messages.h: a conversation as data: a JSON list of {"role": text, "content": text}, for chat templates.
#ifndef VERL_DATA_MESSAGES_H
#define VERL_DATA_MESSAGES_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct verl_chat_turn {
    const char *role;    // "system", "user", "assistant", "tool" or another, never empty
    const char *content; // may be empty
    const json_t *whole; // the message with all its keys, in their order
} verl_chat_turn_t;

typedef struct verl_messages {
    verl_chat_turn_t *items;
    size_t count; // at least 1
    void *memory; // what the items point into
} verl_messages_t;

// 0 where json is a list of at least one message; else -1 and one sentence. Other keys of a message may be
// anything: they are the template's business.
int verl_messages_check(const json_t *json, char *error, size_t error_size);

// Whether a prompt column's text is meant as messages: it begins, spaces aside, with `[` and then `{`.
bool verl_messages_looks_like(const char *text, size_t bytes);

// Reads messages from JSON text. NULL with the reason in error. The caller owns the result. Does not block;
// thread-safe.
verl_messages_t *verl_messages_parse(const char *text, size_t bytes, char *error, size_t error_size);

// Frees *self_p and sets it to NULL; accepts NULL inside.
void verl_messages_destroy(verl_messages_t **self_p);

#endif
