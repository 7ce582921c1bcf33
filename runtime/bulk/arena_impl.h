// arena_impl.h: the inside of an arena, for arena.c (blocks and slabs) and link.c (its talk with the node).
//
// Locks: `link` is held while something is asked of the node, `mutex` for the tables alone and never while waiting;
// where both are held, link was taken first.
#ifndef VERL_BULK_ARENA_IMPL_H
#define VERL_BULK_ARENA_IMPL_H
#include <pthread.h>
#include <stdbool.h>
#include "runtime/bulk/arena.h"
#include "runtime/bulk/extents.h"
#include "runtime/bulk/protocol.h"

// A slab that this arena writes.
typedef struct verl_own_slab {
    uint64_t       id, bytes;
    char          *base;
    verl_extents_t extents;
    int64_t        empty_since;             // ns of the monotonic clock; meaningful while no block is live
} verl_own_slab_t;

// A slab that it reads.
typedef struct verl_read_slab {
    uint64_t id, bytes;
    char    *base;
    uint64_t uses;
    bool     retired;                       // ends with its last use
} verl_read_slab_t;

struct verl_arena {
    int               fd;
    pthread_mutex_t   link, mutex;
    bool              broken;               // link: the node is gone, or answers were lost
    verl_own_slab_t **own;                  // in the order of their making
    int               own_count, own_room;
    verl_read_slab_t *read;
    int               read_count, read_room;
};

// Asks and waits for the answer, at most 5 s; what the node says in between is done. link is held. *ret_passed: a
// descriptor that is the caller's, or -1. Returns 0 where there is an answer, whatever its code.
int verl_link_ask(verl_arena_t *arena, verl_bulk_request_kind_t kind, uint64_t slab, uint64_t bytes,
                  verl_bulk_reply_t *ret, int *ret_passed, verl_error_t *error);
// Says something that has no answer, without waiting. Returns -1 where it could not be sent.
int verl_link_say(verl_arena_t *arena, verl_bulk_request_kind_t kind, uint64_t slab);
// Does what the node said since the last time, without waiting. link is held.
void verl_link_listen(verl_arena_t *arena);

// The node has retired a slab that this arena may be reading.
void verl_arena_retired(verl_arena_t *arena, uint64_t slab);

// Maps a new slab writable, every page there. The mapping, or NULL and the reason. Does not close fd.
char *verl_map_own(int fd, uint64_t bytes, verl_error_t *error);
// Maps a slab read-only.
char *verl_map_read(int fd, uint64_t bytes, verl_error_t *error);
#endif
