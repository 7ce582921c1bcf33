// test_optimizer.c: AdamW as PyTorch steps, clipping, decay's mask, refused gradients, and schedules.
#include "actors/lm/model_fixture.h"
#include "actors/lm/optimizer.h"

static const verl_adamw_options_t s_adamw = { .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 };

// torch.optim.AdamW(lr=0.01, weight_decay=0.1) on x = 1 with gradients 0.5, -0.25, 2 gives these (float64).
Test(optimizer, steps_as_pytorch)
{
    fixture_t f;
    char error[256] = "";
    const double gradients[3] = { 0.5, -0.25, 2 },
                 expected[3] = { 0.9890000002, 0.9853476298705847, 0.9776558058228447 };
    verl_lm_optimizer_t optimizer;
    fixture_open(&f, "llama");
    cr_assert_eq(verl_lm_optimizer_init(&optimizer, f.layout.total), 0);
    verl_adamw_options_t options = s_adamw;
    options.weight_decay = 0.1;
    f.params[f.layout.layer[0].q] = 1;
    for (int step = 0; step < 3; step++) {
        double norm;
        memset(f.gradient, 0, (size_t) f.layout.total * sizeof(float));
        f.gradient[f.layout.layer[0].q] = (float) gradients[step];
        cr_assert_eq(verl_lm_optimizer_step(&optimizer, &f.config, &f.layout, &options, f.params, f.gradient, 2, &norm,
                                            error, sizeof error), 0, "%s", error);
        cr_expect_float_eq(norm, fabs(gradients[step]), 1e-7);
        cr_expect_float_eq(f.params[f.layout.layer[0].q], expected[step], 2e-7, "step %d", step);
    }
    cr_expect_eq(optimizer.step, 3);
    verl_lm_optimizer_done(&optimizer);
    fixture_close(&f);
}

Test(optimizer, norms_and_biases_do_not_decay)
{
    fixture_t f;
    verl_lm_optimizer_t optimizer;
    fixture_open(&f, "qwen2");
    memset(f.gradient, 0, (size_t) f.layout.total * sizeof(float));
    float *before = malloc((size_t) f.layout.total * sizeof(float));
    verl_adamw_options_t options = s_adamw;
    options.weight_decay = 1;
    for (int all = 0; all < 2; all++) {
        memcpy(before, f.params, (size_t) f.layout.total * sizeof(float));
        options.decay_all = all;
        cr_assert_eq(verl_lm_optimizer_init(&optimizer, f.layout.total), 0);
        cr_assert_eq(
            verl_lm_optimizer_step(&optimizer, &f.config, &f.layout, &options, f.params, f.gradient, 1, NULL, NULL, 0),
            0);
        for (int64_t i = 0; i < verl_lm_tensor_count(&f.config); i++) {
            verl_lm_tensor_t t;
            verl_lm_tensor_at(&f.config, &f.layout, i, &t);
            float factor = t.cols > 1 || all ? 0.99f : 1.0f;
            cr_expect_float_eq(f.params[t.offset], before[t.offset] * factor, 1e-6, "%s", t.name);
        }
        verl_lm_optimizer_done(&optimizer);
    }
    free(before);
    fixture_close(&f);
}

// With a small enough gradient AdamW's first step hardly depends on its size, so clipping is seen in the state.
Test(optimizer, clips_by_the_global_norm)
{
    fixture_t f;
    double norm;
    verl_lm_optimizer_t free_run, clipped;
    fixture_open(&f, "llama");
    cr_assert_eq(verl_lm_optimizer_init(&free_run, f.layout.total), 0);
    cr_assert_eq(verl_lm_optimizer_init(&clipped, f.layout.total), 0);
    verl_adamw_options_t options = s_adamw;
    verl_lm_optimizer_step(&free_run, &f.config, &f.layout, &options, f.params, f.gradient, 1, &norm, NULL, 0);
    options.max_norm = norm / 4;
    verl_lm_optimizer_step(&clipped, &f.config, &f.layout, &options, f.params, f.gradient, 1, &norm, NULL, 0);
    cr_expect_float_eq(norm, 4 * options.max_norm, 1e-9);
    for (int64_t i = 0; i < f.layout.total; i += 7)
        cr_expect_float_eq(clipped.m[i], free_run.m[i] / 4, 1e-6 * norm);
    options.max_norm = 10 * norm;
    verl_lm_optimizer_step(&clipped, &f.config, &f.layout, &options, f.params, f.gradient, 1, NULL, NULL, 0);
    cr_expect_float_eq(clipped.m[f.layout.layer[0].q],
                       0.9f * free_run.m[f.layout.layer[0].q] / 4 + free_run.m[f.layout.layer[0].q], 1e-6 * norm);
    verl_lm_optimizer_done(&free_run);
    verl_lm_optimizer_done(&clipped);
    fixture_close(&f);
}

Test(optimizer, a_broken_gradient_changes_nothing)
{
    fixture_t f;
    verl_lm_optimizer_t optimizer;
    char error[256] = "";
    const float bad[] = { NAN, INFINITY, -INFINITY };
    fixture_open(&f, "llama");
    float *before = malloc((size_t) f.layout.total * sizeof(float));
    memcpy(before, f.params, (size_t) f.layout.total * sizeof(float));
    cr_assert_eq(verl_lm_optimizer_init(&optimizer, f.layout.total), 0);
    for (int i = 0; i < 3; i++) {
        f.gradient[f.layout.total - 20] = bad[i];
        cr_expect_eq(verl_lm_optimizer_step(&optimizer, &f.config, &f.layout, &s_adamw, f.params, f.gradient, 2, NULL,
                                            error, sizeof error),
                     -1);
        cr_expect(strstr(error, "step 0"), "%s", error);
    }
    cr_expect_eq(optimizer.step, 0);
    cr_expect_eq(optimizer.m[f.layout.layer[0].q], 0);
    cr_expect_arr_eq(before, f.params, (size_t) f.layout.total * sizeof(float));
    optimizer.count = 3;
    cr_expect_eq(verl_lm_optimizer_step(&optimizer, &f.config, &f.layout, &s_adamw, f.params, f.gradient, 2, NULL,
                                        error, sizeof error),
                 -1);
    free(before);
    verl_lm_optimizer_done(&optimizer);
    fixture_close(&f);
}

Test(optimizer, schedules)
{
    const verl_schedule_t constant = { VERL_SCHEDULE_CONSTANT, 4, 0, 0 }, plain = { VERL_SCHEDULE_CONSTANT, 0, 0, 0 };
    cr_expect_eq(verl_schedule_factor(&plain, 0), 1);
    cr_expect_eq(verl_schedule_factor(&constant, 0), 0);
    cr_expect_eq(verl_schedule_factor(&constant, 3), 0.75);
    cr_expect_eq(verl_schedule_factor(&constant, 4), 1);
    cr_expect_eq(verl_schedule_factor(&constant, 4000), 1);
    const verl_schedule_t linear = { VERL_SCHEDULE_LINEAR, 2, 10, 0.2 };
    cr_expect_float_eq(verl_schedule_factor(&linear, 2), 1, 1e-12);
    cr_expect_float_eq(verl_schedule_factor(&linear, 6), 0.6, 1e-12);
    cr_expect_float_eq(verl_schedule_factor(&linear, 10), 0.2, 1e-12);
    cr_expect_float_eq(verl_schedule_factor(&linear, 11), 0.2, 1e-12);
    const verl_schedule_t cosine = { VERL_SCHEDULE_COSINE, 20, 600, 0.1 };
    cr_expect_float_eq(verl_schedule_factor(&cosine, 10), 0.5, 1e-12);
    cr_expect_float_eq(verl_schedule_factor(&cosine, 310), 0.1 + 0.9 * 0.5, 1e-12);
    cr_expect_float_eq(verl_schedule_factor(&cosine, 165), 0.1 + 0.9 * 0.5 * (1 + sqrt(0.5)), 1e-12);
    cr_expect_float_eq(verl_schedule_factor(&cosine, 600), 0.1, 1e-12);
    const verl_schedule_t all_warmup = { VERL_SCHEDULE_COSINE, 5, 5, 0.1 };
    cr_expect_float_eq(verl_schedule_factor(&all_warmup, 5), 0.1, 1e-12);
}
