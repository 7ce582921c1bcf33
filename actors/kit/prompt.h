// prompt.h: from a prompt as data (text, or a conversation) to token ids, in the one place where ids are born.
//
// A loader with a tokenizer and a policy without prompt ids upstream both use it, so that both give the same ids.
#ifndef VERL_KIT_PROMPT_H
#define VERL_KIT_PROMPT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "actors/text/tokenizer.h"

#define VERL_TEMPLATE_CHOICES "none|chat"
enum { VERL_TEMPLATE_NONE, VERL_TEMPLATE_CHAT };
#define VERL_PROMPTS_ARE_MESSAGES "the prompts are messages: template = \"chat\" would be right"

typedef struct verl_prompter {
    verl_tokenizer_t *tokenizer;
    char             *path;                 // of the tokenizer
} verl_prompter_t;

// Names the tokenizer; nothing is loaded before its first use. 0, or -1 with one sentence. Zeroed memory is an empty
// one; done accepts it.
int  verl_prompter_init(verl_prompter_t *self, const char *path, char *error, size_t error_size);
void verl_prompter_done(verl_prompter_t *self);

// Appends the ids of a prompt. VERL_TEMPLATE_NONE: of the text as it is, with what the tokenizer's post-processor adds
// (a bos); text that is a list of messages is an error. VERL_TEMPLATE_CHAT: of the conversation (a JSON list of
// messages, or else one message of the user) as the chat template writes it, up to where the assistant begins. Returns
// 0, or -1 with one sentence.
int verl_prompter_encode(verl_prompter_t *self, int template_choice, const char *text, size_t bytes,
                         verl_token_ids_t *ids, char *error, size_t error_size);

// Appends the ids of a response, with the stop token behind it unless it is there (`stop`; -1: the tokenizer's eos,
// where it has one).
int verl_prompter_encode_response(verl_prompter_t *self, const char *text, size_t bytes, int32_t stop,
                                  verl_token_ids_t *ids, char *error, size_t error_size);

// The id of a token by its content as the tokenizer's file has it, or else by the bytes that it stands for ("\n"). -1:
// there is none.
int32_t verl_prompter_one_token(verl_tokenizer_t *tokenizer, const char *text);

// Whether a chat template came with the tokenizer at path.
bool verl_prompter_has_template(const char *path);

// Whether that template can be parsed: 0, or -1 with one sentence, also where there is none.
int verl_prompter_check_template(const char *path, char *error, size_t error_size);

// The first id from `vocab_size` on that text can be turned into (special tokens, which stand in no text, aside), for a
// model that has no row for it. -1: there is none, or the tokenizer cannot load.
int64_t verl_prompter_stray_id(const char *path, int64_t vocab_size);

// The id space of the tokenizer at path, for verl_declare_space: 0, or -1 with one sentence.
#define VERL_SPACE_SIZE 32
int verl_prompter_space(const char *path, char space[VERL_SPACE_SIZE], char *error, size_t error_size);
#endif
