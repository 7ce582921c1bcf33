// preference.h: losses of preference pairs, from the summed log-probabilities of two responses to one prompt.
//
// With delta = (chosen - reference of chosen) - (rejected - reference of rejected):
// dpo (Rafailov et al., 2023): -log sigmoid(beta delta), smoothed: -(1 - e) log sigmoid(beta delta) - e log
// sigmoid(-beta delta); ipo (Azar et al., 2023): (delta - 1 / (2 beta))^2, on summed log-probabilities. Pure functions;
// thread-safe.
#ifndef VERL_RL_PREFERENCE_H
#define VERL_RL_PREFERENCE_H

typedef enum { VERL_PREFERENCE_DPO, VERL_PREFERENCE_IPO, VERL_PREFERENCE_KINDS } verl_preference_t;

// "dpo", "ipo": the kind of a name, -1 where none has it; the name of a kind, NULL past the last.
int verl_preference_find(const char *name);
const char *verl_preference_name(int kind);

// The loss of one pair. *slope gets d(loss) / d(delta), which is d(loss) / d(chosen) and -d(loss) / d(rejected).
// beta is above 0; smoothing (of dpo only) in [0, 0.5).
double verl_preference_loss(verl_preference_t kind, double beta, double smoothing, double delta, double *slope);

#endif
