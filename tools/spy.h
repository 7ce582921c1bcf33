// spy.h: what the subcommands of verl-spy share: the options that most of them take, and who they are.
//
// A subcommand gets its own words (argv[0] is its name, for messages), with the common options already taken out. It
// writes to stdout what was asked for, to stderr what went wrong, and returns the exit code of the program: 0 done,
// 1 the run is gone or an assertion failed, 2 usage.
#ifndef VERL_SPY_H
#define VERL_SPY_H
#include <stdbool.h>

typedef struct verl_spy_options {
    const char *run;                        // --run DIR; NULL: the newest live run of this user
    bool        json;                       // --json: one object a line
    bool        quiet;                      // --quiet: no summary, no remarks
    double      timeout;                    // --timeout S: seconds after which it ends by itself; 0: never
} verl_spy_options_t;

typedef int (*verl_spy_function_t)(int argc, char **argv, const verl_spy_options_t *options);

// Common options that a command may not know; the others all know. What it does not know is refused for it.
enum {
    VERL_SPY_TAKES_RUN = 1,
    VERL_SPY_TAKES_JSON = 2,
    VERL_SPY_TAKES_TIMEOUT = 4,
};

typedef struct verl_spy_command {
    const char         *word;               // on the command line
    verl_spy_function_t run;
    int                 takes;              // VERL_SPY_TAKES_…
    const char         *arguments;          // behind the word, as the usage shows them; "" where there are none
    const char         *about;              // one sentence without a full stop
} verl_spy_command_t;

// The subcommands, one function each, in a file of its own (spy_WORD.c).
int verl_spy_follow(int argc, char **argv, const verl_spy_options_t *options);
int verl_spy_record(int argc, char **argv, const verl_spy_options_t *options);
int verl_spy_top(int argc, char **argv, const verl_spy_options_t *options);
int verl_spy_batch(int argc, char **argv, const verl_spy_options_t *options);
int verl_spy_graph(int argc, char **argv, const verl_spy_options_t *options);
int verl_spy_timeline(int argc, char **argv, const verl_spy_options_t *options);
int verl_spy_report(int argc, char **argv, const verl_spy_options_t *options);
int verl_spy_replay(int argc, char **argv, const verl_spy_options_t *options);

// The value of option `name` at words[*at], as "--name VALUE" or "--name=VALUE", "-nVALUE" too; NULL where it is another word, and
// where it is this option without a value: then *missing is set, too. *at moves to the last word that was used.
const char *verl_spy_value(int count, char **words, int *at, const char *name, bool *missing);

// Says on stderr "NAME: SENTENCE" and where to read more. Returns 2.
int verl_spy_usage(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The end of what a command wrote to stdout: hands it on. Returns 0, or 1 where it could not be written: that is said
// on stderr, once.
int verl_spy_written(const char *name);
// Says on stderr that memory is short. Returns 1.
int verl_spy_no_memory(const char *name);
#endif
