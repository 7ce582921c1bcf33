// engine.h: a loaded tokenizer: the image, and what each process makes of it (compiled patterns).
//
// An engine is never written to after it is made, so that any number of threads use it at once; what a thread writes
// to is its verl_encoder_t.
#ifndef VERL_TEXT_ENGINE_H
#define VERL_TEXT_ENGINE_H
#include "actors/text/bpe.h"
#include "actors/text/image.h"
#include "actors/text/normalize.h"
#include "actors/text/pattern.h"

typedef struct {
    verl_token_image_t image;
    verl_normalizer_t  normalizer;
    verl_pattern_t    *pre_tokenizer, *decoder;         // one a step; empty where the step has none
    verl_pattern_t     word;                // one character of a word, at the start of a text
    uint8_t            starts[2][256];      // whether an added token (raw, normalised) begins with that byte
    bool               byte_decoder;        // the decoder is ByteLevel alone
    const char        *path;                // for messages; borrowed
} verl_engine_t;

// Takes the image over, also when it fails. 0, or -1 with a sentence.
int  verl_engine_init(verl_engine_t *self, verl_token_image_t *image, const char *path, char *error, size_t error_size);
void verl_engine_done(verl_engine_t *self);

// The ids of a word that was met before; words are direct-mapped by their hash.
#define VERL_WORD_BYTES 40
#define VERL_WORD_IDS 12
typedef struct {
    uint64_t hash;
    uint8_t  length, count;                 // length 0: empty
    uint8_t  word[VERL_WORD_BYTES];
    int32_t  ids[VERL_WORD_IDS];
} verl_word_t;
#define VERL_WORDS 4096u

// What one thread at a time needs to encode; zeroed memory is ready.
typedef struct {
    verl_bpe_t     bpe;
    verl_matcher_t matcher;
    verl_text_t    lossy, normalized;
    verl_word_t   *words;                   // VERL_WORDS of them, or NULL without memory
} verl_encoder_t;

void verl_encoder_done(verl_encoder_t *self);

// As verl_tokenizer_encode and verl_tokenizer_decode.
int verl_engine_encode(const verl_engine_t *self, verl_encoder_t *encoder, const char *text, size_t length,
                       unsigned flags, verl_token_ids_t *ids, char *error, size_t error_size);
int verl_engine_decode(const verl_engine_t *self, const int32_t *ids, size_t count, unsigned flags, verl_text_t *text,
                       char *error, size_t error_size);
#endif
