// batch.c: what all kinds of batches share: their table of columns, its memory, the questions of verl.h.
#include "runtime/tensor/batch_impl.h"
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "columns travel as little-endian numbers");

int
verl_layout(verl_dtype_t dtype, bool ragged, int64_t width, int64_t rows, int64_t positions, verl_layout_t *ret)
{
    int64_t bytes, data_at = 0;
    if (__builtin_mul_overflow(positions, width, &bytes) ||
        __builtin_mul_overflow(bytes, (int64_t) verl_dtype_bytes(dtype), &bytes))
        return -1;
    if (ragged)
        data_at = ((rows + 1) * (int64_t) sizeof(int64_t) + VERL_BLOCK_ALIGN - 1) / VERL_BLOCK_ALIGN * VERL_BLOCK_ALIGN;
    if (__builtin_add_overflow(bytes, data_at, &bytes) || bytes > INT64_MAX / 2)
        return -1;
    ret->data_at = (uint64_t) data_at;
    ret->bytes = (uint64_t) bytes;
    return 0;
}

int
verl_piece_heap(verl_piece_t *ret, uint64_t bytes)
{
    if (verl_heap_memory()->take(NULL, bytes, &ret->block, NULL))
        return -1;
    ret->owner = VERL_OWNER_HEAP;
    return 0;
}

void
verl_piece_end(const verl_batch_t *batch, verl_piece_t *piece)
{
    if (piece->owner == VERL_OWNER_HEAP)
        free(piece->block.data);
    else if (piece->owner == VERL_OWNER_MEMORY)
        batch->memory.give(batch->memory.context, &piece->block);
    else if (piece->owner == VERL_OWNER_SLAB && batch->slabs.release)
        batch->slabs.release(batch->slabs.context, piece->block.slab);
    *piece = (verl_piece_t) {0};
}

verl_batch_t *
verl_batch_new(int64_t id, int64_t rows, int64_t first_row)
{
    verl_batch_t *batch = calloc(1, sizeof *batch);
    if (batch) {
        batch->id = id;
        batch->rows = rows;
        batch->first_row = first_row;
    }
    return batch;
}

verl_entry_t *
verl_entry_new(const char *name, size_t size, bool copy)
{
    verl_entry_t *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->column.name = name;
    if (copy) {
        entry->name = strndup(name, size);
        entry->column.name = entry->name;
    }
    if (!entry->column.name) {
        free(entry);
        return NULL;
    }
    return entry;
}

void
verl_entry_free(const verl_batch_t *batch, verl_entry_t *entry)
{
    if (!entry)
        return;
    verl_piece_end(batch, &entry->piece);
    free(entry->offsets);
    free(entry->map);
    free(entry->name);
    free(entry);
}

int
verl_batch_append(verl_batch_t *batch, verl_entry_t *entry)
{
    if (batch->count == batch->room) {
        int room = batch->room ? batch->room * 2 : 8;
        verl_entry_t **entries = realloc(batch->entries, (size_t) room * sizeof(verl_entry_t *));
        if (!entries)
            return -1;
        batch->entries = entries;
        batch->room = room;
    }
    batch->entries[batch->count++] = entry;
    return 0;
}

void
verl_batch_destroy(verl_batch_t **batch_p)
{
    verl_batch_t *batch = *batch_p;
    if (!batch)
        return;
    for (int i = 0; i < batch->count; i++)
        verl_entry_free(batch, batch->entries[i]);
    verl_piece_end(batch, &batch->map);
    free(batch->entries);
    free(batch);
    *batch_p = NULL;
}

uint64_t
verl_column_payload(const verl_column_t *column, int64_t stored_rows)
{
    uint64_t row_bytes = (uint64_t) column->width * verl_dtype_bytes(column->dtype);
    if (!column->ragged)
        return (uint64_t) stored_rows * row_bytes;
    return (uint64_t) (column->offsets[stored_rows] - column->offsets[0]) * row_bytes +
           ((uint64_t) stored_rows + 1) * sizeof(int64_t);
}

uint64_t
verl_batch_bytes(const verl_batch_t *batch)
{
    uint64_t bytes = batch->map.block.data ? (uint64_t) batch->rows * sizeof(int32_t) : 0;
    for (int i = 0; i < batch->count; i++)
        bytes += batch->entries[i]->payload;
    return bytes;
}

const int32_t *
verl_batch_map(const verl_batch_t *batch)
{
    return batch->map.block.data;
}

int64_t
verl_batch_id(const verl_batch_t *batch)
{
    return batch->id;
}

int64_t
verl_batch_rows(const verl_batch_t *batch)
{
    return batch->rows < 0 ? 0 : batch->rows;
}

int64_t
verl_batch_first_row(const verl_batch_t *batch)
{
    return batch->first_row;
}

int
verl_batch_columns(const verl_batch_t *batch)
{
    return batch->count;
}

const verl_column_t *
verl_batch_column_at(const verl_batch_t *batch, int index)
{
    if (index < 0 || index >= batch->count)
        return NULL;
    atomic_store_explicit(&batch->entries[index]->seen, true, memory_order_relaxed);
    return &batch->entries[index]->column;
}

const verl_column_t *
verl_batch_column(const verl_batch_t *batch, const char *name)
{
    for (int i = 0; i < batch->count; i++)
        if (strcmp(batch->entries[i]->column.name, name) == 0)
            return verl_batch_column_at(batch, i);
    return NULL;
}
