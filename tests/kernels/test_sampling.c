// test_sampling.c: random numbers, and draws with temperature, top-k and top-p.
#include "kernels/numbers.h"
#include "kernels/sampling.h"

// The published answers of Philox4x32-10 for a counter and key of zeros begin 6627e8d5 e169c58d.
Test(sampling, random_numbers_are_philox)
{
    uint64_t bits = ((uint64_t) 0x6627e8d5u << 32 | 0xe169c58du) >> 11;
    cr_expect_eq(verl_keyed_uniform(0, 0), (double) bits * 0x1p-53);
    double mean = 0, square = 0, pair[2];
    for (uint64_t i = 0; i < 20000; i++) {
        double u = verl_keyed_uniform(42, i);
        cr_assert(u >= 0 && u < 1);
        mean += u / 20000;
        verl_keyed_normal(42, i, pair);
        square += (pair[0] * pair[0] + pair[1] * pair[1]) / 40000;
    }
    cr_expect_float_eq(mean, 0.5, 0.01);
    cr_expect_float_eq(square, 1, 0.05);
}

static int32_t
s_draw(const verl_sampling_t *how, int64_t n, const float *logits, double uniform, float *ret_logprob)
{
    float *scratch = numbers_zero(n), logprob;
    int32_t id = -1;
    cr_assert_eq(verl_sample_token(how, n, logits, uniform, scratch, &id, &logprob), 0);
    if (ret_logprob)
        *ret_logprob = logprob;
    free(scratch);
    return id;
}

Test(sampling, greedy_takes_the_first_of_the_largest)
{
    const float z[5] = { 1, 3, 2, 3, 0 };
    const verl_sampling_t greedy = { .temperature = 0, .top_p = 1 };
    float logprob;
    cr_expect_eq(s_draw(&greedy, 5, z, 0.99, &logprob), 1);
    cr_expect_float_eq(logprob, 3 - log(exp(1) + 2 * exp(3) + exp(2) + 1), 1e-6);
}

// Inverting the cumulative distribution: the share of uniforms that give an id is its probability.
Test(sampling, follows_the_distribution)
{
    enum { N = 37, DRAWS = 20000 };
    float *z = numbers_new(N, 3, 2), logprob;
    int count[N] = { 0 };
    double p[N], sum = 0;
    const verl_sampling_t how = { .temperature = 0.8, .top_p = 1 };
    for (int i = 0; i < N; i++)
        sum += p[i] = exp((double) z[i] / 0.8);
    for (int i = 0; i < DRAWS; i++) {
        int32_t id = s_draw(&how, N, z, (i + 0.5) / DRAWS, &logprob);
        count[id]++;
        cr_assert_float_eq(logprob, log(p[id] / sum), 1e-5);
    }
    for (int i = 0; i < N; i++)
        cr_expect_float_eq((double) count[i] / DRAWS, p[i] / sum, 2.0 / DRAWS + 1e-5);
    free(z);
}

// Which ids come at all, over a fine grid of uniforms, as bits.
static unsigned
s_reachable(const verl_sampling_t *how, int64_t n, const float *z)
{
    unsigned seen = 0;
    for (int i = 0; i < 4000; i++)
        seen |= 1u << s_draw(how, n, z, i / 4000.0, NULL);
    return seen;
}

Test(sampling, top_k)
{
    const float z[6] = { 0.5f, 2, 1, 1, 0, 1 };
    cr_expect_eq(s_reachable(&(verl_sampling_t){ 1, 1, 1 }, 6, z), 1u << 1);
    cr_expect_eq(s_reachable(&(verl_sampling_t){ 1, 2, 1 }, 6, z), 1u << 1 | 1u << 2, "of equals the smaller id stays");
    cr_expect_eq(s_reachable(&(verl_sampling_t){ 1, 4, 1 }, 6, z), 1u << 1 | 1u << 2 | 1u << 3 | 1u << 5);
    cr_expect_eq(s_reachable(&(verl_sampling_t){ 1, 6, 1 }, 6, z), 63u);
    cr_expect_eq(s_reachable(&(verl_sampling_t){ 1, 99, 1 }, 6, z), 63u);
    cr_expect_eq(s_reachable(&(verl_sampling_t){ 1, -1, 1 }, 6, z), 63u);
}

Test(sampling, top_p)
{
    float z[5];
    const double p[5] = { 0.1, 0.4, 0.05, 0.25, 0.2 };
    for (int i = 0; i < 5; i++)
        z[i] = (float) log(p[i]);
    cr_expect_eq(s_reachable(&(verl_sampling_t){ 1, 0, 0.01 }, 5, z), 1u << 1, "at least one stays");
    cr_expect_eq(s_reachable(&(verl_sampling_t){ 1, 0, 0.39 }, 5, z), 1u << 1);
    cr_expect_eq(s_reachable(&(verl_sampling_t){ 1, 0, 0.41 }, 5, z), 1u << 1 | 1u << 3, "the one that crosses stays");
    cr_expect_eq(s_reachable(&(verl_sampling_t){ 1, 0, 0.86 }, 5, z), 1u << 1 | 1u << 3 | 1u << 4 | 1u << 0);
    cr_expect_eq(s_reachable(&(verl_sampling_t){ 1, 0, 1 }, 5, z), 31u);
    // After top-k = 2 the two hold 0.4 / 0.65 = 0.615 and 0.385.
    cr_expect_eq(s_reachable(&(verl_sampling_t){ 1, 2, 0.6 }, 5, z), 1u << 1);
    cr_expect_eq(s_reachable(&(verl_sampling_t){ 1, 2, 0.63 }, 5, z), 1u << 1 | 1u << 3);
}

Test(sampling, equal_logits_share_top_p)
{
    const float z[4] = { 1, 1, 1, 1 };
    cr_expect_eq(s_reachable(&(verl_sampling_t){ 1, 0, 0.5 }, 4, z), 3u);
    cr_expect_eq(s_reachable(&(verl_sampling_t){ 1, 0, 0.51 }, 4, z), 7u);
}

Test(sampling, large_vocabulary)
{
    enum { N = 151936 };
    float *z = numbers_new(N, 9, 8);
    z[77777] = 40;
    cr_expect_eq(s_draw(&(verl_sampling_t){ 1, 0, 0.9 }, N, z, 0.999, NULL), 77777);
    cr_expect_eq(s_draw(&(verl_sampling_t){ 1, 50, 1 }, N, z, 0.5, NULL), 77777);
    z[77777] = 0;
    int32_t last = s_draw(&(verl_sampling_t){ 1, 0, 1 }, N, z, 0.9999999999, NULL);
    cr_expect(last > N * 9 / 10 && last < N);
    free(z);
}

Test(sampling, one_choice_and_broken_logits)
{
    float z[3] = { 5, NAN, 1 }, scratch[3], logprob;
    int32_t id;
    cr_expect_eq(s_draw(&(verl_sampling_t){ 1, 0, 1 }, 1, z, 0.7, &logprob), 0);
    cr_expect_float_eq(logprob, 0, 1e-6);
    cr_expect_eq(verl_sample_token(&(verl_sampling_t){ 1, 0, 1 }, 3, z, 0.5, scratch, &id, &logprob), -1);
    cr_expect_eq(verl_sample_token(&(verl_sampling_t){ 0, 0, 1 }, 3, z, 0.5, scratch, &id, &logprob), -1);
}
