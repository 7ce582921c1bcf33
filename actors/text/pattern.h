// pattern.h: the regular expressions of tokenizers, which are written for Oniguruma, run by PCRE2.
//
// A pattern is translated first, so that both agree on every character: what \s, \w, \d and \h are, that ^ and $ are
// about lines, and the letters and numbers that Unicode 15 and 16 added (the reference knows them, PCRE2 10.42 does
// not). What cannot be translated faithfully is an error.
#ifndef VERL_TEXT_PATTERN_H
#define VERL_TEXT_PATTERN_H
#include "actors/text/tokenizer.h"

typedef struct {
    void *code;                             // compiled; shared by any number of threads
} verl_pattern_t;

// What one thread needs to match; zeroed memory is ready, and one serves any number of patterns in turn.
typedef struct {
    void *data, *context, *stack;
} verl_matcher_t;

// 0, or -1 with a sentence that names `where` and the pattern.
int  verl_pattern_init(verl_pattern_t *self, const char *regex, size_t length, const char *where, char *error,
                       size_t error_size);
void verl_pattern_done(verl_pattern_t *self);

// Finds the first match at or after `from` in well-formed UTF-8. 1 with its bounds, 0 for none, -1 where the pattern
// was too costly for the text or there is no memory.
int  verl_pattern_find(const verl_pattern_t *self, verl_matcher_t *matcher, const char *text, size_t length,
                       size_t from, size_t *ret_start, size_t *ret_end);
void verl_matcher_done(verl_matcher_t *matcher);

// The translation alone, appended to *out; for verl_pattern_init and the tests.
int verl_pattern_translate(const char *regex, size_t length, verl_text_t *out, const char *where, char *error,
                           size_t error_size);
#endif
