// encode.c: from text to ids.
//
// A text goes through in this order: ill-formed UTF-8 is replaced; added tokens are taken out; what lies between them
// is normalised; added tokens that are looked for in normalised text are taken out; what lies between is cut by the
// steps of the pre-tokenizer, each on the pieces of the one before; each piece is merged.
#include "actors/text/engine.h"
#include "actors/text/hash.h"
#include "actors/text/source.h"
#include "actors/text/utf8.h"
#include <stdlib.h>

typedef struct {
    const verl_engine_t *engine;
    verl_encoder_t      *encoder;
    unsigned             flags;
    verl_token_ids_t    *ids;
    char                *error;
    size_t               error_size;
} s_run_t;

#define S_NO_MEMORY(run) verl_text_fail((run)->error, (run)->error_size, "%s: not enough memory", (run)->engine->path)

static int
s_add_all(s_run_t *self, const int32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (verl_token_ids_add(self->ids, ids[i]))
            return S_NO_MEMORY(self);
    return 0;
}

// The place of a word among those met before; NULL where it is too long to be kept.
static verl_word_t *
s_word(verl_encoder_t *encoder, size_t length, uint64_t hash)
{
    if (length > VERL_WORD_BYTES)
        return NULL;
    if (!encoder->words)
        encoder->words = calloc(VERL_WORDS, sizeof *encoder->words);
    return encoder->words ? &encoder->words[(hash >> 20) % VERL_WORDS] : NULL;
}

static int
s_piece(s_run_t *self, const uint8_t *piece, size_t length)
{
    const verl_token_image_t *image = &self->engine->image;
    uint64_t hash = verl_hash(piece, length, 0);
    uint32_t id = length <= image->header->longest ? verl_image_find_piece(image, piece, length, hash) : UINT32_MAX;
    if (id != UINT32_MAX && (image->flags[id] & VERL_TOKEN_WHOLE || image->header->flags & VERL_MODEL_IGNORE_MERGES))
        return verl_token_ids_add(self->ids, (int32_t) id) ? S_NO_MEMORY(self) : 0;
    verl_word_t *word = s_word(self->encoder, length, hash);
    if (word && word->length == length && word->hash == hash && memcmp(word->word, piece, length) == 0)
        return s_add_all(self, word->ids, word->count);
    size_t before = self->ids->count;
    if (verl_bpe_encode(&self->encoder->bpe, image, piece, length, self->ids))
        return S_NO_MEMORY(self);
    size_t count = self->ids->count - before;
    if (word && count <= VERL_WORD_IDS) {
        word->hash = hash;
        word->length = (uint8_t) length;
        word->count = (uint8_t) count;
        memcpy(word->word, piece, length);
        if (count)
            memcpy(word->ids, self->ids->data + before, count * sizeof *word->ids);
    }
    return 0;
}

static int s_cut(s_run_t *self, uint32_t index, const char *text, size_t length);

// One stretch of a split, a match or what lies between two, that may yet be joined with the next one.
typedef struct {
    uint32_t index;                         // of the step
    bool     held, match;                   // `match` is that of the last stretch joined
    size_t   start, end;
} s_split_t;

static bool
s_joins(uint32_t option, bool before, bool match)
{
    switch (option & 0xFF) {
    case VERL_SPLIT_WITH_PREVIOUS: return match && !before;
    case VERL_SPLIT_WITH_NEXT:     return before && !match;
    case VERL_SPLIT_CONTIGUOUS:    return before == match;
    default:                       return false;
    }
}

static int
s_stretch(s_run_t *self, s_split_t *split, const char *text, size_t start, size_t end, bool match)
{
    uint32_t option = self->engine->image.steps[VERL_PIPE_PRE_TOKENIZER][split->index].option;
    match ^= (option & VERL_SPLIT_INVERT) != 0;
    if (start == end || ((option & 0xFF) == VERL_SPLIT_REMOVED && match))
        return 0;
    if (split->held && s_joins(option, split->match, match)) {
        split->end = end;
        split->match = match;
        return 0;
    }
    s_split_t done = *split;
    split->held = true;
    split->match = match;
    split->start = start;
    split->end = end;
    return done.held ? s_cut(self, done.index + 1, text + done.start, done.end - done.start) : 0;
}

static int
s_split(s_run_t *self, uint32_t index, const char *text, size_t length)
{
    s_split_t split = { .index = index };
    const verl_pattern_t *pattern = &self->engine->pre_tokenizer[index];
    size_t done = 0, from = 0, start, end;
    while (from <= length) {
        int found = verl_pattern_find(pattern, &self->encoder->matcher, text, length, from, &start, &end);
        if (found < 0)
            return verl_text_fail(self->error, self->error_size,
                                  "%s: the pre-tokenizer's pattern is too costly for a text "
                                  "of %zu bytes, at byte %zu",
                                  self->engine->path, length, from);
        if (!found)
            break;
        if (s_stretch(self, &split, text, done, start, false) || s_stretch(self, &split, text, start, end, true))
            return -1;
        done = end;
        from = end > start ? end : end < length ? end + verl_utf8_length((uint8_t) text[end]) : end + 1;
    }
    if (s_stretch(self, &split, text, done, length, false))
        return -1;
    return split.held ? s_cut(self, index + 1, text + split.start, split.end - split.start) : 0;
}

static int
s_prefix_space(s_run_t *self, uint32_t index, const char *text, size_t length)
{
    if (text[0] == ' ')
        return s_cut(self, index + 1, text, length);
    verl_text_t spaced = { 0 };
    int rc = verl_text_add(&spaced, " ", 1) || verl_text_add(&spaced, text, length)
                 ? S_NO_MEMORY(self) : s_cut(self, index + 1, spaced.data, spaced.length);
    verl_text_done(&spaced);
    return rc;
}

// Runs step `index` and those behind it on one piece. The depth is the number of steps.
static int
s_cut(s_run_t *self, uint32_t index, const char *text, size_t length)
{
    const verl_token_image_t *image = &self->engine->image;
    if (length == 0)
        return 0;
    if (index == image->step_count[VERL_PIPE_PRE_TOKENIZER])
        return s_piece(self, (const uint8_t *) text, length);
    if (image->steps[VERL_PIPE_PRE_TOKENIZER][index].kind == VERL_STEP_PREFIX_SPACE)
        return s_prefix_space(self, index, text, length);
    return s_split(self, index, text, length);
}

// The added token that matches at the start of text, the longest of them; NULL for none.
static const verl_token_added_t *
s_match_added(const verl_engine_t *engine, int pass, const char *text, size_t length)
{
    const verl_token_added_t *added = engine->image.added[pass], *best = NULL;
    const char *strings = engine->image.strings;
    uint32_t low = 0, high = engine->image.added_count[pass];
    for (size_t depth = 0; low < high && depth < length; depth++) {
        uint8_t wanted = (uint8_t) text[depth];
        // Those of [low, high) share `depth` bytes; keep those whose next byte is the wanted one.
        for (uint32_t top = high; low < top;) {
            uint32_t middle = low + (top - low) / 2;
            verl_token_span_t match = added[middle].match;
            if (match.length <= depth || (uint8_t) strings[match.offset + depth] < wanted)
                low = middle + 1;
            else
                top = middle;
        }
        for (uint32_t bottom = low; bottom < high;) {
            uint32_t middle = bottom + (high - bottom) / 2;
            if ((uint8_t) strings[added[middle].match.offset + depth] > wanted)
                high = middle;
            else
                bottom = middle + 1;
        }
        if (low < high && added[low].match.length == depth + 1)
            best = &added[low];
    }
    return best;
}

static bool
s_is_word(const s_run_t *self, const char *text, size_t length)
{
    size_t start, end, one = length ? verl_utf8_length((uint8_t) text[0]) : 0;
    return one && verl_pattern_find(&self->engine->word, &self->encoder->matcher, text, one, 0, &start, &end) == 1;
}

static size_t
s_previous(const char *text, size_t at)
{
    do
        at--;
    while (at > 0 && ((uint8_t) text[at] & 0xC0) == 0x80);
    return at;
}

static bool
s_is_space(const char *text, size_t length)
{
    uint32_t code = 0;
    size_t skip;
    verl_utf8_next((const uint8_t *) text, length, &code, &skip);
    return (code >= 9 && code <= 13) || code == 32 || code == 0x85 || code == 0xA0 || code == 0x1680
           || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F
           || code == 0x3000;
}

// Widens a match over white space where the token says so, up to what the last match took: of a token that is white
// space itself nothing may be left.
static void
s_strip(const verl_token_added_t *added, const char *text, size_t length, size_t least, size_t *start, size_t *end)
{
    if (added->flags & VERL_ADDED_LSTRIP && *start < least)
        *start = least;
    if (added->flags & VERL_ADDED_LSTRIP)
        while (*start > least && s_is_space(text + s_previous(text, *start), length - s_previous(text, *start)))
            *start = s_previous(text, *start);
    if (added->flags & VERL_ADDED_RSTRIP)
        while (*end < length && s_is_space(text + *end, length - *end))
            *end += verl_utf8_length((uint8_t) text[*end]);
}

// Whether a match counts. One that does not is still skipped as a whole, as in the reference.
static bool
s_counts(const s_run_t *self, const verl_token_added_t *added, const char *text, size_t length, size_t start,
         size_t end)
{
    if (added->flags & VERL_ADDED_SPECIAL && !(self->flags & VERL_TOKENIZER_PARSE_SPECIAL))
        return false;
    if (!(added->flags & VERL_ADDED_SINGLE_WORD))
        return true;
    bool word_before = start > 0 && s_is_word(self, text + s_previous(text, start), length - s_previous(text, start));
    return !word_before && !s_is_word(self, text + end, length - end);
}

static int s_gap(s_run_t *self, int pass, const char *text, size_t length);

// Takes the added tokens of one pass out of a text.
static int
s_extract(s_run_t *self, int pass, const char *text, size_t length)
{
    const uint8_t *starts = self->engine->starts[pass];
    size_t done = 0, at = 0;
    while (at < length) {
        if (!starts[(uint8_t) text[at]]) {
            at++;
            continue;
        }
        const verl_token_added_t *added = s_match_added(self->engine, pass, text + at, length - at);
        if (!added) {
            at++;
            continue;
        }
        size_t start = at, end = at + added->match.length;
        at = end;
        if (!s_counts(self, added, text, length, start, end))
            continue;
        s_strip(added, text, length, done, &start, &end);
        if (start >= end)
            continue;
        if (start > done && s_gap(self, pass, text + done, start - done))
            return -1;
        if (verl_token_ids_add(self->ids, (int32_t) added->id))
            return S_NO_MEMORY(self);
        done = end; // before the end of the last match, where that had taken the space behind it
    }
    return s_gap(self, pass, text + done, length - done);
}

// What lies between two added tokens.
static int
s_gap(s_run_t *self, int pass, const char *text, size_t length)
{
    const verl_engine_t *engine = self->engine;
    if (length == 0)
        return 0;
    if (pass == 1)
        return s_cut(self, 0, text, length);
    if (!verl_normalizer_changes(&engine->normalizer, text, length))
        return s_extract(self, 1, text, length);
    verl_text_t *normalized = &self->encoder->normalized;
    if (verl_normalizer_run(&engine->normalizer, text, length, normalized, self->error, self->error_size))
        return -1;
    return s_extract(self, 1, normalized->data, normalized->length);
}

int
verl_engine_encode(const verl_engine_t *self, verl_encoder_t *encoder, const char *text, size_t length,
                   unsigned flags, verl_token_ids_t *ids, char *error, size_t error_size)
{
    s_run_t run = { self, encoder, flags, ids, error, error_size };
    const verl_token_image_t *image = &self->image;
    if (length > INT32_MAX)
        return verl_text_fail(error, error_size,
                              "%s: a text of %zu bytes cannot be encoded in one piece; %d is the most", self->path,
                              length, INT32_MAX);
    if (length && verl_utf8_valid((const uint8_t *) text, length) < length) {
        encoder->lossy.length = 0;
        if (verl_utf8_add_lossy(&encoder->lossy, (const uint8_t *) text, length))
            return S_NO_MEMORY(&run);
        text = encoder->lossy.data;
        length = encoder->lossy.length;
    }
    if (flags & VERL_TOKENIZER_ADD_SPECIAL && s_add_all(&run, image->prefix, image->prefix_count))
        return -1;
    if (s_extract(&run, 0, text, length))
        return -1;
    return flags & VERL_TOKENIZER_ADD_SPECIAL ? s_add_all(&run, image->suffix, image->suffix_count) : 0;
}
