// spy_follow_batch.c: see spy_follow_batch.h.
#include "tools/spy_follow_batch.h"
#include <stdlib.h>
#include <string.h>
#include "runtime/tensor/packed.h"

void
verl_spy_batch_done(verl_spy_batch_t *batch)
{
    for (int i = 0; i < batch->count; i++)
        free(batch->items[i].offsets);
    free(batch->items);
    *batch = (verl_spy_batch_t) { 0 };
}

// The bytes of a column that are here.
static int
s_take_bytes(verl_spy_column_t *item, const verl_packed_column_t *head, int64_t rows, verl_error_t *error)
{
    uint64_t data_at;
    const void *data;
    if (verl_packed_check(head, rows, head->place.here, head->place.bytes, &item->offsets, &data_at, error))
        return -1;
    item->column = (verl_column_t) { .name = item->name, .dtype = item->dtype, .ragged = item->ragged,
                                     .rows = rows, .width = item->width, .offsets = item->offsets,
                                     .data = head->place.here + data_at };
    verl_summary_of(&item->column, &item->summary);
    item->summed = true;
    item->head_size = verl_summary_data(&item->column, &data);
    item->head = data;
    return 0;
}

// Has it no element? Of a ragged column the bytes tell.
static bool
s_is_empty(const verl_spy_column_t *item)
{
    uint64_t table = ((uint64_t) item->rows + 1) * sizeof(int64_t);
    uint64_t data_at = (table + VERL_BLOCK_ALIGN - 1) / VERL_BLOCK_ALIGN * VERL_BLOCK_ALIGN;
    return !item->width || (item->ragged ? item->bytes <= data_at : !item->rows);
}

static int
s_read_column(verl_reader_t *reader, const verl_packed_t *packed, verl_spy_column_t *item, verl_error_t *error)
{
    verl_packed_column_t head;
    if (verl_packed_next(reader, packed, &head, error))
        return -1;
    memcpy(item->name, head.name, sizeof item->name);
    item->dtype = head.dtype;
    item->ragged = head.ragged;
    item->rows = packed->rows;
    item->width = head.width;
    item->bytes = head.place.bytes;
    item->slab = head.place.slab;
    item->arena = !head.place.here;
    item->empty = s_is_empty(item);
    return item->arena ? 0 : s_take_bytes(item, &head, packed->rows, error);
}

static int
s_read(const verl_trace_record_t *record, verl_spy_batch_t *ret, verl_error_t *error)
{
    verl_reader_t reader;
    verl_packed_t packed;
    verl_reader_init(&reader, record->message.body, record->message.body_size);
    if (verl_packed_begin(&reader, &packed, error))
        return -1;
    ret->rows = packed.rows;
    ret->first = packed.first_row;
    ret->map = packed.mapped;
    ret->shared = packed.mapped && !packed.map.here ? packed.map.bytes : 0;
    ret->columns = (int) packed.columns;
    int seen = ret->columns < VERL_SPY_COLUMNS ? ret->columns : VERL_SPY_COLUMNS;
    ret->items = calloc(seen ? (size_t) seen : 1, sizeof *ret->items);
    if (!ret->items)
        return verl_error_set(error, "out of memory");
    for (; ret->count < seen; ret->count++) {
        verl_spy_column_t *item = &ret->items[ret->count];
        if (s_read_column(&reader, &packed, item, error))
            return -1;
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
