// policy_losses.c: the table of policy losses and their formulas, one row at a time; see policy_losses.h.
#include <math.h>
#include <string.h>

#include "actors/rl/policy_losses.h"

#define RATIO_BOUND    20.0 // of a token's log-ratio
#define SEQUENCE_BOUND 10.0 // of a sequence's log-ratio, from above

static double
s_clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static bool
s_counts(const loss_row_t *row, int64_t t)
{
    return !row->mask || row->mask[t];
}

static double
s_gap(const loss_row_t *row, int64_t t)
{
    return (double) row->lp[t] - (double) row->old_lp[t];
}

// exp of the clamped log-ratio; *slope gets its derivative by lp.
static double
s_ratio(const loss_row_t *row, int64_t t, double *slope)
{
    double gap = s_gap(row, t), ratio = exp(s_clamp(gap, -RATIO_BOUND, RATIO_BOUND));
    *slope = fabs(gap) > RATIO_BOUND ? 0 : ratio;
    return ratio;
}

// Clipped surrogate of a ratio r with dr/dlp = dr: max(-A r, -A clip(r)); true where the clip holds.
static bool
s_surrogate(const verl_loss_config_t *config, double a, double r, double dr, double *loss, double *slope)
{
    double bounded = s_clamp(r, 1 - config->clip_low, 1 + config->clip_high);
    bool held = -a * bounded > -a * r;
    *loss = held ? -a * bounded : -a * r;
    *slope = held ? 0 : -a * dr;
    return held;
}

// Schulman et al., "Proximal policy optimization algorithms", 2017; the bounds apart: Yu et al., "DAPO", 2025; dual
// clip: Ye et al., "Mastering complex control in MOBA games with deep reinforcement learning", 2020.
static void
s_vanilla(const verl_loss_config_t *config, const loss_row_t *row, double *loss, double *slope, loss_notes_t *notes)
{
    for (int64_t t = 0; t < row->count; t++) {
        if (!s_counts(row, t))
            continue;
        double dr, r = s_ratio(row, t, &dr), a = (double) row->advantages[t];
        notes->clipped += s_surrogate(config, a, r, dr, &loss[t], &slope[t]);
        double most = -a * config->clip_c;
        if (a < 0 && loss[t] > most) {
            loss[t] = most;
            slope[t] = 0;
            notes->clipped_low++;
        }
    }
}

// Zheng et al., "Group sequence policy optimization", 2025: one ratio a row, the geometric mean of its tokens' ratios;
// each token carries the whole ratio's gradient, so that seq-mean-token-mean gives the sequence's.
static void
s_gspo(const verl_loss_config_t *config, const loss_row_t *row, double *loss, double *slope, loss_notes_t *notes)
{
    double sum = 0, length = 0;
    for (int64_t t = 0; t < row->count; t++)
        if (s_counts(row, t))
            sum += s_gap(row, t), length++;
    double gap = length > 0 ? sum / length : 0;
    double ratio = exp(gap > SEQUENCE_BOUND ? SEQUENCE_BOUND : gap), d_ratio = gap > SEQUENCE_BOUND ? 0 : ratio;
    for (int64_t t = 0; t < row->count; t++)
        if (s_counts(row, t))
            notes->clipped += s_surrogate(config, (double) row->advantages[t], ratio, d_ratio, &loss[t], &slope[t]);
}

// MiniMax, "MiniMax-M1", 2025: the clipped ratio is a constant weight, so that no token loses its gradient.
static void
s_cispo(const verl_loss_config_t *config, const loss_row_t *row, double *loss, double *slope, loss_notes_t *notes)
{
    for (int64_t t = 0; t < row->count; t++) {
        if (!s_counts(row, t))
            continue;
        double dr, r = s_ratio(row, t, &dr), weight = s_clamp(r, 1 - config->clip_low, 1 + config->clip_high);
        slope[t] = -weight * (double) row->advantages[t];
        loss[t] = slope[t] * (double) row->lp[t];
        notes->clipped += weight != r;
    }
}

static void
s_sft(const verl_loss_config_t *config, const loss_row_t *row, double *loss, double *slope, loss_notes_t *notes)
{
    (void) config, (void) notes;
    for (int64_t t = 0; t < row->count; t++)
        if (s_counts(row, t))
            loss[t] = -(double) row->lp[t], slope[t] = -1;
}

static void
s_gpg(const verl_loss_config_t *config, const loss_row_t *row, double *loss, double *slope, loss_notes_t *notes)
{
    (void) config, (void) notes;
    for (int64_t t = 0; t < row->count; t++)
        if (s_counts(row, t)) {
            slope[t] = -(double) row->advantages[t];
            loss[t] = slope[t] * (double) row->lp[t];
        }
}

// Richemond et al., "Offline regularised reinforcement learning for LLMs alignment", 2024.
static void
s_dro(const verl_loss_config_t *config, const loss_row_t *row, double *loss, double *slope, loss_notes_t *notes)
{
    (void) notes;
    for (int64_t t = 0; t < row->count; t++) {
        if (!s_counts(row, t))
            continue;
        double gap = s_gap(row, t), a = (double) row->advantages[t];
        loss[t] = -((double) row->lp[t] * a - 0.5 * config->dro_beta * gap * gap);
        slope[t] = -a + config->dro_beta * gap;
    }
}

// A token whose policy moved too far in the direction of its advantage loses its gradient; the others are weighed by
// their ratio, up to ratio_cap, as a constant.
static void
s_trust(const verl_loss_config_t *config, const loss_row_t *row, int64_t t, bool valid, double *loss, double *slope,
        loss_notes_t *notes)
{
    double dr, r = s_ratio(row, t, &dr), weight = r < config->ratio_cap ? r : config->ratio_cap;
    slope[t] = valid ? -(double) row->advantages[t] * weight : 0;
    loss[t] = slope[t] * (double) row->lp[t];
    notes->clipped += !valid;
}

// Trust region on the total variation of each token's probability.
static void
s_dppo_tv(const verl_loss_config_t *config, const loss_row_t *row, double *loss, double *slope, loss_notes_t *notes)
{
    for (int64_t t = 0; t < row->count; t++) {
        if (!s_counts(row, t))
            continue;
        double moved = exp((double) row->lp[t]) - exp((double) row->old_lp[t]);
        bool valid = row->advantages[t] > 0 ? moved <= config->clip_high : moved >= -config->clip_low;
        s_trust(config, row, t, valid, loss, slope, notes);
    }
}

// Trust region on the KL divergence of "this token or another".
static void
s_dppo_kl(const verl_loss_config_t *config, const loss_row_t *row, double *loss, double *slope, loss_notes_t *notes)
{
    for (int64_t t = 0; t < row->count; t++) {
        if (!s_counts(row, t))
            continue;
        double p = exp((double) row->lp[t]), q = exp((double) row->old_lp[t]);
        double kl = -q * s_gap(row, t) + (1 - q) * log((1 - q + 1e-8) / (1 - p + 1e-8));
        bool valid = row->advantages[t] > 0 ? kl <= config->clip_high || p <= q : kl <= config->clip_low || p >= q;
        s_trust(config, row, t, valid, loss, slope, notes);
    }
}

// Soft adaptive policy optimization, 2025: a sigmoid gate in place of a clip.
static void
s_sapo(const verl_loss_config_t *config, const loss_row_t *row, double *loss, double *slope, loss_notes_t *notes)
{
    (void) notes;
    for (int64_t t = 0; t < row->count; t++) {
        if (!s_counts(row, t))
            continue;
        double dr, r = s_ratio(row, t, &dr), a = (double) row->advantages[t];
        double tau = a > 0 ? config->tau_positive : config->tau_negative;
        double gate = 1 / (1 + exp(-tau * (r - 1)));
        loss[t] = -a * 4 / tau * gate;
        slope[t] = -a * 4 * gate * (1 - gate) * dr;
    }
}

// Zhao et al., "Geometric-mean policy optimization", 2025: log-ratios are clipped one by one on the side where the
// advantage pushes, and a row is weighed by exp of their mean, with its mean advantage.
static void
s_geo_mean(const verl_loss_config_t *config, const loss_row_t *row, double *loss, double *slope, loss_notes_t *notes)
{
    double sum = 0, length = 0, advantage = 0;
    for (int64_t t = 0; t < row->count; t++) {
        if (!s_counts(row, t))
            continue;
        double gap = s_gap(row, t), a = (double) row->advantages[t], sign = (a > 0) - (a < 0);
        double bounded = s_clamp(gap, -config->clip_low, config->clip_high);
        bool held = sign * gap > sign * bounded;
        slope[t] = held || sign == 0 ? 0 : 1;
        sum += sign == 0 ? 0 : held ? bounded : gap;
        notes->clipped += held;
        advantage += a;
        length++;
    }
    double mean = sum / (length + 1e-8), bound = s_clamp(mean, -RATIO_BOUND, RATIO_BOUND), ratio = exp(bound);
    for (int64_t t = 0; t < row->count; t++)
        if (s_counts(row, t)) {
            loss[t] = -advantage / (length + 1e-8) * ratio;
            slope[t] *= bound != mean ? 0 : loss[t];
        }
}

#define BOTH (VERL_NEEDS_OLD_LP | VERL_NEEDS_ADVANTAGES)

static const verl_policy_loss_t s_losses[] = {
    { "vanilla", "PPO's clipped ratio, with a dual clip where the advantage is negative", BOTH, -1, true, true,
      s_vanilla },
    { "gspo", "one clipped ratio a sequence (always seq-mean-token-mean)", BOTH, VERL_AGG_SEQ_MEAN_TOKEN_MEAN, true,
      true, s_gspo },
    { "cispo", "log-probability weighed by the clipped ratio: no token loses its gradient", BOTH, -1, true, true,
      s_cispo },
    { "sft", "negative log-likelihood: learns the responses as they are", 0, -1, false, false, s_sft },
    { "gpg", "plain policy gradient: no ratio, no clip", VERL_NEEDS_ADVANTAGES, -1, true, false, s_gpg },
    { "dro", "policy gradient with a quadratic pull towards the old policy", BOTH, -1, true, false, s_dro },
    { "dppo_tv", "trust region on how far each token's probability moved", BOTH, -1, true, true, s_dppo_tv },
    { "dppo_kl", "trust region on each token's binary KL divergence", BOTH, -1, true, true, s_dppo_kl },
    { "sapo", "a sigmoid gate of the ratio (always seq-mean-token-mean)", BOTH, VERL_AGG_SEQ_MEAN_TOKEN_MEAN, true,
      false, s_sapo },
    { "geo_mean", "geometric mean of clipped token ratios (always seq-mean-token-mean)", BOTH,
      VERL_AGG_SEQ_MEAN_TOKEN_MEAN, false, true, s_geo_mean },
};

const verl_policy_loss_t *
verl_policy_loss_at(size_t i)
{
    return i < sizeof s_losses / sizeof s_losses[0] ? &s_losses[i] : NULL;
}

const verl_policy_loss_t *
verl_policy_loss_find(const char *name)
{
    for (size_t i = 0; verl_policy_loss_at(i); i++)
        if (strcmp(s_losses[i].name, name) == 0)
            return &s_losses[i];
    return NULL;
}

const char *
verl_policy_loss_name(const verl_policy_loss_t *loss)
{
    return loss->name;
}

const char *
verl_policy_loss_about(const verl_policy_loss_t *loss)
{
    return loss->about;
}

unsigned
verl_policy_loss_needs(const verl_policy_loss_t *loss)
{
    return loss->needs;
}

int
verl_policy_loss_agg(const verl_policy_loss_t *loss)
{
    return loss->agg;
}
