// alphabet.h: the alphabet of byte-level models, which writes each byte as one visible character.
//
// Printable Latin-1 stands for itself; the other 68 bytes are U+0100 and up, in order (Radford et al., 2019).
#ifndef VERL_TEXT_ALPHABET_H
#define VERL_TEXT_ALPHABET_H
#include "actors/text/tokenizer.h"

// The character of a byte.
uint32_t verl_alphabet_character(uint8_t byte);

// Appends the bytes that a token stands for; false, and nothing appended, where a character is not of the alphabet.
// *ret_memory becomes false without memory.
bool verl_alphabet_bytes(const char *content, size_t length, verl_text_t *bytes, bool *ret_memory);
#endif
