// spy_views.h: what the subcommands share that show a run as a whole (top, batch, graph, report): how they ask it, and
// figures for people. What goes wrong is said on stderr, with the subcommand's name.
#ifndef VERL_SPY_VIEWS_H
#define VERL_SPY_VIEWS_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include "runtime/wire/buffer.h"
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

// Members of an object, without surprises: 0, "" and false where there is none of that type.
double      verl_spy_number(const json_t *object, const char *key);
const char *verl_spy_text(const json_t *object, const char *key);
bool        verl_spy_flag(const json_t *object, const char *key);
json_t     *verl_spy_list(const json_t *object, const char *key);           // borrowed; NULL: none
json_t     *verl_spy_named(const json_t *list, const char *name);           // the object in a list whose "name" is that

// "640 B", "12.3 MiB"; "12 %", "0.4 %", "-" for nothing. Return text.
const char *verl_spy_size(double bytes, char *text, size_t size);
const char *verl_spy_percent(double share, char *text, size_t size);
const char *verl_spy_seconds(double seconds, char *text, size_t size);      // of work: "85 us", "8.9 ms", "0.128 s"
const char *verl_spy_rate(double rate, char *text, size_t size);            // three digits: "0.42", "12.3", "1234"

// One object on one line of stdout; taken. Returns the exit code.
int  verl_spy_print_json(json_t *object);
// All that was written, to stdout; the buffer is freed. Returns the exit code.
int  verl_spy_print(verl_buffer_t *text);
#endif
