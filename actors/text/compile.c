// compile.c: makes an image of a source: resolves added tokens and merges, builds the tables.
#include "actors/text/alphabet.h"
#include "actors/text/bpe.h"
#include "actors/text/hash.h"
#include "actors/text/normalize.h"
#include "actors/text/source.h"
#include "actors/text/utf8.h"
#include <stdio.h>
#include <stdlib.h>

// Sections grow one by one and are put together at the end.
typedef struct {
    const verl_token_source_t *source;
    const char                *path;
    char                      *error;
    size_t                     error_size;
    verl_text_t                section[VERL_SECTIONS];
    verl_image_header_t        header;
    uint32_t                  *offsets;     // of contents, tokens + 1
    uint8_t                   *flags;
    verl_token_slot_t         *contents;
    uint32_t                   contents_mask;
} s_compiler_t;

#define S_FAIL(compiler, ...) verl_text_fail((compiler)->error, (compiler)->error_size, __VA_ARGS__)
#define S_NO_MEMORY(compiler) S_FAIL(compiler, "%s: not enough memory", (compiler)->path)

// A power of two that leaves at least half of the slots empty.
static uint32_t
s_slots(size_t count)
{
    uint32_t slots = 4;
    while (slots < 2 * count + 2)
        slots *= 2;
    return slots;
}

static const char *
s_text(const s_compiler_t *self, verl_token_span_t span)
{
    return span.length ? self->source->strings.data + span.offset : "";
}

static uint32_t
s_find(const s_compiler_t *self, const char *content, size_t length)
{
    const char *contents = self->section[VERL_SECTION_CONTENTS].data;
    uint64_t hash = verl_hash(content, length, 0);
    for (uint32_t at = (uint32_t) hash & self->contents_mask;; at = (at + 1) & self->contents_mask) {
        uint32_t id = self->contents[at].id;
        if (id == UINT32_MAX)
            return UINT32_MAX;
        if (self->contents[at].hash == (uint32_t) (hash >> 32) && self->offsets[id + 1] - self->offsets[id] == length
            && memcmp(contents + self->offsets[id], content, length) == 0)
            return id;
    }
}

static void
s_put(verl_token_slot_t *table, uint32_t mask, uint64_t hash, uint32_t id)
{
    uint32_t at = (uint32_t) hash & mask;
    while (table[at].id != UINT32_MAX)
        at = (at + 1) & mask;
    table[at] = (verl_token_slot_t) { (uint32_t) (hash >> 32), id };
}

// Reserves a section of records of which every byte is `fill`.
static void *
s_table(s_compiler_t *self, int section, size_t bytes, int fill)
{
    verl_text_t *text = &self->section[section];
    text->data = calloc(1, bytes + sizeof(uint64_t));
    text->length = text->capacity = text->data ? bytes : 0;
    return text->data ? memset(text->data, fill, bytes) : NULL;
}

// The contents, flags and content table of all ids that the source gives. A content that stands twice (a GGUF file
// may) keeps its first id.
static int
s_place_contents(s_compiler_t *self, const verl_source_token_t *token, size_t count)
{
    uint32_t slots = s_slots(count);
    self->header.tokens = (uint32_t) count;
    self->offsets = s_table(self, VERL_SECTION_CONTENT_OFFSETS, (count + 1) * sizeof(uint32_t), 0);
    self->flags = s_table(self, VERL_SECTION_TOKEN_FLAGS, count, 0);
    self->contents = s_table(self, VERL_SECTION_CONTENT_TABLE, slots * sizeof(verl_token_slot_t), 0xFF);
    self->contents_mask = slots - 1;
    if (!self->offsets || !self->flags || !self->contents)
        return S_NO_MEMORY(self);
    for (size_t id = 0; id < count; id++) {
        verl_token_span_t span = token[id].content;
        self->flags[id] = (uint8_t) token[id].flags;
        if (verl_text_add(&self->section[VERL_SECTION_CONTENTS], s_text(self, span), span.length))
            return S_NO_MEMORY(self);
        self->offsets[id + 1] = (uint32_t) self->section[VERL_SECTION_CONTENTS].length;
        if (token[id].flags && s_find(self, s_text(self, span), span.length) == UINT32_MAX)
            s_put(self->contents, self->contents_mask, verl_hash(s_text(self, span), span.length, 0), (uint32_t) id);
    }
    return 0;
}

// The reference gives an added token that is not in the vocabulary the next free id, in the order of the file.
static uint32_t
s_next_id(uint32_t model_size, int64_t highest_added)
{
    return highest_added >= (int64_t) model_size ? (uint32_t) highest_added + 1 : model_size;
}

// Adds the added tokens to a copy of the vocabulary and writes their final ids into *added.
static int
s_resolve_added(s_compiler_t *self, verl_token_source_t *all, verl_token_added_t *added)
{
    uint32_t model_size = 0;
    int64_t highest = -1;
    for (size_t id = 0; id < self->source->token_count; id++)
        model_size += self->source->token[id].flags != 0;
    for (size_t i = 0; i < self->source->added_count; i++) {
        verl_token_span_t match = added[i].match;
        uint32_t id = s_find(self, s_text(self, match), match.length);
        for (size_t j = 0; j < i && id == UINT32_MAX; j++)
            if (added[j].match.length == match.length &&
                !memcmp(s_text(self, added[j].match), s_text(self, match), match.length))
                id = added[j].id;
        if (id == UINT32_MAX) {
            id = s_next_id(model_size, highest);
            if (id >= VERL_IMAGE_MAX_TOKENS || verl_source_add_token(all, id, match, 0))
                return S_FAIL(self,
                              "%s: the added token \"%.*s\" would get id %u, which is taken: the ids of model.vocab "
                              "have a gap",
                              self->path, (int) match.length, s_text(self, match), id);
        }
        added[i].id = id;
        highest = id > highest ? id : highest;
        if (added[i].flags & VERL_ADDED_SPECIAL)
            all->token[id].flags |= VERL_TOKEN_SPECIAL;
    }
    return 0;
}

static int
s_place_tokens(s_compiler_t *self, verl_token_added_t *added)
{
    verl_token_source_t all;
    verl_source_init(&all);
    int rc = s_place_contents(self, self->source->token, self->source->token_count);
    for (size_t id = 0; !rc && id < self->source->token_count; id++)
        if (self->source->token[id].flags)
            rc = verl_source_add_token(&all, (uint32_t) id, self->source->token[id].content,
                                       self->source->token[id].flags)
                     ? S_NO_MEMORY(self)
                     : 0;
    rc = rc ? rc : s_resolve_added(self, &all, added);
    for (int i = VERL_SECTION_CONTENT_OFFSETS; i <= VERL_SECTION_CONTENT_TABLE; i++)
        verl_text_done(&self->section[i]);
    rc = rc ? rc : s_place_contents(self, all.token, all.token_count);
    verl_source_done(&all);
    return rc;
}

static int
s_place_byte_ids(s_compiler_t *self)
{
    int32_t *ids = s_table(self, VERL_SECTION_BYTE_IDS, 256 * sizeof *ids, 0xFF);
    if (!ids)
        return S_NO_MEMORY(self);
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[8];
        uint8_t character[4];
        uint32_t id;
        if (self->source->flags & VERL_MODEL_BYTE_LEVEL) {
            size_t length = verl_utf8_write(verl_alphabet_character((uint8_t) byte), character);
            id = s_find(self, (const char *) character, length);
        } else {
            snprintf(name, sizeof name, "<0x%02X>", byte);
            id = s_find(self, name, 6);
        }
        ids[byte] = id != UINT32_MAX && self->flags[id] & VERL_TOKEN_MODEL ? (int32_t) id : -1;
    }
    return 0;
}

// A pair that stands twice counts with its later rank, as in the reference.
static void
s_put_merge(verl_token_merge_t *table, uint32_t mask, verl_token_merge_t merge)
{
    uint32_t at = (uint32_t) verl_image_merge_hash(merge.left, merge.right) & mask;
    while (table[at].left != UINT32_MAX && (table[at].left != merge.left || table[at].right != merge.right))
        at = (at + 1) & mask;
    table[at] = merge;
}

static int
s_place_merges(s_compiler_t *self)
{
    size_t count = self->source->merge_count;
    uint32_t slots = s_slots(count);
    verl_token_merge_t *table = s_table(self, VERL_SECTION_MERGES, slots * sizeof *table, 0xFF);
    verl_text_t whole = { 0 };
    if (!table)
        return S_NO_MEMORY(self);
    for (size_t rank = 0; rank < count; rank++) {
        verl_source_merge_t merge = self->source->merge[rank];
        whole.length = 0;
        if (verl_text_add(&whole, s_text(self, merge.left), merge.left.length)
            || verl_text_add(&whole, s_text(self, merge.right), merge.right.length)) {
            verl_text_done(&whole);
            return S_NO_MEMORY(self);
        }
        uint32_t left = s_find(self, s_text(self, merge.left), merge.left.length);
        uint32_t right = s_find(self, s_text(self, merge.right), merge.right.length);
        uint32_t id = s_find(self, whole.data, whole.length);
        if (left == UINT32_MAX || right == UINT32_MAX || id == UINT32_MAX) {
            S_FAIL(self, "%s: merge %zu, \"%.*s\" and \"%.*s\", needs a token that the vocabulary does not have",
                   self->path, rank, (int) merge.left.length, s_text(self, merge.left), (int) merge.right.length,
                   s_text(self, merge.right));
            verl_text_done(&whole);
            return -1;
        }
        s_put_merge(table, slots - 1, (verl_token_merge_t) { left, right, (uint32_t) rank, id });
    }
    verl_text_done(&whole);
    return 0;
}

// Copies a string of the source into the image, and makes the span one of the image.
static int
s_keep(s_compiler_t *self, verl_token_span_t *span)
{
    verl_text_t *strings = &self->section[VERL_SECTION_STRINGS];
    size_t offset = strings->length;
    if (verl_text_add(strings, s_text(self, *span), span->length))
        return S_NO_MEMORY(self);
    span->offset = (uint32_t) offset;
    return 0;
}

typedef struct {
    verl_token_added_t added;
    const char        *text;
} s_sortable_t;

static int
s_compare(const void *left, const void *right)
{
    const s_sortable_t *a = left, *b = right;
    uint32_t shorter = a->added.match.length < b->added.match.length ? a->added.match.length : b->added.match.length;
    int order = memcmp(a->text, b->text, shorter);
    return order ? order
                 : (a->added.match.length > b->added.match.length) - (a->added.match.length < b->added.match.length);
}

// Normalises what the flags say, into the section of strings.
static int
s_normalize_added(s_compiler_t *self, verl_token_added_t *added)
{
    verl_normalizer_t normalizer;
    verl_text_t out = { 0 };
    const verl_token_source_t *source = self->source;
    if (verl_normalizer_init(&normalizer, source->step[VERL_PIPE_NORMALIZER],
                             (uint32_t) source->step_count[VERL_PIPE_NORMALIZER], source->strings.data, self->path,
                             self->error, self->error_size))
        return -1;
    int rc = verl_normalizer_run(&normalizer, s_text(self, added->match), added->match.length, &out, self->error,
                                 self->error_size);
    verl_normalizer_done(&normalizer);
    verl_text_t *strings = &self->section[VERL_SECTION_STRINGS];
    added->match = (verl_token_span_t) { (uint32_t) strings->length, (uint32_t) out.length };
    if (!rc && verl_text_add(strings, out.data, out.length))
        rc = S_NO_MEMORY(self);
    verl_text_done(&out);
    return rc;
}

// Sorted by content, so that the longest match at a place is found by narrowing a range.
static int
s_place_added(s_compiler_t *self, verl_token_added_t *added, bool normalized)
{
    size_t count = 0, total = self->source->added_count;
    s_sortable_t *list = calloc(total + 1, sizeof *list);
    if (!list)
        return S_NO_MEMORY(self);
    for (size_t i = 0; i < total; i++)
        if (((added[i].flags & VERL_ADDED_NORMALIZED) != 0) == normalized && added[i].match.length)
            list[count++].added = added[i];
    bool change = normalized && self->source->step_count[VERL_PIPE_NORMALIZER];
    for (size_t i = 0; i < count; i++)
        if (change ? s_normalize_added(self, &list[i].added) : s_keep(self, &list[i].added.match)) {
            free(list);
            return -1;
        }
    for (size_t i = 0; i < count; i++)
        list[i].text = self->section[VERL_SECTION_STRINGS].data + list[i].added.match.offset;
    qsort(list, count, sizeof *list, s_compare);
    int rc = 0;
    for (size_t i = 0; i < count && !rc; i++)
        if (list[i].added.match.length)
            rc = verl_text_add(&self->section[VERL_SECTION_ADDED_RAW + normalized], &list[i].added,
                               sizeof list[i].added);
    free(list);
    return rc ? S_NO_MEMORY(self) : 0;
}

// The text that a token is decoded from: its content; of an added token that is looked for in normalised text what the
// normaliser makes of it, as in the reference.
static const char *
s_decoded_from(const s_compiler_t *self, uint32_t id, uint32_t *length)
{
    const verl_text_t *list = &self->section[VERL_SECTION_ADDED_NORMALIZED];
    const verl_token_added_t *added = (const verl_token_added_t *) (const void *) list->data;
    for (size_t i = 0; !(self->flags[id] & VERL_TOKEN_MODEL) && i < list->length / sizeof *added; i++)
        if (added[i].id == id) {
            *length = added[i].match.length;
            return self->section[VERL_SECTION_STRINGS].data + added[i].match.offset;
        }
    *length = self->offsets[id + 1] - self->offsets[id];
    return *length ? self->section[VERL_SECTION_CONTENTS].data + self->offsets[id] : "";
}

// What one token stands for, and its place in the table of pieces. Of a token that is not in the alphabet the
// reference's decoder writes the content as it is.
static int
s_place_token_bytes(s_compiler_t *self, uint32_t id, bool alphabet, uint32_t *offset, verl_token_slot_t *table,
                    uint32_t mask)
{
    verl_text_t *bytes = &self->section[VERL_SECTION_BYTES];
    bool byte_level = (self->source->flags & VERL_MODEL_BYTE_LEVEL) != 0, memory = true;
    uint32_t length;
    const char *content = s_decoded_from(self, id, &length);
    bool inside = alphabet && verl_alphabet_bytes(content, length, bytes, &memory);
    if (!memory || (!inside && verl_text_add(bytes, content, length)))
        return S_NO_MEMORY(self);
    offset[id + 1] = (uint32_t) bytes->length;
    uint32_t size = offset[id + 1] - offset[id];
    if (size > self->header.longest)
        self->header.longest = size;
    if (!(self->flags[id] & VERL_TOKEN_MODEL) || (byte_level && !inside))
        return 0;
    self->flags[id] |= VERL_TOKEN_PIECE;
    s_put(table, mask, verl_hash(bytes->data + offset[id], size, 0), id);
    return 0;
}

static int
s_place_bytes(s_compiler_t *self)
{
    uint32_t tokens = self->header.tokens, slots = s_slots(tokens);
    uint32_t *offset = s_table(self, VERL_SECTION_BYTES_OFFSETS, ((size_t) tokens + 1) * sizeof *offset, 0);
    verl_token_slot_t *table = s_table(self, VERL_SECTION_PIECE_TABLE, slots * sizeof *table, 0xFF);
    bool alphabet = (self->source->flags & VERL_MODEL_BYTE_LEVEL) != 0;
    for (size_t i = 0; i < self->source->step_count[VERL_PIPE_DECODER]; i++)
        alphabet |= self->source->step[VERL_PIPE_DECODER][i].kind == VERL_STEP_BYTE_LEVEL;
    if (!offset || !table || verl_text_add(&self->section[VERL_SECTION_BYTES], "", 0))
        return S_NO_MEMORY(self);
    for (uint32_t id = 0; id < tokens; id++)
        if (s_place_token_bytes(self, id, alphabet, offset, table, slots - 1))
            return -1;
    return 0;
}

static int
s_special_id(const s_compiler_t *self, int32_t id, verl_token_span_t content)
{
    if (id >= 0)
        return (uint32_t) id < self->header.tokens ? id : -1;
    uint32_t found = content.length ? s_find(self, s_text(self, content), content.length) : UINT32_MAX;
    return found == UINT32_MAX ? -1 : (int32_t) found;
}

static int
s_place_post_processor(s_compiler_t *self)
{
    const verl_token_source_t *source = self->source;
    for (int side = 0; side < 2; side++) {
        const int32_t *ids = side ? source->suffix : source->prefix;
        size_t count = side ? source->suffix_count : source->prefix_count;
        for (size_t i = 0; i < count; i++)
            if ((uint32_t) ids[i] >= self->header.tokens)
                return S_FAIL(self, "%s: the post-processor adds id %d; the highest id is %u", self->path, (int) ids[i],
                              self->header.tokens - 1);
        if (verl_text_add(&self->section[side ? VERL_SECTION_SUFFIX : VERL_SECTION_PREFIX], ids, count * sizeof *ids))
            return S_NO_MEMORY(self);
    }
    return 0;
}

static int
s_place_rest(s_compiler_t *self)
{
    const verl_token_source_t *source = self->source;
    for (int pipe = 0; pipe < 3; pipe++)
        for (size_t i = 0; i < source->step_count[pipe]; i++) {
            verl_token_step_t step = source->step[pipe][i];
            if (s_keep(self, &step.first) || s_keep(self, &step.second))
                return -1;
            if (verl_text_add(&self->section[VERL_SECTION_NORMALIZER + pipe], &step, sizeof step))
                return S_NO_MEMORY(self);
        }
    if (verl_text_add(&self->section[VERL_SECTION_CHAT_TEMPLATE], s_text(self, source->chat_template),
                      source->chat_template.length))
        return S_NO_MEMORY(self);
    self->header.flags = source->flags | (source->no_decoder ? (uint32_t) VERL_MODEL_JOIN : 0u);
    self->header.unk = s_special_id(self, -1, source->unk);
    for (int i = 0; i < VERL_NAMED_TOKENS; i++)
        self->header.named[i] = s_special_id(self, source->named_id[i], source->named[i]);
    return s_place_post_processor(self);
}

static uint64_t
s_identity(const s_compiler_t *self)
{
    uint64_t identity = 0;
    const char *contents = self->section[VERL_SECTION_CONTENTS].data;
    for (uint32_t id = 0; id < self->header.tokens; id++)
        if (self->flags[id] && !(self->flags[id] & VERL_TOKEN_PADDING))
            identity =
                verl_hash(contents + self->offsets[id], self->offsets[id + 1] - self->offsets[id], identity ^ id);
    return identity;
}

static size_t
s_round(size_t size)
{
    return (size + 15) / 16 * 16;
}

// Puts header and sections into one block.
static void *
s_assemble(s_compiler_t *self)
{
    size_t size = s_round(sizeof self->header);
    for (int i = 0; i < VERL_SECTIONS; i++) {
        self->header.section[i].offset = size;
        self->header.section[i].size = self->section[i].length;
        size += s_round(self->section[i].length);
    }
    char *block = calloc(1, size);
    if (!block)
        return NULL;
    self->header.size = size;
    memcpy(block, &self->header, sizeof self->header);
    for (int i = 0; i < VERL_SECTIONS; i++)
        if (self->section[i].length)
            memcpy(block + self->header.section[i].offset, self->section[i].data, self->section[i].length);
    return block;
}

// Marks the tokens to which their own bytes merge, so that encoding such a piece is one look-up.
static int
s_mark_whole(verl_token_image_t *image)
{
    verl_bpe_t bpe = { 0 };
    verl_token_ids_t ids = { 0 };
    uint8_t *flags = (uint8_t *) image->block + image->header->section[VERL_SECTION_TOKEN_FLAGS].offset;
    int rc = 0;
    for (uint32_t id = 0; id < image->header->tokens && !rc; id++) {
        if (!(flags[id] & VERL_TOKEN_PIECE))
            continue;
        ids.count = 0;
        rc = verl_bpe_encode(&bpe, image, (const uint8_t *) image->bytes + image->bytes_offset[id],
                             image->bytes_offset[id + 1] - image->bytes_offset[id], &ids);
        if (!rc && ids.count == 1 && ids.data[0] == (int32_t) id)
            flags[id] |= VERL_TOKEN_WHOLE;
    }
    verl_bpe_done(&bpe);
    verl_token_ids_done(&ids);
    return rc;
}

static int
s_compile(s_compiler_t *self, verl_token_added_t *added, verl_token_image_t *ret_image)
{
    if (s_place_tokens(self, added) || s_place_added(self, added, false) || s_place_added(self, added, true)
        || s_place_bytes(self) || s_place_byte_ids(self) || s_place_merges(self) || s_place_rest(self))
        return -1;
    self->header.identity = s_identity(self);
    void *block = s_assemble(self);
    if (!block)
        return S_NO_MEMORY(self);
    verl_image_view(ret_image, block, self->header.size, false);
    if (s_mark_whole(ret_image)) {
        verl_image_done(ret_image);
        return S_NO_MEMORY(self);
    }
    ((verl_image_header_t *) block)->checksum = verl_image_checksum(block, self->header.size);
    const char *wrong = verl_image_check(block, self->header.size, self->header.key);
    if (!wrong)
        return 0;
    verl_image_done(ret_image);
    return S_FAIL(self, "%s: cannot be compiled: %s", self->path, wrong);
}

int
verl_source_compile(const verl_token_source_t *self, const uint64_t key[2], const char *path,
                    verl_token_image_t *ret_image, char *error, size_t error_size)
{
    s_compiler_t compiler = { .source = self, .path = path, .error = error, .error_size = error_size };
    compiler.header = (verl_image_header_t) { .magic = "verltok", .version = VERL_IMAGE_VERSION,
                                              .key = { key[0], key[1] } };
    verl_token_added_t *added = calloc(self->added_count + 1, sizeof *added);
    int rc = -1;
    *ret_image = (verl_token_image_t) { 0 };
    if (added && !verl_text_add(&compiler.section[VERL_SECTION_STRINGS], "", 0)) {
        if (self->added_count)
            memcpy(added, self->added, self->added_count * sizeof *added);
        rc = s_compile(&compiler, added, ret_image);
    } else {
        verl_text_fail(error, error_size, "%s: not enough memory", path);
    }
    free(added);
    for (int i = 0; i < VERL_SECTIONS; i++)
        verl_text_done(&compiler.section[i]);
    return rc;
}
