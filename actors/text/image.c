// image.c: views into an image, its check and its look-ups.
#include "actors/text/image.h"
#include "actors/text/hash.h"
#include <stdlib.h>
#include <sys/mman.h>

static const void *
s_section(const verl_token_image_t *image, int section)
{
    return (const char *) image->block + image->header->section[section].offset;
}

static uint32_t
s_count(const verl_token_image_t *image, int section, size_t record)
{
    return (uint32_t) (image->header->section[section].size / record);
}

void
verl_image_view(verl_token_image_t *image, void *block, size_t size, bool mapped)
{
    *image = (verl_token_image_t) { .header = block, .block = block, .block_size = size, .mapped = mapped };
    image->content_offset = s_section(image, VERL_SECTION_CONTENT_OFFSETS);
    image->contents = s_section(image, VERL_SECTION_CONTENTS);
    image->bytes_offset = s_section(image, VERL_SECTION_BYTES_OFFSETS);
    image->bytes = s_section(image, VERL_SECTION_BYTES);
    image->flags = s_section(image, VERL_SECTION_TOKEN_FLAGS);
    image->content_table = s_section(image, VERL_SECTION_CONTENT_TABLE);
    image->content_mask = s_count(image, VERL_SECTION_CONTENT_TABLE, sizeof *image->content_table) - 1;
    image->piece_table = s_section(image, VERL_SECTION_PIECE_TABLE);
    image->piece_mask = s_count(image, VERL_SECTION_PIECE_TABLE, sizeof *image->piece_table) - 1;
    image->merges = s_section(image, VERL_SECTION_MERGES);
    image->merge_mask = s_count(image, VERL_SECTION_MERGES, sizeof *image->merges) - 1;
    image->byte_ids = s_section(image, VERL_SECTION_BYTE_IDS);
    for (int i = 0; i < 2; i++) {
        image->added[i] = s_section(image, VERL_SECTION_ADDED_RAW + i);
        image->added_count[i] = s_count(image, VERL_SECTION_ADDED_RAW + i, sizeof *image->added[i]);
    }
    for (int i = 0; i < 3; i++) {
        image->steps[i] = s_section(image, VERL_SECTION_NORMALIZER + i);
        image->step_count[i] = s_count(image, VERL_SECTION_NORMALIZER + i, sizeof *image->steps[i]);
    }
    image->prefix = s_section(image, VERL_SECTION_PREFIX);
    image->prefix_count = s_count(image, VERL_SECTION_PREFIX, sizeof *image->prefix);
    image->suffix = s_section(image, VERL_SECTION_SUFFIX);
    image->suffix_count = s_count(image, VERL_SECTION_SUFFIX, sizeof *image->suffix);
    image->chat_template = s_section(image, VERL_SECTION_CHAT_TEMPLATE);
    image->strings = s_section(image, VERL_SECTION_STRINGS);
}

void
verl_image_done(verl_token_image_t *image)
{
    if (image->block && image->mapped)
        munmap(image->block, image->block_size);
    else
        free(image->block);
    *image = (verl_token_image_t) { 0 };
}

uint64_t
verl_image_checksum(const void *block, size_t size)
{
    verl_image_header_t header;
    memcpy(&header, block, sizeof header);
    header.checksum = 0;
    uint64_t seed = verl_hash(&header, sizeof header, 1);
    return verl_hash((const char *) block + sizeof header, size - sizeof header, seed);
}

// The size of one record of each section, and whether the number of records is that of the tokens (1), one more (2),
// a power of two (4), or 256 (8).
static const struct { uint16_t record, rule; } s_shape[VERL_SECTIONS] = {
    [VERL_SECTION_CONTENT_OFFSETS]  = { sizeof(uint32_t), 2 },
    [VERL_SECTION_CONTENTS]         = { 1, 0 },
    [VERL_SECTION_BYTES_OFFSETS]    = { sizeof(uint32_t), 2 },
    [VERL_SECTION_BYTES]            = { 1, 0 },
    [VERL_SECTION_TOKEN_FLAGS]      = { 1, 1 },
    [VERL_SECTION_CONTENT_TABLE]    = { sizeof(verl_token_slot_t), 4 },
    [VERL_SECTION_PIECE_TABLE]      = { sizeof(verl_token_slot_t), 4 },
    [VERL_SECTION_MERGES]           = { sizeof(verl_token_merge_t), 4 },
    [VERL_SECTION_BYTE_IDS]         = { sizeof(int32_t), 8 },
    [VERL_SECTION_ADDED_RAW]        = { sizeof(verl_token_added_t), 0 },
    [VERL_SECTION_ADDED_NORMALIZED] = { sizeof(verl_token_added_t), 0 },
    [VERL_SECTION_NORMALIZER]       = { sizeof(verl_token_step_t), 0 },
    [VERL_SECTION_PRE_TOKENIZER]    = { sizeof(verl_token_step_t), 0 },
    [VERL_SECTION_DECODER]          = { sizeof(verl_token_step_t), 0 },
    [VERL_SECTION_PREFIX]           = { sizeof(int32_t), 0 },
    [VERL_SECTION_SUFFIX]           = { sizeof(int32_t), 0 },
    [VERL_SECTION_CHAT_TEMPLATE]    = { 1, 0 },
    [VERL_SECTION_STRINGS]          = { 1, 0 },
};

static bool
s_sections_fit(const verl_image_header_t *header, size_t size)
{
    for (int i = 0; i < VERL_SECTIONS; i++) {
        uint64_t offset = header->section[i].offset, bytes = header->section[i].size, record = s_shape[i].record;
        uint64_t count = bytes / record, tokens = header->tokens;
        if (offset % 16 || offset < sizeof *header || offset > size || bytes > size - offset || bytes % record)
            return false;
        unsigned rule = s_shape[i].rule;
        if ((rule == 1 && count != tokens) || (rule == 2 && count != tokens + 1) || (rule == 8 && count != 256))
            return false;
        if (rule == 4 && (count == 0 || count > 1u << 30 || (count & (count - 1)) != 0))
            return false;
    }
    return true;
}

static bool
s_offsets_fit(const uint32_t *offset, uint32_t tokens, uint64_t size)
{
    for (uint32_t i = 0; i < tokens; i++)
        if (offset[i] > offset[i + 1])
            return false;
    return offset[tokens] <= size;
}

// A table must have an empty slot, where an unsuccessful search ends.
static bool
s_slots_fit(const verl_token_slot_t *slot, uint64_t count, uint32_t tokens)
{
    uint64_t empty = 0;
    for (uint64_t i = 0; i < count; i++) {
        empty += slot[i].id == UINT32_MAX;
        if (slot[i].id != UINT32_MAX && slot[i].id >= tokens)
            return false;
    }
    return empty > 0;
}

static bool
s_merges_fit(const verl_token_merge_t *merge, uint64_t count, uint32_t tokens)
{
    uint64_t empty = 0;
    for (uint64_t i = 0; i < count; i++) {
        empty += merge[i].left == UINT32_MAX;
        if (merge[i].left != UINT32_MAX &&
            (merge[i].left >= tokens || merge[i].right >= tokens || merge[i].id >= tokens))
            return false;
    }
    return empty > 0;
}

static bool
s_ids_fit(const int32_t *ids, uint32_t count, uint32_t tokens, int32_t least)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] < least || (ids[i] >= 0 && (uint32_t) ids[i] >= tokens))
            return false;
    return true;
}

static bool
s_span_fits(verl_token_span_t span, uint64_t size)
{
    return span.offset <= size && span.length <= size - span.offset;
}

static bool
s_records_fit(const verl_token_image_t *image)
{
    uint64_t strings = image->header->section[VERL_SECTION_STRINGS].size;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < image->added_count[pass]; i++) {
            const verl_token_added_t *added = &image->added[pass][i];
            if (added->id >= image->header->tokens || added->match.length == 0 || !s_span_fits(added->match, strings))
                return false;
        }
    for (int pipe = 0; pipe < 3; pipe++)
        for (uint32_t i = 0; i < image->step_count[pipe]; i++) {
            const verl_token_step_t *step = &image->steps[pipe][i];
            if (step->kind >= VERL_STEP_KINDS || !s_span_fits(step->first, strings) ||
                !s_span_fits(step->second, strings))
                return false;
        }
    return true;
}

const char *
verl_image_check(const void *block, size_t size, const uint64_t key[2])
{
    const verl_image_header_t *header = block;
    if (size < sizeof *header || memcmp(header->magic, "verltok", 8) != 0 || header->version != VERL_IMAGE_VERSION)
        return "it is not a tokenizer image of this version";
    if (header->size != size)
        return "its size is not the one in its header";
    if (key && (header->key[0] != key[0] || header->key[1] != key[1]))
        return "it was made from another file";
    if (header->checksum != verl_image_checksum(block, size))
        return "its checksum is wrong";
    if (header->tokens > VERL_IMAGE_MAX_TOKENS || !s_sections_fit(header, size))
        return "a section does not fit";
    verl_token_image_t image;
    verl_image_view(&image, (void *) (uintptr_t) block, size, false);
    uint32_t tokens = header->tokens;
    if (!s_offsets_fit(image.content_offset, tokens, header->section[VERL_SECTION_CONTENTS].size)
        || !s_offsets_fit(image.bytes_offset, tokens, header->section[VERL_SECTION_BYTES].size)
        || !s_slots_fit(image.content_table, (uint64_t) image.content_mask + 1, tokens)
        || !s_slots_fit(image.piece_table, (uint64_t) image.piece_mask + 1, tokens)
        || !s_merges_fit(image.merges, (uint64_t) image.merge_mask + 1, tokens)
        || !s_ids_fit(image.byte_ids, 256, tokens, -1) || !s_ids_fit(&header->unk, 1, tokens, -1)
        || !s_ids_fit(header->named, VERL_NAMED_TOKENS, tokens, -1)
        || !s_ids_fit(image.prefix, image.prefix_count, tokens, 0)
        || !s_ids_fit(image.suffix, image.suffix_count, tokens, 0) || !s_records_fit(&image))
        return "an index is out of range";
    return NULL;
}

static uint32_t
s_find(const verl_token_slot_t *table, uint32_t mask, const uint32_t *offsets, const char *bytes,
       const void *wanted, size_t length, uint64_t hash)
{
    uint32_t tag = (uint32_t) (hash >> 32);
    for (uint32_t at = (uint32_t) hash & mask;; at = (at + 1) & mask) {
        uint32_t id = table[at].id;
        if (id == UINT32_MAX)
            return UINT32_MAX;
        if (table[at].hash == tag && offsets[id + 1] - offsets[id] == length
            && memcmp(bytes + offsets[id], wanted, length) == 0)
            return id;
    }
}

uint32_t
verl_image_find_content(const verl_token_image_t *image, const char *content, size_t length)
{
    return s_find(image->content_table, image->content_mask, image->content_offset, image->contents, content, length,
                  verl_hash(content, length, 0));
}

uint32_t
verl_image_find_piece(const verl_token_image_t *image, const uint8_t *piece, size_t length, uint64_t hash)
{
    return s_find(image->piece_table, image->piece_mask, image->bytes_offset, image->bytes, piece, length, hash);
}

const verl_token_merge_t *
verl_image_find_merge(const verl_token_image_t *image, uint32_t left, uint32_t right)
{
    for (uint32_t at = (uint32_t) verl_image_merge_hash(left, right) & image->merge_mask;;
         at = (at + 1) & image->merge_mask) {
        const verl_token_merge_t *merge = &image->merges[at];
        if (merge->left == left && merge->right == right)
            return merge;
        if (merge->left == UINT32_MAX)
            return NULL;
    }
}
