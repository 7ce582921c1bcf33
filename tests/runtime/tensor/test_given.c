// What a handler sees: maps composed and checked, parts as slices of the same memory, parts joined again.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/tensor/batch.h"

// Rows first … first + rows - 1 of a batch whose columns say which row of the whole they are.
static verl_batch_t *
s_part(int64_t first, int64_t rows, bool map)
{
    verl_batch_t *batch = verl_batch_new_made(9, 100, 0, verl_heap_memory());
    verl_batch_set_first_row(batch, first);
    int32_t *from = verl_batch_set_map(batch, rows);
    int64_t lengths[100];
    for (int64_t i = 0; i < rows; i++) {
        from[i] = (int32_t) ((first + i) / 2);
        lengths[i] = (first + i) % 3;
    }
    int64_t *id = verl_batch_add_i64(batch, "id");
    int32_t *ids = verl_batch_add_ragged(batch, "ids", VERL_I32, 1, lengths);
    for (int64_t i = 0; i < rows; i++) {
        id[i] = first + i;
        for (int64_t k = 0; k < lengths[i]; k++)
            *ids++ = (int32_t) (first + i);
    }
    cr_assert_eq(verl_batch_seal(batch, NULL), 0);
    verl_buffer_t buffer = {0};
    verl_error_t error = {0};
    cr_assert_eq(verl_batch_pack_inline(batch, (const char *const[]) {"id", "ids"}, NULL, 2, map, &buffer, &error), 0);
    verl_batch_t *part = verl_batch_unpack(9, buffer.data, buffer.size, NULL, &error);
    cr_assert(part, "%s", error.text);
    verl_batch_destroy(&batch);
    verl_buffer_done(&buffer);
    return part;
}

// Row i of both columns is row want[i] of the whole.
static void
s_assert_rows(const verl_batch_t *batch, const char *id, const char *ids, const int64_t *want)
{
    const verl_column_t *fixed = verl_batch_column(batch, id), *ragged = verl_batch_column(batch, ids);
    cr_assert(fixed && ragged);
    cr_assert(fixed->rows == verl_batch_rows(batch) && ragged->rows == verl_batch_rows(batch));
    for (int64_t row = 0; row < verl_batch_rows(batch); row++) {
        cr_assert_eq(*verl_column_i64(fixed, row), want[row]);
        cr_assert_eq(verl_column_length(ragged, row), want[row] % 3);
        for (int64_t k = 0; k < want[row] % 3; k++)
            cr_assert_eq(verl_column_i32(ragged, row)[k], want[row]);
    }
}

Test(given, maps_are_composed_outwards)
{
    verl_batch_t *stored = s_part(0, 4, false), *given = verl_batch_new_given(9, 3, 0);
    const int32_t inner[] = {0, 4, 2, 1}, outer[] = {3, 2, 1, 0, 0};
    const int32_t *maps[] = {inner, outer};
    int64_t lengths[] = {4, 5};
    verl_error_t error = {0};
    cr_assert_eq(verl_batch_put(given, "a", verl_batch_column(stored, "id"), maps, lengths, 2, 1, &error), 0);
    cr_assert_eq(verl_batch_put(given, "b", verl_batch_column(stored, "ids"), maps, lengths, 2, 1, &error), 0);
    s_assert_rows(given, "a", "b", (int64_t[]) {0, 1, 2});
    cr_assert_eq(verl_batch_put(given, "c", verl_batch_column(stored, "id"), maps, lengths, 1, 2, &error), -1);
    cr_assert(strstr(error.text, "row 4 leads to row 4 of row map 1, which has 4"), "%s", error.text);
    error.text[0] = 0;
    cr_assert_eq(verl_batch_put(given, "c", verl_batch_column(stored, "id"), maps, lengths, 1, 1, &error), -1);
    cr_assert(strstr(error.text, "row 1 leads to stored row 4, but 4 are stored"), "%s", error.text);
    error.text[0] = 0;
    cr_assert_eq(verl_batch_put(given, "a", verl_batch_column(stored, "id"), maps, lengths, 2, 0, &error), -1);
    cr_assert(strstr(error.text, "twice"));
    const verl_column_t *mapped = verl_batch_column(given, "a");
    verl_batch_t *second = verl_batch_new_given(9, 2, 0);
    cr_assert_eq(verl_batch_put(second, "a", mapped, NULL, NULL, 0, 1, NULL), 0, "a column that is seen through a map");
    cr_assert_eq(verl_batch_put(second, "b", verl_batch_column(given, "b"), NULL, NULL, 0, 1, NULL), 0);
    s_assert_rows(second, "a", "b", (int64_t[]) {1, 2});
    verl_batch_destroy(&second);
    verl_batch_destroy(&given);
    verl_batch_destroy(&stored);
}

Test(given, a_negative_map_is_refused)
{
    verl_batch_t *stored = s_part(0, 4, false), *given = verl_batch_new_given(9, 1, 0);
    const int32_t bad[] = {-1};
    const int32_t *maps[] = {bad};
    int64_t length = 1;
    verl_error_t error = {0};
    cr_assert_eq(verl_batch_put(given, "a", verl_batch_column(stored, "id"), maps, &length, 1, 0, &error), -1);
    cr_assert(strstr(error.text, "stored row -1"), "%s", error.text);
    cr_assert_eq(verl_batch_columns(given), 0);
    verl_batch_destroy(&given);
    verl_batch_destroy(&stored);
}

Test(given, a_part_is_a_slice_of_the_same_memory)
{
    verl_batch_t *stored = s_part(0, 10, false), *given = verl_batch_new_given(9, 4, 5);
    verl_error_t error = {0};
    cr_assert_eq(verl_batch_put(given, "id", verl_batch_column(stored, "id"), NULL, NULL, 0, 5, &error), 0);
    cr_assert_eq(verl_batch_put(given, "ids", verl_batch_column(stored, "ids"), NULL, NULL, 0, 5, &error), 0);
    s_assert_rows(given, "id", "ids", (int64_t[]) {5, 6, 7, 8});
    cr_assert_null(verl_batch_column(given, "id")->map);
    cr_assert_eq((const int64_t *) verl_batch_column(given, "id")->data,
                 (const int64_t *) verl_batch_column(stored, "id")->data + 5);
    cr_assert_eq(verl_batch_bytes(given), 4 * 8 + 5 * 8 + (2 + 0 + 1 + 2) * 4);
    cr_assert_eq(verl_batch_put(given, "x", verl_batch_column(stored, "id"), NULL, NULL, 0, 7, &error), -1);
    cr_assert(strstr(error.text, "rows 7 to 11 are wanted, but 10 are stored"), "%s", error.text);
    cr_assert_eq(verl_batch_put(given, "x", verl_batch_column(stored, "id"), NULL, NULL, 0, -1, NULL), -1);
    cr_assert_eq(verl_batch_put(given, "x", verl_batch_column(stored, "id"), NULL, NULL, 0, INT64_MAX, NULL), -1);
    verl_batch_destroy(&given);
    verl_batch_destroy(&stored);
}

Test(given, it_can_only_be_read)
{
    verl_batch_t *given = verl_batch_new_given(9, 4, 0);
    cr_assert_null(verl_batch_add_f32(given, "x"));
    cr_assert_eq(verl_batch_set_rows(given, 3), -1);
    cr_assert_null(verl_batch_new_given(9, -1, 0));
    verl_batch_destroy(&given);
}

Test(given, parts_are_joined)
{
    verl_batch_t *parts[] = {s_part(0, 3, true), s_part(3, 0, true), s_part(3, 4, true), s_part(7, 1, true)};
    verl_error_t error = {0};
    verl_batch_t *whole = verl_batch_concat((const verl_batch_t *const *) parts, 4, &error);
    cr_assert(whole, "%s", error.text);
    for (int i = 0; i < 4; i++)
        verl_batch_destroy(&parts[i]);
    cr_assert_eq(verl_batch_rows(whole), 8);
    cr_assert_eq(verl_batch_id(whole), 9);
    s_assert_rows(whole, "id", "ids", (int64_t[]) {0, 1, 2, 3, 4, 5, 6, 7});
    for (int32_t row = 0; row < 8; row++)
        cr_assert_eq(verl_batch_map(whole)[row], row / 2);
    const verl_batch_t *one = whole;
    verl_batch_t *copy = verl_batch_concat(&one, 1, &error);
    s_assert_rows(copy, "id", "ids", (int64_t[]) {0, 1, 2, 3, 4, 5, 6, 7});
    cr_assert_eq(verl_batch_bytes(copy), verl_batch_bytes(whole));
    verl_batch_destroy(&copy);
    verl_batch_destroy(&whole);
}

static void
s_assert_not_joined(verl_batch_t *a, verl_batch_t *b, const char *words)
{
    const verl_batch_t *parts[] = {a, b};
    verl_error_t error = {0};
    cr_assert_null(verl_batch_concat(parts, 2, &error));
    cr_assert(strstr(error.text, words), "%s", error.text);
    verl_batch_destroy(&a);
    verl_batch_destroy(&b);
}

Test(given, parts_that_do_not_fit_are_not_joined)
{
    verl_error_t error = {0};
    cr_assert_null(verl_batch_concat(NULL, 0, &error));
    cr_assert(strstr(error.text, "no parts"));
    s_assert_not_joined(s_part(0, 3, true), s_part(4, 2, true), "begins at row 4 where row 3 is next");
    s_assert_not_joined(s_part(0, 3, true), s_part(3, 2, false), "row map");
    verl_batch_t *other = verl_batch_unpack(8, "\x95\x01\x00\x03\xc0\x90", 6, NULL, &error);
    s_assert_not_joined(s_part(0, 3, false), other, "batches 9 and 8");
    other = verl_batch_unpack(9, "\x95\x01\x00\x03\xc0\x90", 6, NULL, &error);
    s_assert_not_joined(s_part(0, 3, false), other, "0 columns where the first has 2");
    verl_batch_t *stored = s_part(0, 3, false), *given = verl_batch_new_given(9, 1, 3);
    const int32_t zero = 0, *map = &zero;
    int64_t length = 1;
    verl_batch_put(given, "id", verl_batch_column(stored, "id"), &map, &length, 1, 0, NULL);
    verl_batch_put(given, "ids", verl_batch_column(stored, "ids"), &map, &length, 1, 0, NULL);
    s_assert_not_joined(s_part(0, 3, false), given, "seen through a row map");
    verl_batch_destroy(&stored);
}
