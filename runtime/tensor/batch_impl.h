// batch_impl.h: the inside of a batch, for the files of runtime/tensor alone.
//
// Invariant: each entry is whole when it is in the list; what is half-made is freed before an error is returned.
#ifndef VERL_TENSOR_BATCH_IMPL_H
#define VERL_TENSOR_BATCH_IMPL_H
#include <stdatomic.h>
#include "runtime/tensor/packed.h"

typedef enum verl_owner {
    VERL_OWNER_NONE,                        // borrowed, or handed over
    VERL_OWNER_HEAP,                        // free()
    VERL_OWNER_MEMORY,                      // the batch's memory: give
    VERL_OWNER_SLAB,                        // the batch's slabs: release
} verl_owner_t;

// Memory and how it ends. block.bytes is what is used of it.
typedef struct verl_piece {
    verl_block_t block;
    verl_owner_t owner;
} verl_piece_t;

typedef struct verl_entry {
    verl_column_t column;                   // as it is seen
    char         *name;                     // owned, or NULL where column.name is borrowed
    verl_piece_t  piece;                    // offsets and data
    int64_t      *offsets;                  // owned copy, or NULL
    int32_t      *map;                      // owned, or NULL
    uint64_t      payload;
    atomic_bool   seen;                     // somebody has asked for it
} verl_entry_t;

struct verl_batch {
    int64_t        id, rows, first_row;     // rows: -1 while a source has not said
    int64_t        given_rows, given_first; // made: of the given batch; -1: a source
    bool           made, rows_fixed, sealed;
    verl_memory_t  memory;                  // made
    verl_slabs_t   slabs;                   // unpacked
    verl_piece_t   map;                     // rows entries of i32, or none (data NULL)
    verl_entry_t **entries;                 // pointers, so that columns stay where they are
    int            count, room;
    verl_error_t   error;                   // made: the first failure
};

// Where things are in the memory of a column: rows + 1 offsets, zeroes, data; or data alone.
typedef struct verl_layout {
    uint64_t data_at, bytes;
} verl_layout_t;

// positions: of all rows; for a fixed column its rows. Returns -1 where the sizes overflow.
int verl_layout(verl_dtype_t dtype, bool ragged, int64_t width, int64_t rows, int64_t positions, verl_layout_t *ret);

// A heap piece, aligned like a block. Returns -1 without memory.
int  verl_piece_heap(verl_piece_t *ret, uint64_t bytes);
void verl_piece_end(const verl_batch_t *batch, verl_piece_t *piece);

verl_batch_t *verl_batch_new(int64_t id, int64_t rows, int64_t first_row);
// A zeroed entry, not yet in the list. name: copied where `copy` is set. NULL without memory.
verl_entry_t *verl_entry_new(const char *name, size_t size, bool copy);
void          verl_entry_free(const verl_batch_t *batch, verl_entry_t *entry);
// Puts an entry into the list, which owns it from then on. Returns -1 without memory: the entry stays the caller's.
int           verl_batch_append(verl_batch_t *batch, verl_entry_t *entry);
// Bytes that the column's own rows take as they are stored (without a map).
uint64_t      verl_column_payload(const verl_column_t *column, int64_t stored_rows);
#endif
