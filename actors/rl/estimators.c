// estimators.c: the formulas of the advantage estimators, each of one group or of one row; see estimators.h.
#include <math.h>

#include "actors/rl/estimators.h"

// Shao et al., "DeepSeekMath", 2024; without the deviation: Liu et al., "Understanding R1-Zero-like training", 2025.
// A sample that is alone keeps its score (mean 0, deviation 1).
void
verl_group_grpo(const group_t *group, const verl_advantage_options_t *options, double *advantage)
{
    double mean = group->count > 1 ? group->mean : 0;
    double scale = options->norm_by_std ? (group->count > 1 ? group->deviation : 1) + options->epsilon : 1;
    for (int64_t i = 0; i < group->count; i++)
        advantage[i] = scale > 0 ? (group->score[i] - mean) / scale : 0;
}

// Ahmadian et al., "Back to basics", 2024: the score minus the mean of the others. A sample that is alone keeps its
// score.
void
verl_group_rloo(const group_t *group, const verl_advantage_options_t *options, double *advantage)
{
    (void) options;
    double n = (double) group->count;
    for (int64_t i = 0; i < group->count; i++)
        advantage[i] = group->count > 1 ? n / (n - 1) * (group->score[i] - group->mean) : group->score[i];
}

// Hu et al., "REINFORCE++", 2025: the score minus the group's mean; whitened over the batch afterwards.
void
verl_group_baseline(const group_t *group, const verl_advantage_options_t *options, double *advantage)
{
    (void) options;
    for (int64_t i = 0; i < group->count; i++)
        advantage[i] = group->score[i] - (group->count > 1 ? group->mean : 0);
}

// Only the best sample counts, by its distance to the second best; the first of several best ones. The group has two.
void
verl_group_passk(const group_t *group, const verl_advantage_options_t *options, double *advantage)
{
    int64_t best = 0;
    double second = -INFINITY;
    for (int64_t i = 1; i < group->count; i++)
        if (group->score[i] > group->score[best])
            best = i;
    for (int64_t i = 0; i < group->count; i++) {
        advantage[i] = 0;
        if (i != best && group->score[i] > second)
            second = group->score[i];
    }
    advantage[best] = group->score[best] - second;
    double scale = options->norm_by_std ? group->deviation + options->epsilon : 1;
    advantage[best] = scale > 0 ? advantage[best] / scale : 0;
}

// Hao et al., "On-policy RL with optimal reward baseline", 2025: the mean weighted by length.
void
verl_group_opo(const group_t *group, const verl_advantage_options_t *options, double *advantage)
{
    (void) options;
    double weighted = 0, length = 0;
    for (int64_t i = 0; i < group->count; i++) {
        weighted += group->length[i] * group->score[i];
        length += group->length[i];
    }
    double baseline = group->count > 1 && length > 0 ? weighted / length : 0;
    for (int64_t i = 0; i < group->count; i++)
        advantage[i] = group->score[i] - baseline;
}

// Chu et al., "GPG", 2025: centred, and scaled up for the rows that have no gradient.
void
verl_group_gpg(const group_t *group, const verl_advantage_options_t *options, double *advantage)
{
    (void) options;
    for (int64_t i = 0; i < group->count; i++)
        advantage[i] = group->alpha * (group->score[i] - (group->count > 1 ? group->mean : 0));
}

// Schulman et al., "High-dimensional continuous control using generalized advantage estimation", 2016. Tokens that are
// not counted are stepped over: the next counted token's value and advantage reach across them.
void
verl_row_gae(const row_t *row, const verl_advantage_options_t *options, double *advantage, double *returns)
{
    double next_value = 0, last = 0;
    for (int64_t t = row->count - 1; t >= 0; t--) {
        int counted = !row->mask || row->mask[t];
        double value = isfinite(row->values[t]) ? (double) row->values[t] : 0;
        if (counted) {
            last = row->reward[t] + options->gamma * next_value - value + options->gamma * options->lambda * last;
            next_value = value;
        }
        advantage[t] = last;
        returns[t] = last + value;
    }
}

// Hu et al., "REINFORCE++", 2025: discounted sums of what follows, passed across tokens that are not counted.
void
verl_row_reinforce(const row_t *row, const verl_advantage_options_t *options, double *advantage, double *returns)
{
    double run = 0;
    for (int64_t t = row->count - 1; t >= 0; t--) {
        int counted = !row->mask || row->mask[t];
        if (counted)
            run = row->reward[t] + options->gamma * run;
        advantage[t] = returns[t] = counted ? run : 0;
    }
}

// Li et al., "ReMax", 2024: what follows, minus the score of the greedy response.
void
verl_row_remax(const row_t *row, const verl_advantage_options_t *options, double *advantage, double *returns)
{
    (void) options;
    double run = 0;
    for (int64_t t = row->count - 1; t >= 0; t--) {
        int counted = !row->mask || row->mask[t];
        run += counted ? row->reward[t] : 0;
        returns[t] = run;
        advantage[t] = counted ? run - row->baseline : 0;
    }
}
