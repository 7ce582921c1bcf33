// advantage.h: from scores to advantages, by one of a table of estimators.
//
// All sums are in double. The result does not depend on how rows are ordered inside a group, nor on where a group's
// rows lie. What groups compare is the score of a row and all rewards of its tokens, counted or not, added up. A row
// without a counted token takes part in its group's statistics and gets no advantage. Where a row's score has to stand
// on a token, that is its last counted token. A whole batch is one call: groups and whitening never see a part.
#ifndef VERL_RL_ADVANTAGE_H
#define VERL_RL_ADVANTAGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "actors/rl/ragged.h"

enum { // what an estimator needs beside a score
    VERL_NEEDS_GROUP = 1,
    VERL_NEEDS_VALUES = 2,
    VERL_NEEDS_BASELINE = 4,
};

typedef struct verl_advantage_input {
    verl_ragged_t rows;         // of response tokens
    const float *score;         // [rows], or NULL
    const float *token_rewards; // [tokens], or NULL; where both are given, they add up
    const int64_t *group;       // [rows]: equal for the samples of one prompt
    const float *values;        // [tokens]: of a critic; read as 0 where not finite and not counted
    const float *baseline;      // [rows]: score of the greedy response to the same prompt
} verl_advantage_input_t;

typedef struct verl_advantage_options {
    bool norm_by_std; // grpo, grpo_passk: divide by the group's deviation; false is Dr. GRPO
    bool whiten;      // gae, reinforce_plus_plus and its _baseline: mean 0 and variance 1 over the batch
    double epsilon;   // added to the deviation
    double gamma;     // discount per token
    double lambda;    // of generalised advantage estimation
} verl_advantage_options_t;

// true, true, 1e-6, 1, 1.
verl_advantage_options_t verl_advantage_defaults(void);

typedef struct verl_estimator verl_estimator_t;

// The estimator of a name; NULL where there is none.
const verl_estimator_t *verl_estimator_find(const char *name);

// Number i of all estimators, for help and option lists; NULL past the last.
const verl_estimator_t *verl_estimator_at(size_t i);

const char *verl_estimator_name(const verl_estimator_t *estimator);
const char *verl_estimator_about(const verl_estimator_t *estimator); // one sentence
unsigned verl_estimator_needs(const verl_estimator_t *estimator);    // VERL_NEEDS_ bits

// Computes advantages[tokens] and returns[tokens] of a whole batch; returns may be NULL. 0, or -1 with a sentence that
// names the row: an input that is needed and absent, a score that is not finite, a group that is too small.
// Allocates and frees its own scratch; does not block; thread-safe.
int verl_advantage_compute(const verl_estimator_t *estimator, const verl_advantage_options_t *options,
                           const verl_advantage_input_t *input, float *advantages, float *returns, char *error,
                           size_t error_size);

#endif
