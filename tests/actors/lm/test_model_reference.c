// test_model_reference.c: log-probabilities, entropies and gradients equal those of an independent model in PyTorch.
#include "actors/lm/model_fixture.h"

static float *
s_gradient(const fixture_t *f, verl_lm_t *lm, verl_lm_mode_t mode, const float *d_logprobs, const float *d_entropy)
{
    char error[256] = "";
    float *gradient = calloc((size_t) f->layout.total, sizeof(float));
    verl_lm_tape_t *tape = verl_lm_tape_new();
    cr_assert_eq(verl_lm_forward(lm, tape, mode, &f->batch, error, sizeof error), 0, "%s", error);
    cr_assert_eq(verl_lm_logprobs_backward(lm, tape, f->picks, f->pick_count, d_logprobs, d_entropy, gradient, error,
                                           sizeof error), 0, "%s", error);
    cr_assert_eq(verl_lm_backward(lm, tape, gradient, error, sizeof error), 0, "%s", error);
    verl_lm_tape_destroy(&tape);
    return gradient;
}

static void
s_check_scores(const fixture_t *f, verl_lm_t *lm, const char *name, double tolerance)
{
    char error[256] = "";
    float *logprobs = calloc((size_t) f->pick_count, sizeof(float));
    float *entropy = calloc((size_t) f->pick_count, sizeof(float));
    verl_lm_tape_t *tape = verl_lm_tape_new();
    cr_assert_eq(verl_lm_forward(lm, tape, VERL_LM_SCORE, &f->batch, error, sizeof error), 0, "%s", error);
    cr_assert_eq(verl_lm_logprobs(lm, tape, f->picks, f->pick_count, logprobs, entropy, error, sizeof error), 0, "%s",
                 error);
    double by_logprob = largest_difference(logprobs, f->logprobs, f->pick_count);
    double by_entropy = largest_difference(entropy, f->entropy, f->pick_count);
    cr_expect(by_logprob < tolerance && by_entropy < tolerance, "%s: log-probabilities differ by %g, entropies by %g",
              name, by_logprob, by_entropy);
    free(logprobs);
    free(entropy);
    verl_lm_tape_destroy(&tape);
}

Test(model_reference, log_probabilities_and_entropies)
{
    for (int i = 0; i < FIXTURES; i++) {
        fixture_t f;
        fixture_open(&f, fixture_names[i]);
        verl_lm_t *lm = verl_lm_new(&f.config, f.params, VERL_LM_F32, 2, NULL, 0);
        s_check_scores(&f, lm, fixture_names[i], 2e-5);
        verl_lm_destroy(&lm);
        fixture_close(&f);
    }
}

Test(model_reference, bf16_is_near)
{
    for (int i = 0; i < FIXTURES; i++) {
        fixture_t f;
        fixture_open(&f, fixture_names[i]);
        verl_lm_t *lm = verl_lm_new(&f.config, f.params, VERL_LM_BF16, 2, NULL, 0);
        s_check_scores(&f, lm, fixture_names[i], 0.1);
        float *gradient = s_gradient(&f, lm, VERL_LM_TRAIN, f.d_logprobs, f.d_entropy);
        double distance = relative_distance(gradient, f.gradient, f.layout.total);
        cr_expect(distance < 0.03, "%s: the bf16 gradient is %g away", fixture_names[i], distance);
        cr_expect(distance > 1e-4, "%s: the bf16 gradient is %g away: was it rounded?", fixture_names[i], distance);
        free(gradient);
        verl_lm_destroy(&lm);
        fixture_close(&f);
    }
}

Test(model_reference, gradients)
{
    for (int i = 0; i < FIXTURES; i++) {
        fixture_t f;
        fixture_open(&f, fixture_names[i]);
        verl_lm_t *lm = verl_lm_new(&f.config, f.params, VERL_LM_F32, 2, NULL, 0);
        float *gradient = s_gradient(&f, lm, VERL_LM_TRAIN, f.d_logprobs, f.d_entropy);
        for (int64_t k = 0; k < verl_lm_tensor_count(&f.config); k++) {
            verl_lm_tensor_t t;
            verl_lm_tensor_at(&f.config, &f.layout, k, &t);
            double distance = relative_distance(gradient + t.offset, f.gradient + t.offset, t.rows * t.cols);
            cr_expect(distance < 1e-4, "%s: the gradient of %s is %g away", fixture_names[i], t.name, distance);
        }
        free(gradient);
        verl_lm_destroy(&lm);
        fixture_close(&f);
    }
}

Test(model_reference, recomputation_gives_the_same_bits)
{
    for (int i = 0; i < FIXTURES; i++) {
        fixture_t f;
        fixture_open(&f, fixture_names[i]);
        verl_lm_t *lm = verl_lm_new(&f.config, f.params, i % 2 ? VERL_LM_BF16 : VERL_LM_F32, 2, NULL, 0);
        float *kept = s_gradient(&f, lm, VERL_LM_TRAIN, f.d_logprobs, f.d_entropy);
        float *again = s_gradient(&f, lm, VERL_LM_TRAIN_RECOMPUTE, f.d_logprobs, f.d_entropy);
        cr_expect_arr_eq(kept, again, (size_t) f.layout.total * sizeof(float), "%s", fixture_names[i]);
        free(kept);
        free(again);
        verl_lm_destroy(&lm);
        fixture_close(&f);
    }
}

Test(model_reference, threads_change_no_bit)
{
    fixture_t f;
    fixture_open(&f, "qwen3");
    verl_lm_t *one = verl_lm_new(&f.config, f.params, VERL_LM_F32, 1, NULL, 0);
    verl_lm_t *three = verl_lm_new(&f.config, f.params, VERL_LM_F32, 3, NULL, 0);
    float *a = s_gradient(&f, one, VERL_LM_TRAIN, f.d_logprobs, f.d_entropy);
    float *b = s_gradient(&f, three, VERL_LM_TRAIN, f.d_logprobs, f.d_entropy);
    cr_expect_arr_eq(a, b, (size_t) f.layout.total * sizeof(float));
    free(a);
    free(b);
    verl_lm_destroy(&one);
    verl_lm_destroy(&three);
    fixture_close(&f);
}
