// server.h: the node's side of shared memory: makes slabs, keeps them open, hands them to writers and readers.
//
// A slab is a memfd: it has no name, so nothing is left when the last process that has it is gone. Life of a slab:
// taken by one incarnation, mapped by it, sealed (from then on nobody can map it writable or change its size), mapped
// by readers, retired (its writer let it go, or verl_bulk_server_gone), closed after its last reader. The server never
// maps one. Clients talk over a SOCK_SEQPACKET pair in the fixed-size messages of bulk/protocol.h; whatever is
// malformed closes that client only. Invariant: bytes of all open slabs <= max_bytes. All functions may be called from
// any thread; none waits for a client.
#ifndef VERL_BULK_SERVER_H
#define VERL_BULK_SERVER_H
#include <stdint.h>
#include "runtime/base/error.h"

typedef struct verl_bulk_server verl_bulk_server_t;

typedef struct verl_bulk_stats {
    uint64_t bytes;                         // of all open slabs
    uint64_t bytes_max;                     // the most it ever was
    uint64_t slabs;                         // open ones
    uint64_t slabs_made;                    // since the start
    uint64_t retired;                       // open only for their readers
    uint64_t clients;                       // connected ones
} verl_bulk_stats_t;

// Starts the server with one thread. max_bytes: of all slabs together; 0: no limit but the system's. NULL and the
// reason.
verl_bulk_server_t *verl_bulk_server_new(uint64_t max_bytes, verl_error_t *error);

// Stops the thread, closes all slabs and connections; a process that has a slab mapped keeps its mapping. Sets the
// pointer to NULL; *server may be NULL.
void verl_bulk_server_destroy(verl_bulk_server_t **server);

// Makes the connection of one incarnation (never given before) and returns the client's end, close-on-exec, which the
// caller hands to the actor's process or thread (verl_arena_new) and closes here. -1 and the reason.
int verl_bulk_server_add(verl_bulk_server_t *server, uint64_t incarnation, verl_error_t *error);

// Nothing that the incarnation wrote is wanted any more: closes its connection and retires its slabs. Until this call
// the slabs of a dead client stay, and can be mapped, so that what it had committed can still be delivered; what a dead
// client only read is let go at once. Harmless for an incarnation that is not there.
void verl_bulk_server_gone(verl_bulk_server_t *server, uint64_t incarnation);

uint64_t          verl_bulk_server_bytes(verl_bulk_server_t *server);      // of all open slabs
verl_bulk_stats_t verl_bulk_server_stats(verl_bulk_server_t *server);
#endif
