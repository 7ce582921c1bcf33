// Policy and value losses: golden values, gradients by finite differences, any split of a mini-batch, clamps, errors.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "actors/data/random.h"
#include "actors/rl/loss.h"

enum { ROWS = 12, MOST = ROWS * 7 };

// A mini-batch with empty rows, left-out tokens (which hold NaN), and ratios on both sides of every clip.
typedef struct batch {
    int64_t offsets[ROWS + 1];
    uint8_t mask[MOST];
    float lp[MOST], old_lp[MOST], ref_lp[MOST], advantages[MOST], weights[MOST], entropy[MOST];
} batch_t;

static char s_error[256];

static void
s_fill(batch_t *b, bool equal_advantages)
{
    verl_random_t random = verl_random_stream(5, "loss", 0, 0);
    b->offsets[0] = 0;
    for (int64_t row = 0; row < ROWS; row++) {
        int64_t length = row % 5 == 3 ? 0 : 1 + (int64_t) verl_random_below(&random, 7);
        float advantage = (float) verl_random_normal(&random);
        b->offsets[row + 1] = b->offsets[row] + length;
        for (int64_t t = b->offsets[row]; t < b->offsets[row + 1]; t++) {
            b->mask[t] = row == 7 ? 0 : verl_random_below(&random, 5) > 0;
            b->old_lp[t] = (float) (-0.3 - 2 * verl_random_uniform(&random));
            b->lp[t] = b->mask[t] ? b->old_lp[t] + (float) (0.6 * verl_random_normal(&random)) : NAN;
            b->ref_lp[t] = b->old_lp[t] + (float) (0.5 * verl_random_normal(&random));
            b->advantages[t] = equal_advantages ? advantage : (float) verl_random_normal(&random);
            b->weights[t] = (float) verl_random_uniform(&random) + 0.5f;
            b->entropy[t] = (float) verl_random_uniform(&random);
        }
    }
}

// Rows begin .. end - 1 of a batch as a part; offsets are written to own[ROWS + 1].
static verl_loss_rows_t
s_part(const batch_t *b, int64_t begin, int64_t end, int64_t *own)
{
    int64_t first = b->offsets[begin];
    for (int64_t row = begin; row <= end; row++)
        own[row - begin] = b->offsets[row] - first;
    return (verl_loss_rows_t){
        .rows = { end - begin, own, b->mask + first },
        .lp = b->lp + first,
        .old_lp = b->old_lp + first,
        .ref_lp = b->ref_lp + first,
        .advantages = b->advantages + first,
        .entropy = b->entropy + first,
    };
}

static double
s_eval(const verl_loss_config_t *config, const verl_loss_rows_t *part, const verl_loss_totals_t *totals, float *d_lp,
       float *d_entropy, verl_metrics_t *metrics)
{
    double loss = 0;
    cr_assert_eq(verl_loss_eval(config, part, totals, d_lp, d_entropy, &loss, metrics, s_error, sizeof s_error), 0,
                 "%s: %s", verl_policy_loss_name(config->loss), s_error);
    return loss;
}

static verl_loss_config_t
s_config(const char *name)
{
    verl_loss_config_t config = verl_loss_defaults();
    config.loss = verl_policy_loss_find(name);
    config.dro_beta = 0.3;
    config.scale = 7;
    cr_assert(config.loss, "no loss %s", name);
    return config;
}

// The loss of one row of tokens with advantage a and log-ratios gaps, old log-probability -1, as token losses.
static void
s_check_tokens(const char *name, double a, const double *gaps, const double *expected, int count)
{
    for (int i = 0; i < count; i++) {
        const int64_t offsets[] = { 0, 1 };
        float lp = (float) (-1 + gaps[i]), old_lp = -1, advantage = (float) a, d_lp;
        verl_loss_rows_t part = {
            .rows = { 1, offsets, NULL }, .lp = &lp, .old_lp = &old_lp, .advantages = &advantage
        };
        verl_loss_config_t config = s_config(name);
        double loss = s_eval(&config, &part, &(verl_loss_totals_t){ 1, 1 }, &d_lp, NULL, NULL);
        cr_assert_float_eq(loss, expected[i], 1e-6, "%s of %g is %.9g, not %.9g", name, gaps[i], loss, expected[i]);
    }
}

Test(loss, golden_vanilla)
{
    const double gaps[] = { -.5, 0, .5, 1.5 };
    s_check_tokens("vanilla", 1, gaps, (double[]){ -.60653066, -1, -1.2, -1.2 }, 4);
    s_check_tokens("vanilla", -1, gaps, (double[]){ .8, 1, 1.648721271, 3 }, 4);
}

Test(loss, golden_aggregation)
{
    const int64_t offsets[] = { 0, 3, 6, 9 };
    const uint8_t mask[] = { 1, 1, 0, 1, 0, 0, 0, 0, 0 };
    const struct {
        const char *agg;
        double expected;
    } golden[] = {
        { "token-mean", 2.333333333 },          { "token-sum", 7 },
        { "seq-mean-token-sum", 3.5 },          { "seq-mean-token-mean", 2.749999976 },
        { "seq-mean-token-sum-norm", 3.5 / 4 },
    };
    for (size_t i = 0; i < 5; i++) {
        float lp[9], d_lp[9];
        for (int t = 0; t < 9; t++)
            lp[t] = (float) -(t + 1); // sft: the loss of a token is -lp
        verl_loss_rows_t part = { .rows = { 3, offsets, mask }, .lp = lp };
        verl_loss_config_t config = s_config("sft");
        verl_loss_totals_t totals = { 0, 0 };
        config.agg = (verl_agg_t) verl_agg_find(golden[i].agg);
        config.scale = 4;
        verl_loss_count(&part.rows, &totals);
        cr_assert(totals.tokens == 3 && totals.rows == 2);
        double loss = s_eval(&config, &part, &totals, d_lp, NULL, NULL);
        cr_assert_float_eq(loss, golden[i].expected, 1e-9, "%s is %.10g", golden[i].agg, loss);
        cr_assert(d_lp[2] == 0 && d_lp[4] == 0 && d_lp[8] == 0);
    }
}

Test(loss, any_split_of_a_mini_batch_adds_up_to_the_same)
{
    batch_t b;
    s_fill(&b, false);
    for (size_t l = 0; verl_policy_loss_at(l); l++)
        for (int agg = 0; agg < VERL_AGG_KINDS; agg++) {
            verl_loss_config_t config = s_config(verl_policy_loss_name(verl_policy_loss_at(l)));
            int64_t own[ROWS + 1];
            float whole[MOST] = { 0 }, whole_entropy[MOST] = { 0 }, pieces[MOST] = { 0 }, pieces_entropy[MOST] = { 0 };
            verl_metrics_t metrics = { 0 }, sum = { 0 };
            verl_loss_totals_t totals = { 0, 0 };
            config.agg = (verl_agg_t) agg;
            config.kl_coef = 0.2;
            config.entropy_coef = 0.01;
            verl_loss_rows_t all = s_part(&b, 0, ROWS, own);
            verl_loss_count(&all.rows, &totals);
            double expected = s_eval(&config, &all, &totals, whole, whole_entropy, &metrics), found = 0;
            const int64_t cuts[] = { 0, 1, 4, 4, 9, ROWS };
            for (int c = 0; c < 5; c++) {
                int64_t at = b.offsets[cuts[c]];
                verl_loss_rows_t part = s_part(&b, cuts[c], cuts[c + 1], own);
                found += s_eval(&config, &part, &totals, pieces + at, pieces_entropy + at, &sum);
            }
            cr_assert_float_eq(found, expected, 1e-12 * (1 + fabs(expected)), "%s", verl_policy_loss_name(config.loss));
            cr_assert(memcmp(whole, pieces, sizeof whole) == 0, "gradients differ");
            cr_assert(memcmp(whole_entropy, pieces_entropy, sizeof whole) == 0, "gradients of entropy differ");
            cr_assert_eq(sum.count, metrics.count);
            for (size_t m = 0; m < sum.count; m++)
                cr_assert_float_eq(verl_metric_value(&sum.items[m]), verl_metric_value(&metrics.items[m]), 1e-9, "%s",
                                   sum.items[m].name);
        }
}

// What the gradient of a loss is the derivative of: with some ratios held constant, for the losses that say so.
static bool
s_is_plain(const char *name)
{
    return strcmp(name, "cispo") && strcmp(name, "dppo_tv") && strcmp(name, "dppo_kl");
}

// Checks the gradient of one token against the loss a step up and a step down; at a kink of the loss the two differ,
// and the gradient has to lie between them.
static void
s_check_slope(const verl_loss_config_t *config, batch_t *b, const verl_loss_rows_t *part,
              const verl_loss_totals_t *totals, int64_t t, double found)
{
    float ignored[MOST], kept = b->lp[t], up = kept + 1.0f / 1024, down = kept - 1.0f / 1024;
    double here = s_eval(config, part, totals, ignored, NULL, NULL);
    b->lp[t] = up;
    double above = (s_eval(config, part, totals, ignored, NULL, NULL) - here) / ((double) up - (double) kept);
    b->lp[t] = down;
    double below = (here - s_eval(config, part, totals, ignored, NULL, NULL)) / ((double) kept - (double) down);
    b->lp[t] = kept;
    double middle = (above + below) / 2, slack = 2e-5 * (1 + fabs(middle));
    bool smooth = fabs(above - below) < 4e-3 * (1 + fabs(middle));
    bool good = smooth ? fabs(found - middle) <= slack
                       : found >= fmin(above, below) - 1e-3 && found <= fmax(above, below) + 1e-3;
    cr_assert(good, "%s, %s, token %ld: %g, not %g..%g", verl_policy_loss_name(config->loss),
              verl_agg_name((int) config->agg), (long) t, found, below, above);
}

Test(loss, gradients_are_finite_differences_of_the_loss)
{
    batch_t b;
    int64_t own[ROWS + 1];
    float d_lp[MOST];
    int checked = 0, flat = 0;
    s_fill(&b, true); // gspo: a row has one advantage
    for (size_t l = 0; verl_policy_loss_at(l); l++)
        for (int agg = 0; agg < VERL_AGG_KINDS; agg++) {
            const char *name = verl_policy_loss_name(verl_policy_loss_at(l));
            if (!s_is_plain(name))
                continue;
            verl_loss_config_t config = s_config(name);
            verl_loss_totals_t totals = { 0, 0 };
            config.agg = (verl_agg_t) agg;
            config.kl_coef = agg % 2 ? 0.2 : 0;
            verl_loss_rows_t part = s_part(&b, 0, ROWS, own);
            verl_loss_count(&part.rows, &totals);
            s_eval(&config, &part, &totals, d_lp, NULL, NULL);
            for (int64_t t = 0; t < b.offsets[ROWS]; t++) {
                if (b.mask[t])
                    s_check_slope(&config, &b, &part, &totals, t, (double) d_lp[t]);
                else
                    cr_assert_eq(d_lp[t], 0);
                checked += b.mask[t];
                flat += b.mask[t] && agg == 0 && strcmp(name, "vanilla") == 0 && d_lp[t] == 0;
            }
        }
    cr_assert_gt(checked, 1000);
    cr_assert_gt(flat, 3, "the batch has only %d clipped tokens: it tests no clip", flat);
}

// cispo and dppo: -constant * A * lp; the constant is known, so the gradient is.
Test(loss, constant_weights_carry_the_gradient)
{
    const int64_t offsets[] = { 0, 1 };
    const struct {
        const char *name;
        float gap, advantage;
        double slope;
    } cases[] = {
        { "cispo", 0.5f, 2, -1.2 * 2 },
        { "cispo", -0.5f, -2, 0.8 * 2 },
        { "cispo", 0.1f, 1, -1.105170918 },
        { "dppo_tv", 0.1f, 1, -1.105170918 },
        { "dppo_tv", 0.9f, 1, 0 },
        { "dppo_tv", -2, 1, -0.135335283 },
        { "dppo_tv", -2, -1, 0 },
        { "dppo_tv", 0.9f, -1, 2.459603111 },
        { "dppo_kl", 0.1f, 1, -1.105170918 },
        { "dppo_kl", 0.99f, 1, 0 },
        { "dppo_kl", -3, 1, -0.049787068 },
        { "dppo_kl", -3, -1, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float lp = -1 + cases[i].gap, old_lp = -1, d_lp;
        verl_loss_rows_t part = {
            .rows = { 1, offsets, NULL }, .lp = &lp, .old_lp = &old_lp, .advantages = &cases[i].advantage
        };
        verl_loss_config_t config = s_config(cases[i].name);
        double loss = s_eval(&config, &part, &(verl_loss_totals_t){ 1, 1 }, &d_lp, NULL, NULL);
        cr_assert_float_eq((double) d_lp, cases[i].slope, 1e-6, "%zu: %s is %.9g", i, cases[i].name, (double) d_lp);
        cr_assert_float_eq(loss, (double) d_lp * (double) lp, 1e-6);
    }
}

Test(loss, gspo_has_one_ratio_a_row)
{
    const int64_t offsets[] = { 0, 2, 4 };
    const float lp[] = { -1.2f, -0.6f, -1, -1 }, old_lp[] = { -1, -1, -1.5f, -1.5f }, advantages[] = { 1, 1, 1, 1 };
    float d_lp[4];
    verl_metrics_t metrics = { 0 };
    verl_loss_rows_t part = { .rows = { 2, offsets, NULL }, .lp = lp, .old_lp = old_lp, .advantages = advantages };
    verl_loss_config_t config = s_config("gspo");
    config.agg = VERL_AGG_TOKEN_SUM; // which gspo ignores
    double loss = s_eval(&config, &part, &(verl_loss_totals_t){ 4, 2 }, d_lp, NULL, &metrics);
    double ratio = exp(0.1); // row 0: mean of -.2 and .4; row 1: exp(.5), clipped
    cr_assert_float_eq(loss, (-ratio - 1.2) / 2, 1e-6);
    cr_assert_float_eq((double) d_lp[0], -ratio / 4, 1e-6);
    cr_assert_float_eq((double) d_lp[1], -ratio / 4, 1e-6);
    cr_assert(d_lp[2] == 0 && d_lp[3] == 0);
    cr_assert_float_eq(verl_metric_value(verl_metrics_find(&metrics, "actor/pg_clipfrac")), 0.5, 1e-12);
}

Test(loss, geo_mean_weighs_rows_by_their_mean_ratio)
{
    const int64_t offsets[] = { 0, 2 };
    const float lp[] = { -0.9f, -0.2f }, old_lp[] = { -1, -1 }, advantages[] = { 2, 2 };
    float d_lp[2];
    verl_loss_rows_t part = { .rows = { 1, offsets, NULL }, .lp = lp, .old_lp = old_lp, .advantages = advantages };
    verl_loss_config_t config = s_config("geo_mean");
    double loss = s_eval(&config, &part, &(verl_loss_totals_t){ 2, 1 }, d_lp, NULL, NULL);
    double expected = -2 * exp((0.1 + 0.2) / 2); // .8 is clipped to .2
    cr_assert_float_eq(loss, expected, 1e-5);
    cr_assert_float_eq((double) d_lp[0], expected / 2, 1e-5);
    cr_assert_eq(d_lp[1], 0);
}

Test(loss, metrics_have_their_meaning)
{
    // gaps: .5 with A 1 (clipped above), .1 with A 1, -.5 with A -1 (clipped below), 1.5 with A -1 (dual clip).
    const int64_t offsets[] = { 0, 4, 5 };
    const uint8_t mask[] = { 1, 1, 1, 1, 0 };
    const float lp[] = { -0.5f, -0.9f, -1.5f, 0.5f, NAN }, old_lp[] = { -1, -1, -1, -1, NAN };
    const float advantages[] = { 1, 1, -1, -1, NAN }, entropy[] = { 1, 2, 3, 4, NAN },
                ref_lp[] = { -1, -1, -1, -1, NAN };
    float d_lp[5], d_entropy[5];
    verl_metrics_t metrics = { 0 };
    verl_loss_rows_t part = { .rows = { 2, offsets, mask },
                              .lp = lp,
                              .old_lp = old_lp,
                              .advantages = advantages,
                              .entropy = entropy,
                              .ref_lp = ref_lp };
    verl_loss_config_t config = s_config("vanilla");
    config.kl = VERL_KL_K1;
    config.kl_coef = 0.5;
    config.entropy_coef = 0.1;
    double loss = s_eval(&config, &part, &(verl_loss_totals_t){ 4, 1 }, d_lp, d_entropy, &metrics);
    double pg = (-1.2 - exp(0.1) + 0.8 + 3) / 4, kl = 1.6 / 4;
    const struct {
        const char *name;
        double value;
    } expected[] = {
        { "actor/pg_loss", pg }, { "actor/pg_clipfrac", 0.5 }, { "actor/pg_clipfrac_lower", 0.25 },
        { "actor/ppo_kl", -kl }, { "actor/entropy", 2.5 },     { "actor/entropy_loss", 2.5 },
        { "actor/kl_loss", kl }, { "actor/kl_coef", 0.5 },
    };
    cr_assert_eq(metrics.count, 8);
    for (size_t i = 0; i < 8; i++) {
        const verl_metric_t *metric = verl_metrics_find(&metrics, expected[i].name);
        cr_assert(metric, "no %s", expected[i].name);
        cr_assert_float_eq(verl_metric_value(metric), expected[i].value, 1e-6, "%s is %g", expected[i].name,
                           verl_metric_value(metric));
    }
    cr_assert_float_eq(loss, pg + 0.5 * kl - 0.1 * 2.5, 1e-6);
    for (int t = 0; t < 4; t++)
        cr_assert_float_eq((double) d_entropy[t], -0.1 / 4, 1e-9);
    cr_assert(d_entropy[4] == 0 && d_lp[4] == 0);
    cr_assert_float_eq((double) d_lp[0], 0.5 / 4, 1e-7); // clipped: the KL term alone
    cr_assert_float_eq((double) d_lp[3], 0.5 / 4, 1e-7);
}

Test(loss, importance_weights_multiply)
{
    batch_t b;
    int64_t own[ROWS + 1];
    float plain[MOST], weighed[MOST];
    s_fill(&b, false);
    verl_loss_config_t config = s_config("vanilla");
    verl_loss_totals_t totals = { 0, 0 };
    verl_loss_rows_t part = s_part(&b, 0, ROWS, own);
    verl_loss_count(&part.rows, &totals);
    s_eval(&config, &part, &totals, plain, NULL, NULL);
    part.is_weights = b.weights;
    s_eval(&config, &part, &totals, weighed, NULL, NULL);
    for (int64_t t = 0; t < b.offsets[ROWS]; t++)
        cr_assert_float_eq((double) weighed[t], (double) plain[t] * (double) b.weights[t], 1e-7);
}

Test(loss, far_ratios_overflow_nothing)
{
    const int64_t offsets[] = { 0, 2 };
    const float lp[] = { 0, -1000 }, old_lp[] = { -1000, 0 }, advantages[] = { -1, 1 };
    for (size_t l = 0; verl_policy_loss_at(l); l++) {
        float d_lp[2];
        verl_loss_config_t config = s_config(verl_policy_loss_name(verl_policy_loss_at(l)));
        verl_loss_rows_t part = {
            .rows = { 1, offsets, NULL }, .lp = lp, .old_lp = old_lp, .advantages = advantages, .ref_lp = old_lp
        };
        config.kl_coef = 1;
        double loss = s_eval(&config, &part, &(verl_loss_totals_t){ 2, 1 }, d_lp, NULL, NULL);
        cr_assert(isfinite(loss) && isfinite(d_lp[0]) && isfinite(d_lp[1]), "%s", verl_policy_loss_name(config.loss));
    }
}

Test(loss, masked_and_empty_batches_are_no_error)
{
    const int64_t offsets[] = { 0, 0, 2 }, none[] = { 0 };
    const uint8_t mask[] = { 0, 0 };
    const float nan[] = { NAN, NAN };
    for (size_t l = 0; verl_policy_loss_at(l); l++) {
        float d_lp[2] = { 7, 7 };
        verl_metrics_t metrics = { 0 };
        verl_loss_config_t config = s_config(verl_policy_loss_name(verl_policy_loss_at(l)));
        verl_loss_rows_t part = { .rows = { 2, offsets, mask }, .lp = nan, .old_lp = nan, .advantages = nan };
        cr_assert_eq(s_eval(&config, &part, &(verl_loss_totals_t){ 0, 0 }, d_lp, NULL, &metrics), 0);
        cr_assert(d_lp[0] == 0 && d_lp[1] == 0 && metrics.count == 0);
        part = (verl_loss_rows_t){ .rows = { 0, none, NULL } };
        cr_assert_eq(s_eval(&config, &part, &(verl_loss_totals_t){ 0, 0 }, d_lp, NULL, &metrics), 0);
    }
}

static void
s_check_refused(const verl_loss_config_t *config, const verl_loss_rows_t *part, verl_loss_totals_t totals,
                const char *word)
{
    float d_lp[8];
    s_error[0] = 0;
    cr_assert_eq(verl_loss_eval(config, part, &totals, d_lp, NULL, NULL, NULL, s_error, sizeof s_error), -1);
    cr_assert(strstr(s_error, word), "\"%s\" does not say \"%s\"", s_error, word);
}

Test(loss, wrong_inputs_are_refused_with_row_and_token)
{
    const int64_t offsets[] = { 0, 2, 4 };
    const float good[] = { -1, -1, -1, -1 }, bad[] = { -1, -1, -1, NAN }, infinite[] = { -1, -INFINITY, -1, -1 };
    verl_loss_config_t config = s_config("vanilla");
    verl_loss_rows_t fine = { .rows = { 2, offsets, NULL }, .lp = good, .old_lp = good, .advantages = good };
    verl_loss_totals_t totals = { 4, 2 };
    verl_loss_rows_t part = fine;
    part.lp = bad;
    s_check_refused(&config, &part, totals, "the log-probability of row 1, token 1 is nan");
    part.lp = infinite;
    s_check_refused(&config, &part, totals, "the log-probability of row 0, token 1 is -inf");
    part = fine, part.old_lp = bad;
    s_check_refused(&config, &part, totals, "the old log-probability of row 1");
    part = fine, part.advantages = bad;
    s_check_refused(&config, &part, totals, "the advantage of row 1");
    part = fine, part.old_lp = NULL;
    s_check_refused(&config, &part, totals, "vanilla needs old_logprobs");
    part = fine, part.advantages = NULL;
    s_check_refused(&config, &part, totals, "vanilla needs advantages");
    s_check_refused(&config, &fine, (verl_loss_totals_t){ 3, 2 }, "count all parts");
    s_check_refused(&config, &fine, (verl_loss_totals_t){ 4, 1 }, "count all parts");
    config.kl_coef = 0.1;
    s_check_refused(&config, &fine, totals, "ref_logprobs");
    config = s_config("vanilla"), config.entropy_coef = 0.1;
    s_check_refused(&config, &fine, totals, "entropy");
    config = s_config("vanilla"), config.clip_c = 1;
    s_check_refused(&config, &fine, totals, "clip_c is 1");
    config = s_config("vanilla"), config.clip_low = NAN;
    s_check_refused(&config, &fine, totals, "clip is nan");
    config = s_config("dro"), config.dro_beta = 0;
    s_check_refused(&config, &fine, totals, "dro_beta is 0");
    config = s_config("sft"), part = fine, part.is_weights = good;
    s_check_refused(&config, &part, totals, "sft takes no is_weights");
}

Test(loss, golden_value_loss)
{
    const int64_t offsets[] = { 0, 2 };
    const float values[] = { 1, 2 }, returns[] = { 0.5f, 1 }, old[] = { 0.8f, 0.9f };
    float d_values[2];
    double loss = 0;
    verl_metrics_t metrics = { 0 };
    verl_ragged_t rows = { 1, offsets, NULL };
    verl_value_config_t config = { .agg = VERL_AGG_TOKEN_MEAN, .scale = 1, .clip = 0.5 };
    cr_assert_eq(verl_value_loss_eval(&config, &rows, values, old, returns, &(verl_loss_totals_t){ 2, 1 }, d_values,
                                      &loss, &metrics, s_error, sizeof s_error),
                 0, "%s", s_error);
    cr_assert_float_eq(loss, .3125, 1e-7);
    cr_assert_float_eq((double) d_values[0], 0.25, 1e-7);
    cr_assert_float_eq((double) d_values[1], 0.5, 1e-7);
    cr_assert_float_eq(verl_metric_value(verl_metrics_find(&metrics, "critic/vf_loss")), .3125, 1e-7);
    cr_assert_float_eq(verl_metric_value(verl_metrics_find(&metrics, "critic/vpred_mean")), 1.5, 1e-7);
}

Test(loss, value_loss_is_the_same_in_any_split_and_its_gradient_a_difference)
{
    batch_t b;
    int64_t own[ROWS + 1];
    s_fill(&b, false);
    for (int64_t t = 0; t < b.offsets[ROWS]; t++) // lp as values, ref_lp as returns
        b.lp[t] = b.mask[t] ? b.lp[t] * 2 : NAN;
    for (int agg = 0; agg < VERL_AGG_KINDS; agg++) {
        verl_value_config_t config = { .agg = (verl_agg_t) agg, .scale = 3, .clip = 0.5 };
        float whole[MOST] = { 0 }, pieces[MOST] = { 0 }, ignored[MOST];
        double loss = 0, sum = 0;
        verl_loss_totals_t totals = { 0, 0 };
        verl_ragged_t all = s_part(&b, 0, ROWS, own).rows;
        verl_loss_count(&all, &totals);
        cr_assert_eq(verl_value_loss_eval(&config, &all, b.lp, b.old_lp, b.ref_lp, &totals, whole, &loss, NULL, s_error,
                                          sizeof s_error),
                     0, "%s", s_error);
        for (int64_t row = 0; row < ROWS; row += 3) {
            int64_t at = b.offsets[row], part_offsets[ROWS + 1];
            verl_ragged_t part = s_part(&b, row, row + 3, part_offsets).rows;
            cr_assert_eq(verl_value_loss_eval(&config, &part, b.lp + at, b.old_lp + at, b.ref_lp + at, &totals,
                                              pieces + at, &sum, NULL, s_error, sizeof s_error),
                         0, "%s", s_error);
        }
        cr_assert_float_eq(sum, loss, 1e-12 * (1 + fabs(loss)));
        cr_assert(memcmp(whole, pieces, sizeof whole) == 0);
        for (int64_t t = 0; t < b.offsets[ROWS]; t++) {
            float kept = b.lp[t], up = kept + 1.0f / 4096, down = kept - 1.0f / 4096;
            double high = 0, low = 0;
            if (!b.mask[t])
                continue;
            b.lp[t] = up;
            verl_value_loss_eval(&config, &all, b.lp, b.old_lp, b.ref_lp, &totals, ignored, &high, NULL, s_error,
                                 sizeof s_error);
            b.lp[t] = down;
            verl_value_loss_eval(&config, &all, b.lp, b.old_lp, b.ref_lp, &totals, ignored, &low, NULL, s_error,
                                 sizeof s_error);
            b.lp[t] = kept;
            cr_assert_float_eq((double) whole[t], (high - low) / ((double) up - (double) down), 1e-4);
        }
    }
}

Test(loss, the_tables_describe_themselves)
{
    for (size_t i = 0; verl_policy_loss_at(i); i++) {
        cr_assert_eq(verl_policy_loss_find(verl_policy_loss_name(verl_policy_loss_at(i))), verl_policy_loss_at(i));
        cr_assert_gt(strlen(verl_policy_loss_about(verl_policy_loss_at(i))), 20);
    }
    cr_assert_null(verl_policy_loss_find("ppo"));
    for (int kind = 0; verl_agg_name(kind); kind++)
        cr_assert_eq(verl_agg_find(verl_agg_name(kind)), kind);
    cr_assert_eq(verl_agg_find("mean"), -1);
    cr_assert_eq(verl_policy_loss_needs(verl_policy_loss_find("sft")), 0);
    cr_assert_eq(verl_policy_loss_agg(verl_policy_loss_find("gspo")), VERL_AGG_SEQ_MEAN_TOKEN_MEAN);
}
