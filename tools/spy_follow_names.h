// spy_follow_names.h: what a filter names and the run does not have: a slip of the hand would show nothing, for ever.
#ifndef VERL_SPY_FOLLOW_NAMES_H
#define VERL_SPY_FOLLOW_NAMES_H
#include <stdio.h>
#include "runtime/observe/filter.h"
#include "tools/client.h"

// Asks the run for its actors and stages and writes a line for each name of the filter that is none of them, with the
// nearest one; since it may still come with a change, this is a remark and no error. Waits for the run's answer, at
// most a second.
void verl_spy_filter_remark(verl_client_t *client, const verl_filter_t *filter, const char *program, FILE *out);
// Of a status that was answered, for the same.
int  verl_spy_filter_unknown(const json_t *status, const verl_filter_t *filter, const char *program, FILE *out);
#endif
