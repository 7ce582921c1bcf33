// spy_follow_options.h: the options that choose messages, the same for all subcommands that follow.
#ifndef VERL_SPY_FOLLOW_OPTIONS_H
#define VERL_SPY_FOLLOW_OPTIONS_H
#include "runtime/observe/filter.h"

// Takes one option at words[*at] into the filter: --actor A, --stage S, --edge A:B, --kind data,…, --batch N|A-B,
// --every K, --stats, --values. Returns 1 where it was one (*at moves to its last word), 0 where not, -1 where it is
// wrong (said).
int verl_spy_filter_option(const char *command, int count, char **words, int *at, verl_filter_t *filter);
// -n COUNT, likewise; *ret stays where it is another word. / Where fewer messages came than were wanted (0: any number
// will do): says so, and returns 1, the exit code; else 0.
int verl_spy_count_option(const char *command, int count, char **words, int *at, uint64_t *ret);
int verl_spy_count_missed(const char *command, uint64_t wanted, uint64_t came);
// A whole number of at least `least`; -1 where it is none.
int64_t verl_spy_whole(const char *text, int64_t least);
// What --help says about them.
extern const char verl_spy_filter_help[], verl_spy_count_help[];
#endif
