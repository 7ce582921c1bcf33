// batch_again.c: what the profile wants to know of a run of a handler: columns that nobody looked at, and columns that
// are what the stage was given. See batch.h.
#include <string.h>
#include "runtime/tensor/batch_impl.h"

#define AGAIN_LEAST  65536                  // bytes of a column that is worth a look
#define AGAIN_PLACES 16
#define AGAIN_PLACE  64                     // bytes that are compared at each

uint64_t
verl_batch_bytes_of(const verl_batch_t *batch, const char *const *names, int count, bool with_map)
{
    uint64_t bytes = with_map ? batch->map.block.bytes : 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < batch->count; j++)
            if (strcmp(batch->entries[j]->column.name, names[i]) == 0)
                bytes += batch->entries[j]->payload;
    return bytes;
}

uint64_t
verl_batch_unseen(const verl_batch_t *given)
{
    uint64_t bytes = 0;
    for (int i = 0; i < given->count; i++) {
        const verl_entry_t *entry = given->entries[i];
        if (!atomic_load_explicit(&entry->seen, memory_order_relaxed) && !entry->column.map)
            bytes += verl_column_payload(&entry->column, entry->column.rows);
    }
    return bytes;
}

// Bytes of a column's data, without its offsets; 0 where it is seen through a map.
static size_t
s_data_bytes(const verl_column_t *column)
{
    if (column->map || !column->data)
        return 0;
    int64_t positions = column->ragged ? column->offsets[column->rows] - column->offsets[0] : column->rows;
    return (size_t) (positions * column->width) * verl_dtype_bytes(column->dtype);
}

static bool
s_same(const verl_column_t *a, const verl_column_t *b, size_t bytes)
{
    const char *one = a->data, *other = b->data;
    bool varies = false;
    if (a->dtype != b->dtype)
        return false;
    one += a->ragged ? (size_t) (a->offsets[0] * a->width) * verl_dtype_bytes(a->dtype) : 0;
    other += b->ragged ? (size_t) (b->offsets[0] * b->width) * verl_dtype_bytes(b->dtype) : 0;
    for (size_t i = 0; i < AGAIN_PLACES; i++) {
        size_t at = (bytes - AGAIN_PLACE) / (AGAIN_PLACES - 1) * i;
        if (memcmp(one + at, other + at, AGAIN_PLACE) != 0)
            return false;
        varies |= memcmp(one + at, one, AGAIN_PLACE) != 0;
    }
    return varies;
}

uint64_t
verl_batch_again(const verl_batch_t *given, const verl_batch_t *made)
{
    uint64_t sum = 0;
    for (int i = 0; i < made->count; i++) {
        const verl_column_t *column = &made->entries[i]->column;
        size_t bytes = s_data_bytes(column);
        bool same = false;
        for (int j = 0; j < given->count && bytes >= AGAIN_LEAST && !same; j++)
            same = s_data_bytes(&given->entries[j]->column) == bytes &&
                   s_same(column, &given->entries[j]->column, bytes);
        sum += same ? bytes : 0;
    }
    return sum;
}
