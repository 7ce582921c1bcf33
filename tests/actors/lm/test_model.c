// test_model.c: fresh parameters, the checks of a batch, and what a tape costs.
#include "actors/lm/model_fixture.h"

static const verl_lm_config_t s_config = { .family = VERL_LM_LLAMA, .vocab_size = 11, .hidden_size = 8, .layers = 2,
                                           .heads = 2, .kv_heads = 1, .head_dim = 4, .intermediate_size = 20,
                                           .max_positions = 12, .norm_eps = 1e-5, .rope_theta = 10000 };

static float *
s_params(const verl_lm_config_t *c, double std, uint64_t seed)
{
    verl_lm_layout_t layout;
    cr_assert_eq(verl_lm_layout_init(&layout, c), 0);
    float *params = malloc((size_t) layout.total * sizeof(float));
    cr_assert_eq(verl_lm_init_params(c, params, std, seed), 0);
    verl_lm_layout_done(&layout);
    return params;
}

static double
s_deviation(const float *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double) x[i] * (double) x[i];
    return sqrt(sum / (double) count);
}

Test(model, fresh_parameters)
{
    verl_lm_config_t c = s_config;
    c.hidden_size = 64, c.head_dim = 32, c.intermediate_size = 200, c.qkv_bias = true;
    verl_lm_layout_t l;
    cr_assert_eq(verl_lm_layout_init(&l, &c), 0);
    float *a = s_params(&c, 0.06, 3), *b = s_params(&c, 0.06, 3), *other = s_params(&c, 0.06, 4);
    cr_expect_arr_eq(a, b, (size_t) l.total * sizeof(float));
    cr_expect_arr_neq(a, other, (size_t) l.total * sizeof(float));
    cr_expect_float_eq(s_deviation(a + l.layer[1].gate, 64 * 200), 0.06, 0.003);
    cr_expect_float_eq(s_deviation(a + l.layer[0].q, 64 * 64), 0.06, 0.003);
    cr_expect_float_eq(s_deviation(a + l.layer[0].down, 64 * 200), 0.03, 0.0015, "divided by sqrt(2 * layers)");
    cr_expect_float_eq(s_deviation(a + l.layer[1].o, 64 * 64), 0.03, 0.0015);
    cr_expect(a[l.final_norm] == 1 && a[l.layer[1].post_norm + 63] == 1 && a[l.layer[0].q_bias] == 0);
    cr_expect_neq(a[l.layer[0].q], a[l.layer[1].q]);
    free(a), free(b), free(other);
    verl_lm_layout_done(&l);
}

static void
s_refused(verl_lm_batch_t batch, const char *says)
{
    char error[256] = "";
    float *params = s_params(&s_config, 0.1, 1);
    verl_lm_t *lm = verl_lm_new(&s_config, params, VERL_LM_F32, 1, NULL, 0);
    verl_lm_tape_t *tape = verl_lm_tape_new();
    cr_expect_eq(verl_lm_forward(lm, tape, VERL_LM_SCORE, &batch, error, sizeof error), -1);
    cr_expect(strstr(error, says), "'%s' does not say '%s'", error, says);
    verl_lm_tape_destroy(&tape);
    verl_lm_destroy(&lm);
    free(params);
}

Test(model, refuses_bad_batches)
{
    const int32_t tokens[14] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2, 3 }, bad[2] = { 1, 11 }, low[1] = { -1 };
    const verl_lm_segment_t two = { 0, 2, -1 }, one = { 0, 1, -1 };
    s_refused((verl_lm_batch_t){ bad, 2, &two, 1 }, "token 11 at row 1");
    s_refused((verl_lm_batch_t){ low, 1, &one, 1 }, "token -1 at row 0");
    s_refused((verl_lm_batch_t){ tokens, 0, &one, 1 }, "empty");
    s_refused((verl_lm_batch_t){ tokens, 3, &two, 1 }, "cover 2 of 3 rows");
    s_refused((verl_lm_batch_t){ tokens, 1, &two, 1 }, "segment 0");
    const verl_lm_segment_t gap[] = { { 0, 2, -1 }, { 3, 1, -1 } }, own[] = { { 0, 2, 0 } },
                            later[] = { { 0, 2, 1 }, { 2, 1, -1 } };
    s_refused((verl_lm_batch_t){ tokens, 4, gap, 2 }, "segment 1 has rows 3 + 1");
    s_refused((verl_lm_batch_t){ tokens, 2, own, 1 }, "segment 0 has parent 0");
    s_refused((verl_lm_batch_t){ tokens, 3, later, 2 }, "segment 0 has parent 1");
    const verl_lm_segment_t negative[] = { { 0, -1, -1 } }, huge[] = { { 0, INT64_MAX, -1 } };
    s_refused((verl_lm_batch_t){ tokens, 1, negative, 1 }, "segment 0");
    s_refused((verl_lm_batch_t){ tokens, 1, huge, 1 }, "segment 0");
    const verl_lm_segment_t lengthy[] = { { 0, 8, -1 }, { 8, 5, 0 } };
    s_refused((verl_lm_batch_t){ tokens, 13, lengthy, 2 }, "segment 1 ends at position 13, but the model has 12");
}

Test(model, refuses_endless_chains)
{
    enum { SEGMENTS = 100000 };
    const int32_t token = 1;
    verl_lm_segment_t *chain = malloc(SEGMENTS * sizeof *chain);
    for (int64_t i = 0; i < SEGMENTS; i++)
        chain[i] = (verl_lm_segment_t){ 0, i == SEGMENTS - 1, i - 1 };
    s_refused((verl_lm_batch_t){ &token, 1, chain, SEGMENTS }, "segment 256 has more than 255 segments before it");
    free(chain);
}

Test(model, refuses_bad_picks)
{
    const int32_t tokens[3] = { 1, 2, 3 };
    const verl_lm_segment_t all = { 0, 3, -1 };
    const struct { verl_lm_pick_t pick; const char *says;
    } cases[] = { { { 3, 0, 1 }, "row 3" },
                  { { -1, 0, 1 }, "row -1" },
                  { { 0, 11, 1 }, "target 11" },
                  { { 0, -1, 1 }, "target -1" },
                  { { 0, 0, 0 }, "temperature 0" },
                  { { 0, 0, NAN }, "temperature" },
                  { { 0, 0, INFINITY }, "temperature" } };
    float *params = s_params(&s_config, 0.1, 1), logprob;
    verl_lm_t *lm = verl_lm_new(&s_config, params, VERL_LM_F32, 1, NULL, 0);
    verl_lm_tape_t *tape = verl_lm_tape_new();
    cr_assert_eq(verl_lm_forward(lm, tape, VERL_LM_SCORE, &(verl_lm_batch_t){ tokens, 3, &all, 1 }, NULL, 0), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char error[256] = "";
        cr_expect_eq(verl_lm_logprobs(lm, tape, &cases[i].pick, 1, &logprob, NULL, error, sizeof error), -1);
        cr_expect(strstr(error, cases[i].says), "'%s' does not say '%s'", error, cases[i].says);
    }
    cr_expect_eq(verl_lm_logprobs(lm, tape, NULL, 0, NULL, NULL, NULL, 0), 0, "no picks are fine");
    verl_lm_tape_destroy(&tape);
    verl_lm_destroy(&lm);
    free(params);
}

Test(model, broken_weights_are_named)
{
    const int32_t tokens[3] = { 1, 2, 3 };
    const verl_lm_segment_t segments[] = { { 0, 2, -1 }, { 2, 1, -1 } };
    const verl_lm_pick_t picks[2] = { { 0, 1, 1 }, { 2, 1, 1 } };
    char error[256] = "";
    float *params = s_params(&s_config, 0.1, 1), logprobs[2];
    verl_lm_layout_t l;
    cr_assert_eq(verl_lm_layout_init(&l, &s_config), 0);
    params[l.embedding + 3 * 8] = INFINITY;
    verl_lm_t *lm = verl_lm_new(&s_config, params, VERL_LM_F32, 1, NULL, 0);
    verl_lm_tape_t *tape = verl_lm_tape_new();
    cr_assert_eq(verl_lm_forward(lm, tape, VERL_LM_SCORE, &(verl_lm_batch_t){ tokens, 3, segments, 2 }, NULL, 0), 0);
    cr_expect_eq(verl_lm_logprobs(lm, tape, picks, 2, logprobs, NULL, error, sizeof error), -1);
    cr_expect(strstr(error, "at row 2 (position 0)"), "%s", error);
    verl_lm_tape_destroy(&tape);
    verl_lm_destroy(&lm);
    verl_lm_layout_done(&l);
    free(params);
}

Test(model, refuses_impossible_shapes)
{
    char error[256] = "";
    verl_lm_config_t c = s_config;
    c.kv_heads = 3;
    cr_expect_null(verl_lm_new(&c, NULL, VERL_LM_F32, 1, error, sizeof error));
    cr_expect(strstr(error, "kv_heads 3 does not divide heads 2"), "%s", error);
    c = s_config, c.head_dim = 5;
    cr_expect_null(verl_lm_new(&c, NULL, VERL_LM_F32, 1, error, sizeof error));
    c = s_config, c.layers = 0;
    cr_expect_null(verl_lm_new(&c, NULL, VERL_LM_F32, 1, error, sizeof error));
    cr_expect(strstr(error, "layers is 0"), "%s", error);
    verl_lm_t *lm = verl_lm_new(&s_config, NULL, VERL_LM_F32, 1, NULL, 0);
    verl_lm_tape_t *tape = verl_lm_tape_new();
    const int32_t token = 1;
    const verl_lm_segment_t one = { 0, 1, -1 };
    cr_expect_eq(
        verl_lm_forward(lm, tape, VERL_LM_SCORE, &(verl_lm_batch_t){ &token, 1, &one, 1 }, error, sizeof error), -1);
    cr_expect(strstr(error, "no parameters"), "%s", error);
    verl_lm_tape_destroy(&tape);
    verl_lm_destroy(&lm);
}

// Scoring keeps one layer; training all of them; recomputing only their inputs.
Test(model, modes_differ_in_memory)
{
    verl_lm_config_t c = s_config;
    c.layers = 20;
    verl_lm_t *lm = verl_lm_new(&c, NULL, VERL_LM_F32, 1, NULL, 0);
    int64_t score = verl_lm_tape_bytes(lm, VERL_LM_SCORE, 100), train = verl_lm_tape_bytes(lm, VERL_LM_TRAIN, 100);
    int64_t again = verl_lm_tape_bytes(lm, VERL_LM_TRAIN_RECOMPUTE, 100);
    cr_expect(score < again && again < train / 3, "%lld %lld %lld", (long long) score, (long long) again,
              (long long) train);
    verl_lm_destroy(&lm);
}
