// tokenizer.h: text to token ids and back, with exactly the ids of the reference implementation.
//
// A tokenizer is a Hugging Face `tokenizer.json` of the BPE kind (byte-level, as Qwen, Llama 3, SmolLM2 and GPT-2
// have it, or over characters with byte fallback) or the vocabulary inside a GGUF file. Opening one is free: the file
// is read at the first use, compiled into a flat image, and the image is kept in a per-user cache from which every
// process of the host maps the same pages. All functions may be called from any number of threads at once; only
// callers of the same tokenizer wait for its first load, and no other lock is held.
//
// Every function that can fail returns 0 or -1 and then leaves one sentence in `error`.
#ifndef VERL_TEXT_TOKENIZER_H
#define VERL_TEXT_TOKENIZER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Ids that grow; zeroed memory is an empty list. The caller frees it with verl_token_ids_done.
typedef struct verl_token_ids {
    int32_t *data;
    size_t   count, capacity;
} verl_token_ids_t;

// Bytes that grow; zeroed memory is empty. Once something was added, data[length] is 0. Freed by verl_text_done.
typedef struct verl_text {
    char  *data;
    size_t length, capacity;
} verl_text_t;

// Append; -1 without memory, and then nothing has changed.
int  verl_token_ids_add(verl_token_ids_t *self, int32_t id);
int  verl_text_add(verl_text_t *self, const void *data, size_t length);
void verl_token_ids_done(verl_token_ids_t *self);
void verl_text_done(verl_text_t *self);

typedef struct verl_tokenizer verl_tokenizer_t;

// Makes a tokenizer of a model directory (its tokenizer.json, or the GGUF file in it), a tokenizer.json or a .gguf
// file. Touches no file and never blocks. NULL, with a sentence, for an empty path or without memory.
verl_tokenizer_t *verl_tokenizer_open(const char *path, char *error, size_t error_size);

// Frees it and sets the pointer to NULL. No thread may be using it. NULL inside is accepted.
void verl_tokenizer_close(verl_tokenizer_t **self_p);

// Loads it now if it is not loaded yet (once, whoever asks first; the others wait for it). A failure is final: every
// later call gives the same sentence. Encode, decode and the queries below call it themselves.
int verl_tokenizer_load(verl_tokenizer_t *self, char *error, size_t error_size);

// Whether the path holds a tokenizer that can be used, for checks before a start. Loads and forgets it.
int verl_tokenizer_check(const char *path, char *error, size_t error_size);

// The identity of the id space: equal for two tokenizers exactly when (but for chance, 2^-64) each id stands for the
// same token in both, whatever files they come from. Places that a GGUF file only pads with do not count.
int verl_tokenizer_hash(const char *path, uint64_t *ret_hash, char *error, size_t error_size);

enum {
    VERL_TOKENIZER_ADD_SPECIAL   = 1,       // encode: add what the model's post-processor adds (Llama 3: the bos)
    VERL_TOKENIZER_PARSE_SPECIAL = 2,       // encode: "<|im_end|>" in the text is that token, as in the reference
    VERL_TOKENIZER_SKIP_SPECIAL  = 4        // decode: leave special tokens out
};

// Appends the ids of `length` bytes of text (at most 2^31 - 1; NUL bytes are allowed). Text that is not valid UTF-8
// is read as the reference reads it after a lossy decoding: each maximal ill-formed part is one U+FFFD. Characters
// for which the vocabulary has neither token nor unknown token are dropped, as the reference does.
int verl_tokenizer_encode(verl_tokenizer_t *self, const char *text, size_t length, unsigned flags,
                          verl_token_ids_t *ids, char *error, size_t error_size);

// Appends the text of the ids, which is valid UTF-8: bytes that form no character become U+FFFD, as in the
// reference. Ids that the vocabulary does not have are left out.
int verl_tokenizer_decode(verl_tokenizer_t *self, const int32_t *ids, size_t count, unsigned flags,
                          verl_text_t *text, char *error, size_t error_size);

// The id of a token by its content as written in the file, special or not; -1 where there is none or it cannot load.
int32_t verl_tokenizer_token_to_id(verl_tokenizer_t *self, const char *content, size_t length);

// The content of a token as the file has it ("Ġthe"), with its length; NULL for no such id. Valid until close.
const char *verl_tokenizer_id_to_token(verl_tokenizer_t *self, int32_t id, size_t *ret_length);

// The bytes that a token adds to a text (" the"; perhaps only a part of a character); NULL for no such id.
// Valid until close.
const char *verl_tokenizer_token_bytes(verl_tokenizer_t *self, int32_t id, size_t *ret_length);

// The special tokens that a configuration may name, in the order of verl_named_tokens: "bos_token", "eos_token", ….
typedef enum {
    VERL_NAMED_BOS, VERL_NAMED_EOS, VERL_NAMED_PAD, VERL_NAMED_UNK, VERL_NAMED_SEP, VERL_NAMED_CLS, VERL_NAMED_MASK,
    VERL_NAMED_TOKENS
} verl_named_token_t;
extern const char *const verl_named_tokens[VERL_NAMED_TOKENS];

bool    verl_tokenizer_is_special(verl_tokenizer_t *self, int32_t id);
int32_t verl_tokenizer_named(verl_tokenizer_t *self, verl_named_token_t name); // -1: none, or it cannot load
int32_t verl_tokenizer_bos(verl_tokenizer_t *self);
int32_t verl_tokenizer_eos(verl_tokenizer_t *self);
int32_t verl_tokenizer_pad(verl_tokenizer_t *self);
int64_t verl_tokenizer_vocab_size(verl_tokenizer_t *self);  // the highest id + 1; 0 where it cannot load

// The chat template (Jinja) that came with the tokenizer, or NULL. Valid until close.
const char *verl_tokenizer_chat_template(verl_tokenizer_t *self, size_t *ret_length);

// The name of the file beside verl_tokenizer_path that it stands in; NULL: in that one itself, or there is none.
const char *verl_tokenizer_chat_file(verl_tokenizer_t *self);

// The file that was loaded, or the path as given while none is. Valid until close.
const char *verl_tokenizer_path(verl_tokenizer_t *self);

// Where the tokenizer came from; for tests and for messages.
typedef enum {
    VERL_TOKENIZER_NOT_LOADED,
    VERL_TOKENIZER_COMPILED, // this call compiled it and left the image in the cache
    VERL_TOKENIZER_MAPPED,   // the image of the cache is mapped
    VERL_TOKENIZER_PRIVATE,  // compiled, but the cache cannot be written: the image is this process's own
    VERL_TOKENIZER_FAILED
} verl_tokenizer_origin_t;
verl_tokenizer_origin_t verl_tokenizer_origin(verl_tokenizer_t *self);
int64_t verl_tokenizer_load_count(void);    // loads that this process began, of all tokenizers
#endif
