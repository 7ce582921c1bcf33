// normalize.h: what happens to a text before it is cut: Unicode forms and replacements.
#ifndef VERL_TEXT_NORMALIZE_H
#define VERL_TEXT_NORMALIZE_H
#include "actors/text/image.h"
#include "actors/text/pattern.h"

typedef struct {
    const verl_token_step_t *step;          // borrowed, with their strings
    uint32_t                 count;
    const char              *strings;
    verl_pattern_t          *pattern;       // one a step; empty where the step has none
    const char              *path;          // for messages
} verl_normalizer_t;

// Steps and strings must outlive it. 0, or -1 with a sentence. Any number of threads may run it at once.
int  verl_normalizer_init(verl_normalizer_t *self, const verl_token_step_t *step, uint32_t count, const char *strings,
                          const char *path, char *error, size_t error_size);
void verl_normalizer_done(verl_normalizer_t *self);

// Whether the steps may change a text at all; where they do not, running is not needed.
bool verl_normalizer_changes(const verl_normalizer_t *self, const char *text, size_t length);

// Replaces the contents of *out with the normalised text, which is well-formed UTF-8 like the text.
int  verl_normalizer_run(const verl_normalizer_t *self, const char *text, size_t length, verl_text_t *out, char *error,
                         size_t error_size);

// Appends text with every match of a pattern replaced. Used by decoders too. 0, or -1 (too costly, or no memory).
int  verl_text_replace(const verl_pattern_t *pattern, verl_matcher_t *matcher, const char *text, size_t length,
                       const char *replacement, size_t replacement_length, verl_text_t *out);
#endif
