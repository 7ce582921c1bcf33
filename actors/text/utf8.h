// utf8.h: the few things that tokenizers need of UTF-8. Surrogates and overlong forms are ill-formed.
#ifndef VERL_TEXT_UTF8_H
#define VERL_TEXT_UTF8_H
#include "actors/text/tokenizer.h"

// The length of the well-formed character at the start of data, or 0 where there is none; the length of the maximal
// ill-formed part (at least 1) then is in *ret_skip. length must not be 0. *ret_code may be NULL.
size_t verl_utf8_next(const uint8_t *data, size_t length, uint32_t *ret_code, size_t *ret_skip);

// How many bytes from the start are well-formed.
size_t verl_utf8_valid(const uint8_t *data, size_t length);

// Appends data with each maximal ill-formed part replaced by U+FFFD (Unicode 15, section 3.9, "substitution of
// maximal subparts"). -1 without memory.
int verl_utf8_add_lossy(verl_text_t *text, const uint8_t *data, size_t length);

// Writes a code point as UTF-8 and returns its length, 1 to 4.
size_t verl_utf8_write(uint32_t code, uint8_t *out);

// The length by the first byte of a well-formed character.
static inline size_t
verl_utf8_length(uint8_t first)
{
    return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}
#endif
