// estimators.h: what the estimators of advantage.c are made of; files of other folders include advantage.h instead.
#ifndef VERL_RL_ESTIMATORS_H
#define VERL_RL_ESTIMATORS_H
#include "actors/rl/advantage.h"

// The samples of one prompt.
typedef struct group {
    int64_t count;
    const double *score;  // [count]
    const double *length; // [count]: counted tokens
    double mean;          // of the scores
    double deviation;     // unbiased; 0 where count is 1
    double alpha;         // rows of the batch / rows whose score is not 0
} group_t;

// From a group's scores to one number a sample.
typedef void (*group_function_t)(const group_t *group, const verl_advantage_options_t *options, double *advantage);

// From one row to one number a token. reward, values: [count]; mask NULL: all counted. returns is always there.
typedef struct row {
    int64_t count;
    const uint8_t *mask;
    const double *reward;
    const float *values;
    double baseline;
} row_t;
typedef void (*row_function_t)(const row_t *row, const verl_advantage_options_t *options, double *advantage,
                               double *returns);

struct verl_estimator {
    const char *name, *about;
    unsigned needs;
    int64_t least;             // smallest group that makes sense
    group_function_t of_group; // one of these two is set
    row_function_t of_row;
    bool whiten;     // afterwards, where the options agree
    bool everywhere; // ... and also on tokens that are not counted
};

void verl_group_grpo(const group_t *group, const verl_advantage_options_t *options, double *advantage);
void verl_group_rloo(const group_t *group, const verl_advantage_options_t *options, double *advantage);
void verl_group_baseline(const group_t *group, const verl_advantage_options_t *options, double *advantage);
void verl_group_passk(const group_t *group, const verl_advantage_options_t *options, double *advantage);
void verl_group_opo(const group_t *group, const verl_advantage_options_t *options, double *advantage);
void verl_group_gpg(const group_t *group, const verl_advantage_options_t *options, double *advantage);
void verl_row_gae(const row_t *row, const verl_advantage_options_t *options, double *advantage, double *returns);
void verl_row_reinforce(const row_t *row, const verl_advantage_options_t *options, double *advantage, double *returns);
void verl_row_remax(const row_t *row, const verl_advantage_options_t *options, double *advantage, double *returns);

#endif
