// A growing buffer: contents survive growth, a failure sticks, memory changes hands.
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include "runtime/wire/buffer.h"

Test(buffer, keeps_what_was_written_while_it_grows)
{
    verl_buffer_t buffer;
    verl_buffer_init(&buffer);
    for (int i = 0; i < 5000; i++)
        cr_assert_eq(verl_buffer_append(&buffer, &i, sizeof i), 0);
    cr_assert_eq(buffer.size, 5000 * sizeof(int));
    cr_assert(buffer.room >= buffer.size);
    for (int i = 0; i < 5000; i++)
        cr_assert_eq(memcmp(buffer.data + (size_t) i * sizeof i, &i, sizeof i), 0);
    verl_buffer_done(&buffer);
    verl_buffer_done(&buffer);
    verl_buffer_done(NULL);
    cr_assert_null(buffer.data);
}

Test(buffer, appends_nothing_to_nothing)
{
    verl_buffer_t buffer = {0};
    cr_assert_eq(verl_buffer_append(&buffer, NULL, 0), 0);
    size_t size = 7;
    cr_assert_null(verl_buffer_take(&buffer, &size));
    cr_assert_eq(size, 0);
}

Test(buffer, a_failure_sticks_until_it_is_cleared)
{
    verl_buffer_t buffer = {0};
    cr_assert_eq(verl_buffer_append(&buffer, "abc", 3), 0);
    cr_assert_eq(verl_buffer_reserve(&buffer, SIZE_MAX - 1), -1, "the sum of the sizes does not fit");
    cr_assert(buffer.failed);
    cr_assert_eq(verl_buffer_append(&buffer, "d", 1), -1);
    cr_assert_eq(buffer.size, 3);
    cr_assert_eq(memcmp(buffer.data, "abc", 3), 0);
    verl_buffer_clear(&buffer);
    cr_assert_eq(verl_buffer_append(&buffer, "d", 1), 0);
    verl_buffer_done(&buffer);
}

Test(buffer, take_gives_the_memory_away)
{
    verl_buffer_t buffer = {0};
    verl_buffer_append(&buffer, "abc", 3);
    size_t size;
    char *data = verl_buffer_take(&buffer, &size);
    cr_assert_eq(size, 3);
    cr_assert_eq(memcmp(data, "abc", 3), 0);
    cr_assert_eq(buffer.room, 0);
    free(data);
}
