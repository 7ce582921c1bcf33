// spy_assert.h: what a script may demand of what was seen: an expression over counts and series, true or false at the
// end.
//
// Numbers, variables, functions of a series, + - * /, comparisons, ! && || and parentheses, with the precedence of C.
// What cannot be said (the greatest of nothing) is NaN, and a comparison with it is false.
#ifndef VERL_SPY_ASSERT_H
#define VERL_SPY_ASSERT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/error.h"

// name, what it is
#define VERL_SPY_SCALAR_MAP(X)                                                              \
    X(shown, "messages that were shown")                                                    \
    X(seen, "messages that the actors sent while they were followed")                       \
    X(filtered, "of these, the ones that did not pass the filter")                          \
    X(dropped, "copies that were not made, because this program was too slow")              \
    X(lost, "copies that were made and did not come")                                       \
    X(parties, "actors that were followed, the director among them")                        \
    X(seconds, "from the first message shown to the last")                                  \
    X(rate, "messages shown a second")                                                      \
    X(bytes, "of all messages shown, and of what they name in shared memory")               \
    X(nan, "NaNs in the columns that were seen")                                            \
    X(batches, "different batches that were shown")                                         \
    X(skipped, "batches, or parts, that were skipped")

#define VERL_SPY_SERIES_MAP(X)                                                              \
    X(gap_ms, "between two messages that were shown")                                       \
    X(age_ms, "from a batch being ready to its being sent")                                 \
    X(size, "bytes of each message")                                                        \
    X(busy_ms, "of each run of a handler (--kind ran)")

typedef enum {
#define X(name, about) VERL_SPY_SCALAR_##name,
    VERL_SPY_SCALAR_MAP(X)
#undef X
    VERL_SPY_SCALARS
} verl_spy_scalar_t;

typedef enum {
#define X(name, about) VERL_SPY_SERIES_##name,
    VERL_SPY_SERIES_MAP(X)
#undef X
    VERL_SPY_SERIES
} verl_spy_series_t;

typedef struct verl_spy_facts {
    double  scalars[VERL_SPY_SCALARS];
    struct {
        double *values;
        size_t  count, room;
    } series[VERL_SPY_SERIES];
} verl_spy_facts_t;

// Adds a value to a series. -1 without memory.
int  verl_spy_facts_add(verl_spy_facts_t *facts, verl_spy_series_t series, double value);
void verl_spy_facts_done(verl_spy_facts_t *facts);

typedef struct verl_spy_assert verl_spy_assert_t;

// NULL with a sentence that says where it is wrong.
verl_spy_assert_t *verl_spy_assert_parse(const char *text, verl_error_t *error);
void               verl_spy_assert_destroy(verl_spy_assert_t **assertion_p);
// Is a series, or a scalar, asked for? What is not need not be collected.
bool verl_spy_assert_series(const verl_spy_assert_t *assertion, verl_spy_series_t series);
bool verl_spy_assert_scalar(const verl_spy_assert_t *assertion, verl_spy_scalar_t scalar);
// Does it hold? why: every variable and function of it with its value, for people. Sorts the series.
bool verl_spy_assert_holds(const verl_spy_assert_t *assertion, verl_spy_facts_t *facts, char *why, size_t size);

// The variables and functions with what they are, for --help.
const char *verl_spy_assert_help(void);
#endif
