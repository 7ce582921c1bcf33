// decode.c: from ids to text.
//
// Of a byte-level tokenizer the bytes of all tokens are joined and then read as UTF-8, so that a character may lie
// across tokens. Other decoders work on a list of strings, one a token, step by step.
#include "actors/text/engine.h"
#include "actors/text/source.h"
#include "actors/text/utf8.h"
#include <stdlib.h>
#include <string.h>

#define S_NO_MEMORY(self) verl_text_fail(error, error_size, "%s: not enough memory", (self)->path)

// Whether the token takes part in the text.
static bool
s_counts(const verl_token_image_t *image, int32_t id, unsigned flags)
{
    if (id < 0 || (uint32_t) id >= image->header->tokens || !(image->flags[id] & VERL_TOKEN_EXISTS))
        return false;
    return !(flags & VERL_TOKENIZER_SKIP_SPECIAL && image->flags[id] & VERL_TOKEN_SPECIAL);
}

static int
s_join_bytes(const verl_token_image_t *image, const int32_t *ids, size_t count, unsigned flags, verl_text_t *text)
{
    for (size_t i = 0; i < count; i++)
        if (s_counts(image, ids[i], flags)
            && verl_text_add(text, image->bytes + image->bytes_offset[ids[i]],
                             image->bytes_offset[ids[i] + 1] - image->bytes_offset[ids[i]]))
            return -1;
    return 0;
}

// Replaces what is ill-formed behind `start`.
static int
s_make_lossy(verl_text_t *text, size_t start)
{
    const uint8_t *bytes = (const uint8_t *) text->data + start;
    size_t length = text->length - start;
    if (length == 0 || verl_utf8_valid(bytes, length) == length)
        return 0;
    verl_text_t lossy = { 0 };
    int rc = verl_utf8_add_lossy(&lossy, bytes, length);
    if (!rc) {
        text->length = start;
        rc = verl_text_add(text, lossy.data, lossy.length);
    }
    verl_text_done(&lossy);
    return rc;
}

// Strings of one buffer; a step reads one list and makes the next.
typedef struct {
    verl_text_t bytes;
    size_t     *end, count, capacity;       // where each string ends
} s_list_t;

static int
s_close(s_list_t *list)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 64;
        size_t *grown = realloc(list->end, capacity * sizeof *grown);
        if (!grown)
            return -1;
        list->end = grown;
        list->capacity = capacity;
    }
    list->end[list->count++] = list->bytes.length;
    return 0;
}

static int
s_add(s_list_t *list, const char *data, size_t length)
{
    return verl_text_add(&list->bytes, data, length) || s_close(list);
}

static const char *
s_string(const s_list_t *list, size_t index, size_t *length)
{
    size_t start = index ? list->end[index - 1] : 0;
    *length = list->end[index] - start;
    return list->bytes.data ? list->bytes.data + start : "";
}

// The byte that "<0xE2>" stands for, or -1.
static int
s_fallback_byte(const char *text, size_t length)
{
    char digits[3] = "", *stop;
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    memcpy(digits, text + 3, 2);
    long value = strtol(digits, &stop, 16);
    return stop == digits + 2 && digits[0] != '+' && digits[0] != '-' && digits[0] != ' ' ? (int) value : -1;
}

// A run of bytes is their text where it is well-formed as a whole, else one U+FFFD a byte.
static int
s_flush_bytes(s_list_t *out, verl_text_t *run)
{
    int rc = 0;
    if (run->length && verl_utf8_valid((const uint8_t *) run->data, run->length) == run->length)
        rc = s_add(out, run->data, run->length);
    else
        for (size_t i = 0; i < run->length && !rc; i++)
            rc = s_add(out, "\xEF\xBF\xBD", 3);
    run->length = 0;
    return rc;
}

static int
s_byte_fallback(const s_list_t *in, s_list_t *out)
{
    verl_text_t run = { 0 };
    int rc = 0;
    for (size_t i = 0; i < in->count && !rc; i++) {
        size_t length;
        const char *string = s_string(in, i, &length);
        int byte = s_fallback_byte(string, length);
        char value = (char) byte;
        if (byte >= 0)
            rc = verl_text_add(&run, &value, 1);
        else
            rc = s_flush_bytes(out, &run) || s_add(out, string, length);
    }
    rc = rc || s_flush_bytes(out, &run);
    verl_text_done(&run);
    return rc;
}

// Takes up to `start` copies of a character from the front of a string and up to `stop` from its back.
static int
s_strip(const char *character, size_t size, uint32_t option, const char *string, size_t length, s_list_t *out)
{
    size_t from = 0, to = length;
    for (uint32_t left = option & 0xFFFF; left && to - from >= size && memcmp(string + from, character, size) == 0;
         left--)
        from += size;
    for (uint32_t left = option >> 16; left && to - from >= size && memcmp(string + to - size, character, size) == 0;
         left--)
        to -= size;
    return s_add(out, string + from, to - from);
}

static int
s_step(const verl_engine_t *self, uint32_t index, verl_matcher_t *matcher, const s_list_t *in, s_list_t *out)
{
    const verl_token_step_t *step = &self->image.steps[VERL_PIPE_DECODER][index];
    const char *strings = self->image.strings;
    if (step->kind == VERL_STEP_BYTE_FALLBACK)
        return s_byte_fallback(in, out);
    if (step->kind == VERL_STEP_FUSE || step->kind == VERL_STEP_BYTE_LEVEL)
        return s_add(out, in->bytes.data, in->bytes.length) ||
               (step->kind == VERL_STEP_BYTE_LEVEL && (s_make_lossy(&out->bytes, 0) || (out->count = 0, s_close(out))));
    for (size_t i = 0; i < in->count; i++) {
        size_t length;
        const char *string = s_string(in, i, &length);
        int rc;
        if (step->kind == VERL_STEP_STRIP)
            rc = s_strip(strings + step->first.offset, step->first.length, step->option, string, length, out);
        else
            rc = verl_text_replace(&self->decoder[index], matcher, string, length, strings + step->second.offset,
                                   step->second.length, &out->bytes) || s_close(out);
        if (rc)
            return -1;
    }
    return 0;
}

static int
s_run_steps(const verl_engine_t *self, s_list_t *list)
{
    verl_matcher_t matcher = { 0 };
    s_list_t other = { 0 };
    int rc = 0;
    for (uint32_t i = 0; i < self->image.step_count[VERL_PIPE_DECODER] && !rc; i++) {
        other.count = other.bytes.length = 0;
        rc = s_step(self, i, &matcher, list, &other);
        s_list_t swap = *list;
        *list = other;
        other = swap;
    }
    verl_text_done(&other.bytes);
    free(other.end);
    verl_matcher_done(&matcher);
    return rc;
}

// What the decoder starts from: what the tokens stand for; contents where a byte-level model has a decoder that does
// not undo the alphabet. Without a decoder, a space lies between two tokens.
static int
s_collect(const verl_engine_t *self, const int32_t *ids, size_t count, unsigned flags, s_list_t *list)
{
    const verl_token_image_t *image = &self->image;
    bool bytes = !(image->header->flags & VERL_MODEL_BYTE_LEVEL), join = (image->header->flags & VERL_MODEL_JOIN) != 0;
    for (uint32_t i = 0; i < image->step_count[VERL_PIPE_DECODER]; i++)
        bytes |= image->steps[VERL_PIPE_DECODER][i].kind == VERL_STEP_BYTE_LEVEL;
    const char *contents = bytes ? image->bytes : image->contents;
    const uint32_t *offset = bytes ? image->bytes_offset : image->content_offset;
    for (size_t i = 0; i < count; i++) {
        if (!s_counts(image, ids[i], flags))
            continue;
        if ((join && list->count && verl_text_add(&list->bytes, " ", 1))
            || s_add(list, contents + offset[ids[i]], offset[ids[i] + 1] - offset[ids[i]]))
            return -1;
    }
    return 0;
}

int
verl_engine_decode(const verl_engine_t *self, const int32_t *ids, size_t count, unsigned flags, verl_text_t *text,
                   char *error, size_t error_size)
{
    size_t start = text->length;
    if (verl_text_add(text, "", 0))
        return S_NO_MEMORY(self);
    if (self->byte_decoder) {
        if (!s_join_bytes(&self->image, ids, count, flags, text) && !s_make_lossy(text, start))
            return 0;
        text->length = start;
        return S_NO_MEMORY(self);
    }
    s_list_t list = { 0 };
    int rc = s_collect(self, ids, count, flags, &list) || s_run_steps(self, &list)
             || verl_text_add(text, list.bytes.data, list.bytes.length) || s_make_lossy(text, start);
    verl_text_done(&list.bytes);
    free(list.end);
    if (rc)
        text->length = start;
    return rc ? S_NO_MEMORY(self) : 0;
}
