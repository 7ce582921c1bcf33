// batch_given.c: the table that a handler sees: columns of several batches under one number of rows.
#include "runtime/tensor/batch_impl.h"
#include <stdlib.h>
#include <string.h>

verl_batch_t *
verl_batch_new_given(int64_t id, int64_t rows, int64_t first_row)
{
    return rows < 0 || rows > VERL_ROWS_MAX ? NULL : verl_batch_new(id, rows, first_row);
}

// Follows one row outwards. Returns the stored row, or -1 and says where the way ends.
static int64_t
s_follow(const verl_column_t *stored, const int32_t *const *maps, const int64_t *map_lengths, int maps_count,
         int64_t row, const char *name, verl_error_t *error)
{
    int64_t at = row;
    for (int i = 0; i < maps_count; i++) {
        if (at < 0 || at >= map_lengths[i])
            return verl_error_set(error, "column '%s': row %lld leads to row %lld of row map %d, which has %lld", name,
                                  (long long) row, (long long) at, i + 1, (long long) map_lengths[i]);
        at = maps[i][at];
    }
    if (at < 0 || at >= stored->rows)
        return verl_error_set(error, "column '%s': row %lld leads to stored row %lld, but %lld are stored", name,
                              (long long) row, (long long) at, (long long) stored->rows);
    return stored->map ? stored->map[at] : at;
}

static int
s_compose(verl_batch_t *batch, verl_entry_t *entry, const verl_column_t *stored, const int32_t *const *maps,
          const int64_t *map_lengths, int maps_count, int64_t slice_first, verl_error_t *error)
{
    const char *name = entry->column.name;
    entry->map = malloc(((size_t) batch->rows + 1) * sizeof *entry->map);
    if (!entry->map)
        return verl_error_set(error, "no memory for the row map of column '%s'", name);
    for (int64_t row = 0; row < batch->rows; row++) {
        int64_t at = s_follow(stored, maps, map_lengths, maps_count, slice_first + row, name, error);
        if (at < 0)
            return -1;
        entry->map[row] = (int32_t) at;
    }
    entry->column.map = entry->map;
    if (!stored->map)
        entry->payload = verl_column_payload(stored, stored->rows);
    return 0;
}

// The rows [first, first + rows) of the same memory.
static int
s_slice(verl_batch_t *batch, verl_entry_t *entry, const verl_column_t *stored, int64_t first, verl_error_t *error)
{
    if (first > stored->rows || batch->rows > stored->rows - first)
        return verl_error_set(error, "column '%s': rows %lld to %lld are wanted, but %lld are stored",
                              entry->column.name, (long long) first, (long long) first + batch->rows,
                              (long long) stored->rows);
    size_t row_bytes = (size_t) stored->width * verl_dtype_bytes(stored->dtype);
    if (stored->ragged)
        entry->column.offsets = stored->offsets + first;
    else
        entry->column.data = (const char *) stored->data + (size_t) first * row_bytes;
    entry->payload = verl_column_payload(&entry->column, batch->rows);
    return 0;
}

int
verl_batch_put(verl_batch_t *batch, const char *name, const verl_column_t *stored, const int32_t *const *maps,
               const int64_t *map_lengths, int maps_count, int64_t slice_first, verl_error_t *error)
{
    if (verl_batch_column(batch, name))
        return verl_error_set(error, "column '%s' was given twice", name);
    if (slice_first < 0 || slice_first > VERL_ROWS_MAX)
        return verl_error_set(error, "column '%s': a part cannot begin at row %lld", name, (long long) slice_first);
    verl_entry_t *entry = verl_entry_new(name, 0, false);
    if (!entry)
        return verl_error_set(error, "no memory for column '%s'", name);
    entry->column = *stored;
    entry->column.name = name;
    entry->column.rows = batch->rows;
    int rc = maps_count > 0 || stored->map
        ? s_compose(batch, entry, stored, maps, map_lengths, maps_count, slice_first, error)
        : s_slice(batch, entry, stored, slice_first, error);
    if (rc == 0 && verl_batch_append(batch, entry))
        rc = verl_error_set(error, "no memory for column '%s'", name);
    if (rc)
        verl_entry_free(batch, entry);
    return rc;
}
