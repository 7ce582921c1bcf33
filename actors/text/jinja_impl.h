// jinja_impl.h: what the parts of the interpreter share. Included by jinja*.c only.
#ifndef VERL_TEXT_JINJA_IMPL_H
#define VERL_TEXT_JINJA_IMPL_H
#include "actors/text/jinja.h"

typedef enum {
    TOKEN_TEXT,
    TOKEN_BLOCK,
    TOKEN_BLOCK_END,
    TOKEN_OUT,
    TOKEN_OUT_END,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_INT,
    TOKEN_OPERATOR,
    TOKEN_END
} verl_jinja_lexeme_kind_t;

typedef struct {
    verl_jinja_lexeme_kind_t kind;
    int                      line;
    verl_jinja_string_t      text; // of a string its value, of an operator its characters
    int64_t                  integer;
} verl_jinja_lexeme_t;

typedef enum {
    // Statements; `next` chains those of one body.
    NODE_TEXT,
    NODE_OUT,
    NODE_IF,
    NODE_FOR,
    NODE_SET,
    NODE_SET_BLOCK,
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_MACRO,
    NODE_SCOPE,
    // Expressions; `next` chains arguments.
    NODE_NAME,
    NODE_STRING,
    NODE_INT,
    NODE_BOOL,
    NODE_NONE,
    NODE_LIST,
    NODE_DICT,
    NODE_ATTRIBUTE,
    NODE_INDEX,
    NODE_SLICE,
    NODE_CALL,
    NODE_FILTER,
    NODE_TEST,
    NODE_NOT,
    NODE_NEGATE,
    NODE_AND,
    NODE_OR,
    NODE_BINARY,
    NODE_CHOICE,
    NODE_ARGUMENT
} verl_jinja_node_kind_t;

// What a, b, c, d are: IF: condition, body, else. FOR: list, body, else, condition; text and more: the names.
// SET: target, value. SET_BLOCK: target, body. MACRO: parameters (ARGUMENT), body. SCOPE: body. ATTRIBUTE: object.
// INDEX: object, index. SLICE: object, from, to, step. CALL: callee, arguments. FILTER, TEST: value, arguments. CHOICE:
// condition, then, else. ARGUMENT: value; text: its name where it has one. DICT: arguments key, value, key, value, …
typedef struct verl_jinja_node verl_jinja_node_t;
struct verl_jinja_node {
    verl_jinja_node_kind_t kind;
    int                    line;
    verl_jinja_string_t    text, more;
    int64_t                integer; // INT, BOOL; of TEST 1: negated
    verl_jinja_node_t     *a, *b, *c, *d, *next;
};

struct verl_jinja {
    verl_jinja_arena_t arena;
    verl_jinja_node_t *body;
    char              *where; // for messages
};

// Cuts a template into lexemes, ended by TOKEN_END, in the arena. 0, or -1 with a sentence.
int verl_jinja_lex(verl_jinja_arena_t *arena, const char *text, size_t length, const char *where,
                   verl_jinja_lexeme_t **ret_lexemes, char *error, size_t error_size);

// Which names are seen.
typedef struct {
    size_t variables;                       // all of them
    size_t start;                           // those from here on belong to the innermost scope
    size_t top, base;                       // those between are of a macro's caller, and the macro does not see them
    int    nested;                          // scopes around the innermost
} verl_jinja_scope_t;

// One run.
typedef struct {
    verl_jinja_arena_t arena;
    const verl_jinja_t *template;
    const verl_jinja_dict_t *globals; // the variables that the caller gives
    struct {
        verl_jinja_string_t name;
        verl_jinja_value_t  value;
    } * variable;
    size_t             variable_capacity;
    verl_jinja_scope_t scope;
    int     depth;
    int64_t steps; // left
    enum { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } flow;
    verl_text_t *out;
    char        *error;
    size_t       error_size;
    bool         failed;
} verl_jinja_run_t;

// Fails the run with "WHERE: line N: …"; always -1. The first failure stays.
int verl_jinja_run_fail(verl_jinja_run_t *self, const verl_jinja_node_t *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int verl_jinja_run_no_memory(verl_jinja_run_t *self);

// Evaluates. 0, or -1 after verl_jinja_run_fail.
int verl_jinja_run_value(verl_jinja_run_t *self, const verl_jinja_node_t *node, verl_jinja_value_t *ret);
int verl_jinja_run_binary(verl_jinja_run_t *self, const verl_jinja_node_t *node, const verl_jinja_value_t *left,
                          const verl_jinja_value_t *right, verl_jinja_value_t *ret);
int verl_jinja_run_filter(verl_jinja_run_t *self, const verl_jinja_node_t *node, const verl_jinja_value_t *value,
                          verl_jinja_value_t *ret);
int
verl_jinja_run_test(verl_jinja_run_t *self, const verl_jinja_node_t *node, const verl_jinja_value_t *value, bool *ret);
int verl_jinja_run_method(verl_jinja_run_t *self, const verl_jinja_node_t *call, const verl_jinja_value_t *method,
                          verl_jinja_value_t *ret);
int verl_jinja_run_macro(verl_jinja_run_t *self, const verl_jinja_node_t *call, const verl_jinja_node_t *macro,
                         verl_jinja_value_t *ret);

// Appends a value as the template would write it, or as JSON. 0, or -1 without memory or where it is nested too deep.
int verl_jinja_write(verl_text_t *text, const verl_jinja_value_t *value, bool json, int depth);

bool        verl_jinja_true(const verl_jinja_value_t *value);
bool        verl_jinja_equal(const verl_jinja_value_t *left, const verl_jinja_value_t *right, int depth);
const char *verl_jinja_kind_name(const verl_jinja_value_t *value);
bool        verl_jinja_string_is(verl_jinja_string_t string, const char *text);

// A copy of text in the arena of the run; data is NULL without memory.
verl_jinja_string_t verl_jinja_run_copy(verl_jinja_run_t *self, const char *data, size_t length);

// A list of `count` undefined values; items is NULL without memory.
verl_jinja_value_t verl_jinja_run_list(verl_jinja_run_t *self, size_t count);

// Arguments, each in the place of its parameter.
enum { VERL_JINJA_PARAMETERS = 3 };
typedef struct {
    verl_jinja_value_t value[VERL_JINJA_PARAMETERS]; // undefined where it is not given
    bool               given[VERL_JINJA_PARAMETERS];
} verl_jinja_arguments_t;

// Evaluates the arguments of `what`, which has these parameters: names with commas between, "_" where it can only be
// given by its place. An argument without a parameter is an error.
int verl_jinja_run_arguments(verl_jinja_run_t *self, const verl_jinja_node_t *node, verl_jinja_string_t what,
                             const char *parameters, verl_jinja_arguments_t *ret);
#endif
