// test_backward.c: gradients accumulate, follow the loss, take other heads' parts, and refuse misuse.
#include "actors/lm/model_fixture.h"

static void
s_forward(const fixture_t *f, verl_lm_t *lm, verl_lm_tape_t *tape)
{
    char error[256] = "";
    cr_assert_eq(verl_lm_forward(lm, tape, VERL_LM_TRAIN, &f->batch, error, sizeof error), 0, "%s", error);
}

static void
s_head(const fixture_t *f, verl_lm_t *lm, verl_lm_tape_t *tape, int64_t begin, int64_t count, float *gradient)
{
    char error[256] = "";
    cr_assert_eq(verl_lm_logprobs_backward(lm, tape, f->picks + begin, count, f->d_logprobs + begin,
                                           f->d_entropy + begin, gradient, error, sizeof error), 0, "%s", error);
}

// Two micro-batches of picks over two forwards give the gradient of one.
Test(backward, micro_batches_accumulate)
{
    fixture_t f;
    fixture_open(&f, "qwen2");
    verl_lm_t *lm = verl_lm_new(&f.config, f.params, VERL_LM_F32, 2, NULL, 0);
    verl_lm_tape_t *tape = verl_lm_tape_new();
    float *gradient = calloc((size_t) f.layout.total, sizeof(float));
    int64_t half = f.pick_count / 2;
    for (int part = 0; part < 2; part++) {
        s_forward(&f, lm, tape);
        s_head(&f, lm, tape, part ? half : 0, part ? f.pick_count - half : half, gradient);
        cr_assert_eq(verl_lm_backward(lm, tape, gradient, NULL, 0), 0);
    }
    cr_expect(relative_distance(gradient, f.gradient, f.layout.total) < 1e-5);
    free(gradient);
    verl_lm_tape_destroy(&tape);
    verl_lm_destroy(&lm);
    fixture_close(&f);
}

// The same picks in another order, and in two calls on one forward.
Test(backward, order_of_picks_does_not_matter)
{
    fixture_t f;
    fixture_open(&f, "llama");
    verl_lm_t *lm = verl_lm_new(&f.config, f.params, VERL_LM_F32, 2, NULL, 0);
    verl_lm_tape_t *tape = verl_lm_tape_new();
    float *gradient = calloc((size_t) f.layout.total, sizeof(float));
    for (int64_t i = 0; i < f.pick_count / 2; i++) {
        int64_t j = f.pick_count - 1 - i;
        verl_lm_pick_t pick = f.picks[i];
        float lp = f.d_logprobs[i], entropy = f.d_entropy[i];
        f.picks[i] = f.picks[j], f.d_logprobs[i] = f.d_logprobs[j], f.d_entropy[i] = f.d_entropy[j];
        f.picks[j] = pick, f.d_logprobs[j] = lp, f.d_entropy[j] = entropy;
    }
    s_forward(&f, lm, tape);
    s_head(&f, lm, tape, 0, 7, gradient);
    s_head(&f, lm, tape, 7, f.pick_count - 7, gradient);
    cr_assert_eq(verl_lm_backward(lm, tape, gradient, NULL, 0), 0);
    cr_expect(relative_distance(gradient, f.gradient, f.layout.total) < 1e-5);
    free(gradient);
    verl_lm_tape_destroy(&tape);
    verl_lm_destroy(&lm);
    fixture_close(&f);
}

// A value head: v = hidden . u, loss = sum of v over some rows; its slope along the gradient is |gradient|^2.
static double
s_value_loss(const fixture_t *f, const float *params, const float *u)
{
    verl_lm_t *lm = verl_lm_new(&f->config, params, VERL_LM_F32, 1, NULL, 0);
    verl_lm_tape_t *tape = verl_lm_tape_new();
    s_forward(f, lm, tape);
    const float *hidden = verl_lm_tape_hidden(tape);
    double sum = 0;
    for (int64_t row = 0; row < f->batch.rows; row += 3)
        for (int64_t i = 0; i < f->config.hidden_size; i++)
            sum += (double) hidden[row * f->config.hidden_size + i] * (double) u[i];
    verl_lm_tape_destroy(&tape);
    verl_lm_destroy(&lm);
    return sum;
}

static float *
s_value_gradient(const fixture_t *f, const float *u)
{
    verl_lm_t *lm = verl_lm_new(&f->config, f->params, VERL_LM_F32, 2, NULL, 0);
    verl_lm_tape_t *tape = verl_lm_tape_new();
    float *gradient = calloc((size_t) f->layout.total, sizeof(float));
    s_forward(f, lm, tape);
    for (int64_t row = 0; row < f->batch.rows; row += 3)
        for (int64_t i = 0; i < f->config.hidden_size; i++)
            verl_lm_tape_d_hidden(tape)[row * f->config.hidden_size + i] += u[i];
    cr_assert_eq(verl_lm_backward(lm, tape, gradient, NULL, 0), 0);
    verl_lm_tape_destroy(&tape);
    verl_lm_destroy(&lm);
    return gradient;
}

Test(backward, another_head_enters_at_the_hidden_states)
{
    fixture_t f;
    float u[64], *moved[2];
    fixture_open(&f, "qwen3");
    for (int i = 0; i < 64; i++)
        u[i] = (float) sin(i);
    float *gradient = s_value_gradient(&f, u);
    double squared = 0, step = 1e-3, slope = 0;
    for (int64_t i = 0; i < f.layout.total; i++)
        squared += (double) gradient[i] * (double) gradient[i];
    for (int side = 0; side < 2; side++) {
        moved[side] = calloc((size_t) f.layout.total, sizeof(float));
        double by = (side ? step : -step) / sqrt(squared);
        for (int64_t i = 0; i < f.layout.total; i++)
            moved[side][i] = (float) ((double) f.params[i] + by * (double) gradient[i]);
        slope += (side ? 1 : -1) * s_value_loss(&f, moved[side], u) / (2 * step);
        free(moved[side]);
    }
    cr_expect_float_eq(slope, sqrt(squared), 2e-3 * sqrt(squared), "slope %g, gradient %g", slope, sqrt(squared));
    free(gradient);
    fixture_close(&f);
}

// Enough trees, side by side, for threads to take whole chunks of them; and the same trees apart, where they cannot.
enum { TREES = 60, PROMPT = 5, RESPONSE = 3, TREE_ROWS = PROMPT + RESPONSE, ALL_ROWS = TREES * TREE_ROWS };

static float *
s_forest_gradient(const fixture_t *f, int threads, bool apart, float *logprobs)
{
    int32_t tokens[ALL_ROWS];
    verl_lm_segment_t segments[2 * TREES];
    verl_lm_pick_t picks[ALL_ROWS];
    float d[ALL_ROWS];
    char error[256] = "";
    for (int tree = 0; tree < TREES; tree++) {
        int64_t prompt = apart ? tree * PROMPT : tree * TREE_ROWS;
        int64_t response = apart ? TREES * PROMPT + tree * RESPONSE : prompt + PROMPT;
        int own = apart ? tree : 2 * tree, child = apart ? TREES + tree : own + 1;
        segments[own] = (verl_lm_segment_t){ prompt, PROMPT, -1 };
        segments[child] = (verl_lm_segment_t){ response, RESPONSE, own };
        for (int i = 0; i < TREE_ROWS; i++) {
            int64_t row = i < PROMPT ? prompt + i : response + i - PROMPT;
            tokens[row] = (tree * 7 + i * 3) % (int) f->config.vocab_size;
            picks[tree * TREE_ROWS + i] = (verl_lm_pick_t){ row, (tree + i) % (int) f->config.vocab_size, 1 };
            d[tree * TREE_ROWS + i] = (float) sin(tree + i);
        }
    }
    verl_lm_t *lm = verl_lm_new(&f->config, f->params, VERL_LM_F32, threads, NULL, 0);
    verl_lm_tape_t *tape = verl_lm_tape_new();
    float *gradient = calloc((size_t) f->layout.total, sizeof(float));
    const verl_lm_batch_t batch = { tokens, ALL_ROWS, segments, 2 * TREES };
    cr_assert_eq(verl_lm_forward(lm, tape, VERL_LM_TRAIN, &batch, error, sizeof error), 0, "%s", error);
    cr_assert_eq(verl_lm_logprobs(lm, tape, picks, ALL_ROWS, logprobs, NULL, error, sizeof error), 0, "%s", error);
    cr_assert_eq(verl_lm_logprobs_backward(lm, tape, picks, ALL_ROWS, d, NULL, gradient, error, sizeof error), 0, "%s",
                 error);
    cr_assert_eq(verl_lm_backward(lm, tape, gradient, error, sizeof error), 0, "%s", error);
    verl_lm_tape_destroy(&tape);
    verl_lm_destroy(&lm);
    return gradient;
}

Test(backward, chunks_of_trees_change_no_bit)
{
    static float logprobs[3][ALL_ROWS];
    for (int i = 0; i < FIXTURES; i++) {
        fixture_t f;
        fixture_open(&f, fixture_names[i]);
        float *one = s_forest_gradient(&f, 1, false, logprobs[0]), *four = s_forest_gradient(&f, 4, false, logprobs[1]);
        float *apart = s_forest_gradient(&f, 4, true, logprobs[2]);
        cr_expect_arr_eq(one, four, (size_t) f.layout.total * sizeof(float), "%s", fixture_names[i]);
        cr_expect_arr_eq(logprobs[0], logprobs[1], sizeof logprobs[0]);
        cr_expect_arr_eq(logprobs[0], logprobs[2], sizeof logprobs[0],
                         "the place of a tree changes no log-probability");
        cr_expect(relative_distance(apart, one, f.layout.total) < 1e-5, "only the order of sums over rows differs");
        free(one), free(four), free(apart);
        fixture_close(&f);
    }
}

Test(backward, misuse_is_refused)
{
    fixture_t f;
    fixture_open(&f, "llama");
    char error[256] = "";
    verl_lm_t *lm = verl_lm_new(&f.config, f.params, VERL_LM_F32, 2, NULL, 0);
    verl_lm_tape_t *tape = verl_lm_tape_new();
    float *gradient = calloc((size_t) f.layout.total, sizeof(float)), logprob;
    cr_expect_eq(verl_lm_backward(lm, tape, gradient, error, sizeof error), -1);
    cr_expect_eq(verl_lm_logprobs(lm, tape, f.picks, 1, &logprob, NULL, error, sizeof error), -1);
    cr_assert_eq(verl_lm_forward(lm, tape, VERL_LM_SCORE, &f.batch, NULL, 0), 0);
    cr_expect_eq(verl_lm_backward(lm, tape, gradient, error, sizeof error), -1);
    cr_expect_eq(verl_lm_logprobs_backward(lm, tape, f.picks, 1, f.d_logprobs, NULL, gradient, error, sizeof error),
                 -1);
    s_forward(&f, lm, tape);
    cr_expect_eq(verl_lm_backward(lm, tape, gradient, error, sizeof error), 0);
    cr_expect_eq(verl_lm_backward(lm, tape, gradient, error, sizeof error), -1, "twice");
    cr_expect(strstr(error, "one each"), "%s", error);
    free(gradient);
    verl_lm_tape_destroy(&tape);
    verl_lm_destroy(&lm);
    fixture_close(&f);
}
