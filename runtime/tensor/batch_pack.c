// batch_pack.c: a batch as the body of a message. The format is in batch.h; batch_unpack.c reads it.
#include "runtime/tensor/batch_impl.h"
#include "runtime/wire/pack.h"
#include <string.h>

// The bytes that the rows of a column take when they are written one after the other.
static int
s_gathered(const verl_column_t *column, int64_t *ret_positions, verl_layout_t *ret)
{
    *ret_positions = column->rows;
    if (column->ragged && !column->map)
        *ret_positions = column->offsets[column->rows] - column->offsets[0];
    else if (column->ragged) {
        *ret_positions = 0;
        for (int64_t row = 0; row < column->rows; row++)
            if (__builtin_add_overflow(*ret_positions, verl_column_length(column, row), ret_positions))
                return -1;
    }
    return verl_layout(column->dtype, column->ragged, column->width, column->rows, *ret_positions, ret);
}

static void
s_append_offsets(const verl_column_t *column, verl_buffer_t *out)
{
    static const char zeroes[VERL_BLOCK_ALIGN];
    int64_t at = 0;
    verl_buffer_append(out, &at, sizeof at);
    for (int64_t row = 0; row < column->rows; row++) {
        at += verl_column_length(column, row);
        verl_buffer_append(out, &at, sizeof at);
    }
    size_t odd = ((size_t) column->rows + 1) * sizeof at % VERL_BLOCK_ALIGN;
    if (odd)
        verl_buffer_append(out, zeroes, VERL_BLOCK_ALIGN - odd);
}

static void
s_append_data(const verl_column_t *column, int64_t positions, verl_buffer_t *out)
{
    size_t position_bytes = (size_t) column->width * verl_dtype_bytes(column->dtype);
    if (!column->map) {
        if (column->rows)
            verl_buffer_append(out, verl_column_at(column, 0), (size_t) positions * position_bytes);
        return;
    }
    for (int64_t row = 0; row < column->rows; row++)
        verl_buffer_append(out, verl_column_at(column, row), (size_t) verl_column_length(column, row) * position_bytes);
}

static int
s_pack_inline(const verl_column_t *column, verl_buffer_t *out, verl_error_t *error)
{
    verl_layout_t layout;
    int64_t positions;
    if (s_gathered(column, &positions, &layout) || layout.bytes > UINT32_MAX)
        return verl_error_set(error, "column '%s' is too large to travel inside a message: at most 4 GiB do",
                              column->name);
    if (verl_buffer_reserve(out, layout.bytes + 5))
        return verl_error_set(error, "no memory for a message with column '%s' of %llu bytes", column->name,
                              (unsigned long long) layout.bytes);
    verl_pack_bin_head(out, layout.bytes);
    if (column->ragged)
        s_append_offsets(column, out);
    s_append_data(column, positions, out);
    return 0;
}

static void
s_pack_block(const verl_block_t *block, verl_buffer_t *out)
{
    verl_pack_array(out, 3);
    verl_pack_uint(out, block->slab);
    verl_pack_uint(out, block->offset);
    verl_pack_uint(out, block->bytes);
}

// A column that lies in a slab as the format wants it travels as a reference; any other is written out.
static int
s_pack_column(const verl_entry_t *entry, const char *as, bool inlined, verl_buffer_t *out, verl_error_t *error)
{
    const verl_column_t *column = &entry->column;
    verl_pack_array(out, 6);
    verl_pack_cstr(out, as);
    verl_pack_cstr(out, verl_dtype_name(column->dtype));
    verl_pack_bool(out, column->ragged);
    verl_pack_int(out, column->width);
    verl_pack_int(out, column->rows);
    if (inlined || entry->piece.block.slab == 0)
        return s_pack_inline(column, out, error);
    s_pack_block(&entry->piece.block, out);
    return 0;
}

static void
s_pack_map(const verl_batch_t *batch, bool inlined, verl_buffer_t *out)
{
    const verl_block_t *block = &batch->map.block;
    if (inlined || block->slab == 0)
        verl_pack_bin(out, block->data, (size_t) batch->rows * sizeof(int32_t));
    else
        s_pack_block(block, out);
}

static const verl_entry_t *
s_find(const verl_batch_t *batch, const char *name)
{
    for (int i = 0; i < batch->count; i++)
        if (strcmp(batch->entries[i]->column.name, name) == 0)
            return batch->entries[i];
    return NULL;
}

static int
s_pack(const verl_batch_t *batch, const char *const *names, const char *const *as, int count, bool with_map,
       bool inlined, verl_buffer_t *out, verl_error_t *error)
{
    verl_pack_array(out, 5);
    verl_pack_int(out, VERL_BATCH_FORMAT);
    verl_pack_int(out, verl_batch_rows(batch));
    verl_pack_int(out, batch->first_row);
    if (with_map && batch->map.block.data)
        s_pack_map(batch, inlined, out);
    else
        verl_pack_nil(out);
    verl_pack_array(out, (uint32_t) count);
    for (int i = 0; i < count; i++) {
        const verl_entry_t *entry = s_find(batch, names[i]);
        if (!entry)
            return verl_error_set(error, "column '%s' was not added", names[i]);
        if (s_pack_column(entry, as ? as[i] : names[i], inlined, out, error))
            return -1;
    }
    return out->failed ? verl_error_set(error, "no memory for a message of %d columns", count) : 0;
}

int
verl_batch_pack(const verl_batch_t *batch, const char *const *names, const char *const *as, int count, bool with_map,
                verl_buffer_t *out, verl_error_t *error)
{
    return s_pack(batch, names, as, count, with_map, false, out, error);
}

int
verl_batch_pack_inline(const verl_batch_t *batch, const char *const *names, const char *const *as, int count,
                       bool with_map, verl_buffer_t *out, verl_error_t *error)
{
    return s_pack(batch, names, as, count, with_map, true, out, error);
}
