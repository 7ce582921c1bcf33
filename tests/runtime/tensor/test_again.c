// What the profile is told of a run of a handler: columns that nobody asked for, and columns that are what was given.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/tensor/batch.h"

#define ROWS  4
#define WIDTH 40000

// A batch with a column of bytes that differ from place to place; salt: by what it differs from others.
static verl_batch_t *
s_made(const char *name, int64_t rows, int64_t width, unsigned salt)
{
    verl_batch_t *made = verl_batch_new_made(0, rows, 0, verl_heap_memory());
    uint8_t *bytes = verl_batch_add(made, name, VERL_U8, width);
    for (int64_t i = 0; i < rows * width; i++)
        bytes[i] = (uint8_t) ((unsigned) i * 2654435761u >> 13 ^ salt);
    cr_assert_eq(verl_batch_seal(made, NULL), 0);
    return made;
}

static verl_batch_t *
s_given(const verl_batch_t *stored, const char *name)
{
    verl_batch_t *given = verl_batch_new_given(0, verl_batch_rows(stored), 0);
    cr_assert_eq(verl_batch_put(given, name, verl_batch_column_at(stored, 0), NULL, NULL, 0, 0, NULL), 0);
    return given;
}

Test(again, a_column_is_unseen_until_somebody_asks_for_it)
{
    verl_batch_t *stored = s_made("x", ROWS, WIDTH, 1), *given = s_given(stored, "x");
    cr_expect_eq(verl_batch_unseen(given), ROWS * WIDTH);
    cr_expect_null(verl_batch_column(given, "y"));
    cr_expect_eq(verl_batch_unseen(given), ROWS * WIDTH);
    cr_expect_not_null(verl_batch_column(given, "x"));
    cr_expect_eq(verl_batch_unseen(given), 0);
    verl_batch_destroy(&given);
    verl_batch_destroy(&stored);
}

Test(again, the_same_bytes_are_found_under_any_name_and_other_bytes_are_not)
{
    verl_batch_t *stored = s_made("x", ROWS, WIDTH, 1), *given = s_given(stored, "x");
    verl_batch_t *same = s_made("y", ROWS, WIDTH, 1), *other = s_made("x", ROWS, WIDTH, 2);
    verl_batch_t *longer = s_made("x", ROWS + 1, WIDTH, 1);
    cr_expect_eq(verl_batch_again(given, same), ROWS * WIDTH);
    cr_expect_eq(verl_batch_again(given, other), 0);
    cr_expect_eq(verl_batch_again(given, longer), 0);
    verl_batch_destroy(&longer);
    verl_batch_destroy(&other);
    verl_batch_destroy(&same);
    verl_batch_destroy(&given);
    verl_batch_destroy(&stored);
}

Test(again, small_columns_and_those_that_are_the_same_everywhere_are_not_looked_at)
{
    verl_batch_t *small = s_made("x", ROWS, 100, 1), *given = s_given(small, "x");
    cr_expect_eq(verl_batch_again(given, small), 0);
    verl_batch_destroy(&given);
    verl_batch_destroy(&small);
    verl_batch_t *zeroes = verl_batch_new_made(0, ROWS, 0, verl_heap_memory());
    memset(verl_batch_add(zeroes, "x", VERL_U8, WIDTH), 0, ROWS * WIDTH);
    cr_assert_eq(verl_batch_seal(zeroes, NULL), 0);
    given = s_given(zeroes, "x");
    cr_expect_eq(verl_batch_again(given, zeroes), 0);
    verl_batch_destroy(&given);
    verl_batch_destroy(&zeroes);
}

Test(again, a_column_behind_a_map_is_left_alone)
{
    verl_batch_t *stored = s_made("x", ROWS, WIDTH, 1), *given = verl_batch_new_given(0, 2, 0);
    const int32_t map[] = { 3, 1 };
    const int32_t *maps[] = { map };
    int64_t lengths[] = { 2 };
    cr_assert_eq(verl_batch_put(given, "x", verl_batch_column_at(stored, 0), maps, lengths, 1, 0, NULL), 0);
    cr_expect_eq(verl_batch_unseen(given), 0);
    verl_batch_t *made = s_made("x", 2, WIDTH, 1);
    cr_expect_eq(verl_batch_again(given, made), 0);
    verl_batch_destroy(&made);
    verl_batch_destroy(&given);
    verl_batch_destroy(&stored);
}

Test(again, bytes_of_named_columns_are_those_of_the_whole_batch)
{
    verl_batch_t *made = s_made("x", ROWS, WIDTH, 1);
    const char *const names[] = { "x" };
    cr_expect_eq(verl_batch_bytes_of(made, names, 1, false), ROWS * WIDTH);
    cr_expect_eq(verl_batch_bytes_of(made, names, 0, true), 0);
    cr_expect_eq(verl_batch_bytes(made), verl_batch_bytes_of(made, names, 1, true));
    verl_batch_destroy(&made);
}
