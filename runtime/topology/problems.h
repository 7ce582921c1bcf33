// problems.h: everything that is wrong with a topology, gathered and then reported at once, in the order of the file.
//
// Invariant: a sentence at one place is kept once; what a user wrote is shown with its control characters escaped.
#ifndef VERL_TOPOLOGY_PROBLEMS_H
#define VERL_TOPOLOGY_PROBLEMS_H
#include <stdbool.h>
#include <stddef.h>
#include "runtime/topology/node.h"

// The lines to print, each "file:line:column: what is wrong: what would be right", or "--set KEY=VALUE: …".
typedef struct verl_topology_errors {
    int count;
    char **items;
} verl_topology_errors_t;

// Frees the lines and leaves none. errors may be NULL.
void verl_topology_errors_done(verl_topology_errors_t *errors);

typedef struct verl_problem {
    verl_at_t at;
    char *text;
} verl_problem_t;

typedef struct verl_problems {
    verl_pool_t *pool;
    int count;
    verl_problem_t *items;
} verl_problems_t;

void verl_problem_add(verl_problems_t *problems, verl_at_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Is there one at this place already?
bool verl_problem_at(const verl_problems_t *problems, verl_at_t at);
// Where the places of problems are: origin -1 in file, -2 in fragment, from 0 on in a --set.
typedef struct verl_sources {
    const char *file, *fragment; // paths, as errors name them
    const char *const *sets;
    int sets_count;
} verl_sources_t;

// "file:line:column", or "--set KEY=VALUE"; malloc'ed, NULL without memory.
char *verl_problem_place(verl_at_t at, const verl_sources_t *sources);
// Sorts and formats them; malloc'ed.
void verl_problems_report(const verl_problems_t *problems, const verl_sources_t *sources,
                          verl_topology_errors_t *ret_errors);
#endif
