// outbox.h: what a sender keeps until its receiver is done with it: encoded messages, first in, first out.
//
// The bytes lie in one ring, each message in one piece, so that keeping a small message costs no allocation.
#ifndef VERL_OUTBOX_H
#define VERL_OUTBOX_H
#include <stddef.h>
#include <stdint.h>

typedef struct verl_outbox_entry {
    uint64_t start;                         // position in the ring, ever growing
    uint32_t size;
    void    *tag;
} verl_outbox_entry_t;

typedef struct verl_outbox {
    char                *ring;
    size_t               ring_room;         // a power of two; 0: none yet
    uint64_t             head, tail;        // positions: of the oldest byte, behind the newest
    verl_outbox_entry_t *entries;
    size_t               entries_room;      // a power of two
    uint64_t             first, next;       // ever-growing numbers of the oldest entry and of the next one
} verl_outbox_t;

void verl_outbox_done(verl_outbox_t *outbox);
// Copies a message in. Returns 0, or -1 without memory (then nothing changed).
int verl_outbox_push(verl_outbox_t *outbox, const char *bytes, size_t size, void *tag);
// The oldest goes; returns its tag.
void *verl_outbox_pop(verl_outbox_t *outbox);
// The i-th kept message, 0 the oldest.
const char *verl_outbox_at(const verl_outbox_t *outbox, uint64_t index, size_t *ret_size);

static inline uint64_t
verl_outbox_count(const verl_outbox_t *outbox)
{
    return outbox->next - outbox->first;
}
#endif
