// test_linear.c: the products of a linear layer against plain loops in double, at odd sizes.
#include "kernels/bf16.h"
#include "kernels/linear.h"
#include "kernels/numbers.h"

static const int64_t s_sizes[] = { 1, 7, 8, 31, 33, 257 };
enum { SIZES = 6 };

static void
s_plain(int64_t m, int64_t n, int64_t k, const float *x, const float *w, const float *bias, float *y)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = bias ? (double) bias[j] : 0;
            for (int64_t d = 0; d < k; d++)
                sum += (double) x[i * k + d] * (double) w[j * k + d];
            y[i * n + j] = (float) sum;
        }
}

static float *
s_transposed(const float *x, int64_t rows, int64_t columns)
{
    float *t = numbers_zero(rows * columns);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            t[j * rows + i] = x[i * columns + j];
    return t;
}

static void
s_check_forward(int64_t m, int64_t n, int64_t k)
{
    float *x = numbers_new(m * k, 1, 1), *w = numbers_new(n * k, 2, 1), *bias = numbers_new(n, 3, 1);
    float *y = numbers_zero(m * n), *expected = numbers_zero(m * n);
    verl_weight_t weight = { .f32 = w, .stride = k };
    s_plain(m, n, k, x, w, bias, expected);
    verl_linear_forward(m, n, k, x, k, weight, bias, false, y, n, 2);
    cr_expect(numbers_largest(y, expected, m * n) < 2e-6 * (double) (k + 1), "%lld x %lld x %lld", (long long) m,
              (long long) n, (long long) k);
    verl_linear_forward(m, n, k, x, k, weight, bias, true, y, n, 2);
    for (int64_t i = 0; i < m * n; i++)
        expected[i] *= 2;
    cr_expect(numbers_largest(y, expected, m * n) < 4e-6 * (double) (k + 1), "added %lld x %lld x %lld", (long long) m,
              (long long) n, (long long) k);
    free(x), free(w), free(bias), free(y), free(expected);
}

Test(linear, forward)
{
    for (int a = 0; a < SIZES; a++)
        for (int b = 0; b < SIZES; b++)
            for (int c = 0; c < SIZES; c++)
                s_check_forward(s_sizes[a], s_sizes[b], s_sizes[c]);
}

static void
s_check_backward(int64_t m, int64_t n, int64_t k)
{
    float *x = numbers_new(m * k, 1, 1), *w = numbers_new(n * k, 2, 1), *dy = numbers_new(m * n, 3, 1);
    float *wt = s_transposed(w, n, k), *xt = s_transposed(x, m, k), *dyt = s_transposed(dy, m, n);
    float *dx = numbers_zero(m * k), *dw = numbers_zero(n * k), *expected = numbers_zero(m * k + n * k);
    s_plain(m, k, n, dy, wt, NULL, expected);
    verl_linear_backward_input(m, n, k, dy, n, (verl_weight_t){ .f32 = w, .stride = k }, false, dx, k, 2);
    cr_expect(numbers_largest(dx, expected, m * k) < 2e-6 * (double) n, "dx %lld x %lld x %lld", (long long) m,
              (long long) n, (long long) k);
    s_plain(n, k, m, dyt, xt, NULL, expected);
    verl_linear_backward_weight(m, n, k, dy, n, x, k, false, dw, k, 2);
    cr_expect(numbers_largest(dw, expected, n * k) < 2e-6 * (double) m, "dw %lld x %lld x %lld", (long long) m,
              (long long) n, (long long) k);
    free(x), free(w), free(dy), free(wt), free(xt), free(dyt), free(dx), free(dw), free(expected);
}

Test(linear, backward)
{
    for (int a = 0; a < SIZES; a++)
        for (int b = 0; b < SIZES; b++)
            for (int c = 0; c < SIZES; c++)
                s_check_backward(s_sizes[a], s_sizes[b], s_sizes[c]);
}

// The promise that generation rests on: a row's result has the same bits alone, among others, and on more threads.
static void
s_check_rows(int64_t n, int64_t k, bool bf16)
{
    enum { ROWS = 40 };
    float *x = numbers_new(ROWS * k, 1, 1), *w = numbers_new(n * k, 2, 1), *bias = numbers_new(n, 3, 1);
    float *all = numbers_zero(ROWS * n), *some = numbers_zero(ROWS * n);
    uint16_t *rounded = calloc((size_t) (n * k) + 1, sizeof *rounded);
    verl_bf16_from_f32(n * k, w, rounded, 1);
    verl_weight_t weight = { .f32 = bf16 ? NULL : w, .bf16 = rounded, .stride = k };
    verl_linear_forward(ROWS, n, k, x, k, weight, bias, false, all, n, 3);
    for (int64_t first = 0; first < ROWS; first += 7)
        for (int64_t rows = 1; rows <= ROWS - first; rows++) {
            verl_linear_forward(rows, n, k, x + first * k, k, weight, bias, false, some, n, 1 + (int) rows % 2);
            cr_expect_arr_eq(some, all + first * n, (size_t) (rows * n) * sizeof(float),
                             "%lld rows of %lld, n %lld, k %lld", (long long) rows, (long long) first, (long long) n,
                             (long long) k);
        }
    free(x), free(w), free(bias), free(all), free(some), free(rounded);
}

Test(linear, a_row_does_not_depend_on_its_neighbours)
{
    for (int b = 0; b < SIZES; b++)
        for (int c = 0; c < SIZES; c++) {
            s_check_rows(s_sizes[b], s_sizes[c], false);
            s_check_rows(s_sizes[b], s_sizes[c], true);
        }
}

// Products of bf16 values are those values' products in f32, up to rounding of sums, whatever instruction makes them.
static void
s_check_bf16(int64_t m, int64_t n, int64_t k)
{
    float *x = numbers_new(m * k, 1, 1), *w = numbers_new(n * k, 2, 1), *dy = numbers_new(m * n, 3, 1);
    float *a = numbers_zero(m * k + m * n + n * k), *b = numbers_zero(m * k + m * n + n * k);
    uint16_t *half = calloc((size_t) (n * k), sizeof *half);
    verl_bf16_round(m * k, x, x, 1);
    verl_bf16_round(m * n, dy, dy, 1);
    verl_bf16_from_f32(n * k, w, half, 1);
    verl_f32_from_bf16(n * k, half, w, 1);
    verl_weight_t plain = { .f32 = w, .stride = k }, rounded = { .bf16 = half, .stride = k };
    verl_linear_forward(m, n, k, x, k, plain, dy, true, a, n, 1);
    verl_linear_forward(m, n, k, x, k, rounded, dy, true, b, n, 2);
    cr_expect(numbers_largest(a, b, m * n) < 2e-6 * (double) (k + 1), "y of %d x %d x %d", (int) m, (int) n, (int) k);
    verl_linear_backward_input(m, n, k, dy, n, plain, true, a, k, 1);
    verl_linear_backward_input(m, n, k, dy, n, rounded, true, b, k, 2);
    cr_expect(numbers_largest(a, b, m * k) < 4e-6 * (double) (n + k), "dx of %d x %d x %d", (int) m, (int) n, (int) k);
    verl_linear_backward_weight(m, n, k, dy, n, x, k, false, a, k, 1);
    verl_linear_backward_weight(m, n, k, dy, n, x, k, true, b, k, 2);
    cr_expect(numbers_largest(a, b, n * k) < 6e-6 * (double) (m + n + k), "dw of %d x %d x %d", (int) m, (int) n,
              (int) k);
    free(x), free(w), free(dy), free(a), free(b), free(half);
}

Test(linear, bf16_products)
{
    for (int a = 0; a < SIZES; a++)
        for (int b = 0; b < SIZES; b++)
            for (int c = 0; c < SIZES; c++)
                s_check_bf16(s_sizes[a], s_sizes[b], s_sizes[c]);
    s_check_bf16(200, 300, 530);
}

Test(linear, threads_change_no_bit_of_a_gradient)
{
    enum { M = 700, N = 130, K = 70 };
    float *x = numbers_new(M * K, 1, 1), *dy = numbers_new(M * N, 2, 1);
    float *one = numbers_new(N * K, 3, 1), *four = numbers_copy(one, N * K);
    verl_linear_backward_weight(M, N, K, dy, N, x, K, false, one, K, 1);
    verl_linear_backward_weight(M, N, K, dy, N, x, K, false, four, K, 4);
    cr_expect_arr_eq(one, four, N * K * sizeof(float));
    free(x), free(dy), free(one), free(four);
}

Test(linear, strides_and_empty_sizes)
{
    float x[3 * 5], w[2 * 4], y[3 * 7], bias[2] = { 10, 20 };
    for (int i = 0; i < 15; i++)
        x[i] = (float) i;
    for (int i = 0; i < 8; i++)
        w[i] = (float) (i + 1);
    for (int i = 0; i < 21; i++)
        y[i] = -1;
    verl_linear_forward(3, 2, 3, x, 5, (verl_weight_t){ .f32 = w, .stride = 4 }, bias, false, y, 7, 1);
    cr_expect_eq(y[7], 5 * 1 + 6 * 2 + 7 * 3 + 10);
    cr_expect_eq(y[8], 5 * 5 + 6 * 6 + 7 * 7 + 20);
    cr_expect_eq(y[9], -1, "beyond the row");
    verl_linear_forward(3, 2, 0, x, 5, (verl_weight_t){ .f32 = w, .stride = 4 }, bias, false, y, 7, 1);
    cr_expect_eq(y[0], 10, "an empty sum is the bias");
    verl_linear_forward(0, 2, 3, x, 5, (verl_weight_t){ .f32 = w, .stride = 4 }, bias, false, y, 7, 1);
    verl_linear_backward_weight(0, 2, 3, y, 7, x, 5, false, w, 4, 1);
    cr_expect_eq(w[0], 1, "no rows, no gradient");
}

Test(linear, bias_gradient)
{
    float dy[6] = { 1, 2, 3, 4, 5, 6 }, dbias[2] = { 100, 200 };
    verl_linear_backward_bias(3, 2, dy, 2, dbias);
    cr_expect_eq(dbias[0], 109);
    cr_expect_eq(dbias[1], 212);
}
