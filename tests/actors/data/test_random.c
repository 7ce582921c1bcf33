// Keyed random numbers: the published answers of Philox, independence of streams, moments, permutations.
#include <criterion/criterion.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "actors/data/random.h"

static void
s_check_block(const uint32_t counter[4], const uint32_t key[2], const uint32_t expected[4])
{
    uint32_t out[4];
    verl_random_block(counter, key, out);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(out[i], expected[i], "word %d is %08x, not %08x", i, out[i], expected[i]);
}

Test(random, philox_gives_the_published_answers)
{
    s_check_block((uint32_t[]){ 0, 0, 0, 0 }, (uint32_t[]){ 0, 0 },
                  (uint32_t[]){ 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 });
    s_check_block((uint32_t[]){ ~0u, ~0u, ~0u, ~0u }, (uint32_t[]){ ~0u, ~0u },
                  (uint32_t[]){ 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd });
    s_check_block((uint32_t[]){ 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
                  (uint32_t[]){ 0xa4093822, 0x299f31d0 },
                  (uint32_t[]){ 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 });
}

Test(random, a_stream_is_a_function_of_its_name)
{
    verl_random_t a = verl_random_stream(7, "generate", 3, 5), b = verl_random_stream(7, "generate", 3, 5);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(verl_random_u64(&a), verl_random_u64(&b));
}

Test(random, each_part_of_the_name_makes_another_stream)
{
    verl_random_t streams[] = {
        verl_random_stream(7, "generate", 3, 5),
        verl_random_stream(8, "generate", 3, 5),
        verl_random_stream(7, "reward", 3, 5),
        verl_random_stream(7, "generate", 4, 5),
        verl_random_stream(7, "generate", 3, 6),
        verl_random_stream(7, "generate", 3 + ((int64_t) 1 << 32), 5),
        verl_random_stream(7, "generate", 3, 5 + ((int64_t) 1 << 32)),
        verl_random_stream(7, NULL, 3, 5),
    };
    uint64_t first[8];
    for (int i = 0; i < 8; i++) {
        first[i] = verl_random_u64(&streams[i]);
        for (int j = 0; j < i; j++)
            cr_assert_neq(first[i], first[j], "streams %d and %d begin alike", i, j);
    }
}

Test(random, uniforms_and_normals_have_their_moments)
{
    verl_random_t stream = verl_random_stream(1, "moments", 0, 0);
    enum { N = 200000 };
    double sum = 0, squares = 0, normal = 0, normal_squares = 0, fourth = 0;
    for (int i = 0; i < N; i++) {
        double u = verl_random_uniform(&stream), z = verl_random_normal(&stream);
        cr_assert(u >= 0 && u < 1);
        sum += u, squares += u * u, normal += z, normal_squares += z * z, fourth += z * z * z * z;
    }
    cr_assert_float_eq(sum / N, 0.5, 0.004);
    cr_assert_float_eq(squares / N, 1.0 / 3, 0.004);
    cr_assert_float_eq(normal / N, 0, 0.012);
    cr_assert_float_eq(normal_squares / N, 1, 0.02);
    cr_assert_float_eq(fourth / N, 3, 0.15);
}

Test(random, below_is_within_bounds_and_even)
{
    verl_random_t stream = verl_random_stream(2, "below", 0, 0);
    int seen[7] = { 0 };
    for (int i = 0; i < 70000; i++)
        seen[verl_random_below(&stream, 7)]++;
    for (int i = 0; i < 7; i++)
        cr_assert(seen[i] > 9600 && seen[i] < 10400, "%d came %d times of 70000", i, seen[i]);
    cr_assert_eq(verl_random_below(&stream, 0), 0);
    cr_assert_eq(verl_random_below(&stream, 1), 0);
}

static bool
s_is_permutation(const int64_t *items, int64_t count)
{
    bool *seen = calloc((size_t) count, 1);
    bool good = true;
    for (int64_t i = 0; i < count; i++) {
        good = good && items[i] >= 0 && items[i] < count && !seen[items[i]];
        if (good)
            seen[items[i]] = true;
    }
    free(seen);
    return good;
}

Test(random, both_permutations_are_permutations_of_every_size)
{
    int64_t items[1025];
    for (int64_t count = 1; count <= 1025; count += count < 70 ? 1 : 191) {
        verl_random_permutation(7, 3, items, count);
        cr_assert(s_is_permutation(items, count), "Fisher-Yates of %ld", (long) count);
        for (int64_t i = 0; i < count; i++)
            items[i] = verl_random_permuted(7, 3, count, i);
        cr_assert(s_is_permutation(items, count), "Feistel of %ld", (long) count);
    }
}

Test(random, permuted_sends_each_place_everywhere_alike)
{
    // Over many epochs the place of an index is uniform: chi-square of 10 x 10 counts, 81 degrees of freedom.
    enum { EPOCHS = 20000, N = 10 };
    int counts[N][N] = { { 0 } };
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++)
        for (int64_t i = 0; i < N; i++)
            counts[i][verl_random_permuted(11, epoch, N, i)]++;
    double chi = 0, expected = (double) EPOCHS / N;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            chi += (counts[i][j] - expected) * (counts[i][j] - expected) / expected;
    cr_assert_lt(chi, 140, "chi-square %.1f", chi);
}

Test(random, permuted_epochs_differ)
{
    int same = 0;
    for (int64_t i = 0; i < 1000; i++)
        same += verl_random_permuted(7, 0, 1000, i) == verl_random_permuted(7, 1, 1000, i);
    cr_assert_lt(same, 10);
}
