// jinja.h: a small interpreter of Jinja templates.
//
// A template is parsed into a tree that never changes, so that any number of threads may run it. Everything that a
// parse or a run allocates comes from an arena with a limit, and a run has a limit of steps: no template, however
// hostile, crashes, hangs or eats the memory.
// Language: https://jinja.palletsprojects.com/en/stable/templates/, with trim_blocks and lstrip_blocks.
#ifndef VERL_TEXT_JINJA_H
#define VERL_TEXT_JINJA_H
#include "actors/text/tokenizer.h"

// Memory that is freed as a whole.
typedef struct {
    void  *block;        // the newest; each begins with a pointer to the one before
    size_t used, size;   // of the newest
    size_t total, limit; // bytes
} verl_jinja_arena_t;

void *verl_jinja_arena_take(verl_jinja_arena_t *self, size_t bytes); // zeroed; NULL beyond the limit
void  verl_jinja_arena_done(verl_jinja_arena_t *self);

typedef struct {
    const char *data;
    size_t      length;
} verl_jinja_string_t;

typedef enum {
    VERL_JINJA_UNDEFINED,
    VERL_JINJA_NONE,
    VERL_JINJA_BOOL,
    VERL_JINJA_INT,
    VERL_JINJA_STRING,
    VERL_JINJA_LIST,
    VERL_JINJA_DICT,
    VERL_JINJA_MACRO,
    VERL_JINJA_METHOD,
    VERL_JINJA_NUMBER                       // that is only written: a real, or an integer beyond 2^53
} verl_jinja_kind_t;

typedef struct verl_jinja_value verl_jinja_value_t;
typedef struct verl_jinja_dict  verl_jinja_dict_t;
struct verl_jinja_node;

struct verl_jinja_value {
    verl_jinja_kind_t             kind;
    verl_jinja_string_t           string;  // STRING; NUMBER as Python writes it, with a NUL; of METHOD its name; of UNDEFINED what was looked for
    int64_t                       integer; // INT, BOOL
    verl_jinja_value_t           *items;   // LIST; of METHOD the object that it belongs to (NULL: a global function)
    size_t                        count;
    verl_jinja_dict_t            *dict; // DICT
    const struct verl_jinja_node *macro;
};

struct verl_jinja_dict {
    verl_jinja_string_t *keys;
    verl_jinja_value_t  *values;
    size_t               count, capacity;
};

typedef struct verl_jinja verl_jinja_t;

// Parses. NULL with a sentence that names `where` and the line. The caller destroys it.
verl_jinja_t *verl_jinja_parse(const char *text, size_t length, const char *where, char *error, size_t error_size);
void          verl_jinja_destroy(verl_jinja_t **self_p);

// Appends what the template writes with these variables. 0, or -1 with a sentence.
int verl_jinja_run(const verl_jinja_t *self, const verl_jinja_dict_t *variables, verl_text_t *out, char *error,
                   size_t error_size);

// Values for variables, in the caller's arena.
verl_jinja_value_t verl_jinja_string(const char *data, size_t length);
int                verl_jinja_dict_set(verl_jinja_dict_t *dict, verl_jinja_arena_t *arena, verl_jinja_string_t key,
                                       verl_jinja_value_t value);
const verl_jinja_value_t *verl_jinja_dict_get(const verl_jinja_dict_t *dict, verl_jinja_string_t key);
#endif
