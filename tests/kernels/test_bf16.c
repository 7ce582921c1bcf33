// test_bf16.c: rounding to nearest even, at the edges of the format.
#include "kernels/bf16.h"
#include "kernels/numbers.h"

static uint16_t
s_round(uint32_t bits)
{
    float value;
    uint16_t half;
    memcpy(&value, &bits, sizeof value);
    verl_bf16_from_f32(1, &value, &half, 1);
    return half;
}

Test(bf16, rounds_to_nearest_even)
{
    cr_expect_eq(s_round(0x3f800000), 0x3f80);
    cr_expect_eq(s_round(0x3f808000), 0x3f80, "a tie goes to the even one below");
    cr_expect_eq(s_round(0x3f818000), 0x3f82, "a tie goes to the even one above");
    cr_expect_eq(s_round(0x3f808001), 0x3f81);
    cr_expect_eq(s_round(0xbf80ffff), 0xbf81);
    cr_expect_eq(s_round(0x7f7fffff), 0x7f80, "beyond the largest is infinity");
    cr_expect_eq(s_round(0x7f800000), 0x7f80);
    cr_expect_eq(s_round(0x7f800001) & 0x7fc0, 0x7fc0, "NaN stays NaN");
    cr_expect_eq(s_round(0x80000000), 0x8000);
}

Test(bf16, round_trip)
{
    enum { COUNT = 33 };
    float *x = numbers_new(COUNT, 1, 100), *y = numbers_zero(COUNT), *z = numbers_zero(COUNT);
    uint16_t half[COUNT];
    verl_bf16_from_f32(COUNT, x, half, 1);
    verl_f32_from_bf16(COUNT, half, y, 1);
    verl_bf16_round(COUNT, x, z, 1);
    cr_expect_arr_eq(y, z, COUNT * sizeof(float));
    for (int i = 0; i < COUNT; i++)
        cr_expect(fabs((double) y[i] - (double) x[i]) <= fabs((double) x[i]) / 256);
    free(x), free(y), free(z);
}
