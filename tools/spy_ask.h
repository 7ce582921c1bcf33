// spy_ask.h: how the subcommands ask that show a run as a whole (top, batch, graph, report). What goes wrong is said on
// stderr, with the subcommand's name.
#ifndef VERL_SPY_ASK_H
#define VERL_SPY_ASK_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include "tools/client.h"
#include "tools/spy.h"

// The run that is meant, if it lives. NULL: it was said why not.
verl_client_t *verl_spy_open(const verl_spy_options_t *options, const char *name);
// One question, for at most 10 s; request is taken. NULL: it was said why. The caller owns the answer.
json_t *verl_spy_ask(verl_client_t *client, json_t *request, const char *name);
// The profile of the run that is meant: of now where it lives, else the last that its run.log holds; and its directory
// (4096 bytes). NULL: it was said why.
json_t *
verl_spy_profile(const verl_spy_options_t *options, const char *name, char *directory, size_t size, bool *ret_live);
#endif
