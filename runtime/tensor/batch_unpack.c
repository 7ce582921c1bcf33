// batch_unpack.c: a batch off the wire. Nothing is believed before it was checked; offsets are copied before they are
// checked, so that a writer that goes on writing cannot make them lie afterwards.
#include "runtime/tensor/batch_impl.h"
#include "runtime/wire/read.h"
#include <stdlib.h>
#include <string.h>

// What a column says about itself before its memory is looked at.
typedef struct s_head {
    char         name[VERL_BATCH_NAME + 1];
    verl_dtype_t dtype;
    bool         ragged;
    int64_t      width;
} s_head_t;

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

// Reads a place: bytes that are here, copied into the heap, or a block of a slab, held. The piece is the batch's to end
// once it is returned.
static int
s_read_place(const verl_batch_t *batch, verl_reader_t *reader, const char *name, verl_piece_t *ret, verl_error_t *error)
{
    const char *bytes;
    size_t size;
    if (verl_read_bin(reader, &bytes, &size) == 0) {
        if (verl_piece_heap(ret, size))
            return verl_error_set(error, "packed batch: no memory for the %zu bytes of '%s'", size, name);
        memcpy(ret->block.data, bytes, size);
        return 0;
    }
    uint32_t count;
    verl_block_t block = {0};
    if (verl_read_array(reader, &count) || count != 3 || verl_read_uint(reader, &block.slab) ||
        verl_read_uint(reader, &block.offset) || verl_read_uint(reader, &block.bytes) || block.slab == 0 ||
        block.bytes == 0)
        return verl_error_set(error, "packed batch: the place of '%s' is neither a binary nor [slab, offset, bytes]",
                              name);
    if (block.offset % VERL_BLOCK_ALIGN)
        return verl_error_set(error, "packed batch: '%s' begins at byte %llu of its slab: blocks begin at multiples "
                              "of %d", name, (unsigned long long) block.offset, VERL_BLOCK_ALIGN);
    if (!batch->slabs.map)
        return verl_error_set(error, "packed batch: '%s' lies in slab %llu, but no slabs can be mapped here", name,
                              (unsigned long long) block.slab);
    uint64_t slab_bytes = 0;
    const char *slab = batch->slabs.map(batch->slabs.context, block.slab, &slab_bytes, error);
    if (!slab)
        return verl_error_set(error, "packed batch: slab %llu of '%s' cannot be mapped",
                              (unsigned long long) block.slab, name);
    ret->block = block;
    ret->block.data = (void *) (uintptr_t) slab;
    ret->owner = VERL_OWNER_SLAB;
    if (block.offset > slab_bytes || block.bytes > slab_bytes - block.offset)
        return verl_error_set(error, "packed batch: '%s' is %llu bytes at byte %llu of slab %llu, which has %llu", name,
                              (unsigned long long) block.bytes, (unsigned long long) block.offset,
                              (unsigned long long) block.slab, (unsigned long long) slab_bytes);
    ret->block.data = (char *) ret->block.data + block.offset;
    return 0;
}

static int
s_read_head(const verl_batch_t *batch, verl_reader_t *reader, s_head_t *ret, verl_error_t *error)
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
    if (rows != batch->rows)
        return verl_error_set(error, "packed batch: '%s' has %lld rows in a batch of %lld", ret->name, (long long) rows,
                              (long long) batch->rows);
    return 0;
}

// Copies the offsets out of the column's memory, then checks the copy. Returns the positions, or -1.
static int64_t
s_take_offsets(verl_entry_t *entry, int64_t rows, verl_error_t *error)
{
    const verl_block_t *block = &entry->piece.block;
    size_t bytes = ((size_t) rows + 1) * sizeof(int64_t);
    if (block->bytes < bytes)
        return verl_error_set(error, "packed batch: the %llu bytes of '%s' do not hold the offsets of %lld rows",
                              (unsigned long long) block->bytes, entry->name, (long long) rows);
    entry->offsets = malloc(bytes);
    if (!entry->offsets)
        return verl_error_set(error, "packed batch: no memory for the offsets of '%s'", entry->name);
    memcpy(entry->offsets, block->data, bytes);
    if (entry->offsets[0] != 0)
        return verl_error_set(error, "packed batch: the offsets of '%s' begin with %lld, not 0", entry->name,
                              (long long) entry->offsets[0]);
    for (int64_t row = 0; row < rows; row++)
        if (entry->offsets[row + 1] < entry->offsets[row])
            return verl_error_set(error, "packed batch: the offsets of '%s' decrease at row %lld", entry->name,
                                  (long long) row);
    return entry->offsets[rows];
}

static int
s_fill_entry(const verl_batch_t *batch, verl_entry_t *entry, const s_head_t *head, verl_reader_t *reader,
             verl_error_t *error)
{
    if (s_read_place(batch, reader, entry->name, &entry->piece, error))
        return -1;
    int64_t positions = batch->rows;
    if (head->ragged)
        positions = s_take_offsets(entry, batch->rows, error);
    if (positions < 0)
        return -1;
    verl_layout_t layout;
    const verl_block_t *block = &entry->piece.block;
    if (verl_layout(head->dtype, head->ragged, head->width, batch->rows, positions, &layout) ||
        layout.bytes != block->bytes)
        return verl_error_set(error, "packed batch: '%s' has %llu bytes, but its shape of %lld positions of %lld %s "
                              "elements needs another number", entry->name, (unsigned long long) block->bytes,
                              (long long) positions, (long long) head->width, verl_dtype_name(head->dtype));
    entry->column = (verl_column_t) {
        .name = entry->name, .dtype = head->dtype, .ragged = head->ragged, .rows = batch->rows, .width = head->width,
        .offsets = entry->offsets, .data = (const char *) block->data + layout.data_at,
    };
    entry->payload = layout.bytes;
    return 0;
}

static int
s_read_column(verl_batch_t *batch, verl_reader_t *reader, verl_error_t *error)
{
    s_head_t head = {0};
    if (s_read_head(batch, reader, &head, error))
        return -1;
    verl_entry_t *entry = verl_entry_new(head.name, strlen(head.name), true);
    if (!entry)
        return s_fail(error, "no memory for a column");
    if (s_fill_entry(batch, entry, &head, reader, error) == 0) {
        if (verl_batch_append(batch, entry) == 0)
            return 0;
        s_fail(error, "no memory for a column");
    }
    verl_entry_free(batch, entry);
    return -1;
}

static int
s_read_map(verl_batch_t *batch, verl_reader_t *reader, verl_error_t *error)
{
    if (verl_read_nil(reader) == 0)
        return 0;
    if (s_read_place(batch, reader, "row map", &batch->map, error))
        return -1;
    if (batch->map.block.bytes != (uint64_t) batch->rows * sizeof(int32_t))
        return verl_error_set(error, "packed batch: the row map has %llu bytes for %lld rows of 4",
                              (unsigned long long) batch->map.block.bytes, (long long) batch->rows);
    const int32_t *map = batch->map.block.data;
    for (int64_t row = 0; row < batch->rows; row++)
        if (map[row] < 0)
            return verl_error_set(error, "packed batch: the row map says that row %lld came from row %d",
                                  (long long) row, map[row]);
    return 0;
}

static int
s_compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

// Sorted, so that many columns cost no time worth an attack.
static int
s_check_names(const verl_batch_t *batch, verl_error_t *error)
{
    if (batch->count < 2)
        return 0;
    const char **names = malloc((size_t) batch->count * sizeof *names);
    if (!names)
        return s_fail(error, "no memory for its columns' names");
    for (int i = 0; i < batch->count; i++)
        names[i] = batch->entries[i]->name;
    qsort(names, (size_t) batch->count, sizeof *names, s_compare_names);
    int rc = 0;
    for (int i = 1; i < batch->count && rc == 0; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            rc = verl_error_set(error, "packed batch: column '%s' is there twice", names[i]);
    free(names);
    return rc;
}

static int
s_read(verl_batch_t *batch, verl_reader_t *reader, verl_error_t *error)
{
    uint32_t count;
    int64_t format;
    if (verl_read_array(reader, &count) || count < 1 || verl_read_int(reader, &format))
        return s_fail(error, "it does not begin with its format");
    if (format != VERL_BATCH_FORMAT)
        return verl_error_set(error, "packed batch: its format is %lld, this program reads %d", (long long) format,
                              VERL_BATCH_FORMAT);
    if (count != 5 || verl_read_int(reader, &batch->rows) || verl_read_int(reader, &batch->first_row))
        return s_fail(error, "it is not an array of format, rows, first row, map and columns");
    if (batch->rows < 0 || batch->rows > VERL_ROWS_MAX || batch->first_row < 0 ||
        batch->first_row > VERL_ROWS_MAX - batch->rows)
        return verl_error_set(error, "packed batch: %lld rows from row %lld on: a batch has at most %d",
                              (long long) batch->rows, (long long) batch->first_row, VERL_ROWS_MAX);
    if (s_read_map(batch, reader, error))
        return -1;
    if (verl_read_array(reader, &count) || count > VERL_BATCH_COLUMNS)
        return verl_error_set(error, "packed batch: its columns are not an array of at most %d", VERL_BATCH_COLUMNS);
    for (uint32_t i = 0; i < count; i++)
        if (s_read_column(batch, reader, error))
            return -1;
    if (verl_reader_left(reader))
        return s_fail(error, "there are bytes behind its end");
    return s_check_names(batch, error);
}

verl_batch_t *
verl_batch_unpack(int64_t id, const char *bytes, size_t size, const verl_slabs_t *slabs, verl_error_t *error)
{
    verl_batch_t *batch = verl_batch_new(id, 0, 0);
    if (!batch) {
        s_fail(error, "no memory");
        return NULL;
    }
    if (slabs)
        batch->slabs = *slabs;
    verl_reader_t reader;
    verl_reader_init(&reader, bytes, size);
    if (s_read(batch, &reader, error))
        verl_batch_destroy(&batch);
    return batch;
}
