// protocol.h: what an arena and the bulk server say to each other over their SOCK_SEQPACKET pair.
//
// One message is one packet of the size of its struct, native byte order (both ends are on one host). The client asks;
// TAKE, MAPPED and MAP are answered in order; a descriptor travels with the answer (SCM_RIGHTS). The server may say
// RETIRED at any time, also between a question and its answer.
#ifndef VERL_BULK_PROTOCOL_H
#define VERL_BULK_PROTOCOL_H
#include <stdint.h>

#define VERL_BULK_MAGIC 0x6b6c7562u         // "bulk"

typedef enum verl_bulk_request_kind {
    VERL_BULK_TAKE = 1,                     // bytes (a multiple of 2 MiB) → slab and its descriptor
    VERL_BULK_MAPPED,                       // slab: its owner has allocated and mapped it → it is sealed
    VERL_BULK_MAP,                          // slab → bytes and a descriptor, for reading
    VERL_BULK_UNMAP,                        // slab: the reader let it go; no answer
    VERL_BULK_FREE,                         // slab: its owner let it go; no answer
} verl_bulk_request_kind_t;

typedef struct verl_bulk_request {
    uint32_t magic, kind;
    uint64_t slab, bytes;                   // what the kind does not use is 0
} verl_bulk_request_t;

typedef enum verl_bulk_reply_kind {
    VERL_BULK_ANSWER = 1,
    VERL_BULK_RETIRED,                      // slab: let it go as soon as nothing of it is in use
} verl_bulk_reply_kind_t;

typedef enum verl_bulk_code {
    VERL_BULK_OK,
    VERL_BULK_LIMIT,                        // in_use and limit say how far the memory is used
    VERL_BULK_SYSTEM,                       // number is the errno of the node's call
    VERL_BULK_UNKNOWN,                      // no such slab (any more), or not sealed yet
    VERL_BULK_HOLES,                        // MAPPED before all pages were allocated
} verl_bulk_code_t;

typedef struct verl_bulk_reply {
    uint32_t magic, kind, code, number;
    uint64_t slab, bytes, in_use, limit;
} verl_bulk_reply_t;
#endif
