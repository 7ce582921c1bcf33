// spy_follow_words.h: what is in a message, as text for people and as JSON.
#ifndef VERL_SPY_FOLLOW_WORDS_H
#define VERL_SPY_FOLLOW_WORDS_H
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/wire/read.h"

// The next item of msgpack as JSON; binaries as "<N bytes>", what is cut short or malformed as "…". NULL without
// memory.
json_t *verl_spy_words_json(verl_reader_t *reader);
// The bytes as text that may be printed: at most `room` - 1 bytes of valid UTF-8 without control characters, with "…"
// where it was cut. Returns its length.
size_t verl_spy_words_text(const char *bytes, size_t size, char *ret, size_t room);
// A JSON string of any bytes: what is not UTF-8 is replaced.
json_t *verl_spy_words_string(const char *bytes, size_t size);
// "17", "1.2 kB", "3.4 MB": at most 9 columns.
void verl_spy_words_bytes(uint64_t bytes, char ret[16]);
#endif
