// spy_report_impl.h: what the files of the diagnosis share. Not for others.
#ifndef VERL_SPY_REPORT_IMPL_H
#define VERL_SPY_REPORT_IMPL_H
#include "tools/spy_report_causes.h"

typedef struct search {
    const json_t     *profile;
    verl_diagnosis_t *found;
    verl_model_t      base;                 // with the measured times
} search_t;

// spy_report_causes.c: all that may be a cause, whether it costs anything or not. work: a model to play with.
void verl_find_causes(search_t *self, verl_model_t *work);

// spy_report_diagnosis.c: batches a second without all causes but one (-1: without any).
double verl_rate_without(const search_t *self, verl_model_t *work, int but);
#endif
