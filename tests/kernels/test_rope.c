// test_rope.c: rotations, their inverse, and the scalings of frequencies.
#include "kernels/numbers.h"
#include "kernels/rope.h"

Test(rope, rotates_pairs_of_halves)
{
    const verl_rope_t rope = { .theta = 100 };
    float frequencies[2], table[3 * 4], x[4] = { 1, 2, 3, 4 };
    verl_rope_frequencies(&rope, 4, frequencies);
    cr_expect_float_eq(frequencies[0], 1, 1e-7);
    cr_expect_float_eq(frequencies[1], 0.1, 1e-7);
    verl_rope_table(4, frequencies, 0, 3, table);
    const int64_t position = 2;
    verl_rope_apply(1, 1, 4, x, 4, &position, table, false, 1);
    cr_expect_float_eq(x[0], 1 * cos(2) - 3 * sin(2), 1e-6);
    cr_expect_float_eq(x[2], 3 * cos(2) + 1 * sin(2), 1e-6);
    cr_expect_float_eq(x[1], 2 * cos(0.2) - 4 * sin(0.2), 1e-6);
    cr_expect_float_eq(x[3], 4 * cos(0.2) + 2 * sin(0.2), 1e-6);
}

Test(rope, inverse_turns_back)
{
    enum { ROWS = 33, HEADS = 3, DIM = 10, LD = 40 };
    const verl_rope_t rope = { .theta = 10000 };
    float frequencies[DIM / 2], table[ROWS * DIM], *x = numbers_new(ROWS * LD, 1, 1),
                                                   *kept = numbers_copy(x, ROWS * LD);
    int64_t positions[ROWS];
    for (int i = 0; i < ROWS; i++)
        positions[i] = ROWS - 1 - i;
    verl_rope_frequencies(&rope, DIM, frequencies);
    verl_rope_table(DIM, frequencies, 0, ROWS, table);
    verl_rope_apply(ROWS, HEADS, DIM, x, LD, positions, table, false, 2);
    cr_expect(numbers_distance(x, kept, ROWS * LD) > 0.1);
    verl_rope_apply(ROWS, HEADS, DIM, x, LD, positions, table, true, 2);
    cr_expect(numbers_distance(x, kept, ROWS * LD) < 1e-6);
    free(x), free(kept);
}

Test(rope, scalings)
{
    float plain[32], linear[32], llama3[32];
    const verl_rope_t none = { .theta = 500000 };
    const verl_rope_t by_two = { .theta = 500000, .scale = VERL_ROPE_SCALE_LINEAR, .factor = 2 };
    const verl_rope_t llama = { .theta = 500000, .scale = VERL_ROPE_SCALE_LLAMA3, .factor = 8, .low_freq_factor = 1,
                                .high_freq_factor = 4, .original_max_positions = 8192 };
    verl_rope_frequencies(&none, 64, plain);
    verl_rope_frequencies(&by_two, 64, linear);
    verl_rope_frequencies(&llama, 64, llama3);
    int kept = 0, divided = 0, between = 0;
    for (int i = 0; i < 32; i++) {
        double wavelength = 2 * M_PI / (double) plain[i];
        cr_expect_float_eq(linear[i], plain[i] / 2, 1e-9);
        kept += wavelength < 2048 && llama3[i] == plain[i];
        divided += wavelength > 8192 && fabs((double) llama3[i] * 8 / (double) plain[i] - 1) < 1e-6;
        between += wavelength >= 2048 && wavelength <= 8192 && llama3[i] < plain[i] && llama3[i] * 8 > plain[i];
    }
    cr_expect_eq(kept + divided + between, 32, "%d kept, %d divided, %d between", kept, divided, between);
    cr_expect(kept > 0 && divided > 0 && between > 0);
}
