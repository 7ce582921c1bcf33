// The ring in which a sender keeps messages.
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>
#include "runtime/mailbox/outbox.h"

static void
s_push(verl_outbox_t *outbox, int number, size_t size)
{
    char bytes[5000];
    memset(bytes, number & 0xff, size);
    cr_assert_eq(verl_outbox_push(outbox, bytes, size, (void *) (intptr_t) (number + 1)), 0);
}

static void
s_expect(const verl_outbox_t *outbox, uint64_t index, int number)
{
    size_t size;
    const char *bytes = verl_outbox_at(outbox, index, &size);
    for (size_t i = 0; i < size; i++)
        cr_assert_eq((unsigned char) bytes[i], (unsigned) number & 0xff, "message %d, byte %zu", number, i);
}

Test(outbox, keeps_order_and_bytes_while_it_grows_and_wraps)
{
    verl_outbox_t outbox = { 0 };
    int pushed = 0, popped = 0;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 37 + round % 11; i++, pushed++)
            s_push(&outbox, pushed, (size_t) (pushed * 37 % 900));
        for (int i = popped; i < pushed; i++)
            s_expect(&outbox, (uint64_t) (i - popped), i);
        for (int i = 0; i < 35 + round % 7 && popped < pushed; i++, popped++)
            cr_assert_eq((intptr_t) verl_outbox_pop(&outbox), popped + 1);
    }
    cr_assert_eq(verl_outbox_count(&outbox), (uint64_t) (pushed - popped));
    verl_outbox_done(&outbox);
}

Test(outbox, reuses_its_ring_when_it_runs_empty)
{
    verl_outbox_t outbox = { 0 };
    for (int i = 0; i < 10000; i++) {
        s_push(&outbox, i, 1000);
        verl_outbox_pop(&outbox);
    }
    cr_assert_leq(outbox.ring_room, 8192u);
    verl_outbox_done(&outbox);
}

Test(outbox, takes_a_message_larger_than_its_ring)
{
    verl_outbox_t outbox = { 0 };
    s_push(&outbox, 1, 10);
    s_push(&outbox, 2, 5000);
    s_push(&outbox, 3, 0);
    s_expect(&outbox, 0, 1);
    s_expect(&outbox, 1, 2);
    cr_assert_eq(verl_outbox_count(&outbox), 3u);
    verl_outbox_done(&outbox);
}
