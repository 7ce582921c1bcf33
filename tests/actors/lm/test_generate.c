// test_generate.c: generation agrees with scoring, depends on no neighbour, and ends where it should.
#include "actors/lm/model_fixture.h"

enum { PROMPTS = 3, SAMPLES = 4, MAX_NEW = 9, ROWS = PROMPTS * SAMPLES };
static const int32_t s_ids[] = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8 };
static const int64_t s_offsets[PROMPTS + 1] = { 0, 5, 6, 12 };
static const verl_lm_prompts_t s_prompts = { s_ids, s_offsets, PROMPTS };

typedef struct {
    int32_t ids[ROWS * MAX_NEW];
    float logprobs[ROWS * MAX_NEW];
    int64_t lengths[ROWS];
    uint8_t truncated[ROWS];
} s_result_t;

static const verl_lm_generate_options_t s_options = { .samples = SAMPLES, .max_new_tokens = MAX_NEW,
                                                      .temperature = 0.9, .top_p = 1 };

static int
s_generate(verl_lm_t *lm, const verl_lm_prompts_t *prompts, const verl_lm_generate_options_t *options,
           uint64_t first_key, s_result_t *result, char *error, size_t error_size)
{
    uint64_t keys[ROWS];
    for (uint64_t i = 0; i < ROWS; i++)
        keys[i] = first_key + i;
    memset(result, 0xff, sizeof *result);
    const verl_lm_generated_t out = { result->ids, result->logprobs, result->lengths, result->truncated };
    return verl_lm_generate(lm, prompts, options, keys, &out, error, error_size);
}

static void
s_must(verl_lm_t *lm, const verl_lm_generate_options_t *options, uint64_t first_key, s_result_t *result)
{
    char error[256] = "";
    cr_assert_eq(s_generate(lm, &s_prompts, options, first_key, result, error, sizeof error), 0, "%s", error);
}

// Scores what was generated with the shared-prefix batch; temperature as in generation.
static void
s_score(verl_lm_t *lm, const s_result_t *r, float temperature, float *logprobs)
{
    int32_t tokens[64 + ROWS * MAX_NEW];
    verl_lm_segment_t segments[PROMPTS + ROWS];
    verl_lm_pick_t picks[ROWS * MAX_NEW];
    int64_t rows = s_offsets[PROMPTS], count = 0;
    float scored[ROWS * MAX_NEW];
    char error[256] = "";
    memcpy(tokens, s_ids, sizeof s_ids);
    for (int p = 0; p < PROMPTS; p++)
        segments[p] = (verl_lm_segment_t){ s_offsets[p], s_offsets[p + 1] - s_offsets[p], -1 };
    for (int row = 0; row < ROWS; row++) {
        int64_t prompt = row / SAMPLES;
        segments[PROMPTS + row] = (verl_lm_segment_t){ rows, r->lengths[row] - 1, prompt };
        for (int64_t k = 0; k < r->lengths[row]; k++) {
            int64_t at = k ? rows + k - 1 : s_offsets[prompt + 1] - 1;
            picks[count++] = (verl_lm_pick_t){ at, r->ids[row * MAX_NEW + k], temperature };
            tokens[rows + k] = r->ids[row * MAX_NEW + k];
        }
        rows += r->lengths[row] - 1;
    }
    verl_lm_tape_t *tape = verl_lm_tape_new();
    const verl_lm_batch_t batch = { tokens, rows, segments, PROMPTS + ROWS };
    cr_assert_eq(verl_lm_forward(lm, tape, VERL_LM_SCORE, &batch, error, sizeof error), 0, "%s", error);
    cr_assert_eq(verl_lm_logprobs(lm, tape, picks, count, scored, NULL, error, sizeof error), 0, "%s", error);
    memset(logprobs, 0, ROWS * MAX_NEW * sizeof(float));
    for (int64_t row = 0, i = 0; row < ROWS; row++)
        for (int64_t k = 0; k < r->lengths[row]; k++)
            logprobs[row * MAX_NEW + k] = scored[i++];
    verl_lm_tape_destroy(&tape);
}

Test(generate, logprobs_equal_those_of_scoring)
{
    for (int i = 0; i < FIXTURES; i++)
        for (int dtype = 0; dtype < 2; dtype++) {
            fixture_t f;
            s_result_t r;
            float scored[ROWS * MAX_NEW];
            fixture_open(&f, fixture_names[i]);
            verl_lm_t *lm = verl_lm_new(&f.config, f.params, dtype ? VERL_LM_BF16 : VERL_LM_F32, 2, NULL, 0);
            const int32_t stop[] = { 7, 11 };
            verl_lm_generate_options_t options = s_options;
            options.stop = stop;
            options.stop_count = 2;
            s_must(lm, &options, 1, &r);
            s_score(lm, &r, 0.9f, scored);
            double most = largest_difference(r.logprobs, scored, ROWS * MAX_NEW);
            cr_expect(most < (dtype ? 0.05 : 2e-5), "%s: generation and scoring differ by %g", fixture_names[i], most);
            verl_lm_destroy(&lm);
            fixture_close(&f);
        }
}

Test(generate, a_row_depends_on_no_neighbour_wave_or_thread)
{
    fixture_t f;
    s_result_t all, again, alone;
    fixture_open(&f, "qwen3");
    verl_lm_t *lm = verl_lm_new(&f.config, f.params, VERL_LM_F32, 2, NULL, 0);
    verl_lm_t *single = verl_lm_new(&f.config, f.params, VERL_LM_F32, 1, NULL, 0);
    s_must(lm, &s_options, 100, &all);
    verl_lm_generate_options_t options = s_options;
    options.max_bytes = 1;                              // a wave for each prompt
    s_must(single, &options, 100, &again);
    cr_expect_arr_eq(all.ids, again.ids, sizeof all.ids);
    cr_expect_arr_eq(all.logprobs, again.logprobs, sizeof all.logprobs);
    for (uint64_t p = 0; p < PROMPTS; p++) {
        const int64_t offsets[2] = { 0, s_offsets[p + 1] - s_offsets[p] };
        const verl_lm_prompts_t one = { s_ids + s_offsets[p], offsets, 1 };
        options.samples = 1;
        cr_assert_eq(s_generate(lm, &one, &options, 100 + p * SAMPLES, &alone, NULL, 0), 0);
        cr_expect_arr_eq(alone.ids, all.ids + p * SAMPLES * MAX_NEW, MAX_NEW * sizeof(int32_t));
        cr_expect_arr_eq(alone.logprobs, all.logprobs + p * SAMPLES * MAX_NEW, MAX_NEW * sizeof(float));
    }
    verl_lm_destroy(&lm);
    verl_lm_destroy(&single);
    fixture_close(&f);
}

// Enough rows for threads to take whole rows, against one thread.
Test(generate, many_rows_on_threads_have_the_same_bits)
{
    enum { MANY = 100, NEW = 6 };
    fixture_t f;
    fixture_open(&f, "llama");
    static int32_t ids[2][MANY * NEW];
    static float logprobs[2][MANY * NEW];
    int64_t lengths[2][MANY];
    uint64_t keys[MANY];
    for (uint64_t i = 0; i < MANY; i++)
        keys[i] = i * i;
    const int64_t offsets[] = { 0, 4 };
    const verl_lm_prompts_t prompt = { s_ids, offsets, 1 };
    const verl_lm_generate_options_t options = { .samples = MANY, .max_new_tokens = NEW, .temperature = 1, .top_p = 1 };
    for (int i = 0; i < 2; i++) {
        verl_lm_t *lm = verl_lm_new(&f.config, f.params, VERL_LM_F32, i ? 3 : 1, NULL, 0);
        const verl_lm_generated_t out = { ids[i], logprobs[i], lengths[i], NULL };
        cr_assert_eq(verl_lm_generate(lm, &prompt, &options, keys, &out, NULL, 0), 0);
        verl_lm_destroy(&lm);
    }
    cr_expect_arr_eq(ids[0], ids[1], sizeof ids[0]);
    cr_expect_arr_eq(logprobs[0], logprobs[1], sizeof logprobs[0]);
    fixture_close(&f);
}

Test(generate, keys_decide)
{
    fixture_t f;
    s_result_t a, b, c;
    fixture_open(&f, "llama");
    verl_lm_t *lm = verl_lm_new(&f.config, f.params, VERL_LM_F32, 2, NULL, 0);
    s_must(lm, &s_options, 5, &a);
    s_must(lm, &s_options, 5, &b);
    s_must(lm, &s_options, 500, &c);
    cr_expect_arr_eq(a.ids, b.ids, sizeof a.ids);
    cr_expect_arr_neq(a.ids, c.ids, sizeof a.ids);
    verl_lm_destroy(&lm);
    fixture_close(&f);
}

Test(generate, greedy_takes_the_most_likely_token)
{
    fixture_t f;
    s_result_t r;
    fixture_open(&f, "qwen2");
    verl_lm_t *lm = verl_lm_new(&f.config, f.params, VERL_LM_F32, 2, NULL, 0);
    verl_lm_generate_options_t options = s_options;
    options.temperature = 0;
    s_must(lm, &options, 5, &r);
    float scored[ROWS * MAX_NEW], other[ROWS * MAX_NEW];
    s_score(lm, &r, 1, scored);
    cr_expect(largest_difference(r.logprobs, scored, ROWS * MAX_NEW) < 2e-5);
    for (int row = 0; row < ROWS; row++)
        cr_expect_arr_eq(r.ids + row * MAX_NEW, r.ids + row / SAMPLES * SAMPLES * MAX_NEW, MAX_NEW * sizeof(int32_t));
    for (int32_t id = 0; id < f.config.vocab_size; id++) {
        s_result_t changed = r;
        for (int row = 0; row < ROWS; row++)
            changed.ids[row * MAX_NEW + MAX_NEW - 1] = id;
        s_score(lm, &changed, 1, other);
        for (int row = 0; row < ROWS; row++)
            cr_expect(other[row * MAX_NEW + MAX_NEW - 1] <= scored[row * MAX_NEW + MAX_NEW - 1] + 1e-5f);
    }
    verl_lm_destroy(&lm);
    fixture_close(&f);
}

Test(generate, stops_and_truncates)
{
    fixture_t f;
    s_result_t free_run, r;
    fixture_open(&f, "llama");
    verl_lm_t *lm = verl_lm_new(&f.config, f.params, VERL_LM_F32, 2, NULL, 0);
    s_must(lm, &s_options, 5, &free_run);
    const int32_t stop[] = { free_run.ids[3], free_run.ids[MAX_NEW] };
    verl_lm_generate_options_t options = s_options;
    options.stop = stop;
    options.stop_count = 2;
    s_must(lm, &options, 5, &r);
    for (int row = 0; row < ROWS; row++) {
        int64_t length = 0;
        bool stopped = false;
        while (length < MAX_NEW && !stopped) {
            int32_t id = free_run.ids[row * MAX_NEW + length++];
            stopped = id == stop[0] || id == stop[1];
        }
        cr_expect_eq(free_run.lengths[row], MAX_NEW);
        cr_expect_eq(free_run.truncated[row], 1);
        cr_expect_eq(r.lengths[row], length, "row %d", row);
        cr_expect_eq(r.truncated[row], !stopped);
        cr_expect_arr_eq(r.ids + row * MAX_NEW, free_run.ids + row * MAX_NEW, (size_t) length * sizeof(int32_t));
        for (int64_t k = length; k < MAX_NEW; k++)
            cr_expect(r.ids[row * MAX_NEW + k] == 0 && r.logprobs[row * MAX_NEW + k] == 0);
    }
    verl_lm_destroy(&lm);
    fixture_close(&f);
}

static int
s_cancel_at_three(void *context, int64_t tokens, int64_t rows)
{
    int64_t *calls = context;
    *calls += 1;
    cr_expect_eq(tokens, *calls);
    cr_expect_eq(rows, ROWS);
    return tokens == 3;
}

Test(generate, progress_can_end_it)
{
    fixture_t f;
    s_result_t r;
    int64_t calls = 0;
    fixture_open(&f, "llama");
    verl_lm_t *lm = verl_lm_new(&f.config, f.params, VERL_LM_F32, 2, NULL, 0);
    verl_lm_generate_options_t options = s_options;
    options.progress = s_cancel_at_three;
    options.context = &calls;
    cr_expect_eq(s_generate(lm, &s_prompts, &options, 5, &r, NULL, 0), VERL_LM_CANCELLED);
    cr_expect_eq(calls, 3);
    cr_expect_eq(r.lengths[0], 3);
    s_must(lm, &s_options, 5, &r);
    verl_lm_destroy(&lm);
    fixture_close(&f);
}

static void
s_refused(verl_lm_t *lm, verl_lm_generate_options_t options, const verl_lm_prompts_t *prompts, const char *says)
{
    s_result_t r;
    char error[256] = "";
    cr_expect_eq(s_generate(lm, prompts, &options, 5, &r, error, sizeof error), -1);
    cr_expect(strstr(error, says), "'%s' does not say '%s'", error, says);
}

Test(generate, refuses_bad_input)
{
    fixture_t f;
    fixture_open(&f, "llama");
    verl_lm_t *lm = verl_lm_new(&f.config, f.params, VERL_LM_F32, 2, NULL, 0);
    verl_lm_generate_options_t o = s_options;
    o.samples = 0;
    s_refused(lm, o, &s_prompts, "samples 0");
    o = s_options, o.max_new_tokens = 60;
    s_refused(lm, o, &s_prompts, "64 positions");
    o = s_options, o.max_new_tokens = INT64_MAX;
    s_refused(lm, o, &s_prompts, "positions");
    o = s_options, o.samples = INT64_MAX;
    s_refused(lm, o, &s_prompts, "samples 9223372036854775807");
    o = s_options, o.temperature = -1;
    s_refused(lm, o, &s_prompts, "temperature -1");
    o.temperature = NAN;
    s_refused(lm, o, &s_prompts, "temperature");
    o = s_options, o.top_p = 0;
    s_refused(lm, o, &s_prompts, "top_p 0");
    o = s_options, o.top_k = -2;
    s_refused(lm, o, &s_prompts, "top_k -2");
    const int32_t bad[] = { 1, 2, 29 };
    const int64_t offsets[] = { 0, 1, 1, 3 };
    s_refused(lm, s_options, &(verl_lm_prompts_t){ bad, offsets, 3 }, "prompt 1 has no tokens");
    s_refused(lm, s_options, &(verl_lm_prompts_t){ bad + 1, (const int64_t[]){ 0, 2 }, 1 }, "token 29 of prompt 0");
    verl_lm_destroy(&lm);
    fixture_close(&f);
}

Test(generate, broken_weights_are_named)
{
    fixture_t f;
    fixture_open(&f, "llama");
    f.params[f.layout.head + 3] = NAN;
    verl_lm_t *lm = verl_lm_new(&f.config, f.params, VERL_LM_F32, 2, NULL, 0);
    s_refused(lm, s_options, &s_prompts, "a logit of prompt 0, sample 0, token 0 is nan");
    verl_lm_destroy(&lm);
    fixture_close(&f);
}
