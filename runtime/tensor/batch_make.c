// batch_make.c: batches that a handler fills. Columns are written where their readers read them: small ones in the
// heap, to travel inside the message, larger ones in one block each.
#include "runtime/tensor/batch_impl.h"
#include <stdlib.h>
#include <string.h>

verl_batch_t *
verl_batch_new_made(int64_t id, int64_t rows, int64_t first_row, const verl_memory_t *memory)
{
    verl_batch_t *batch = verl_batch_new(id, rows < 0 ? -1 : rows, first_row);
    if (!batch)
        return NULL;
    batch->made = true;
    batch->given_rows = batch->rows;
    batch->given_first = first_row;
    batch->memory = *memory;
    if (rows > VERL_ROWS_MAX)
        verl_error_set(&batch->error, "a batch of %lld rows was given: a batch has at most %d", (long long) rows,
                       VERL_ROWS_MAX);
    return batch;
}

void
verl_batch_set_first_row(verl_batch_t *batch, int64_t first_row)
{
    batch->first_row = first_row;
}

const char *
verl_batch_error(const verl_batch_t *batch)
{
    return batch->error.text[0] ? batch->error.text : NULL;
}

static int
s_take(verl_batch_t *batch, uint64_t bytes, verl_piece_t *ret)
{
    if (bytes <= VERL_BATCH_INLINE) {
        if (verl_piece_heap(ret, bytes))
            return verl_error_set(&batch->error, "no memory for %llu bytes", (unsigned long long) bytes);
        return 0;
    }
    if (batch->memory.take(batch->memory.context, bytes, &ret->block, &batch->error))
        return verl_error_set(&batch->error, "no memory for a block of %llu bytes", (unsigned long long) bytes);
    ret->block.bytes = bytes;
    ret->owner = VERL_OWNER_MEMORY;
    return 0;
}

// Whether the rows of this batch may be set now, to this number.
static int
s_check_rows(verl_batch_t *batch, const char *function, int64_t rows)
{
    if (!batch->made)
        return verl_error_set(&batch->error, "%s was called for a batch that was given: it can only be read", function);
    if (batch->error.text[0])
        return -1;
    if (batch->rows_fixed)
        return verl_error_set(&batch->error, "%s was called after %s: rows are set once, before any column is added",
                              function, batch->count ? "a column was added" : "the rows were set");
    if (rows < 0 || rows > VERL_ROWS_MAX)
        return verl_error_set(&batch->error, "%s was called with %lld rows: a batch has 0 to %d", function,
                              (long long) rows, VERL_ROWS_MAX);
    return 0;
}

int
verl_batch_set_rows(verl_batch_t *batch, int64_t rows)
{
    if (s_check_rows(batch, "verl_batch_set_rows", rows))
        return -1;
    if (batch->given_rows >= 0 && rows != batch->given_rows)
        return verl_error_set(&batch->error, "the rows were set to %lld where %lld were given: a stage that changes "
                              "rows says with verl_batch_set_map where each came from", (long long) rows,
                              (long long) batch->given_rows);
    batch->rows = rows;
    batch->rows_fixed = true;
    return 0;
}

int32_t *
verl_batch_set_map(verl_batch_t *batch, int64_t rows)
{
    if (s_check_rows(batch, "verl_batch_set_map", rows))
        return NULL;
    if (batch->given_rows < 0) {
        verl_error_set(&batch->error, "verl_batch_set_map was called by a source, which was given no rows: use "
                       "verl_batch_set_rows");
        return NULL;
    }
    if (s_take(batch, (uint64_t) rows * sizeof(int32_t), &batch->map))
        return NULL;
    memset(batch->map.block.data, 0xff, (size_t) rows * sizeof(int32_t));      // -1: an entry left out is found
    batch->rows = rows;
    batch->rows_fixed = true;
    return batch->map.block.data;
}

// Whether a column of this name and type may be added now.
static int
s_check_column(verl_batch_t *batch, const char *name, verl_dtype_t dtype, int64_t width)
{
    if (!batch->made)
        return verl_error_set(&batch->error, "a column was added to a batch that was given: it can only be read");
    if (batch->error.text[0])
        return -1;
    size_t size = name ? strnlen(name, VERL_BATCH_NAME + 1) : 0;
    if (size == 0 || size > VERL_BATCH_NAME)
        return verl_error_set(&batch->error, "a column was added with a name of %s bytes: a name has 1 to %d",
                              size ? "too many" : "no", VERL_BATCH_NAME);
    if (batch->rows < 0)
        return verl_error_set(&batch->error, "column '%s' was added before the rows were set: a source calls "
                              "verl_batch_set_rows first", name);
    if ((unsigned) dtype >= VERL_DTYPE_COUNT)
        return verl_error_set(&batch->error, "column '%s' was added with dtype %d: there is no such type", name,
                              (int) dtype);
    if (width < 0)
        return verl_error_set(&batch->error, "column '%s' was added with width %lld: a width is 0 or more", name,
                              (long long) width);
    if (batch->count >= VERL_BATCH_COLUMNS)
        return verl_error_set(&batch->error, "column '%s' is one too many: a batch has at most %d", name,
                              VERL_BATCH_COLUMNS);
    if (verl_batch_column(batch, name))
        return verl_error_set(&batch->error, "column '%s' was added twice", name);
    return 0;
}

// Appends a column whose memory is taken but not filled; NULL and a recorded error where that fails.
static verl_entry_t *
s_append(verl_batch_t *batch, const char *name, verl_dtype_t dtype, bool ragged, int64_t width, int64_t positions)
{
    verl_layout_t layout;
    if (verl_layout(dtype, ragged, width, batch->rows, positions, &layout)) {
        verl_error_set(&batch->error, "column '%s': %lld positions of %lld %s elements are more bytes than there can "
                       "be", name, (long long) positions, (long long) width, verl_dtype_name(dtype));
        return NULL;
    }
    verl_entry_t *entry = verl_entry_new(name, VERL_BATCH_NAME, true);
    if (!entry) {
        verl_error_set(&batch->error, "no memory for column '%s'", name);
        return NULL;
    }
    if (s_take(batch, layout.bytes, &entry->piece)) {
        verl_entry_free(batch, entry);
        return NULL;
    }
    if (verl_batch_append(batch, entry)) {
        verl_error_set(&batch->error, "no memory for column '%s'", name);
        verl_entry_free(batch, entry);
        return NULL;
    }
    verl_column_t *column = &entry->column;
    column->dtype = dtype;
    column->ragged = ragged;
    column->rows = batch->rows;
    column->width = width;
    column->offsets = ragged ? entry->piece.block.data : NULL;
    column->data = (char *) entry->piece.block.data + layout.data_at;
    entry->payload = layout.bytes;
    batch->rows_fixed = true;
    return entry;
}

void *
verl_batch_add(verl_batch_t *batch, const char *name, verl_dtype_t dtype, int64_t width)
{
    if (s_check_column(batch, name, dtype, width))
        return NULL;
    if (dtype == VERL_TEXT) {
        verl_error_set(&batch->error, "column '%s' was added as text of one width: text is added with "
                       "verl_batch_add_texts or verl_batch_add_ragged", name);
        return NULL;
    }
    verl_entry_t *entry = s_append(batch, name, dtype, false, width, batch->rows);
    return entry ? entry->piece.block.data : NULL;
}

float *
verl_batch_add_f32(verl_batch_t *batch, const char *name)
{
    return verl_batch_add(batch, name, VERL_F32, 1);
}

int32_t *
verl_batch_add_i32(verl_batch_t *batch, const char *name)
{
    return verl_batch_add(batch, name, VERL_I32, 1);
}

int64_t *
verl_batch_add_i64(verl_batch_t *batch, const char *name)
{
    return verl_batch_add(batch, name, VERL_I64, 1);
}

uint8_t *
verl_batch_add_u8(verl_batch_t *batch, const char *name)
{
    return verl_batch_add(batch, name, VERL_U8, 1);
}

// The positions of all rows; -1 and a recorded error where a length is impossible.
static int64_t
s_sum(verl_batch_t *batch, const char *name, const int64_t *lengths)
{
    int64_t sum = 0;
    for (int64_t row = 0; row < batch->rows; row++) {
        if (lengths[row] < 0)
            return verl_error_set(&batch->error, "column '%s': row %lld has length %lld: a length is 0 or more", name,
                                  (long long) row, (long long) lengths[row]);
        if (__builtin_add_overflow(sum, lengths[row], &sum))
            return verl_error_set(&batch->error, "column '%s': the lengths up to row %lld are more positions than "
                                  "there can be", name, (long long) row);
    }
    return sum;
}

// Writes the offsets of a new ragged entry and the zeroes behind them; returns where its data go.
static void *
s_lay_offsets(verl_entry_t *entry, const int64_t *lengths)
{
    int64_t *offsets = entry->piece.block.data;
    int64_t rows = entry->column.rows;
    offsets[0] = 0;
    for (int64_t row = 0; row < rows; row++)
        offsets[row + 1] = offsets[row] + lengths[row];
    char *data = (char *) entry->piece.block.data + ((const char *) entry->column.data - (const char *) offsets);
    memset(offsets + rows + 1, 0, (size_t) (data - (char *) (offsets + rows + 1)));
    return data;
}

void *
verl_batch_add_ragged(verl_batch_t *batch, const char *name, verl_dtype_t dtype, int64_t width, const int64_t *lengths)
{
    if (s_check_column(batch, name, dtype, width))
        return NULL;
    if (dtype == VERL_TEXT && width != 1) {
        verl_error_set(&batch->error, "column '%s' was added as text of width %lld: the width of text is 1", name,
                       (long long) width);
        return NULL;
    }
    int64_t positions = s_sum(batch, name, lengths);
    verl_entry_t *entry = positions < 0 ? NULL : s_append(batch, name, dtype, true, width, positions);
    return entry ? s_lay_offsets(entry, lengths) : NULL;
}

int
verl_batch_add_texts(verl_batch_t *batch, const char *name, const char *const *texts, const size_t *bytes)
{
    if (s_check_column(batch, name, VERL_TEXT, 1))
        return -1;
    int64_t *lengths = calloc((size_t) batch->rows + 1, sizeof *lengths);
    if (!lengths)
        return verl_error_set(&batch->error, "no memory for column '%s'", name);
    for (int64_t row = 0; row < batch->rows; row++)
        lengths[row] = bytes[row] > INT64_MAX ? -1 : (int64_t) bytes[row];
    char *data = verl_batch_add_ragged(batch, name, VERL_TEXT, 1, lengths);
    for (int64_t row = 0; data && row < batch->rows; row++) {
        if (bytes[row])
            memcpy(data, texts[row], bytes[row]);
        data += bytes[row];
    }
    free(lengths);
    return data ? 0 : -1;
}

int
verl_batch_seal(verl_batch_t *batch, verl_error_t *error)
{
    if (batch->rows < 0)
        verl_error_set(&batch->error, "the rows were not set: a source calls verl_batch_set_rows");
    int32_t *map = batch->map.block.data;
    for (int64_t row = 0; map && !batch->sealed && row < batch->rows && !batch->error.text[0]; row++) {
        int64_t from = map[row] + (map[row] < 0 ? 0 : batch->given_first);
        if (map[row] < 0 || map[row] >= batch->given_rows || from > VERL_ROWS_MAX)
            verl_error_set(&batch->error, "the row map says that row %lld came from row %d: %lld rows were given, "
                           "counted from 0", (long long) row, map[row], (long long) batch->given_rows);
        else
            map[row] = (int32_t) from;
    }
    if (batch->error.text[0])
        return verl_error_set(error, "%s", batch->error.text);
    batch->sealed = true;
    return 0;
}

int
verl_batch_blocks(const verl_batch_t *batch)
{
    int count = batch->map.owner == VERL_OWNER_MEMORY;
    for (int i = 0; i < batch->count; i++)
        count += batch->entries[i]->piece.owner == VERL_OWNER_MEMORY;
    return count;
}

static int
s_release(verl_piece_t *piece, verl_block_t *ret)
{
    if (piece->owner != VERL_OWNER_MEMORY)
        return 0;
    *ret = piece->block;
    piece->owner = VERL_OWNER_NONE;
    return 1;
}

int
verl_batch_release_blocks(verl_batch_t *batch, verl_block_t *ret)
{
    int count = s_release(&batch->map, ret);
    for (int i = 0; i < batch->count; i++)
        count += s_release(&batch->entries[i]->piece, ret + count);
    return count;
}
