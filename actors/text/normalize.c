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

// The reference normalises by the tables of Unicode 9. What came later is an unassigned character there: it neither
// moves nor joins others, and has no compatibility form. Such characters stay as they are and part the text.
typedef struct {
    uint32_t first, last;
} s_range_t;

// Combining marks, and parts of new compositions (UnicodeData.txt, 10 to 16).
static const s_range_t s_later_marks[] = {
    { 0x7FD, 0x7FD },     { 0x897, 0x89F },     { 0x8CA, 0x8D3 },     { 0x9FE, 0x9FE },     { 0xC3C, 0xC3C },
    { 0xD3B, 0xD3C },     { 0xEBA, 0xEBA },     { 0x1715, 0x1715 },   { 0x1ABF, 0x1ACE },   { 0x1DF6, 0x1DFA },
    { 0xA82C, 0xA82C },   { 0x10D24, 0x10D27 }, { 0x10D69, 0x10D6D }, { 0x10EAB, 0x10EAC }, { 0x10EFC, 0x10EFF },
    { 0x10F46, 0x10F50 }, { 0x10F82, 0x10F85 }, { 0x11070, 0x11070 }, { 0x1133B, 0x1133B }, { 0x11380, 0x113E2 },
    { 0x1145E, 0x1145E }, { 0x11839, 0x1183A }, { 0x11930, 0x11930 }, { 0x11938, 0x11938 }, { 0x1193D, 0x1193E },
    { 0x11943, 0x11943 }, { 0x119E0, 0x119E0 }, { 0x11A34, 0x11A34 }, { 0x11A47, 0x11A47 }, { 0x11A99, 0x11A99 },
    { 0x11D42, 0x11D42 }, { 0x11D44, 0x11D45 }, { 0x11D97, 0x11D97 }, { 0x11F41, 0x11F42 }, { 0x16100, 0x1613F },
    { 0x16D40, 0x16D7F }, { 0x16FF0, 0x16FF1 }, { 0x1E08F, 0x1E08F }, { 0x1E130, 0x1E136 }, { 0x1E2AE, 0x1E2AE },
    { 0x1E2EC, 0x1E2EF }, { 0x1E4EC, 0x1E4EF }, { 0x1E5D0, 0x1E5FF },
};

// Characters with compatibility forms.
static const s_range_t s_later_forms[] = {
    { 0x32FF, 0x32FF }, { 0xA7F2, 0xA7F4 }, { 0xAB69, 0xAB69 }, { 0x10781, 0x107BA }, { 0x1CCD6, 0x1CCF9 },
    { 0x1E030, 0x1E06D }, { 0x1F16C, 0x1F16C }, { 0x1FBF0, 0x1FBF9 },
};

static bool
s_within(const s_range_t *range, size_t count, uint32_t code)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (code > range[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && code >= range[low].first;
}

// One form of text in which no character is later than the tables.
static int
s_form_part(int options, const uint8_t *text, size_t length, verl_text_t *out)
{
    utf8proc_uint8_t *form = NULL;
    if (length == 0)
        return 0;
    utf8proc_ssize_t size = utf8proc_map(text, (utf8proc_ssize_t) length, &form, (utf8proc_option_t) options);
    int rc = size < 0 ? -1 : verl_text_add(out, form, (size_t) size);
    free(form);
    return rc;
}

static int
s_form(uint32_t kind, const verl_text_t *in, verl_text_t *out)
{
    bool compatible = kind == VERL_STEP_NFKC || kind == VERL_STEP_NFKD;
    int options = UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0);
    options |= kind == VERL_STEP_NFC || kind == VERL_STEP_NFKC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    const uint8_t *text = (const uint8_t *) in->data;
    size_t done = 0, step, skip;
    uint32_t code;
    for (size_t at = 0; at < in->length; at += step) {
        step = verl_utf8_next(text + at, in->length - at, &code, &skip);
        if (code < s_later_marks[0].first
            || (!s_within(s_later_marks, sizeof s_later_marks / sizeof *s_later_marks, code)
                && !(compatible && s_within(s_later_forms, sizeof s_later_forms / sizeof *s_later_forms, code))))
            continue;
        if (s_form_part(options, text + done, at - done, out) || verl_text_add(out, text + at, step))
            return -1;
        done = at + step;
    }
    return s_form_part(options, text + done, in->length - done, out);
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
