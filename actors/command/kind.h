// kind.h: what the parts of the kinds `command` and `command-state` share: an actor that is a program of its own, in
// any language, which speaks the protocol itself. Here it is only asked what it needs and gives, when a topology is
// checked.
#ifndef VERL_COMMAND_KIND_H
#define VERL_COMMAND_KIND_H
#include <jansson.h>
#include <stddef.h>
#include <verl.h>

typedef struct verl_command {               // state
    verl_strings_t command;
} verl_command_t;

typedef struct verl_command_work {          // options of a stage
    const char *function;                   // "": of the stage's name, or the only one
    const char *options;                    // JSON; NULL: none
} verl_command_work_t;

extern const verl_option_t verl_command_options[], verl_command_work_options[];

// ask.c: runs the program with VERL_DESCRIBE=1 and reads the JSON object that it prints; the caller owns *ret. Waits
// for at most 20 s, 3.5 s where the program stands still; whatever of it runs then is killed, and it dies with the
// calling thread. -1 with one sentence.
// *ret_killed: a signal ended it, and another time it may not.
int verl_command_ask(const verl_strings_t *command, json_t **ret, bool *ret_killed, char *error, size_t size);

// said.c: the same, without asking again what was asked already while the files that the command names stay as they
// are; one that failed is asked again after 5 s, one that a signal ended at once. Any thread.
int verl_command_describe(const verl_strings_t *command, json_t **ret, char *error, size_t size);

// What the program says about a stage of this name: borrowed from `said`; NULL and a sentence where it has none.
const json_t *verl_command_find(const json_t *said, const char *function, const char *stage, char *error, size_t size);

// options.c: do the values suit what the program declares? -1 with one sentence: what is wrong: what would be right.
int verl_command_check_options(const json_t *declared, const char *given, char *error, size_t size);

// declare.c: the functions of the kinds.
int verl_command_declare(verl_declaration_t *declaration, const void *state, const void *options);
int verl_command_declare_stateful(verl_declaration_t *declaration, const void *state, const void *options);
int verl_command_handle(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out);
int verl_command_keep(verl_stage_t *stage, const char *directory);
#endif
