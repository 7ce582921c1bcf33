// outbox.c: see outbox.h.
#include "runtime/mailbox/outbox.h"
#include <stdlib.h>
#include <string.h>

void
verl_outbox_done(verl_outbox_t *outbox)
{
    free(outbox->ring);
    free(outbox->entries);
    *outbox = (verl_outbox_t) { 0 };
}

// Where a message of `size` bytes begins if it has to lie in one piece: behind the newest, or at the ring's start.
static uint64_t
s_place(size_t room, uint64_t tail, size_t size)
{
    size_t offset = (size_t) (tail & (room - 1));
    return offset + size > room ? tail + (room - offset) : tail;
}

static int
s_grow_ring(verl_outbox_t *outbox, size_t size)
{
    size_t room = outbox->ring_room ? outbox->ring_room * 2 : 4096;
    while (room < (size_t) (outbox->tail - outbox->head) + 2 * size)
        room *= 2;
    char *ring = malloc(room);
    if (!ring)
        return -1;
    uint64_t tail = 0;
    for (uint64_t i = outbox->first; i < outbox->next; i++) {
        verl_outbox_entry_t *entry = &outbox->entries[i & (outbox->entries_room - 1)];
        uint64_t start = s_place(room, tail, entry->size);
        memcpy(ring + (start & (room - 1)), outbox->ring + (entry->start & (outbox->ring_room - 1)), entry->size);
        entry->start = start;
        tail = start + entry->size;
    }
    free(outbox->ring);
    outbox->ring = ring;
    outbox->ring_room = room;
    outbox->head = 0;
    outbox->tail = tail;
    return 0;
}

static int
s_grow_entries(verl_outbox_t *outbox)
{
    size_t room = outbox->entries_room ? outbox->entries_room * 2 : 64;
    verl_outbox_entry_t *entries = malloc(room * sizeof *entries);
    if (!entries)
        return -1;
    for (uint64_t i = outbox->first; i < outbox->next; i++)
        entries[i & (room - 1)] = outbox->entries[i & (outbox->entries_room - 1)];
    free(outbox->entries);
    outbox->entries = entries;
    outbox->entries_room = room;
    return 0;
}

int
verl_outbox_push(verl_outbox_t *outbox, const char *bytes, size_t size, void *tag)
{
    if (size > UINT32_MAX || (verl_outbox_count(outbox) == outbox->entries_room && s_grow_entries(outbox)))
        return -1;
    if (verl_outbox_count(outbox) == 0)
        outbox->head = outbox->tail = 0;
    if (!outbox->ring_room && s_grow_ring(outbox, size))
        return -1;
    uint64_t start = s_place(outbox->ring_room, outbox->tail, size);
    if (start + size - outbox->head > outbox->ring_room) {
        if (s_grow_ring(outbox, size))
            return -1;
        start = s_place(outbox->ring_room, outbox->tail, size);
    }
    memcpy(outbox->ring + (start & (outbox->ring_room - 1)), bytes, size);
    outbox->entries[outbox->next++ & (outbox->entries_room - 1)] =
        (verl_outbox_entry_t) { .start = start, .size = (uint32_t) size, .tag = tag };
    outbox->tail = start + size;
    return 0;
}

void *
verl_outbox_pop(verl_outbox_t *outbox)
{
    verl_outbox_entry_t *entry = &outbox->entries[outbox->first++ & (outbox->entries_room - 1)];
    outbox->head = entry->start + entry->size;
    return entry->tag;
}

const char *
verl_outbox_at(const verl_outbox_t *outbox, uint64_t index, size_t *ret_size)
{
    const verl_outbox_entry_t *entry = &outbox->entries[(outbox->first + index) & (outbox->entries_room - 1)];
    *ret_size = entry->size;
    return outbox->ring + (entry->start & (outbox->ring_room - 1));
}
