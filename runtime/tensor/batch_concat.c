// batch_concat.c: the whole of a batch that came in parts.
#include "runtime/tensor/batch_impl.h"
#include <string.h>

// Whether part i goes on where the one before it ends, with the same columns.
static int
s_check_part(const verl_batch_t *const *parts, int i, verl_error_t *error)
{
    const verl_batch_t *first = parts[0], *part = parts[i], *before = parts[i - 1];
    if (part->id != first->id)
        return verl_error_set(error, "parts of batches %lld and %lld cannot be joined", (long long) first->id,
                              (long long) part->id);
    if (part->first_row != before->first_row + before->rows)
        return verl_error_set(error, "a part begins at row %lld where row %lld is next", (long long) part->first_row,
                              (long long) before->first_row + before->rows);
    if (part->count != first->count)
        return verl_error_set(error, "a part has %d columns where the first has %d", part->count, first->count);
    if (!part->map.block.data != !first->map.block.data)
        return verl_error_set(error, "some parts have a row map and some have none");
    for (int c = 0; c < part->count; c++) {
        const verl_column_t *a = &first->entries[c]->column, *b = &part->entries[c]->column;
        if (strcmp(a->name, b->name) != 0 || a->dtype != b->dtype || a->ragged != b->ragged || a->width != b->width)
            return verl_error_set(error, "column '%s' of a part is not of the type and width that the first has",
                                  b->name);
    }
    return 0;
}

static int
s_check(const verl_batch_t *const *parts, int count, int64_t *ret_rows, verl_error_t *error)
{
    int64_t rows = 0;
    for (int i = 0; i < count; i++) {
        if (i > 0 && s_check_part(parts, i, error))
            return -1;
        for (int c = 0; c < parts[i]->count; c++)
            if (parts[i]->entries[c]->column.map)
                return verl_error_set(error, "column '%s' is seen through a row map: parts are joined as they were "
                                      "received",
                                      parts[i]->entries[c]->column.name);
        rows += parts[i]->rows;
        if (rows > VERL_ROWS_MAX)
            return verl_error_set(error, "the parts have more than %d rows together", VERL_ROWS_MAX);
    }
    *ret_rows = rows;
    return 0;
}

static int
s_join_maps(verl_batch_t *batch, const verl_batch_t *const *parts, int count, verl_error_t *error)
{
    if (!parts[0]->map.block.data)
        return 0;
    if (verl_piece_heap(&batch->map, (uint64_t) batch->rows * sizeof(int32_t)))
        return verl_error_set(error, "no memory for the row map of %lld rows", (long long) batch->rows);
    int32_t *to = batch->map.block.data;
    for (int i = 0; i < count; i++) {
        memcpy(to, parts[i]->map.block.data, (size_t) parts[i]->rows * sizeof *to);
        to += parts[i]->rows;
    }
    return 0;
}

// The positions of one column in a part.
static int64_t
s_positions(const verl_column_t *column)
{
    return column->ragged ? column->offsets[column->rows] - column->offsets[0] : column->rows;
}

static void
s_copy_columns(verl_entry_t *entry, const verl_batch_t *const *parts, int count, int c)
{
    char *data = (char *) (uintptr_t) entry->column.data;
    int64_t *offsets = entry->column.ragged ? entry->piece.block.data : NULL, *end = (int64_t *) (void *) data;
    size_t position_bytes = (size_t) entry->column.width * verl_dtype_bytes(entry->column.dtype);
    int64_t position = 0;
    if (offsets)
        *offsets++ = 0;
    for (int i = 0; i < count; i++) {
        const verl_column_t *part = &parts[i]->entries[c]->column;
        for (int64_t row = 0; offsets && row < part->rows; row++)
            *offsets++ = position + part->offsets[row + 1] - part->offsets[0];
        size_t bytes = (size_t) s_positions(part) * position_bytes;
        if (bytes && data)
            memcpy(data + (size_t) position * position_bytes, verl_column_at(part, 0), bytes);
        position += s_positions(part);
    }
    while (offsets && offsets < end)
        *offsets++ = 0;
}

static int
s_join_column(verl_batch_t *batch, const verl_batch_t *const *parts, int count, int c, verl_error_t *error)
{
    const verl_column_t *first = &parts[0]->entries[c]->column;
    int64_t positions = 0;
    verl_layout_t layout;
    for (int i = 0; i < count; i++)
        if (__builtin_add_overflow(positions, s_positions(&parts[i]->entries[c]->column), &positions))
            return verl_error_set(error, "column '%s' is too large in all its parts", first->name);
    if (verl_layout(first->dtype, first->ragged, first->width, batch->rows, positions, &layout))
        return verl_error_set(error, "column '%s' is too large in all its parts", first->name);
    verl_entry_t *entry = verl_entry_new(first->name, VERL_BATCH_NAME, true);
    if (!entry || verl_piece_heap(&entry->piece, layout.bytes)) {
        verl_entry_free(batch, entry);
        return verl_error_set(error, "no memory for column '%s' of %llu bytes", first->name,
                              (unsigned long long) layout.bytes);
    }
    entry->column = *first;
    entry->column.name = entry->name;
    entry->column.rows = batch->rows;
    entry->column.offsets = first->ragged ? entry->piece.block.data : NULL;
    entry->column.data = (char *) entry->piece.block.data + layout.data_at;
    entry->payload = layout.bytes;
    s_copy_columns(entry, parts, count, c);
    if (verl_batch_append(batch, entry) == 0)
        return 0;
    verl_entry_free(batch, entry);
    return verl_error_set(error, "no memory for column '%s'", first->name);
}

verl_batch_t *
verl_batch_concat(const verl_batch_t *const *parts, int count, verl_error_t *error)
{
    int64_t rows = 0;
    if (count < 1 || s_check(parts, count, &rows, error)) {
        verl_error_set(error, "no parts to join");
        return NULL;
    }
    verl_batch_t *batch = verl_batch_new(parts[0]->id, rows, parts[0]->first_row);
    if (!batch) {
        verl_error_set(error, "no memory for a batch");
        return NULL;
    }
    int rc = s_join_maps(batch, parts, count, error);
    for (int c = 0; rc == 0 && c < parts[0]->count; c++)
        rc = s_join_column(batch, parts, count, c, error);
    if (rc)
        verl_batch_destroy(&batch);
    return batch;
}
