// template.h: a small interpreter of Jinja templates.
//
// A template is parsed into a tree that never changes, so that any number of threads may run it. Everything that a
// parse or a run allocates comes from an arena with a limit, and a run has a limit of steps: no template, however
// hostile, crashes, hangs or eats the memory.
// Language: https://jinja.palletsprojects.com/en/stable/templates/, with trim_blocks and lstrip_blocks.
#ifndef VERL_TEXT_TEMPLATE_H
#define VERL_TEXT_TEMPLATE_H
#include "actors/text/tokenizer.h"

// Memory that is freed as a whole.
typedef struct {
    void  *block;                           // the newest; each begins with a pointer to the one before
    size_t used, size;                      // of the newest
    size_t total, limit;                    // bytes
} verl_arena_t;

void *verl_jinja_take(verl_arena_t *self, size_t bytes);    // zeroed; NULL beyond the limit
void  verl_arena_done(verl_arena_t *self);

typedef struct {
    const char *data;
    size_t      length;
} verl_string_t;

typedef enum {
    VERL_VALUE_UNDEFINED, VERL_VALUE_NONE, VERL_VALUE_BOOL, VERL_VALUE_INT, VERL_VALUE_STRING, VERL_VALUE_LIST,
    VERL_VALUE_DICT, VERL_VALUE_MACRO, VERL_VALUE_METHOD
} verl_value_kind_t;

typedef struct verl_value verl_value_t;
typedef struct verl_dict  verl_dict_t;
struct verl_node;

struct verl_value {
    verl_value_kind_t kind;
    verl_string_t     string;               // STRING; of METHOD its name; of UNDEFINED what was looked for
    int64_t           integer;              // INT, BOOL
    verl_value_t     *items;                // LIST; of METHOD the object that it belongs to (NULL: a global function)
    size_t            count;
    verl_dict_t      *dict;                 // DICT
    const struct verl_node *macro;
};

struct verl_dict {
    verl_string_t *keys;
    verl_value_t  *values;
    size_t         count, capacity;
};

typedef struct verl_template verl_template_t;

// Parses. NULL with a sentence that names `where` and the line. The caller destroys it.
verl_template_t *verl_template_parse(const char *text, size_t length, const char *where, char *error, size_t error_size);
void verl_template_destroy(verl_template_t **self_p);

// Appends what the template writes with these variables. 0, or -1 with a sentence.
int verl_template_run(const verl_template_t *self, const verl_dict_t *variables, verl_text_t *out, char *error,
                      size_t error_size);

// Values for variables, in the caller's arena.
verl_value_t verl_jinja_string(const char *data, size_t length);
int          verl_dict_set(verl_dict_t *dict, verl_arena_t *arena, verl_string_t key, verl_value_t value);
const verl_value_t *verl_dict_get(const verl_dict_t *dict, verl_string_t key);
#endif
