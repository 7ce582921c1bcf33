// grammar.h: how a kind writes the columns that it needs and gives (see verl.h).
#ifndef VERL_TOPOLOGY_GRAMMAR_H
#define VERL_TOPOLOGY_GRAMMAR_H
#include "runtime/topology/pool.h"
#include "runtime/topology/plan.h"

typedef enum verl_comparison {
    VERL_ALWAYS,
    VERL_TRUE,
    VERL_EQUAL,
    VERL_UNEQUAL,
    VERL_LESS,
    VERL_MORE,
    VERL_AT_MOST,
    VERL_AT_LEAST
} verl_comparison_t;

// "if option", "if option = value", "if option > 0".
typedef struct verl_condition {
    verl_comparison_t comparison;
    char *option, *value;
} verl_condition_t;

typedef struct verl_need_text {
    char *name;    // of the column; of the option where listed
    bool optional; // "name?"
    bool listed;   // "*option": the entries of an option are the names
    char *of;      // "name of other": made with or after that need's column, never before it; NULL: no matter
    verl_condition_t condition;
} verl_need_text_t;

#define VERL_DIMENSIONS_MAX 4

typedef struct verl_give_text {
    char *name;
    verl_dtype_t dtype;
    int dimensions;                       // behind n
    char *dimension[VERL_DIMENSIONS_MAX]; // "*", digits, or the name of an option
    verl_condition_t condition;
} verl_give_text_t;

// Both return 0, or -1 with what is wrong with the text.
int verl_need_parse(const char *text, verl_pool_t *pool, verl_need_text_t *ret_need, verl_error_t *error);
int verl_give_parse(const char *text, verl_pool_t *pool, verl_give_text_t *ret_give, verl_error_t *error);

// "f32[n,*]", "text": the type without spaces, and with the numbers of the options that it names. An option's number is
// looked up in two tables of values, either of which may be NULL.
char *
verl_give_type(const verl_give_text_t *give, const verl_value_t *work, const verl_value_t *state, verl_pool_t *pool);

// Does the condition hold for these values? An option without a value is false, empty and 0.
bool verl_condition_holds(const verl_condition_t *condition, const verl_value_t *work, const verl_value_t *state);
// "kl_coef > 0", for a sentence.
char *verl_condition_text(const verl_condition_t *condition, verl_pool_t *pool);
// Is it the name of an element type; returns -1 where not.
int verl_dtype_find(const char *name, size_t length);
#endif
