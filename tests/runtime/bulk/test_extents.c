// Extents of a slab: never two blocks on one byte, nothing lost, low addresses first; against a map of bytes.
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/bulk/extents.h"

Test(extents, takes_from_the_lowest_address_and_joins_what_is_free)
{
    verl_extents_t extents;
    cr_assert_eq(verl_extents_init(&extents, 1024), 0);
    uint64_t a, b, c, d;
    cr_assert(verl_extents_take(&extents, 256, &a) && a == 0);
    cr_assert(verl_extents_take(&extents, 256, &b) && b == 256);
    cr_assert(verl_extents_take(&extents, 512, &c) && c == 512);
    cr_assert_not(verl_extents_take(&extents, 1, &d));
    cr_assert(verl_extents_give(&extents, a));
    cr_assert_not(verl_extents_give(&extents, a), "it is free already");
    cr_assert_not(verl_extents_give(&extents, 300), "no block begins there");
    cr_assert_not(verl_extents_take(&extents, 512, &d));
    cr_assert(verl_extents_give(&extents, b));
    cr_assert(verl_extents_take(&extents, 512, &d) && d == 0);
    cr_assert(verl_extents_give(&extents, c));
    cr_assert(verl_extents_give(&extents, d));
    cr_assert_eq(extents.count, 1);
    cr_assert_eq(extents.live, 0);
    cr_assert_eq(extents.free_bytes, 1024);
    cr_assert(verl_extents_take(&extents, 1024, &a) && a == 0);
    verl_extents_done(&extents);
}

Test(extents, any_order_keeps_the_books)
{
    enum { BYTES = 4096, ROUNDS = 20000, MOST = 64 };
    static uint8_t taken[BYTES];
    struct { uint64_t offset, bytes; } live[MOST];
    int count = 0;
    verl_extents_t extents;
    verl_extents_init(&extents, BYTES);
    uint32_t random = 1;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 1664525u + 1013904223u;
        uint64_t bytes = 1 + (random >> 10) % 200, offset;
        bool give = count == MOST || (count && (random >> 30));
        if (give) {
            int at = (int) ((random >> 8) % (uint32_t) count);
            cr_assert(verl_extents_give(&extents, live[at].offset));
            memset(taken + live[at].offset, 0, live[at].bytes);
            live[at] = live[--count];
        } else if (verl_extents_take(&extents, bytes, &offset)) {
            uint64_t run = 0, lowest = BYTES;           // first fit, by looking at every byte
            for (uint64_t at = 0; at < BYTES && lowest == BYTES; at++) {
                run = taken[at] ? 0 : run + 1;
                if (run == bytes)
                    lowest = at + 1 - bytes;
            }
            cr_assert_eq(offset, lowest);
            memset(taken + offset, 1, bytes);
            live[count].offset = offset;
            live[count++].bytes = bytes;
        }
        uint64_t sum = 0;
        for (int k = 0; k < count; k++)
            sum += live[k].bytes;
        cr_assert_eq(extents.live_bytes, sum);
        cr_assert_eq(extents.free_bytes, BYTES - sum);
        cr_assert_eq(extents.live, (uint64_t) count);
    }
    while (count)
        verl_extents_give(&extents, live[--count].offset);
    cr_assert_eq(extents.count, 1);
    verl_extents_done(&extents);
}
