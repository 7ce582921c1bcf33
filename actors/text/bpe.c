// bpe.c: byte pair encoding (Sennrich et al., 2016, arXiv:1508.07909), on an image.
//
// Short pieces, which are nearly all, scan an array for the lowest rank; long ones keep the pairs in a heap. In both,
// rank[i] is the rank of the pair that begins at i (NO_RANK: it does not merge) and becomes[i] what it turns into.
#include "actors/text/bpe.h"
#include "actors/text/utf8.h"
#include <stdlib.h>
#include <string.h>

#define NO_RANK UINT32_MAX
#define NOWHERE UINT32_MAX
enum { SHORT_PIECE = 96 };

void
verl_bpe_done(verl_bpe_t *self)
{
    free(self->id);
    free(self->heap);
    *self = (verl_bpe_t) { 0 };
}

static int
s_reserve(verl_bpe_t *self, size_t positions)
{
    if (positions <= self->capacity)
        return 0;
    size_t capacity = positions < 256 ? 256 : positions;
    uint32_t *block = malloc(capacity * 5 * sizeof *block);
    if (!block)
        return -1;
    free(self->id);
    self->id = block;
    self->rank = block + capacity;
    self->becomes = block + 2 * capacity;
    self->previous = block + 3 * capacity;
    self->next = block + 4 * capacity;
    self->capacity = capacity;
    return 0;
}

static void
s_rate(verl_bpe_t *self, const verl_token_image_t *image, size_t left, size_t right)
{
    const verl_token_merge_t *merge = verl_image_find_merge(image, self->id[left], self->id[right]);
    self->rank[left] = merge ? merge->rank : NO_RANK;
    self->becomes[left] = merge ? merge->id : 0;
}

// The symbols of a piece of a byte-level model: one a byte.
static size_t
s_byte_symbols(verl_bpe_t *self, const verl_token_image_t *image, const uint8_t *piece, size_t length)
{
    size_t count = 0;
    int32_t unk = image->header->unk;
    bool fuse = (image->header->flags & VERL_MODEL_FUSE_UNK) != 0, after_unk = false;
    for (size_t i = 0; i < length; i++) {
        int32_t id = image->byte_ids[piece[i]];
        if (id >= 0)
            self->id[count++] = (uint32_t) id;
        else if (unk >= 0 && !(fuse && after_unk))
            self->id[count++] = (uint32_t) unk;
        after_unk = id < 0;
    }
    return count;
}

// Whether every byte of a character has a token of its own, "<0xE2>".
static bool
s_has_bytes(const verl_token_image_t *image, const uint8_t *character, size_t length)
{
    if (!(image->header->flags & VERL_MODEL_BYTE_FALLBACK))
        return false;
    for (size_t i = 0; i < length; i++)
        if (image->byte_ids[character[i]] < 0)
            return false;
    return true;
}

// The symbols of a piece of another model: one a character, its bytes where it has none. The reference holds an
// unknown token back until the next known character, behind the bytes of one that falls back; so do we.
static size_t
s_character_symbols(verl_bpe_t *self, const verl_token_image_t *image, const uint8_t *piece, size_t length)
{
    size_t count = 0, step;
    int32_t unk = image->header->unk;
    bool fuse = (image->header->flags & VERL_MODEL_FUSE_UNK) != 0, held = false;
    for (size_t at = 0; at < length; at += step) {
        step = verl_utf8_length(piece[at]);
        uint32_t id = verl_image_find_content(image, (const char *) piece + at, step);
        if (id != UINT32_MAX && image->flags[id] & VERL_TOKEN_MODEL) {
            if (held)
                self->id[count++] = (uint32_t) unk;
            held = false;
            self->id[count++] = id;
        } else if (s_has_bytes(image, piece + at, step)) {
            for (size_t i = 0; i < step; i++)
                self->id[count++] = (uint32_t) image->byte_ids[piece[at + i]];
        } else if (unk >= 0) {
            if (held && !fuse)
                self->id[count++] = (uint32_t) unk;
            held = true;
        }
    }
    if (held)
        self->id[count++] = (uint32_t) unk;
    return count;
}

static void
s_remove(uint32_t *list, size_t at, size_t count)
{
    memmove(list + at, list + at + 1, (count - at - 1) * sizeof *list);
}

static size_t
s_merge_short(verl_bpe_t *self, const verl_token_image_t *image, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++)
        s_rate(self, image, i, i + 1);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (self->rank[i] < self->rank[best])
                best = i;
        if (self->rank[best] == NO_RANK)
            break;
        self->id[best] = self->becomes[best];
        s_remove(self->id, best + 1, count);
        s_remove(self->rank, best + 1, count);
        s_remove(self->becomes, best + 1, count);
        count--;
        if (best + 1 < count)
            s_rate(self, image, best, best + 1);
        if (best > 0)
            s_rate(self, image, best - 1, best);
    }
    return count;
}

// A heap of rank << 32 | position; the lowest is on top.
static int
s_push(verl_bpe_t *self, uint32_t position)
{
    if (self->rank[position] == NO_RANK)
        return 0;
    if (self->heap_count == self->heap_capacity) {
        size_t capacity = self->heap_capacity ? self->heap_capacity * 2 : 1024;
        uint64_t *grown = realloc(self->heap, capacity * sizeof *grown);
        if (!grown)
            return -1;
        self->heap = grown;
        self->heap_capacity = capacity;
    }
    uint64_t entry = (uint64_t) self->rank[position] << 32 | position;
    size_t at = self->heap_count++;
    for (; at > 0 && self->heap[(at - 1) / 2] > entry; at = (at - 1) / 2)
        self->heap[at] = self->heap[(at - 1) / 2];
    self->heap[at] = entry;
    return 0;
}

static uint64_t
s_pop(verl_bpe_t *self)
{
    uint64_t top = self->heap[0], last = self->heap[--self->heap_count];
    size_t at = 0, count = self->heap_count;
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && self->heap[child + 1] < self->heap[child];
        if (self->heap[child] >= last)
            break;
        self->heap[at] = self->heap[child];
    }
    self->heap[at] = last;
    return top;
}

static int
s_start_heap(verl_bpe_t *self, const verl_token_image_t *image, size_t count)
{
    self->heap_count = 0;
    for (size_t i = 0; i < count; i++) {
        self->previous[i] = i ? (uint32_t) i - 1 : NOWHERE;
        self->next[i] = i + 1 < count ? (uint32_t) i + 1 : NOWHERE;
        self->rank[i] = NO_RANK;
        if (i + 1 < count)
            s_rate(self, image, i, i + 1);
        if (s_push(self, (uint32_t) i))
            return -1;
    }
    return 0;
}

// An entry of the heap is stale when the rank at its position is another one by now.
static int
s_merge_long(verl_bpe_t *self, const verl_token_image_t *image, size_t *count)
{
    if (s_start_heap(self, image, *count))
        return -1;
    while (self->heap_count) {
        uint64_t top = s_pop(self);
        uint32_t at = (uint32_t) top, gone = self->next[at];
        if (self->rank[at] != (uint32_t) (top >> 32) || gone == NOWHERE)
            continue;
        self->id[at] = self->becomes[at];
        self->rank[gone] = NO_RANK;
        self->rank[at] = NO_RANK;
        self->next[at] = self->next[gone];
        if (self->next[at] != NOWHERE) {
            self->previous[self->next[at]] = at;
            s_rate(self, image, at, self->next[at]);
        }
        uint32_t before = self->previous[at];
        if (before != NOWHERE)
            s_rate(self, image, before, at);
        if (s_push(self, at) || (before != NOWHERE && s_push(self, before)))
            return -1;
    }
    size_t kept = 0;
    for (uint32_t at = *count ? 0 : NOWHERE; at != NOWHERE; at = self->next[at])
        self->id[kept++] = self->id[at];
    *count = kept;
    return 0;
}

int
verl_bpe_encode(verl_bpe_t *self, const verl_token_image_t *image, const uint8_t *piece, size_t length,
                verl_token_ids_t *ids)
{
    if (length >= UINT32_MAX || s_reserve(self, length))
        return -1;
    size_t count = image->header->flags & VERL_MODEL_BYTE_LEVEL ? s_byte_symbols(self, image, piece, length)
                                                                : s_character_symbols(self, image, piece, length);
    if (count <= SHORT_PIECE)
        count = s_merge_short(self, image, count);
    else if (s_merge_long(self, image, &count))
        return -1;
    for (size_t i = 0; i < count; i++)
        if (verl_token_ids_add(ids, (int32_t) self->id[i]))
            return -1;
    return 0;
}
