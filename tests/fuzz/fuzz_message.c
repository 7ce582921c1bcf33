// Any bytes as a frame of messages, and as a packed batch: refused with a sentence, or read to the end; and a batch
// that is believed can be used in every way, is the same when it is packed and read again, and fits to itself.
#include "runtime/tensor/batch.h"
#include "runtime/wire/message.h"
#include "runtime/wire/read.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { S_SLAB = 8192 };
static _Alignas(4096) char s_slab[S_SLAB];
static int s_uses;
static volatile uint64_t s_sum;             // so that every byte is really read

static const char *
s_map(void *context, uint64_t slab, uint64_t *ret_bytes, verl_error_t *error)
{
    (void) context;
    if (slab != 1) {
        verl_error_set(error, "there is one slab");
        return NULL;
    }
    s_uses++;
    *ret_bytes = S_SLAB;
    return s_slab;
}

static void
s_release(void *context, uint64_t slab)
{
    (void) context;
    (void) slab;
    s_uses--;
}

static const verl_slabs_t s_slabs = {.map = s_map, .release = s_release};

// The slab begins with offsets 0 1 3 3, as a column of 3 ragged rows has them; from 4096 on it is small map entries.
static void
s_fill_slab(void)
{
    static const int64_t offsets[] = {0, 1, 3, 3};
    static const int32_t map[] = {2, 0, 1, 1};
    memcpy(s_slab, offsets, sizeof offsets);
    for (size_t at = 4096; at < S_SLAB; at += sizeof map)
        memcpy(s_slab + at, map, sizeof map);
}

static void
s_use(const verl_batch_t *batch)
{
    for (int c = 0; c < verl_batch_columns(batch); c++) {
        const verl_column_t *column = verl_batch_column_at(batch, c);
        if (verl_batch_column(batch, column->name) != column || column->rows != verl_batch_rows(batch))
            abort();
        int64_t rows = column->rows < 5000 ? column->rows : 5000;      // a column of width 0 may have any number
        for (int64_t row = 0; row < rows; row++) {
            size_t length = (size_t) (verl_column_length(column, row) * column->width);
            length *= verl_dtype_bytes(column->dtype);
            const uint8_t *at = verl_column_u8(column, row);
            for (size_t i = 0; i < length; i++)
                s_sum += at[i];
        }
    }
}

// The batch as a handler would see it: through its own map where that stays inside, else its second half.
static void
s_give(const verl_batch_t *batch)
{
    int64_t rows = verl_batch_rows(batch), first = rows / 2;
    const int32_t *map = verl_batch_map(batch);
    if (rows > 5000)
        return;
    verl_batch_t *given = verl_batch_new_given(1, rows - first, first);
    for (int c = 0; given && c < verl_batch_columns(batch); c++) {
        const verl_column_t *column = verl_batch_column_at(batch, c);
        verl_error_t error = {0};
        int rc = verl_batch_put(given, column->name, column, &map, &rows, map ? 1 : 0, first, &error);
        if (rc && (!error.text[0] || !map))
            abort();
    }
    s_use(given);
    verl_batch_destroy(&given);
    const verl_batch_t *one = batch;
    verl_error_t error = {0};
    verl_batch_t *joined = verl_batch_concat(&one, 1, &error);
    if (!joined || verl_batch_bytes(joined) != verl_batch_bytes(batch))
        abort();
    s_use(joined);
    verl_batch_destroy(&joined);
}

static void
s_pack_again(const verl_batch_t *batch)
{
    const char *names[16];
    int count = verl_batch_columns(batch);
    if (count > 16 || verl_batch_rows(batch) > 5000)
        return;
    for (int c = 0; c < count; c++)
        names[c] = verl_batch_column_at(batch, c)->name;
    verl_buffer_t first = {0}, second = {0};
    if (verl_batch_pack_inline(batch, names, NULL, count, true, &first, NULL))
        abort();
    verl_batch_t *again = verl_batch_unpack(1, first.data, first.size, NULL, NULL);
    if (!again || verl_batch_pack_inline(again, names, NULL, count, true, &second, NULL) || first.size != second.size ||
        memcmp(first.data, second.data, first.size))
        abort();
    verl_batch_destroy(&again);
    verl_buffer_done(&first);
    verl_buffer_done(&second);
}

static void
s_unpack(const char *bytes, size_t size)
{
    verl_error_t error = {0};
    verl_batch_t *batch = verl_batch_unpack(1, bytes, size, &s_slabs, &error);
    if (batch) {
        s_use(batch);
        s_give(batch);
        s_pack_again(batch);
    } else if (!error.text[0]) {
        abort();
    }
    verl_batch_destroy(&batch);
    if (s_uses)
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    verl_reader_t reader;
    s_fill_slab();
    verl_reader_init(&reader, bytes, size);
    while (verl_reader_left(&reader)) {
        verl_message_t message;
        verl_error_t error = {0};
        if (verl_message_read(&reader, &message, &error)) {
            if (!error.text[0])
                abort();
            break;
        }
        s_unpack(message.body, message.body_size);
    }
    verl_reader_init(&reader, bytes, size);
    while (verl_reader_left(&reader) && verl_read_skip(&reader) == 0)
        ;
    s_unpack((const char *) bytes, size);
    return 0;
}
