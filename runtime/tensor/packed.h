// packed.h: a packed batch off the wire (batch.h has the form), item by item, as it says of itself what it is.
//
// Invariant: nothing is believed before it was checked, and nothing is read behind the end; only memory that lies in
// slabs is not looked at. Who can map the slabs makes a batch of it (verl_batch_unpack); who watches from outside sees
// the shapes and what is inline. No function blocks; all may be called by any thread.
#ifndef VERL_TENSOR_PACKED_H
#define VERL_TENSOR_PACKED_H
#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/error.h"
#include "runtime/include/verl.h"
#include "runtime/tensor/batch.h"
#include "runtime/wire/read.h"

#define VERL_ROWS_MAX INT32_MAX             // maps are i32

// Where memory is: here, as so many bytes of the message (borrowed, at any address), or in a slab.
typedef struct verl_place {
    const char *here;                       // NULL: in the slab
    uint64_t    slab, offset, bytes;
} verl_place_t;

typedef struct verl_packed {
    int64_t      rows, first_row;
    bool         mapped;                    // it has a row map
    verl_place_t map;                       // then
    uint32_t     columns;                   // that follow
} verl_packed_t;

typedef struct verl_packed_column {
    char         name[VERL_BATCH_NAME + 1];
    verl_dtype_t dtype;
    bool         ragged;
    int64_t      width;                     // its rows are those of the batch
    verl_place_t place;
} verl_packed_column_t;

// What stands before the columns; then each of the columns, as often as there are. -1 with a reason.
int verl_packed_begin(verl_reader_t *reader, verl_packed_t *ret, verl_error_t *error);
int verl_packed_next(verl_reader_t *reader, const verl_packed_t *packed, verl_packed_column_t *ret,
                     verl_error_t *error);

// Whether memory is that of a column with so many rows: its offsets do not decrease, and its size is exactly what its
// shape needs. Offsets are copied before they are checked, so that a writer that goes on writing cannot make them lie
// afterwards. *ret_offsets: of a ragged column, the caller's to free, else NULL. *ret_data_at: where elements begin. -1
// with a reason: then there is nothing to free.
int verl_packed_check(const verl_packed_column_t *column, int64_t rows, const void *memory, uint64_t bytes,
                      int64_t **ret_offsets, uint64_t *ret_data_at, verl_error_t *error);
#endif
