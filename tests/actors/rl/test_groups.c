// test_groups.c: rows that belong together.
#include <criterion/criterion.h>
#include "actors/rl/groups.h"

static void
s_check(const int64_t *keys, int64_t rows, const int64_t *order, const int64_t *starts, int64_t count)
{
    verl_groups_t groups;
    cr_assert_eq(verl_groups_find(keys, rows, &groups), 0);
    cr_assert_eq(groups.count, count, "%lld groups", (long long) groups.count);
    for (int64_t i = 0; i < rows; i++)
        cr_expect_eq(groups.order[i], order[i], "place %lld is row %lld", (long long) i, (long long) groups.order[i]);
    for (int64_t i = 0; i <= count; i++)
        cr_expect_eq(groups.starts[i], starts[i], "group %lld starts at %lld", (long long) i,
                     (long long) groups.starts[i]);
    verl_groups_done(&groups);
}

Test(groups, are_found_where_their_rows_are_not_neighbours)
{
    s_check((const int64_t[]){ 7, 3, 7, 3, 9 }, 5, (const int64_t[]){ 0, 2, 1, 3, 4 }, (const int64_t[]){ 0, 2, 4, 5 }, 3);
}

Test(groups, of_keys_that_differ_in_their_last_bit_only_are_two)
{
    s_check((const int64_t[]){ INT64_C(1700000000000000001), INT64_C(1700000000000000002) }, 2, (const int64_t[]){ 0, 1 },
            (const int64_t[]){ 0, 1, 2 }, 2);
}

Test(groups, of_no_rows_are_none)
{
    s_check(NULL, 0, NULL, (const int64_t[]){ 0 }, 0);
}
