// policy_losses.h: the formulas that loss.c drives; files of other folders include loss.h instead.
#ifndef VERL_RL_POLICY_LOSSES_H
#define VERL_RL_POLICY_LOSSES_H
#include <stdbool.h>

#include "actors/rl/loss.h"

// One row, seen from its first token. Arrays that the loss does not need are NULL.
typedef struct loss_row {
    int64_t count;
    const uint8_t *mask; // NULL: all counted
    const float *lp, *old_lp, *advantages;
} loss_row_t;

// What a row gives beside its losses.
typedef struct loss_notes {
    double clipped;     // counted tokens whose gradient the clip holds (pg_clipfrac)
    double clipped_low; // counted tokens at the dual clip (pg_clipfrac_lower)
} loss_notes_t;

// Writes loss[t] and slope[t] = d(loss) / d(lp) of each counted token, before weights. Others are left as they are.
typedef void (*policy_loss_function_t)(const verl_loss_config_t *config, const loss_row_t *row, double *loss,
                                       double *slope, loss_notes_t *notes);

struct verl_policy_loss {
    const char *name, *about;
    unsigned needs;
    int agg;        // the only aggregation, or -1
    bool weighable; // takes is_weights
    bool clips;     // pg_clipfrac says something
    policy_loss_function_t of_row;
};

#endif
