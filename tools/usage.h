// usage.h: what is wrong with a command line.
#ifndef VERL_USAGE_H
#define VERL_USAGE_H
#include <getopt.h>
#include <stddef.h>

// The value of a long option in the table that getopt_long gets: no letter, so that it is told from a short one.
#define VERL_LONG(letter) (256 + (letter))

// What getopt_long meant when it returned '?' or ':' (opterr is 0, and the short options begin with ':'), such as "there
// is no option --stesp" or "--set needs a value". Writes at most `size` bytes; returns text.
const char *verl_usage_wrong(int returned, char *const *words, const struct option *options, char *text, size_t size);
#endif
