// slab_ledger.h: which slabs are open, whose they are, and who reads them. For the bulk server alone; no sockets and no
// locks.
//
// Invariants: ids rise and are never used again; a slab is open exactly while its owner has not let it go or a reader
// holds it; bytes is the sum over open slabs.
#ifndef VERL_BULK_LEDGER_H
#define VERL_BULK_LEDGER_H
#include <stdbool.h>
#include <stdint.h>
#include "runtime/bulk/protocol.h"
#include "runtime/bulk/server.h"

typedef struct verl_slab_reader {
    uint64_t incarnation;
    bool     told;                          // that the slab is retired
} verl_slab_reader_t;

typedef struct verl_slab {
    uint64_t            id, owner, bytes;
    int                 fd;
    bool                sealed, retired;
    verl_slab_reader_t *readers;
    int                 count, room;
} verl_slab_t;

typedef struct verl_slab_ledger {
    uint64_t          limit;                // of bytes; 0: none
    uint64_t          next;                 // id
    verl_slab_t     **slabs;
    int               count, room;
    verl_bulk_stats_t stats;
} verl_slab_ledger_t;

void verl_slab_ledger_init(verl_slab_ledger_t *ledger, uint64_t limit);
void verl_slab_ledger_done(verl_slab_ledger_t *ledger);     // closes everything

// Each fills the answer's code (and number, in_use, limit); the slab where it is OK, else NULL.
verl_slab_t *verl_slab_ledger_take(verl_slab_ledger_t *ledger, uint64_t owner, uint64_t bytes,
                                   verl_bulk_reply_t *reply);
void         verl_slab_ledger_seal(verl_slab_ledger_t *ledger, verl_slab_t *slab, verl_bulk_reply_t *reply);
verl_slab_t *verl_slab_ledger_map(verl_slab_ledger_t *ledger, uint64_t reader, uint64_t id, verl_bulk_reply_t *reply);

verl_slab_t *verl_slab_ledger_find(const verl_slab_ledger_t *ledger, uint64_t id);
// A reader holds a slab no longer. Returns false where it did not. May close the slab.
bool verl_slab_ledger_unmap(verl_slab_ledger_t *ledger, uint64_t reader, uint64_t id);
// The owner lets go. May close the slab.
void verl_slab_ledger_retire(verl_slab_ledger_t *ledger, verl_slab_t *slab);
// A client's connection is over: it reads nothing any more, and what it took but never sealed is nobody's.
void verl_slab_ledger_leave(verl_slab_ledger_t *ledger, uint64_t incarnation);
// Nothing of it is wanted: all its slabs retire.
void verl_slab_ledger_gone(verl_slab_ledger_t *ledger, uint64_t incarnation);
bool verl_slab_ledger_owns(const verl_slab_ledger_t *ledger, uint64_t incarnation);
#endif
