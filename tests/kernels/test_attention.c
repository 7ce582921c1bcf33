// test_attention.c: attention over segments against plain softmax over each row's whole context.
#include "kernels/attention.h"
#include "kernels/numbers.h"

// One long prompt with samples short and long, a sample of a sample, two small lonely segments, an empty one.
static const verl_segment_t s_segments[] = {
    { 0, 70, -1 }, { 70, 5, -1 }, { 75, 3, 0 }, { 78, 40, 0 }, { 118, 2, 0 }, { 120, 0, 1 }, { 120, 9, 1 },
    { 129, 1, 1 }, { 130, 150, 2 }, { 280, 31, -1 } };
enum {
    SEGMENTS = 10,
    ROWS = 311,
    HEADS = 6,
    KV_HEADS = 2,
    DIM = 12,
    LD = (HEADS + 2 * KV_HEADS) * DIM,
    OUT = HEADS * DIM
};
static const verl_attention_t s_shape = { .heads = HEADS, .kv_heads = KV_HEADS, .head_dim = DIM, .ld = LD,
                                          .scale = 0.3f };

// The rows that row r of segment s attends to, in order. Returns how many.
static int
s_context(int s, int64_t row, int64_t *rows)
{
    int chain[SEGMENTS], depth = 0, n = 0;
    for (int64_t p = s_segments[s].parent; p >= 0; p = s_segments[p].parent)
        chain[depth++] = (int) p;
    while (depth-- > 0)
        for (int64_t i = 0; i < s_segments[chain[depth]].length; i++)
            rows[n++] = s_segments[chain[depth]].start + i;
    for (int64_t i = s_segments[s].start; i <= row; i++)
        rows[n++] = i;
    return n;
}

static void
s_plain_row(const float *qkv, int64_t row, int head, const int64_t *rows, int n, double *out)
{
    double p[ROWS], sum = 0;
    for (int j = 0; j < n; j++) {
        const float *k = qkv + rows[j] * LD + (HEADS + head / (HEADS / KV_HEADS)) * DIM;
        p[j] = exp((double) s_shape.scale * numbers_dot(qkv + row * LD + head * DIM, k, DIM));
        sum += p[j];
    }
    for (int d = 0; d < DIM; d++) {
        out[d] = 0;
        for (int j = 0; j < n; j++)
            out[d] +=
                p[j] / sum * (double) qkv[rows[j] * LD + (HEADS + KV_HEADS + head / (HEADS / KV_HEADS)) * DIM + d];
    }
}

static void
s_plain(const float *qkv, float *out)
{
    int64_t rows[ROWS];
    for (int s = 0; s < SEGMENTS; s++)
        for (int64_t row = s_segments[s].start; row < s_segments[s].start + s_segments[s].length; row++) {
            int n = s_context(s, row, rows);
            for (int head = 0; head < HEADS; head++) {
                double o[DIM];
                s_plain_row(qkv, row, head, rows, n, o);
                for (int d = 0; d < DIM; d++)
                    out[row * OUT + head * DIM + d] = (float) o[d];
            }
        }
}

static void
s_check_forward(bool alone)
{
    verl_attention_plan_t plan;
    float *qkv = numbers_new(ROWS * LD, 1, 2), *out = numbers_zero(ROWS * OUT), *expected = numbers_zero(ROWS * OUT);
    cr_assert_eq(verl_attention_plan_init(&plan, s_segments, SEGMENTS, alone), 0);
    cr_expect_eq(plan.tree_count, 3);
    verl_attention_forward(&s_shape, &plan, qkv, out, NULL, 2);
    s_plain(qkv, expected);
    cr_expect(numbers_largest(out, expected, ROWS * OUT) < 1e-5, "%g", numbers_largest(out, expected, ROWS * OUT));
    verl_attention_plan_done(&plan);
    free(qkv), free(out), free(expected);
}

Test(attention, forward)
{
    s_check_forward(false);
    s_check_forward(true);
}

typedef struct {
    float *qkv, *up;
} s_case_t;

static double
s_loss(void *context)
{
    const s_case_t *c = context;
    float *out = numbers_zero(ROWS * OUT);
    s_plain(c->qkv, out);
    double sum = numbers_dot(out, c->up, ROWS * OUT);
    free(out);
    return sum;
}

static double
s_slope(s_case_t *c, int64_t i)
{
    float kept = c->qkv[i];
    c->qkv[i] = kept + 0.03f;
    double high = s_loss(c);
    c->qkv[i] = kept - 0.03f;
    double slope = (high - s_loss(c)) / 0.06;
    c->qkv[i] = kept;
    return slope;
}

// A sample of places is enough: each moves all of the plain attention.
Test(attention, backward)
{
    verl_attention_plan_t plan;
    s_case_t c = { numbers_new(ROWS * LD, 1, 1), numbers_new(ROWS * OUT, 2, 1) };
    float *out = numbers_zero(ROWS * OUT), *lse = numbers_zero(ROWS * HEADS), *d = numbers_new(ROWS * LD, 3, 1);
    float *same = numbers_new(ROWS * LD, 4, 1);
    cr_assert_eq(verl_attention_plan_init(&plan, s_segments, SEGMENTS, false), 0);
    verl_attention_forward(&s_shape, &plan, c.qkv, out, lse, 2);
    verl_attention_backward(&s_shape, &plan, c.qkv, out, lse, c.up, d, 2);
    double largest = 0;
    for (int64_t i = 0; i < ROWS * LD; i++)
        largest = fmax(largest, fabs((double) d[i]));
    for (int64_t i = 5; i < ROWS * LD; i += 1777)
        cr_expect_float_eq(s_slope(&c, i), d[i], 2e-3 * largest, "[%lld]: %g", (long long) i, (double) d[i]);
    verl_attention_backward(&s_shape, &plan, c.qkv, out, lse, c.up, same, 3);
    cr_expect_arr_eq(d, same, ROWS * LD * sizeof(float), "threads change no bit");
    verl_attention_plan_done(&plan);
    free(c.qkv), free(c.up), free(out), free(lse), free(d), free(same);
}

// A segment on its own has the same bits as among others, which generation promises for its prompts.
Test(attention, alone_does_not_depend_on_neighbours)
{
    verl_attention_plan_t plan, own;
    const verl_segment_t among[] = { { 0, 3, -1 }, { 3, 5, -1 }, { 8, 2, -1 } }, single = { 0, 5, -1 };
    float *qkv = numbers_new(10 * LD, 1, 1), *out = numbers_zero(10 * OUT), *expected = numbers_zero(5 * OUT);
    cr_assert_eq(verl_attention_plan_init(&plan, among, 3, true), 0);
    cr_assert_eq(verl_attention_plan_init(&own, &single, 1, true), 0);
    verl_attention_forward(&s_shape, &plan, qkv, out, NULL, 2);
    verl_attention_forward(&s_shape, &own, qkv + 3 * LD, expected, NULL, 1);
    cr_expect_arr_eq(out + 3 * OUT, expected, 5 * OUT * sizeof(float));
    verl_attention_plan_done(&plan);
    verl_attention_plan_done(&own);
    free(qkv), free(out), free(expected);
}

static void
s_check_decode(int64_t first, int64_t second)
{
    enum { CACHE = 300, WIDTH = 2 * KV_HEADS * DIM };
    float *cache = numbers_new(CACHE * WIDTH, 5, 1), *q = numbers_new(2 * LD, 6, 1), out[2 * OUT], alone[OUT];
    const verl_span_t spans[2][2] = { { { 7, first }, { 150, second } }, { { 0, 3 }, { 200, 1 } } };
    verl_attention_decode(&s_shape, 2, q, LD, spans, cache, out, 2);
    verl_attention_decode(&s_shape, 1, q, LD, spans, cache, alone, 1);
    cr_expect_arr_eq(alone, out, sizeof alone, "a row alone has the same bits");
    int64_t rows[CACHE];
    for (int64_t i = 0; i < first + second; i++)
        rows[i] = i + 1;
    float *qkv = numbers_zero((CACHE + 1) * LD);        // row 0 the query, the others its keys
    memcpy(qkv, q, OUT * sizeof(float));
    for (int64_t i = 0; i < first + second; i++)
        memcpy(qkv + (i + 1) * LD + OUT, cache + (i < first ? 7 + i : 150 + i - first) * WIDTH, WIDTH * sizeof(float));
    for (int head = 0; head < HEADS; head++) {
        double expected[DIM];
        s_plain_row(qkv, 0, head, rows, (int) (first + second), expected);
        for (int d = 0; d < DIM; d++)
            cr_expect_float_eq(out[head * DIM + d], expected[d], 1e-5, "%lld + %lld", (long long) first,
                               (long long) second);
    }
    free(cache), free(q), free(qkv);
}

Test(attention, decode)
{
    s_check_decode(1, 1);
    s_check_decode(5, 33);
    s_check_decode(64, 3);
    s_check_decode(140, 65);
}
