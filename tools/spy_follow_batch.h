// spy_follow_batch.h: a packed batch as somebody sees it who shares no memory with its maker: shapes of all columns,
// and the bytes of those that are inside.
#ifndef VERL_SPY_FOLLOW_BATCH_H
#define VERL_SPY_FOLLOW_BATCH_H
#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/error.h"
#include "runtime/include/verl.h"
#include "runtime/observe/trace.h"

#define VERL_SPY_COLUMNS 64                 // of a batch are looked at, at most

typedef struct verl_spy_column {
    char           name[256];
    verl_dtype_t   dtype;
    bool           ragged;
    int64_t        rows, width;             // width: of a row, or of a position of a ragged one
    uint64_t       bytes;                   // of its memory
    bool           arena;                   // they are in shared memory; else inside
    uint64_t       slab;                    // then
    verl_column_t column; // where the bytes are here: data is not aligned (verl_summary_element); else 0
    int64_t       *offsets;                 // of the column, owned
    bool           empty;                   // it has no element
    bool           summed;                  // there are numbers
    verl_summary_t summary;
    const char    *head;                    // the first bytes of its data, where they are known; else NULL
    size_t         head_size;
} verl_spy_column_t;

typedef struct verl_spy_batch {
    int64_t           rows, first;
    bool              map;                  // the batch has a row map
    int               count, columns;       // looked at; that there are
    uint64_t          shared;               // bytes that are in shared memory
    uint64_t          bytes;                // of the body as it was sent, and of what it names there
    verl_spy_column_t *items;
} verl_spy_batch_t;

// Of a record of kind data or weights with a body; numbers and heads of columns elsewhere are taken from what the
// sender said about them. -1 with a reason: malformed. The record has to outlive it.
int  verl_spy_batch_read(const verl_trace_record_t *record, verl_spy_batch_t *ret, verl_error_t *error);
void verl_spy_batch_done(verl_spy_batch_t *batch);
#endif
