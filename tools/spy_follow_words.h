// spy_follow_words.h: what is in a message, as JSON.
#ifndef VERL_SPY_FOLLOW_WORDS_H
#define VERL_SPY_FOLLOW_WORDS_H
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/wire/read.h"

// The next item of msgpack as JSON; binaries as "<N bytes>", what is cut short or malformed as "…". NULL without
// memory.
json_t *verl_spy_words_json(verl_reader_t *reader);
#endif
