// Batches that a handler makes: what may be added, what is recorded when it goes wrong, whose the memory is.
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/tensor/batch.h"

// A heap that counts, as a slab would be counted.
typedef struct s_counter {
    int      live, taken;
    bool     dry;
} s_counter_t;

static int
s_take(void *context, size_t bytes, verl_block_t *ret, verl_error_t *error)
{
    s_counter_t *self = context;
    if (self->dry)
        return verl_error_set(error, "the well is dry");
    self->live++;
    self->taken++;
    return verl_heap_memory()->take(NULL, bytes, ret, error);
}

static void
s_give(void *context, const verl_block_t *block)
{
    ((s_counter_t *) context)->live--;
    verl_heap_memory()->give(NULL, block);
}

static verl_batch_t *
s_made(s_counter_t *counter, int64_t rows)
{
    verl_memory_t memory = {.take = s_take, .give = s_give, .context = counter};
    return verl_batch_new_made(41, rows, 0, &memory);
}

#define ASSERT_ERROR(batch, words) do { \
    cr_assert(verl_batch_error(batch), "nothing was recorded"); \
    cr_assert(strstr(verl_batch_error(batch), words), "%s", verl_batch_error(batch)); \
    verl_error_t error_ = {0}; \
    cr_assert_eq(verl_batch_seal(batch, &error_), -1); \
    cr_assert_str_eq(error_.text, verl_batch_error(batch)); \
    verl_batch_destroy(&batch); \
} while (0)

Test(make, fixed_columns)
{
    s_counter_t counter = {0};
    verl_batch_t *batch = s_made(&counter, 3);
    float *score = verl_batch_add_f32(batch, "score");
    int64_t *id = verl_batch_add_i64(batch, "id");
    uint8_t *payload = verl_batch_add(batch, "payload", VERL_U8, 1000);
    int32_t *pairs = verl_batch_add(batch, "pairs", VERL_I32, 2);
    cr_assert(score && id && payload && pairs && verl_batch_add_u8(batch, "flag") && verl_batch_add_i32(batch, "n"));
    cr_assert_eq((uintptr_t) payload % VERL_BLOCK_ALIGN, 0);
    score[2] = 0.5f;
    pairs[5] = 7;
    cr_assert_eq(counter.taken, 1, "only a column above 1 KiB takes a block");
    cr_assert_eq(verl_batch_columns(batch), 6);
    const verl_column_t *column = verl_batch_column(batch, "pairs");
    cr_assert_eq(column->width, 2);
    cr_assert_eq(verl_column_i32(column, 2)[1], 7);
    cr_assert_eq(*verl_column_f32(verl_batch_column(batch, "score"), 2), 0.5f);
    cr_assert_eq(verl_batch_column_at(batch, 1), verl_batch_column(batch, "id"));
    cr_assert_null(verl_batch_column_at(batch, 6));
    cr_assert_null(verl_batch_column_at(batch, -1));
    cr_assert_null(verl_batch_column(batch, "none"));
    cr_assert_eq(verl_batch_bytes(batch), 12 + 24 + 3000 + 24 + 3 + 12);
    verl_error_t error = {0};
    cr_assert_eq(verl_batch_seal(batch, &error), 0);
    cr_assert_null(verl_batch_error(batch));
    cr_assert_eq(verl_batch_id(batch), 41);
    cr_assert_eq(verl_batch_rows(batch), 3);
    verl_batch_destroy(&batch);
    cr_assert_null(batch);
    verl_batch_destroy(&batch);
    cr_assert_eq(counter.live, 0);
}

Test(make, ragged_columns_and_texts)
{
    s_counter_t counter = {0};
    verl_batch_t *batch = s_made(&counter, 4);
    int64_t lengths[] = {2, 0, 300, 1};
    float *values = verl_batch_add_ragged(batch, "values", VERL_F32, 2, lengths);
    cr_assert(values);
    cr_assert_eq((uintptr_t) values % VERL_BLOCK_ALIGN, 0);
    for (int i = 0; i < 606; i++)
        values[i] = (float) i;
    lengths[0] = 9;                         // the lengths were copied
    const char *texts[] = {"one", "", "three", NULL};
    size_t bytes[] = {3, 0, 5, 0};
    cr_assert_eq(verl_batch_add_texts(batch, "text", texts, bytes), 0);
    const verl_column_t *column = verl_batch_column(batch, "values");
    cr_assert_eq(verl_column_length(column, 0), 2);
    cr_assert_eq(verl_column_length(column, 1), 0);
    cr_assert_eq(*verl_column_f32(column, 2), 4);
    cr_assert_eq(*verl_column_f32(column, 3), 604);
    size_t size;
    const char *text = verl_column_text(verl_batch_column(batch, "text"), 2, &size);
    cr_assert(size == 5 && memcmp(text, "three", 5) == 0);
    verl_batch_destroy(&batch);
    cr_assert_eq(counter.live, 0);
}

Test(make, a_batch_may_have_no_rows)
{
    s_counter_t counter = {0};
    verl_batch_t *batch = s_made(&counter, -1);
    cr_assert_eq(verl_batch_set_rows(batch, 0), 0);
    cr_assert_not_null(verl_batch_add_f32(batch, "score"));
    cr_assert_not_null(verl_batch_add_ragged(batch, "ids", VERL_I32, 1, NULL));
    cr_assert_eq(verl_batch_add_texts(batch, "text", NULL, NULL), 0);
    cr_assert_eq(verl_batch_seal(batch, NULL), 0);
    verl_batch_destroy(&batch);
    batch = s_made(&counter, 5);
    cr_assert_not_null(verl_batch_set_map(batch, 0));
    cr_assert_not_null(verl_batch_add_f32(batch, "score"));
    cr_assert_eq(verl_batch_seal(batch, NULL), 0);
    verl_batch_destroy(&batch);
}

Test(make, a_map_is_checked_and_counts_from_the_whole_batch)
{
    s_counter_t counter = {0};
    verl_memory_t memory = {.take = s_take, .give = s_give, .context = &counter};
    verl_batch_t *batch = verl_batch_new_made(1, 2, 10, &memory);
    cr_assert_eq(verl_batch_first_row(batch), 10);
    int32_t *map = verl_batch_set_map(batch, 4);
    int32_t rows[] = {0, 0, 1, 1};
    memcpy(map, rows, sizeof rows);
    verl_batch_set_first_row(batch, 20);
    cr_assert_eq(verl_batch_rows(batch), 4);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(verl_batch_seal(batch, NULL), 0);
        cr_assert_eq(verl_batch_map(batch)[3], 11);
    }
    cr_assert_eq(verl_batch_first_row(batch), 20);
    verl_batch_destroy(&batch);
    batch = s_made(&counter, 2);
    map = verl_batch_set_map(batch, 2);
    map[0] = 1;
    map[1] = 2;
    cr_assert_eq(verl_batch_seal(batch, NULL), -1);
    ASSERT_ERROR(batch, "row 1 came from row 2: 2 rows were given");
    batch = s_made(&counter, 2);
    verl_batch_set_map(batch, 1);
    cr_assert_eq(verl_batch_seal(batch, NULL), -1);
    ASSERT_ERROR(batch, "row 0 came from row -1");
}

Test(make, mistakes_are_recorded_and_the_first_stays)
{
    s_counter_t counter = {0};
    verl_batch_t *batch = s_made(&counter, -1);
    cr_assert_null(verl_batch_add_f32(batch, "score"));
    cr_assert_eq(verl_batch_set_rows(batch, 2), -1);
    ASSERT_ERROR(batch, "'score' was added before the rows were set");
    batch = s_made(&counter, -1);
    cr_assert_eq(verl_batch_seal(batch, NULL), -1);
    ASSERT_ERROR(batch, "verl_batch_set_rows");
    batch = s_made(&counter, -1);
    cr_assert_null(verl_batch_set_map(batch, 2));
    ASSERT_ERROR(batch, "a source");
    batch = s_made(&counter, 2);
    cr_assert_eq(verl_batch_set_rows(batch, 3), -1);
    ASSERT_ERROR(batch, "verl_batch_set_map");
    batch = s_made(&counter, 2);
    verl_batch_add_f32(batch, "score");
    cr_assert_null(verl_batch_add_i32(batch, "score"));
    cr_assert_null(verl_batch_add_i32(batch, "other"));
    ASSERT_ERROR(batch, "'score' was added twice");
    batch = s_made(&counter, 2);
    verl_batch_add_f32(batch, "score");
    cr_assert_null(verl_batch_set_map(batch, 2));
    ASSERT_ERROR(batch, "after a column was added");
    batch = s_made(&counter, -1);
    verl_batch_set_rows(batch, 2);
    cr_assert_eq(verl_batch_set_rows(batch, 2), -1);
    ASSERT_ERROR(batch, "rows are set once");
    batch = s_made(&counter, -1);
    cr_assert_eq(verl_batch_set_rows(batch, (int64_t) INT32_MAX + 1), -1);
    ASSERT_ERROR(batch, "2147483648");
    batch = s_made(&counter, -1);
    cr_assert_eq(verl_batch_set_rows(batch, -1), -1);
    ASSERT_ERROR(batch, "-1 rows");
    cr_assert_eq(counter.live, 0);
}

Test(make, impossible_columns_are_recorded)
{
    s_counter_t counter = {0};
    int64_t lengths[] = {1, -1}, huge[] = {INT64_MAX, 1}, large[] = {INT64_MAX / 8, 0};
    char name[400];
    memset(name, 'n', sizeof name);
    name[399] = 0;
    verl_batch_t *batch = s_made(&counter, 2);
    cr_assert_null(verl_batch_add_ragged(batch, "ids", VERL_I32, 1, lengths));
    ASSERT_ERROR(batch, "row 1 has length -1");
    batch = s_made(&counter, 2);
    cr_assert_null(verl_batch_add_ragged(batch, "ids", VERL_I32, 1, huge));
    ASSERT_ERROR(batch, "up to row 1");
    batch = s_made(&counter, 2);
    cr_assert_null(verl_batch_add_ragged(batch, "ids", VERL_I64, 9, large));
    ASSERT_ERROR(batch, "more bytes than there can be");
    batch = s_made(&counter, 2);
    cr_assert_null(verl_batch_add(batch, "x", VERL_I64, INT64_MAX));
    ASSERT_ERROR(batch, "more bytes than there can be");
    batch = s_made(&counter, 2);
    cr_assert_null(verl_batch_add(batch, "x", VERL_I64, -1));
    ASSERT_ERROR(batch, "width -1");
    batch = s_made(&counter, 2);
    cr_assert_null(verl_batch_add(batch, "x", (verl_dtype_t) 99, 1));
    ASSERT_ERROR(batch, "dtype 99");
    batch = s_made(&counter, 2);
    cr_assert_null(verl_batch_add(batch, "x", VERL_TEXT, 1));
    ASSERT_ERROR(batch, "verl_batch_add_texts");
    batch = s_made(&counter, 2);
    cr_assert_null(verl_batch_add(batch, "", VERL_I64, 1));
    ASSERT_ERROR(batch, "a name of no bytes");
    batch = s_made(&counter, 2);
    cr_assert_null(verl_batch_add(batch, name, VERL_I64, 1));
    ASSERT_ERROR(batch, "too many bytes");
    batch = s_made(&counter, 2);
    cr_assert_eq(verl_batch_add_texts(batch, "t", (const char *[]) {"", ""}, (size_t[]) {SIZE_MAX, 0}), -1);
    ASSERT_ERROR(batch, "length -1");
    counter.dry = true;
    batch = s_made(&counter, 2);
    cr_assert_null(verl_batch_add(batch, "x", VERL_I64, 1000));
    ASSERT_ERROR(batch, "the well is dry");
    cr_assert_eq(counter.live, 0);
}

Test(make, blocks_can_be_handed_over)
{
    s_counter_t counter = {0};
    verl_batch_t *batch = s_made(&counter, 300);
    int32_t *map = verl_batch_set_map(batch, 300);
    memset(map, 0, 300 * sizeof *map);
    verl_batch_add_i64(batch, "id");
    verl_batch_add_u8(batch, "small");
    cr_assert_eq(verl_batch_blocks(batch), 2);
    verl_block_t blocks[2];
    cr_assert_eq(verl_batch_release_blocks(batch, blocks), 2);
    cr_assert_eq(verl_batch_blocks(batch), 0);
    cr_assert_eq(blocks[0].data, map);
    verl_batch_destroy(&batch);
    cr_assert_eq(counter.live, 2);
    s_give(&counter, &blocks[0]);
    s_give(&counter, &blocks[1]);
}

Test(make, types_have_names_and_sizes)
{
    cr_assert_str_eq(verl_dtype_name(VERL_BF16), "bf16");
    cr_assert_eq(verl_dtype_bytes(VERL_BF16), 2);
    cr_assert_str_eq(verl_dtype_name(VERL_TEXT), "text");
    cr_assert_eq(verl_dtype_bytes(VERL_I64), 8);
    cr_assert_eq(verl_dtype_bytes((verl_dtype_t) 99), 0);
    cr_assert_str_eq(verl_dtype_name((verl_dtype_t) 99), "unknown");
}
