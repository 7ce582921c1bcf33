// engine.c: makes an engine of an image.
#include "actors/text/engine.h"
#include "actors/text/source.h"
#include <stdlib.h>
#include <string.h>

static verl_pattern_t *
s_compile(const verl_engine_t *self, int pipe, char *error, size_t error_size)
{
    const verl_token_image_t *image = &self->image;
    verl_pattern_t *pattern = calloc((size_t) image->step_count[pipe] + 1, sizeof *pattern);
    if (!pattern)
        verl_text_fail(error, error_size, "%s: not enough memory", self->path);
    for (uint32_t i = 0; pattern && i < image->step_count[pipe]; i++) {
        const verl_token_step_t *step = &image->steps[pipe][i];
        if (step->kind != VERL_STEP_SPLIT && step->kind != VERL_STEP_REPLACE)
            continue;
        if (verl_pattern_init(&pattern[i], image->strings + step->first.offset, step->first.length, self->path, error,
                              error_size)) {
            while (i--)
                verl_pattern_done(&pattern[i]);
            free(pattern);
            return NULL;
        }
    }
    return pattern;
}

static const char s_word[] = "\\A[" VERL_WORD_CLASS "]";

int
verl_engine_init(verl_engine_t *self, verl_token_image_t *image, const char *path, char *error, size_t error_size)
{
    *self = (verl_engine_t) { .image = *image, .path = path };
    *image = (verl_token_image_t) { 0 };
    if (verl_normalizer_init(&self->normalizer, self->image.steps[VERL_PIPE_NORMALIZER],
                             self->image.step_count[VERL_PIPE_NORMALIZER], self->image.strings, path, error, error_size)
        || !(self->pre_tokenizer = s_compile(self, VERL_PIPE_PRE_TOKENIZER, error, error_size))
        || !(self->decoder = s_compile(self, VERL_PIPE_DECODER, error, error_size))
        || verl_pattern_init(&self->word, s_word, strlen(s_word), path, error, error_size)) {
        verl_engine_done(self);
        return -1;
    }
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < self->image.added_count[pass]; i++)
            self->starts[pass][(uint8_t) self->image.strings[self->image.added[pass][i].match.offset]] = 1;
    self->byte_decoder = self->image.step_count[VERL_PIPE_DECODER] == 1
                         && self->image.steps[VERL_PIPE_DECODER][0].kind == VERL_STEP_BYTE_LEVEL;
    return 0;
}

static void
s_free_patterns(verl_pattern_t *pattern, uint32_t count)
{
    for (uint32_t i = 0; pattern && i < count; i++)
        verl_pattern_done(&pattern[i]);
    free(pattern);
}

void
verl_engine_done(verl_engine_t *self)
{
    s_free_patterns(self->pre_tokenizer, self->image.step_count[VERL_PIPE_PRE_TOKENIZER]);
    s_free_patterns(self->decoder, self->image.step_count[VERL_PIPE_DECODER]);
    verl_pattern_done(&self->word);
    verl_normalizer_done(&self->normalizer);
    verl_image_done(&self->image);
    *self = (verl_engine_t) { 0 };
}

void
verl_encoder_done(verl_encoder_t *self)
{
    verl_bpe_done(&self->bpe);
    verl_matcher_done(&self->matcher);
    verl_text_done(&self->lossy);
    verl_text_done(&self->normalized);
    free(self->words);
    *self = (verl_encoder_t) { 0 };
}
