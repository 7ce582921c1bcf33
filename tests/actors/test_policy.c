// test_policy.c: generating, scoring and learning with a small model, without a runtime.
#include <math.h>
#include <unistd.h>
#include "actors/policy/policy.h"
#include "rig.h"

#define MODEL "model = \"topologies/models/addition-init\"\ninit = \"random\"\ninit_std = 0.3\nthreads = 1"

static verl_policy_t *
s_policy(rig_t *rig)
{
    return rig->state;
}

static int64_t
s_total(rig_t *rig)
{
    return verl_lm_layout(s_policy(rig)->lm)->total;
}

// Three prompts as text: 6, 5 and 6 tokens.
static verl_batch_t *
s_prompts(int64_t id)
{
    static const char *const texts[] = { "12+34=", "7+88=", "90+11=" };
    verl_batch_t *made = rig_made(id, 3);
    rig_add_texts(made, "prompt", texts);
    return made;
}

// ---------------------------------------------------------------------------------------------------------------
// Generation

Test(policy, generate_gives_samples_of_each_prompt_and_says_where_they_come_from)
{
    rig_t rig;
    rig_open(&rig, "policy", "generate", "generate", MODEL, "samples = 4\nmax_new_tokens = 5", NULL);
    verl_batch_t *made = s_prompts(2), *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    cr_assert_eq(verl_batch_rows(rig.out), 12);
    const verl_column_t *ids = verl_batch_column(rig.out, "response_ids"),
                        *text = verl_batch_column(rig.out, "response"),
                        *logprobs = verl_batch_column(rig.out, "rollout_logprobs"),
                        *prompts = verl_batch_column(rig.out, "prompt_ids");
    bool differ = false;
    for (int64_t row = 0; row < 12; row++) {
        int64_t length = verl_column_length(ids, row);
        bool stopped = verl_column_i32(ids, row)[length - 1] == 13;
        size_t bytes;
        cr_assert_eq(verl_batch_map(rig.out)[row], row / 4);
        cr_assert_eq(*verl_column_i64(verl_batch_column(rig.out, "group"), row), row / 4);
        cr_assert_eq(*verl_column_u8(verl_batch_column(rig.out, "truncated"), row), !stopped);
        cr_assert_eq(*verl_column_f32(verl_batch_column(rig.out, "temperature"), row), 1.0f);
        cr_assert(length >= 1 && length <= 5 && (stopped || length == 5));
        cr_assert_eq(verl_column_length(logprobs, row), length);
        cr_assert_eq(verl_column_length(prompts, row), row / 4 == 1 ? 5 : 6);
        verl_column_text(text, row, &bytes);
        cr_assert(bytes <= (size_t) (length - stopped));
        differ |= row % 4 != 0 && *verl_column_i32(ids, row) != *verl_column_i32(ids, row - 1);
    }
    cr_assert(differ);
    cr_assert_float_eq(rig_metric(&rig, "prompt_length/mean"), 17 / 3., 1e-6);
    cr_assert(rig_has_metric(&rig, "response_length/clip_ratio"));
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

// The rows from `first` on of the prompts, as a part of the batch.
static verl_batch_t *
s_part(const verl_batch_t *made, int64_t first, int64_t rows)
{
    verl_error_t why = { "" };
    verl_batch_t *in = verl_batch_new_given(verl_batch_id(made), rows, first);
    cr_assert_eq(verl_batch_put(in, "prompt", verl_batch_column(made, "prompt"), NULL, NULL, 0, first, &why), 0);
    return in;
}

Test(policy, a_response_is_the_same_in_a_part_of_the_batch)
{
    rig_t rig;
    int32_t whole[24];
    rig_open(&rig, "policy", "generate", "generate", MODEL, "samples = 2\nmax_new_tokens = 4", NULL);
    verl_batch_t *made = s_prompts(2), *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    for (int64_t row = 0; row < 6; row++)
        for (int64_t t = 0; t < verl_column_length(verl_batch_column(rig.out, "response_ids"), row); t++)
            whole[4 * row + t] = verl_column_i32(verl_batch_column(rig.out, "response_ids"), row)[t];
    verl_batch_destroy(&in);
    in = s_part(made, 2, 1);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    for (int64_t row = 0; row < 2; row++) {
        cr_assert_eq(*verl_column_i64(verl_batch_column(rig.out, "group"), row), 2);
        for (int64_t t = 0; t < verl_column_length(verl_batch_column(rig.out, "response_ids"), row); t++)
            cr_assert_eq(whole[4 * (4 + row) + t], verl_column_i32(verl_batch_column(rig.out, "response_ids"), row)[t]);
    }
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(policy, what_cannot_be_generated_is_refused_by_row)
{
    rig_t rig;
    static const char *const texts[] = { "1+1=", "" };
    rig_open(&rig, "policy", "generate", "generate", MODEL, "max_new_tokens = 4", NULL);
    verl_batch_t *made = rig_made(0, 2);
    rig_add_texts(made, "prompt", texts);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), -1);
    cr_assert(strstr(rig.failure, "row 1: its prompt has no tokens"), "%s", rig.failure);
    rig_close(&rig);
    rig_open(&rig, "policy", "generate", "generate", MODEL, "max_new_tokens = 61", NULL);
    cr_assert_eq(rig_run(&rig, in, 0), -1);
    cr_assert(strstr(rig.failure, "row 0: a prompt of 4 tokens and max_new_tokens = 61"), "%s", rig.failure);
    rig_close(&rig);
    rig_open(&rig, "policy", "generate", "generate", MODEL, "max_new_tokens = 4\nstop = [\"==\"]", NULL);
    verl_batch_destroy(&in);
    in = s_part(made, 0, 1);
    cr_assert_eq(rig_run(&rig, in, 0), -1);
    cr_assert(strstr(rig.failure, "\"==\" is not one token"), "%s", rig.failure);
    rig_close(&rig);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
}

// ---------------------------------------------------------------------------------------------------------------
// Scoring

// What generate made of the prompts, as the stages behind it see it.
static verl_batch_t *
s_generated(rig_t *generate, const verl_batch_t *made)
{
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(generate, in, 0), 0, "%s", generate->failure);
    verl_batch_destroy(&in);
    verl_batch_t *seen = verl_batch_new_given(verl_batch_id(made), verl_batch_rows(generate->out), 0);
    rig_put(seen, generate->out, NULL);
    rig_put(seen, made, verl_batch_map(generate->out));
    return seen;
}

Test(policy, logprobs_are_those_of_the_rollout_however_the_batch_is_cut)
{
    static const char *const works[] = { "", "max_tokens = 9", "max_tokens = 1\nentropy = true" };
    rig_t generate, logprobs;
    rig_open(&generate, "policy", "generate", "generate", MODEL, "samples = 3\nmax_new_tokens = 4\ntemperature = 0.7",
             NULL);
    verl_batch_t *made = s_prompts(1), *in = s_generated(&generate, made);
    for (int i = 0; i < 3; i++) {
        rig_open(&logprobs, "policy", "logprobs", "logprobs", MODEL, works[i], &generate);
        cr_assert_eq(rig_run(&logprobs, in, 0), 0, "%s", logprobs.failure);
        const verl_column_t *ours = verl_batch_column(logprobs.out, "logprobs"),
                            *theirs = verl_batch_column(in, "rollout_logprobs");
        for (int64_t row = 0; row < 9; row++) {
            cr_assert_eq(verl_column_length(ours, row), verl_column_length(theirs, row));
            for (int64_t t = 0; t < verl_column_length(ours, row); t++)
                cr_assert_float_eq(verl_column_f32(ours, row)[t], verl_column_f32(theirs, row)[t], 2e-5);
        }
        cr_assert_eq(rig_has_metric(&logprobs, "actor/entropy"), i == 2);
        rig_close(&logprobs);
    }
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&generate);
}

// ---------------------------------------------------------------------------------------------------------------
// Learning

// Four rows of two prompts with responses, to imitate or, with advantages, to learn from.
static verl_batch_t *
s_lesson(const float *advantages, const uint8_t *mask)
{
    static const int64_t prompt_lengths[] = { 4, 4, 3, 3 }, lengths[] = { 3, 2, 2, 0 };
    static const int32_t prompts[] = { 1, 11, 2, 12, 1, 11, 2, 12, 5, 6, 12, 5, 6, 12 };
    static const int32_t responses[] = { 3, 4, 13, 5, 13, 6, 13 };
    static const float old[] = { -3, -2, -3, -2.5f, -3, -2, -3.5f };
    verl_batch_t *made = rig_made(0, 4);
    rig_add_ragged(made, "prompt_ids", VERL_I32, prompt_lengths, prompts);
    rig_add_ragged(made, "response_ids", VERL_I32, lengths, responses);
    if (mask)
        rig_add_ragged(made, "response_mask", VERL_U8, lengths, mask);
    if (advantages) {
        rig_add_ragged(made, "advantages", VERL_F32, lengths, advantages);
        rig_add_ragged(made, "rollout_logprobs", VERL_F32, lengths, old);
    }
    return made;
}

static const float s_advantages[] = { 1, 1, 1, -1, -1, 0.5f, 0.5f };

// Runs one update with these options on a fresh model. The rig stays open.
static int
s_learn(rig_t *rig, const char *work, const float *advantages, const uint8_t *mask)
{
    rig_open(rig, "policy", "update", "update", MODEL, work, NULL);
    verl_batch_t *made = s_lesson(advantages, mask), *in = rig_see(made);
    int rc = rig_run(rig, in, 0);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    return rc;
}

static double
s_distance(rig_t *a, rig_t *b)
{
    double most = 0;
    for (int64_t i = 0; i < s_total(a); i++) {
        double apart = fabs((double) s_policy(a)->params[i] - (double) s_policy(b)->params[i]);
        most = apart > most || isnan(apart) ? apart : most;
    }
    return most;
}

static double
s_gradient_distance(rig_t *a, rig_t *b)
{
    double apart = 0, length = 0;
    for (int64_t i = 0; i < s_total(a); i++) {
        double difference = (double) s_policy(a)->gradient[i] - (double) s_policy(b)->gradient[i];
        apart += difference * difference;
        length += (double) s_policy(a)->gradient[i] * (double) s_policy(a)->gradient[i];
    }
    cr_assert(length > 0);
    return sqrt(apart / length);
}

Test(policy, the_gradient_does_not_depend_on_the_micro_batches)
{
    static const char *const works[] = { "", "loss_agg = \"seq-mean-token-mean\"", "loss = \"gspo\"", "loss = \"sft\"",
                                         "entropy_coef = 0.1", "recompute = true" };
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        rig_t whole, cut;
        char text[128];
        snprintf(text, sizeof text, "%s\nmax_tokens = 1", works[i]);
        cr_assert_eq(s_learn(&whole, works[i], s_advantages, NULL), 0, "%s", whole.failure);
        cr_assert_eq(s_learn(&cut, text, s_advantages, NULL), 0, "%s", cut.failure);
        cr_assert_lt(s_gradient_distance(&whole, &cut), 1e-5, "%s: %g", works[i], s_gradient_distance(&whole, &cut));
        const char *norm = strstr(works[i], "sft") ? "train/grad_norm" : "actor/grad_norm";
        const char *loss = strstr(works[i], "sft") ? "train/loss" : "actor/pg_loss";
        cr_assert_float_eq(rig_metric(&whole, norm), rig_metric(&cut, norm), 1e-4);
        cr_assert_float_eq(rig_metric(&whole, loss), rig_metric(&cut, loss), 1e-5);
        rig_close(&whole);
        rig_close(&cut);
    }
}

Test(policy, the_gradient_is_that_of_the_loss)
{
    rig_t rig;
    const char *work = "loss = \"sft\"\nlr = 0\nweight_decay = 0\ngrad_clip = 0";
    cr_assert_eq(s_learn(&rig, work, NULL, NULL), 0, "%s", rig.failure);
    verl_policy_t *policy = s_policy(&rig);
    verl_batch_t *made = s_lesson(NULL, NULL), *in = rig_see(made);
    const verl_lm_layout_t *layout = verl_lm_layout(policy->lm);
    const int64_t places[] = { layout->embedding + 12 * 128 + 5, layout->layer[1].gate + 777, layout->layer[3].o + 4001,
                               layout->head + 13 * 128 + 7, layout->final_norm + 9 };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        float kept = policy->params[places[i]], gradient = policy->gradient[places[i]];
        double loss[2];
        for (int side = 0; side < 2; side++) {
            policy->params[places[i]] = kept + (side ? 1e-2f : -1e-2f);
            cr_assert_eq(verl_lm_weights_changed(policy->lm), 0);
            cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
            loss[side] = rig_metric(&rig, "train/loss");
        }
        policy->params[places[i]] = kept;
        cr_assert_float_eq((loss[1] - loss[0]) / 2e-2, (double) gradient, 2e-2 * fabs((double) gradient) + 2e-4);
    }
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(policy, imitation_lowers_the_loss)
{
    rig_t rig;
    cr_assert_eq(s_learn(&rig, "loss = \"sft\"\nlr = 1e-2\nschedule = \"cosine\"\nwarmup_steps = 2", NULL, NULL), 0,
                 "%s", rig.failure);
    double first = rig_metric(&rig, "train/loss");
    verl_batch_t *made = s_lesson(NULL, NULL), *in = rig_see(made);
    for (int i = 0; i < 9; i++)
        cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    cr_assert_lt(rig_metric(&rig, "train/loss"), first / 2);
    cr_assert_eq(s_policy(&rig)->optimizer.step, 10);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(policy, advantages_of_zero_teach_nothing)
{
    rig_t rig, fresh;
    const float none[7] = { 0 };
    cr_assert_eq(s_learn(&rig, "lr = 1e-2\nweight_decay = 0", none, NULL), 0, "%s", rig.failure);
    rig_open(&fresh, "policy", "update", "update", MODEL, "", NULL);
    cr_assert_eq(s_distance(&rig, &fresh), 0);
    cr_assert_float_eq(rig_metric(&rig, "actor/grad_norm"), 0, 1e-12);
    rig_close(&rig);
    rig_close(&fresh);
}

Test(policy, the_learners_own_logprobs_serve_where_they_are_given_and_are_compared)
{
    rig_t rig;
    const int64_t lengths[] = { 3, 2, 2, 0 };
    const float own[] = { -3, -2, -3, -2.5f, -3, -2, -1.5f };
    rig_open(&rig, "policy", "update", "update", MODEL, "", NULL);
    verl_batch_t *made = s_lesson(s_advantages, NULL);
    rig_add_ragged(made, "old_logprobs", VERL_F32, lengths, own);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    cr_assert_float_eq(rig_metric(&rig, "training/rollout_probs_diff_max"), exp(-1.5) - exp(-3.5), 1e-6);
    cr_assert_float_eq(rig_metric(&rig, "training/rollout_probs_diff_mean"), (exp(-1.5) - exp(-3.5)) / 7, 1e-6);
    cr_assert_float_eq(rig_metric(&rig, "rollout_corr/kl"), -2 / 7., 1e-6);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

Test(policy, mini_batches_are_whole_groups_and_one_step_each)
{
    rig_t rig;
    cr_assert_eq(s_learn(&rig, "mini_batch = 1\npasses = 3\nshuffle = true", s_advantages, NULL), 0, "%s", rig.failure);
    cr_assert_eq(s_policy(&rig)->optimizer.step, 6);
    cr_assert(rig_has_metric(&rig, "actor/ppo_kl"));
    rig_close(&rig);
}

Test(policy, a_number_that_is_none_is_named_and_changes_nothing)
{
    rig_t rig, fresh;
    const float bad[] = { 1, 1, 1, -1, NAN, 0.5f, 0.5f };
    const uint8_t mask[] = { 1, 1, 1, 1, 0, 1, 1 };
    rig_open(&fresh, "policy", "update", "update", MODEL, "", NULL);
    cr_assert_eq(s_learn(&rig, "lr = 1e-2", bad, NULL), -1);
    cr_assert(strstr(rig.failure, "row 1: advantages is nan at token 1"), "%s", rig.failure);
    cr_assert_eq(s_distance(&rig, &fresh), 0);
    rig_close(&rig);
    cr_assert_eq(s_learn(&rig, "lr = 1e-2", bad, mask), 0, "%s", rig.failure);
    cr_assert(isfinite(rig_metric(&rig, "actor/grad_norm")));
    rig_close(&rig);
    rig_close(&fresh);
}

Test(policy, a_gradient_that_overflows_is_laid_at_its_row)
{
    rig_t rig, fresh;
    const float huge[] = { 1, 1, 1, 3e38f, 3e38f, 1, 1 };
    rig_open(&fresh, "policy", "update", "update", MODEL, "", NULL);
    cr_assert_eq(s_learn(&rig, "lr = 1e-2\nloss = \"gpg\"\nloss_agg = \"token-sum\"", huge, NULL), -1);
    cr_assert(strstr(rig.failure, "row 1"), "%s", rig.failure);
    cr_assert_eq(s_distance(&rig, &fresh), 0);
    rig_close(&rig);
    rig_close(&fresh);
}

Test(policy, a_batch_without_a_token_to_learn_from_is_refused)
{
    rig_t rig;
    const uint8_t mask[7] = { 0 };
    cr_assert_eq(s_learn(&rig, "", s_advantages, mask), -1);
    cr_assert(strstr(rig.failure, "none of the 4 rows has a token to learn from"), "%s", rig.failure);
    rig_close(&rig);
}

// ---------------------------------------------------------------------------------------------------------------
// State

static void
s_repeat(rig_t *rig, int times)
{
    verl_batch_t *made = s_lesson(s_advantages, NULL), *in = rig_see(made);
    for (int i = 0; i < times; i++)
        cr_assert_eq(rig_run(rig, in, i), 0, "%s", rig->failure);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
}

Test(policy, a_restored_policy_goes_on_as_if_nothing_had_been)
{
    rig_t straight, first, second;
    char directory[] = "/tmp/verl-policy-XXXXXX", command[128];
    cr_assert(mkdtemp(directory));
    const char *work = "lr = 1e-2\nwarmup_steps = 3";
    rig_open(&straight, "policy", "update", "update", MODEL, work, NULL);
    s_repeat(&straight, 4);
    rig_open(&first, "policy", "update", "update", MODEL, work, NULL);
    s_repeat(&first, 2);
    cr_assert_eq(first.kind->snapshot(&first.stage, directory), 0, "%s", first.stage.error.text);
    rig_open(&second, "policy", "update", "update", MODEL, work, NULL);
    cr_assert_eq(second.kind->restore(&second.stage, directory), 0, "%s", second.stage.error.text);
    cr_assert_eq(s_distance(&first, &second), 0);
    s_repeat(&second, 2);
    cr_assert_eq(s_distance(&straight, &second), 0);
    cr_assert_gt(s_distance(&straight, &first), 0);
    rig_close(&straight);
    rig_close(&first);
    rig_close(&second);
    snprintf(command, sizeof command, "rm -r %s", directory);
    cr_assert_eq(system(command), 0);
}

Test(policy, a_state_that_is_cut_short_is_told_as_that)
{
    rig_t rig;
    char directory[] = "/tmp/verl-policy-XXXXXX", command[128], path[64];
    cr_assert(mkdtemp(directory));
    rig_open(&rig, "policy", "update", "update", MODEL, "lr = 1e-2", NULL);
    s_repeat(&rig, 1);
    cr_assert_eq(rig.kind->snapshot(&rig.stage, directory), 0, "%s", rig.stage.error.text);
    snprintf(path, sizeof path, "%s/optimizer.bin", directory);
    cr_assert_eq(truncate(path, 1000), 0);
    cr_assert_eq(rig.kind->restore(&rig.stage, directory), -1);
    cr_assert(strstr(rig.stage.error.text, "/optimizer.bin' is cut short: the optimizer's state of "), "%s",
              rig.stage.error.text);
    rig_close(&rig);
    snprintf(command, sizeof command, "rm -r %s", directory);
    cr_assert_eq(system(command), 0);
}

Test(policy, a_policy_that_never_learned_leaves_a_note_only)
{
    rig_t rig;
    char directory[] = "/tmp/verl-policy-XXXXXX", path[64];
    cr_assert(mkdtemp(directory));
    rig_open(&rig, "policy", "logprobs", "reference", MODEL, "", NULL);
    cr_assert_eq(rig.kind->snapshot(&rig.stage, directory), 0, "%s", rig.stage.error.text);
    cr_assert_eq(rig.kind->restore(&rig.stage, directory), 0, "%s", rig.stage.error.text);
    snprintf(path, sizeof path, "%s/unchanged.txt", directory);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(rmdir(directory), 0);
    rig_close(&rig);
}

Test(policy, published_weights_are_used_where_they_lie)
{
    rig_t learner, reader, update;
    rig_open(&learner, "policy", "generate", "generate", MODEL, "max_new_tokens = 4\ntemperature = 0", NULL);
    rig_open(&update, "policy", "update", "update", MODEL, "lr = 1e-2", &learner);
    rig_open(&reader, "policy", "generate", "generate", MODEL, "max_new_tokens = 4\ntemperature = 0", NULL);
    s_repeat(&update, 3);
    verl_batch_t *version = verl_batch_new_made(3, -1, 0, verl_heap_memory());
    cr_assert_eq(learner.kind->give_weights(&update.stage, version), 0, "%s", update.stage.error.text);
    verl_batch_t *given = rig_see(version);
    cr_assert_eq(reader.kind->take_weights(&reader.stage, given), 0, "%s", reader.stage.error.text);
    cr_assert_eq((const void *) verl_lm_params(s_policy(&reader)->lm),
                 verl_batch_column(version, "params")->data);
    verl_batch_t *made = s_prompts(1), *in = rig_see(made);
    cr_assert_eq(rig_run(&learner, in, 0), 0, "%s", learner.failure);
    cr_assert_eq(rig_run(&reader, in, 0), 0, "%s", reader.failure);
    const verl_column_t *ours = verl_batch_column(learner.out, "rollout_logprobs"),
                        *theirs = verl_batch_column(reader.out, "rollout_logprobs");
    for (int64_t row = 0; row < 3; row++) {
        cr_assert_eq(verl_column_length(ours, row), verl_column_length(theirs, row));
        cr_assert_arr_eq(verl_column_f32(ours, row), verl_column_f32(theirs, row),
                         (size_t) verl_column_length(ours, row) * sizeof(float));
    }
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&reader);
    rig_close(&update);
    rig_close(&learner);
    verl_batch_destroy(&given);
    verl_batch_destroy(&version);
}
