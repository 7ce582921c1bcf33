// spy_views.h: what the subcommands share that show a run as a whole (top, batch, graph, report): members of what it
// answered (spy_ask.h), figures for people, and writing.
#ifndef VERL_SPY_VIEWS_H
#define VERL_SPY_VIEWS_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include "runtime/wire/buffer.h"

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
