// options.h: option tables: what an option accepts, its default, and filling a struct from values (see plan.h).
#ifndef VERL_TOPOLOGY_OPTIONS_H
#define VERL_TOPOLOGY_OPTIONS_H
#include "runtime/topology/pool.h"
#include "runtime/topology/plan.h"

#define VERL_OPTIONS_MAX 128 // in one table

// The option of a name; NULL where the table (which may be NULL) has none.
const verl_option_t *verl_option_find(const verl_option_t *table, const char *name);

typedef struct verl_option_fault {
    verl_error_t error; // "is -5 ms: it must be from 0 to 1e+09 ms", to be put behind the option's name
    int item;           // of the array that is to blame; -1: the value as a whole
} verl_option_fault_t;

// Checks a value and brings it into the form in which plans hold it: paths absolute (relative ones are below folder),
// integers real where a real number is asked for, weights a table. Returns 0, or -1 with the fault. Looks at the file
// system where the option says that its path must exist.
int verl_option_check(const verl_option_t *option, const verl_value_t *given, verl_pool_t *pool, const char *folder,
                      verl_value_t *ret_value, verl_option_fault_t *fault);

// The default, in the same form. Returns 1 where there is one, 0 where there is none, -1 where it is malformed.
int verl_option_default(const verl_option_t *option, verl_pool_t *pool, const char *folder, verl_value_t *ret_value,
                        verl_option_fault_t *fault);

// Bytes of the field of an option.
size_t verl_option_bytes(verl_option_type_t type);

// "integer", "list of paths", … for people.
const char *verl_option_type_name(verl_option_type_t type);
// Index of a word among "a|b|c"; -1: not there.
int verl_option_choice(const char *choices, const char *word);
#endif
