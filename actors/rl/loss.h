// loss.h: policy losses, their gradients by log-probability, and what is added to them (KL, entropy).
//
// A loss is a sum over tokens of weight * L(lp). The weight of a token depends on its row and on the totals of the
// WHOLE mini-batch, over all micro-batches and ranks; so losses and gradients of parts, simply added, are those of the
// whole in any split (gradients of ranks are added too, not averaged). All arithmetic is in double.
// Only counted tokens are looked at; what a left-out token holds, NaN or not, has no effect and gets gradient 0.
// Log-ratios are clamped to [-20, 20] before exp; where a clamp holds, the gradient is 0.
#ifndef VERL_RL_LOSS_H
#define VERL_RL_LOSS_H
#include <stddef.h>
#include <stdint.h>

#include "actors/rl/kl.h"
#include "actors/rl/metrics.h"
#include "actors/rl/ragged.h"

// How tokens are weighed, with N counted tokens and G rows that have any, of the whole mini-batch:
typedef enum {
    VERL_AGG_TOKEN_MEAN,              // 1 / N
    VERL_AGG_TOKEN_SUM,               // 1
    VERL_AGG_SEQ_MEAN_TOKEN_SUM,      // 1 / G
    VERL_AGG_SEQ_MEAN_TOKEN_MEAN,     // 1 / (G (counted tokens of the row + 1e-8))
    VERL_AGG_SEQ_MEAN_TOKEN_SUM_NORM, // 1 / (G scale)
    VERL_AGG_KINDS
} verl_agg_t;

// "token-mean", "seq-mean-token-sum-norm", ...: the kind of a name, -1 where none has it; the name of a kind, NULL past
// the last.
int verl_agg_find(const char *name);
const char *verl_agg_name(int kind);

typedef struct verl_loss_totals {
    int64_t tokens; // N
    int64_t rows;   // G
} verl_loss_totals_t;

// Adds the counted tokens, and the rows that have any, of a part to *totals.
void verl_loss_count(const verl_ragged_t *rows, verl_loss_totals_t *totals);

// The weight of each counted token of row `row`; 0 where the row has none. scale is read by seq-mean-token-sum-norm
// only.
double
verl_agg_weight(verl_agg_t agg, double scale, const verl_loss_totals_t *totals, const verl_ragged_t *rows, int64_t row);

enum { // what a loss needs beside lp
    VERL_NEEDS_OLD_LP = 1,
    VERL_NEEDS_ADVANTAGES = 2,
};

typedef struct verl_policy_loss verl_policy_loss_t;

// The loss of a name; NULL where there is none. Number i of all losses, for help; NULL past the last.
const verl_policy_loss_t *verl_policy_loss_find(const char *name);
const verl_policy_loss_t *verl_policy_loss_at(size_t i);

const char *verl_policy_loss_name(const verl_policy_loss_t *loss);
const char *verl_policy_loss_about(const verl_policy_loss_t *loss); // one sentence
unsigned verl_policy_loss_needs(const verl_policy_loss_t *loss);    // VERL_NEEDS_ bits
int verl_policy_loss_agg(const verl_policy_loss_t *loss);           // the only aggregation it has; -1: any

typedef struct verl_loss_config {
    const verl_policy_loss_t *loss;
    verl_agg_t agg;                    // of KL and entropy too; a loss that has only one ignores it
    double scale;                      // divisor of seq-mean-token-sum-norm, above 0: often the longest response
    double clip_low, clip_high;        // the ratio is clipped to [1 - clip_low, 1 + clip_high]
    double clip_c;                     // dual clip of vanilla, above 1: bounds the loss where the advantage is negative
    double ratio_cap;                  // dppo: largest ratio that weighs a token
    double tau_positive, tau_negative; // sapo: temperatures
    double dro_beta;                   // dro: strength of the quadratic term, above 0
    verl_kl_t kl;
    double kl_coef;      // 0: no KL term, ref_lp is not read
    double entropy_coef; // 0: no entropy term
} verl_loss_config_t;

// vanilla, token-mean, clip 0.2 / 0.2 / 3, ratio_cap 20, taus 1 and 1.05, dro_beta 0 (to be set), k3, no KL, no
// entropy.
verl_loss_config_t verl_loss_defaults(void);

// 0 where the numbers make sense; else -1 and a sentence that names the option.
int verl_loss_check(const verl_loss_config_t *config, char *error, size_t error_size);

// One part of a mini-batch. All arrays are [tokens]; those that nobody needs may be NULL.
typedef struct verl_loss_rows {
    verl_ragged_t rows;
    const float *lp;     // of the policy that learns
    const float *old_lp; // of the policy that sampled
    const float *ref_lp; // of the reference
    const float *advantages;
    const float *is_weights; // multiply each token's loss
    const float *entropy;    // of the policy's distribution at each token
} verl_loss_rows_t;

// Adds this part to the loss of its mini-batch. Writes d_lp[tokens], and d_entropy[tokens] where it is not NULL; adds
// to *loss (may be NULL) and to metrics (may be NULL): actor/pg_loss, actor/pg_clipfrac, actor/pg_clipfrac_lower,
// actor/ppo_kl, actor/entropy, actor/entropy_loss, actor/kl_loss, actor/kl_coef, each where it applies; a mini-batch
// has weight 1 in the losses, a token in the others. 0, or -1 with a sentence that names row and token, and outputs
// undefined: an input that is needed and absent, a value that is not finite, totals smaller than the part. Allocates
// only scratch; thread-safe.
int
verl_loss_eval(const verl_loss_config_t *config, const verl_loss_rows_t *part, const verl_loss_totals_t *totals,
               float *d_lp, float *d_entropy, double *loss, verl_metrics_t *metrics, char *error, size_t error_size);

typedef struct verl_value_config {
    verl_agg_t agg;
    double scale; // as above
    double clip;  // values move at most so far from old ones; infinite: no clip
} verl_value_config_t;

// The loss of a critic: 0.5 * max((v - R)^2, (clip(v, old - c, old + c) - R)^2), aggregated. old_values may be NULL: no
// clip. Writes d_values[tokens]; adds to *loss (may be NULL), and to metrics (may be NULL) critic/vf_loss,
// critic/vf_clipfrac, critic/vpred_mean. Returns as verl_loss_eval does.
int verl_value_loss_eval(const verl_value_config_t *config, const verl_ragged_t *rows, const float *values,
                         const float *old_values, const float *returns, const verl_loss_totals_t *totals,
                         float *d_values, double *loss, verl_metrics_t *metrics, char *error, size_t error_size);

#endif
