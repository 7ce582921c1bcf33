// packed.c: see packed.h.
#include "runtime/tensor/packed.h"
#include <stdlib.h>
#include <string.h>
#include "runtime/tensor/batch_impl.h"

static int
s_fail(verl_error_t *error, const char *what)
{
    return verl_error_set(error, "packed batch: %s", what);
}

static int
s_read_dtype(verl_reader_t *reader, verl_dtype_t *ret)
{
    const char *bytes;
    size_t size;
    if (verl_read_str(reader, &bytes, &size))
        return -1;
    for (int i = 0; i < VERL_DTYPE_COUNT; i++) {
        const char *name = verl_dtype_name((verl_dtype_t) i);
        if (strlen(name) == size && memcmp(name, bytes, size) == 0) {
            *ret = (verl_dtype_t) i;
            return 0;
        }
    }
    return -1;
}

static int
s_read_place(verl_reader_t *reader, const char *name, verl_place_t *ret, verl_error_t *error)
{
    size_t size;
    uint32_t count;
    *ret = (verl_place_t) { 0 };
    if (verl_read_bin(reader, &ret->here, &size) == 0) {
        ret->bytes = size;
        return 0;
    }
    ret->here = NULL;
    if (verl_read_array(reader, &count) || count != 3 || verl_read_uint(reader, &ret->slab) ||
        verl_read_uint(reader, &ret->offset) || verl_read_uint(reader, &ret->bytes) || ret->slab == 0 ||
        ret->bytes == 0)
        return verl_error_set(error, "packed batch: the place of '%s' is neither a binary nor [slab, offset, bytes]",
                              name);
    if (ret->offset % VERL_BLOCK_ALIGN)
        return verl_error_set(error, "packed batch: '%s' begins at byte %llu of its slab: blocks begin at multiples "
                              "of %d", name, (unsigned long long) ret->offset, VERL_BLOCK_ALIGN);
    return 0;
}

int
verl_packed_begin(verl_reader_t *reader, verl_packed_t *ret, verl_error_t *error)
{
    uint32_t count;
    int64_t format;
    *ret = (verl_packed_t) { 0 };
    if (verl_read_array(reader, &count) || count < 1 || verl_read_int(reader, &format))
        return s_fail(error, "it does not begin with its format");
    if (format != VERL_BATCH_FORMAT)
        return verl_error_set(error, "packed batch: its format is %lld, this program reads %d", (long long) format,
                              VERL_BATCH_FORMAT);
    if (count != 5 || verl_read_int(reader, &ret->rows) || verl_read_int(reader, &ret->first_row))
        return s_fail(error, "it is not an array of format, rows, first row, map and columns");
    if (ret->rows < 0 || ret->rows > VERL_ROWS_MAX || ret->first_row < 0 || ret->first_row > VERL_ROWS_MAX - ret->rows)
        return verl_error_set(error, "packed batch: %lld rows from row %lld on: a batch has at most %d",
                              (long long) ret->rows, (long long) ret->first_row, VERL_ROWS_MAX);
    ret->mapped = verl_read_nil(reader) != 0;
    if (ret->mapped && s_read_place(reader, "row map", &ret->map, error))
        return -1;
    if (ret->mapped && ret->map.bytes != (uint64_t) ret->rows * sizeof(int32_t))
        return verl_error_set(error, "packed batch: the row map has %llu bytes for %lld rows of 4",
                              (unsigned long long) ret->map.bytes, (long long) ret->rows);
    if (verl_read_array(reader, &ret->columns) || ret->columns > VERL_BATCH_COLUMNS)
        return verl_error_set(error, "packed batch: its columns are not an array of at most %d", VERL_BATCH_COLUMNS);
    return 0;
}

int
verl_packed_next(verl_reader_t *reader, const verl_packed_t *packed, verl_packed_column_t *ret, verl_error_t *error)
{
    uint32_t count;
    int64_t rows;
    if (verl_read_array(reader, &count) || count != 6)
        return s_fail(error, "a column is not an array of 6");
    if (verl_read_cstr(reader, ret->name, sizeof ret->name) || ret->name[0] == 0)
        return s_fail(error, "a column's name is not a string of 1 to 255 bytes");
    if (s_read_dtype(reader, &ret->dtype))
        return verl_error_set(error, "packed batch: the dtype of '%s' is none of ours", ret->name);
    if (verl_read_bool(reader, &ret->ragged) || verl_read_int(reader, &ret->width) || verl_read_int(reader, &rows))
        return verl_error_set(error, "packed batch: '%s' does not say whether it is ragged, its width and its rows",
                              ret->name);
    if (ret->width < 0 || (ret->dtype == VERL_TEXT && (!ret->ragged || ret->width != 1)))
        return verl_error_set(error, "packed batch: '%s' has width %lld: %s", ret->name, (long long) ret->width,
                              ret->dtype == VERL_TEXT ? "text is ragged with width 1" : "a width is 0 or more");
    if (rows != packed->rows)
        return verl_error_set(error, "packed batch: '%s' has %lld rows in a batch of %lld", ret->name, (long long) rows,
                              (long long) packed->rows);
    return s_read_place(reader, ret->name, &ret->place, error);
}

// Checks a copy of offsets. Returns the positions, or -1.
static int64_t
s_positions(const char *name, const int64_t *offsets, int64_t rows, verl_error_t *error)
{
    if (offsets[0] != 0)
        return verl_error_set(error, "packed batch: the offsets of '%s' begin with %lld, not 0", name,
                              (long long) offsets[0]);
    for (int64_t row = 0; row < rows; row++)
        if (offsets[row + 1] < offsets[row])
            return verl_error_set(error, "packed batch: the offsets of '%s' decrease at row %lld", name,
                                  (long long) row);
    return offsets[rows];
}

int
verl_packed_check(const verl_packed_column_t *column, int64_t rows, const void *memory, uint64_t bytes,
                  int64_t **ret_offsets, uint64_t *ret_data_at, verl_error_t *error)
{
    uint64_t table = ((uint64_t) rows + 1) * sizeof(int64_t);
    int64_t *offsets = NULL, positions = rows;
    verl_layout_t layout;
    *ret_offsets = NULL;
    if (column->ragged) {
        if (bytes < table)
            return verl_error_set(error, "packed batch: the %llu bytes of '%s' do not hold the offsets of %lld rows",
                                  (unsigned long long) bytes, column->name, (long long) rows);
        if (!(offsets = malloc(table)))
            return verl_error_set(error, "packed batch: no memory for the offsets of '%s'", column->name);
        memcpy(offsets, memory, table);
        positions = s_positions(column->name, offsets, rows, error);
    }
    if (positions >= 0 && (verl_layout(column->dtype, column->ragged, column->width, rows, positions, &layout) ||
                           layout.bytes != bytes))
        positions = verl_error_set(error,
                                   "packed batch: '%s' has %llu bytes, but its shape of %lld positions of %lld %s "
                                   "elements needs another number", column->name, (unsigned long long) bytes,
                                   (long long) positions, (long long) column->width, verl_dtype_name(column->dtype));
    if (positions < 0) {
        free(offsets);
        return -1;
    }
    *ret_offsets = offsets;
    *ret_data_at = layout.data_at;
    return 0;
}
