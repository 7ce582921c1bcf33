// normalize.c: runs the steps of a normaliser, one after the other, between two buffers.
#include "actors/text/normalize.h"
#include "actors/text/source.h"
#include "actors/text/utf8.h"
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

int
verl_normalizer_init(verl_normalizer_t *self, const verl_token_step_t *step, uint32_t count, const char *strings,
                     const char *path, char *error, size_t error_size)
{
    *self = (verl_normalizer_t) { .step = step, .count = count, .strings = strings, .path = path };
    self->pattern = calloc((size_t) count + 1, sizeof *self->pattern);
    if (!self->pattern)
        return verl_text_fail(error, error_size, "%s: not enough memory", path);
    for (uint32_t i = 0; i < count; i++) {
        bool known = step[i].kind <= VERL_STEP_STRIP_SPACE;
        if (!known ||
            (step[i].kind == VERL_STEP_REPLACE && verl_pattern_init(&self->pattern[i], strings + step[i].first.offset,
                                                                    step[i].first.length, path, error, error_size))) {
            verl_normalizer_done(self);
            return known ? -1 : verl_text_fail(error, error_size, "%s: step %u of the normalizer is unknown", path, i);
        }
    }
    return 0;
}

void
verl_normalizer_done(verl_normalizer_t *self)
{
    for (uint32_t i = 0; self->pattern && i < self->count; i++)
        verl_pattern_done(&self->pattern[i]);
    free(self->pattern);
    *self = (verl_normalizer_t) { 0 };
}

// Whether a text is in NFC for sure: all its characters are below U+0300 or in blocks of which each character is
// NFC on its own and starts something new.
static bool
s_surely_composed(const uint8_t *text, size_t length)
{
    uint32_t code = 0;
    size_t skip;
    for (size_t at = 0; at < length; at += verl_utf8_length(text[at])) {
        if (text[at] < 0xCC)                // below U+0300
            continue;
        verl_utf8_next(text + at, length - at, &code, &skip);
        bool plain = (code >= 0x0400 && code < 0x0483) || (code >= 0x048A && code < 0x0530)    // Cyrillic
                     || (code >= 0x2010 && code < 0x2028) || (code >= 0x3001 && code < 0x302A) // punctuation
                     || (code >= 0x3041 && code < 0x3097) || (code >= 0x30A1 && code < 0x30FB) // kana
                     || (code >= 0x4E00 && code < 0xA000) || (code >= 0xAC00 && code < 0xD7A4) // Han, Hangul syllables
                     || (code >= 0xFF01 && code < 0xFFA0) || (code >= 0x1F300 && code < 0x1F700);
        if (!plain)
            return false;
    }
    return true;
}

bool
verl_normalizer_changes(const verl_normalizer_t *self, const char *text, size_t length)
{
    for (uint32_t i = 0; i < self->count; i++)
        if (self->step[i].kind != VERL_STEP_NFC || !s_surely_composed((const uint8_t *) text, length))
            return true;
    return false;
}

static int
s_form(uint32_t kind, const verl_text_t *in, verl_text_t *out)
{
    int options = UTF8PROC_STABLE;
    options |= kind == VERL_STEP_NFC || kind == VERL_STEP_NFKC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    options |= kind == VERL_STEP_NFKC || kind == VERL_STEP_NFKD ? UTF8PROC_COMPAT : 0;
    utf8proc_uint8_t *form = NULL;
    utf8proc_ssize_t length = utf8proc_map((const utf8proc_uint8_t *) in->data, (utf8proc_ssize_t) in->length, &form,
                                           (utf8proc_option_t) options);
    int rc = length < 0 ? -1 : verl_text_add(out, form, (size_t) length);
    free(form);
    return rc;
}

int
verl_text_replace(const verl_pattern_t *pattern, verl_matcher_t *matcher, const char *text, size_t length,
                  const char *replacement, size_t replacement_length, verl_text_t *out)
{
    size_t done = 0, from = 0, start, end;
    int found;
    while (from <= length && (found = verl_pattern_find(pattern, matcher, text, length, from, &start, &end)) != 0) {
        if (found < 0 || verl_text_add(out, text + done, start - done)
            || verl_text_add(out, replacement, replacement_length))
            return -1;
        done = end;
        from = end > start ? end : end < length ? end + verl_utf8_length((uint8_t) text[end]) : end + 1;
    }
    return verl_text_add(out, text + done, length - done);
}

static bool
s_is_space(uint32_t code)
{
    return (code >= 9 && code <= 13) || code == 32 || code == 0x85 || code == 0xA0 || code == 0x1680
           || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F
           || code == 0x3000;
}

static int
s_strip_space(uint32_t option, const verl_text_t *in, verl_text_t *out)
{
    const uint8_t *text = (const uint8_t *) in->data;
    size_t start = 0, end = 0, step, skip;
    uint32_t code;
    bool seen = false;
    for (size_t at = 0; at < in->length; at += step) {
        step = verl_utf8_next(text + at, in->length - at, &code, &skip);
        if (s_is_space(code))
            continue;
        start = seen ? start : at;
        seen = true;
        end = at + step;
    }
    if (!seen)
        return option ? 0 : verl_text_add(out, text, in->length);
    start = option & 1 ? start : 0;
    end = option & 2 ? end : in->length;
    return verl_text_add(out, text + start, end - start);
}

static int
s_step(const verl_normalizer_t *self, uint32_t index, verl_matcher_t *matcher, const verl_text_t *in, verl_text_t *out)
{
    const verl_token_step_t *step = &self->step[index];
    const char *first = self->strings + step->first.offset;
    switch (step->kind) {
    case VERL_STEP_PREPEND:
        return (in->length && verl_text_add(out, first, step->first.length)) ||
               verl_text_add(out, in->data, in->length);
    case VERL_STEP_REPLACE:
        return verl_text_replace(&self->pattern[index], matcher, in->data, in->length,
                                 self->strings + step->second.offset, step->second.length, out);
    case VERL_STEP_STRIP_SPACE:
        return s_strip_space(step->option, in, out);
    default:
        return s_form(step->kind, in, out);
    }
}

int
verl_normalizer_run(const verl_normalizer_t *self, const char *text, size_t length, verl_text_t *out, char *error,
                    size_t error_size)
{
    verl_text_t other = { 0 };
    verl_matcher_t matcher = { 0 };
    out->length = 0;
    int rc = verl_text_add(out, text, length);
    for (uint32_t i = 0; i < self->count && !rc; i++) {
        other.length = 0;
        rc = verl_text_add(&other, "", 0) || s_step(self, i, &matcher, out, &other);
        verl_text_t swap = *out;
        *out = other;
        other = swap;
    }
    verl_text_done(&other);
    verl_matcher_done(&matcher);
    return rc ? verl_text_fail(error, error_size, "%s: cannot normalise a text of %zu bytes: not enough memory, or a "
                               "pattern that is too costly", self->path, length) : 0;
}
