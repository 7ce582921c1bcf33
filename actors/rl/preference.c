// preference.c: dpo and ipo; see preference.h.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "actors/rl/preference.h"

static const char *const s_names[VERL_PREFERENCE_KINDS] = {
    [VERL_PREFERENCE_DPO] = "dpo", [VERL_PREFERENCE_IPO] = "ipo"
};

int
verl_preference_find(const char *name)
{
    for (int kind = 0; kind < VERL_PREFERENCE_KINDS; kind++)
        if (strcmp(s_names[kind], name) == 0)
            return kind;
    return -1;
}

const char *
verl_preference_name(int kind)
{
    return kind >= 0 && kind < VERL_PREFERENCE_KINDS ? s_names[kind] : NULL;
}

// log(1 + exp(x)) without overflow.
static double
s_softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static double
s_sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

double
verl_preference_loss(verl_preference_t kind, double beta, double smoothing, double delta, double *slope)
{
    if (kind == VERL_PREFERENCE_IPO) {
        double gap = delta - 1 / (2 * beta);
        *slope = 2 * gap;
        return gap * gap;
    }
    double z = beta * delta;
    *slope = beta * (smoothing * s_sigmoid(z) - (1 - smoothing) * s_sigmoid(-z));
    return (1 - smoothing) * s_softplus(-z) + smoothing * s_softplus(z);
}
