// batch_unpack.c: a batch off the wire: its form is read and checked by packed.c, its memory is found and held here.
#include "runtime/tensor/batch_impl.h"
#include "runtime/tensor/packed.h"
#include <stdlib.h>
#include <string.h>

static int
s_fail(verl_error_t *error, const char *what)
{
    return verl_error_set(error, "packed batch: %s", what);
}

// Memory at a place: bytes that are here, copied into the heap, or a block of a slab, held. The piece is the batch's to
// end once it is returned.
static int
s_take(const verl_batch_t *batch, const verl_place_t *place, const char *name, verl_piece_t *ret, verl_error_t *error)
{
    if (place->here) {
        if (verl_piece_heap(ret, place->bytes))
            return verl_error_set(error, "packed batch: no memory for the %llu bytes of '%s'",
                                  (unsigned long long) place->bytes, name);
        memcpy(ret->block.data, place->here, place->bytes);
        return 0;
    }
    if (!batch->slabs.map)
        return verl_error_set(error, "packed batch: '%s' lies in slab %llu, but no slabs can be mapped here", name,
                              (unsigned long long) place->slab);
    uint64_t slab_bytes = 0;
    const char *slab = batch->slabs.map(batch->slabs.context, place->slab, &slab_bytes, error);
    if (!slab)
        return verl_error_set(error, "packed batch: slab %llu of '%s' cannot be mapped",
                              (unsigned long long) place->slab, name);
    ret->block = (verl_block_t) { .slab = place->slab, .offset = place->offset, .bytes = place->bytes,
                                  .data = (void *) (uintptr_t) slab };
    ret->owner = VERL_OWNER_SLAB;
    if (place->offset > slab_bytes || place->bytes > slab_bytes - place->offset)
        return verl_error_set(error, "packed batch: '%s' is %llu bytes at byte %llu of slab %llu, which has %llu", name,
                              (unsigned long long) place->bytes, (unsigned long long) place->offset,
                              (unsigned long long) place->slab, (unsigned long long) slab_bytes);
    ret->block.data = (char *) ret->block.data + place->offset;
    return 0;
}

static int
s_fill_entry(const verl_batch_t *batch, verl_entry_t *entry, const verl_packed_column_t *head, verl_error_t *error)
{
    uint64_t data_at;
    const verl_block_t *block = &entry->piece.block;
    if (s_take(batch, &head->place, entry->name, &entry->piece, error) ||
        verl_packed_check(head, batch->rows, block->data, block->bytes, &entry->offsets, &data_at, error))
        return -1;
    entry->column = (verl_column_t) {
        .name = entry->name, .dtype = head->dtype, .ragged = head->ragged, .rows = batch->rows, .width = head->width,
        .offsets = entry->offsets, .data = (const char *) block->data + data_at,
    };
    entry->payload = block->bytes;
    return 0;
}

static int
s_read_column(verl_batch_t *batch, verl_reader_t *reader, const verl_packed_t *packed, verl_error_t *error)
{
    verl_packed_column_t head = {0};
    if (verl_packed_next(reader, packed, &head, error))
        return -1;
    verl_entry_t *entry = verl_entry_new(head.name, strlen(head.name), true);
    if (!entry)
        return s_fail(error, "no memory for a column");
    if (s_fill_entry(batch, entry, &head, error) == 0) {
        if (verl_batch_append(batch, entry) == 0)
            return 0;
        s_fail(error, "no memory for a column");
    }
    verl_entry_free(batch, entry);
    return -1;
}

static int
s_take_map(verl_batch_t *batch, const verl_packed_t *packed, verl_error_t *error)
{
    if (!packed->mapped)
        return 0;
    if (s_take(batch, &packed->map, "row map", &batch->map, error))
        return -1;
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
    verl_packed_t packed;
    if (verl_packed_begin(reader, &packed, error))
        return -1;
    batch->rows = packed.rows;
    batch->first_row = packed.first_row;
    if (s_take_map(batch, &packed, error))
        return -1;
    for (uint32_t i = 0; i < packed.columns; i++)
        if (s_read_column(batch, reader, &packed, error))
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
