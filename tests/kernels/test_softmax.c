// test_softmax.c: normaliser and entropy against double, gradients against differences, and broken logits.
#include "kernels/numbers.h"
#include "kernels/softmax.h"

static void
s_check(int64_t n, double scale, float inverse)
{
    float *z = numbers_new(n, 7, scale), lse, entropy;
    double top = -1e300, sum = 0, expected = 0;
    for (int64_t i = 0; i < n; i++)
        top = fmax(top, (double) z[i] * (double) inverse);
    for (int64_t i = 0; i < n; i++)
        sum += exp((double) z[i] * (double) inverse - top);
    for (int64_t i = 0; i < n; i++) {
        double lp = (double) z[i] * (double) inverse - top - log(sum);
        expected -= exp(lp) * lp;
    }
    cr_assert_eq(verl_softmax_measure(n, z, inverse, &lse, &entropy), 0);
    cr_expect_float_eq(lse, top + log(sum), 1e-6 * fabs(top) + 2e-6, "n %lld", (long long) n);
    cr_expect_float_eq(entropy, expected, 2e-5 * (1 + expected), "n %lld", (long long) n);
    free(z);
}

Test(softmax, measure)
{
    const int64_t sizes[] = { 1, 7, 8, 9, 31, 33, 5000, 50257 };
    for (int i = 0; i < 8; i++) {
        s_check(sizes[i], 1, 1);
        s_check(sizes[i], 20, 1.3f);
        s_check(sizes[i], 2000, 0.7f);
    }
}

Test(softmax, far_from_zero)
{
    float low[3] = { -1000, -1001, -2000 }, lse;
    cr_assert_eq(verl_softmax_measure(3, low, 1, &lse, NULL), 0);
    cr_expect_float_eq(lse, -1000 + log(1 + exp(-1)), 1e-3);
}

Test(softmax, refuses_what_is_not_finite)
{
    float lse, z[19];
    const float bad[] = { NAN, INFINITY, -INFINITY };
    for (int kind = 0; kind < 3; kind++)
        for (int at = 0; at < 19; at++) {
            for (int i = 0; i < 19; i++)
                z[i] = (float) i;
            z[at] = bad[kind];
            cr_expect_eq(verl_softmax_measure(19, z, 1, &lse, NULL), -1);
            cr_expect_eq(verl_softmax_not_finite(19, z), at);
        }
    cr_expect_eq(verl_softmax_not_finite(0, z), -1);
}

enum { N = 21, TARGET = 4 };

typedef struct {
    float z[N], by_logprob, by_entropy, inverse;
} s_case_t;

static double
s_loss(void *context)
{
    const s_case_t *c = context;
    double sum = 0, entropy = 0;
    for (int i = 0; i < N; i++)
        sum += exp((double) c->z[i] * (double) c->inverse);
    for (int i = 0; i < N; i++) {
        double lp = (double) c->z[i] * (double) c->inverse - log(sum);
        entropy -= exp(lp) * lp;
    }
    double lp = (double) c->z[TARGET] * (double) c->inverse - log(sum);
    return (double) c->by_logprob * lp + (double) c->by_entropy * entropy;
}

Test(softmax, backward)
{
    s_case_t c = { .by_logprob = 0.7f, .by_entropy = -1.3f, .inverse = 1.25f };
    float *z = numbers_new(N, 3, 2), lse, entropy;
    memcpy(c.z, z, sizeof c.z);
    cr_assert_eq(verl_softmax_measure(N, z, c.inverse, &lse, &entropy), 0);
    verl_softmax_backward(N, z, c.inverse, lse, entropy, c.by_logprob, c.by_entropy);
    z[TARGET] += c.inverse * c.by_logprob;
    numbers_check_gradient(c.z, z, N, 1e-3, 1e-3, s_loss, &c, "logits");
    free(z);
}
