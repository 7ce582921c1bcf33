// bpe.h: the merges of one piece of text.
#ifndef VERL_TEXT_BPE_H
#define VERL_TEXT_BPE_H
#include "actors/text/image.h"

// Memory that one encoder at a time uses; zeroed memory is ready.
typedef struct {
    uint32_t *id, *rank, *becomes, *previous, *next;    // one block, by position
    size_t    capacity;                                 // positions
    uint64_t *heap;
    size_t    heap_count, heap_capacity;
} verl_bpe_t;

// Appends the ids of a piece (bytes of the text in a byte-level model, else UTF-8): the tokens of its symbols, of
// which the pair with the lowest rank, the leftmost where ranks are equal, merges until none can. The time grows as
// n log n, whatever the piece. 0, or -1 without memory.
int verl_bpe_encode(verl_bpe_t *self, const verl_token_image_t *image, const uint8_t *piece, size_t length,
                    verl_token_ids_t *ids);

void verl_bpe_done(verl_bpe_t *self);
#endif
