// spy_follow_batch.c: see spy_follow_batch.h. The format is written down in runtime/tensor/batch.h.
#include "tools/spy_follow_batch.h"
#include <stdlib.h>
#include <string.h>
#include "runtime/tensor/batch.h"
#include "runtime/wire/read.h"

void
verl_spy_batch_done(verl_spy_batch_t *batch)
{
    for (int i = 0; i < batch->count; i++)
        free(batch->items[i].offsets);
    free(batch->items);
    *batch = (verl_spy_batch_t) { 0 };
}

static int
s_fail(verl_error_t *error, const char *what)
{
    return verl_error_set(error, "a batch's body is malformed: %s", what);
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

// [slab, offset, bytes], or the bytes. *ret: NULL where they are elsewhere.
static int
s_read_place(verl_reader_t *reader, const char **ret, uint64_t *ret_bytes, uint64_t *ret_slab)
{
    size_t size;
    uint32_t count;
    uint64_t offset;
    *ret = NULL;
    *ret_slab = 0;
    if (verl_read_bin(reader, ret, &size) == 0) {
        *ret_bytes = size;
        return 0;
    }
    return verl_read_array(reader, &count) || count != 3 || verl_read_uint(reader, ret_slab) ||
           verl_read_uint(reader, &offset) || verl_read_uint(reader, ret_bytes);
}

// Offsets are copied, since they need not be aligned here, and checked against the bytes behind them.
static int
s_take_offsets(verl_spy_column_t *item, const char *bytes)
{
    uint64_t rows = (uint64_t) item->rows + 1, table = rows * sizeof(int64_t);
    uint64_t element = (uint64_t) item->width * verl_dtype_bytes(item->dtype);
    uint64_t data_at = (table + VERL_BLOCK_ALIGN - 1) / VERL_BLOCK_ALIGN * VERL_BLOCK_ALIGN;
    if (item->bytes < data_at || !(item->offsets = malloc(table)))
        return -1;
    memcpy(item->offsets, bytes, table);
    for (uint64_t i = 1; i < rows; i++)
        if (item->offsets[i] < item->offsets[i - 1])
            return -1;
    uint64_t positions = (uint64_t) item->offsets[rows - 1];
    if (item->offsets[0] != 0 || (element && positions > (item->bytes - data_at) / element) ||
        positions * element != item->bytes - data_at)
        return -1;
    item->column.offsets = item->offsets;
    item->column.data = bytes + data_at;
    return 0;
}

// The bytes of a column that are here.
static int
s_take_bytes(verl_spy_column_t *item, const char *bytes)
{
    uint64_t element = (uint64_t) item->width * verl_dtype_bytes(item->dtype);
    item->column = (verl_column_t) { .name = item->name, .dtype = item->dtype, .ragged = item->ragged,
                                     .rows = item->rows, .width = item->width, .data = bytes };
    if (item->ragged ? s_take_offsets(item, bytes)
                     : (element && (uint64_t) item->rows > item->bytes / element) ||
                           (uint64_t) item->rows * element != item->bytes) {
        item->column = (verl_column_t) { 0 };
        return -1;
    }
    const void *data;
    verl_summary_of(&item->column, &item->summary);
    item->summed = true;
    item->head_size = verl_summary_data(&item->column, &data);
    item->head = data;
    return 0;
}

static int
s_read_column(verl_reader_t *reader, int64_t batch_rows, verl_spy_column_t *item, verl_error_t *error)
{
    uint32_t fields;
    const char *bytes;
    if (verl_read_array(reader, &fields) || fields != 6 || verl_read_cstr(reader, item->name, sizeof item->name) ||
        s_read_dtype(reader, &item->dtype) || verl_read_bool(reader, &item->ragged) ||
        verl_read_int(reader, &item->width) || verl_read_int(reader, &item->rows) || item->rows != batch_rows ||
        item->width < 0 || item->width > INT32_MAX ||
        (item->dtype == VERL_TEXT && (!item->ragged || item->width != 1)) ||
        s_read_place(reader, &bytes, &item->bytes, &item->slab))
        return s_fail(error, "a column is not name, dtype, ragged, width, rows and place");
    item->arena = !bytes;
    return bytes && s_take_bytes(item, bytes) ? s_fail(error, "a column's bytes are not of its shape") : 0;
}

static int
s_read(const verl_trace_record_t *record, verl_spy_batch_t *ret, verl_error_t *error)
{
    verl_reader_t reader;
    uint32_t fields, columns;
    int64_t format;
    const char *map;
    uint64_t bytes, slab;
    verl_reader_init(&reader, record->message.body, record->message.body_size);
    if (verl_read_array(&reader, &fields) || fields != 5 || verl_read_int(&reader, &format) ||
        format != VERL_BATCH_FORMAT || verl_read_int(&reader, &ret->rows) || verl_read_int(&reader, &ret->first) ||
        ret->rows < 0 || ret->rows > INT32_MAX)
        return s_fail(error, "it does not begin with format, rows and first row");
    ret->map = verl_read_nil(&reader) != 0;
    if (ret->map && s_read_place(&reader, &map, &bytes, &slab))
        return s_fail(error, "its map has no place");
    ret->shared = ret->map && !map ? bytes : 0;
    if (verl_read_array(&reader, &columns) || columns > VERL_BATCH_COLUMNS)
        return s_fail(error, "it has no columns");
    ret->columns = (int) columns;
    ret->items = calloc(columns ? (columns < VERL_SPY_COLUMNS ? columns : VERL_SPY_COLUMNS) : 1, sizeof *ret->items);
    if (!ret->items)
        return verl_error_set(error, "out of memory");
    for (; ret->count < ret->columns && ret->count < VERL_SPY_COLUMNS; ret->count++) {
        verl_spy_column_t *item = &ret->items[ret->count];
        if (s_read_column(&reader, ret->rows, item, error)) {
            free(item->offsets);
            item->offsets = NULL;
            return -1;
        }
        ret->shared += item->arena ? item->bytes : 0;
    }
    return 0;
}

// What the sender said about columns that are elsewhere.
static void
s_read_about(const verl_trace_record_t *record, verl_spy_batch_t *batch)
{
    verl_reader_t reader = record->about;
    verl_trace_about_t about;
    for (uint32_t i = 0; i < record->about_count && verl_trace_read_about(&reader, &about, NULL) == 0; i++) {
        for (int j = 0; j < batch->count; j++) {
            verl_spy_column_t *item = &batch->items[j];
            if (!item->arena || strcmp(item->name, about.column) != 0)
                continue;
            item->summary = about.summary;
            item->summed = about.summary.numbers > 0;
            item->head = about.head_size ? about.head : NULL;
            item->head_size = about.head_size;
        }
    }
}

int
verl_spy_batch_read(const verl_trace_record_t *record, verl_spy_batch_t *ret, verl_error_t *error)
{
    *ret = (verl_spy_batch_t) { 0 };
    if (s_read(record, ret, error)) {
        verl_spy_batch_done(ret);
        return -1;
    }
    s_read_about(record, ret);
    // Where whole values came along they are in the body here.
    ret->bytes = (record->bytes > record->message.body_size ? record->bytes : record->message.body_size) + ret->shared;
    return 0;
}
