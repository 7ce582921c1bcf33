// chat.h: conversations as the text, and the ids, that a model was trained on.
//
// A tokenizer brings its chat template, a program in Jinja. It is run as the reference runs it (whitespace control,
// variables), by an interpreter of the part of the language that chat templates use; what it cannot do is an error
// that names the construct and its line. `tools` and `documents` are none, the date is not given, and nothing else
// is defined beside messages, add_generation_prompt and the special tokens.
#ifndef VERL_TEXT_CHAT_H
#define VERL_TEXT_CHAT_H
#include "actors/text/tokenizer.h"

struct json_t;
typedef struct {
    const char *role, *content;             // terminated, UTF-8; "system", "user", "assistant", "tool", …
    const struct json_t *whole;             // of jansson: what the template gets instead, with all its keys; or NULL
} verl_chat_message_t;

// Can the template be parsed? 0, or -1 with a sentence: there is none, or what is wrong in which line of which file.
int verl_chat_check(verl_tokenizer_t *tokenizer, char *error, size_t error_size);

// Appends the conversation as text; with `generation_prompt`, up to where the assistant's next message begins.
// Any number of threads may call at once; blocks only for the first load. 0, or -1 with a sentence: no template, a
// construct that is not supported, or messages that the template refuses.
int verl_chat_text(verl_tokenizer_t *tokenizer, const verl_chat_message_t *messages, size_t count,
                   bool generation_prompt, verl_text_t *text, char *error, size_t error_size);

// The same, encoded: special tokens in the text are parsed, as in the reference, and none is added to it.
int verl_chat_encode(verl_tokenizer_t *tokenizer, const verl_chat_message_t *messages, size_t count,
                     bool generation_prompt, verl_token_ids_t *ids, char *error, size_t error_size);
#endif
