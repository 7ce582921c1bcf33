// inject.h: what the commands of verl-inject share: their options, how a change is written as a fragment, how a run is
// asked for it, and what is shown of its answers.
//
// A command gets its own words, the common options already taken out; words[0] is its name. It returns the exit code of
// the program.
#ifndef VERL_INJECT_H
#define VERL_INJECT_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/error.h"
#include "tools/client.h"

enum { INJECT_DONE = 0, INJECT_FAILED = 1, INJECT_WRONG = 2, INJECT_INTERRUPTED = 130 };

typedef struct verl_inject_options {
    const char *run;                        // --run DIR; NULL: the newest run of this user that lives
    bool        json;                       // --json: one object a line
    bool        plan;                       // --plan: only show what would change
    bool        now;                        // --now: end what is replaced at once
    int64_t     at;                         // --at BATCH; -1: as soon as it can be
    double      timeout;                    // --timeout S; 0: none was given
} verl_inject_options_t;

typedef struct verl_inject_command {
    const char *word;                       // on the command line
    int       (*run)(int count, char **words, const verl_inject_options_t *options);
    const char *arguments;                  // behind the word, as the usage shows them
    const char *about;                      // one sentence without a full stop
    bool        changes;                    // … the topology: --plan, --at, --now and --timeout are its options
} verl_inject_command_t;

// The commands, in inject_changes.c, inject_states.c and script_command.c.
int verl_inject_apply(int count, char **words, const verl_inject_options_t *options);
int verl_inject_swap(int count, char **words, const verl_inject_options_t *options);
int verl_inject_remove(int count, char **words, const verl_inject_options_t *options);
int verl_inject_set(int count, char **words, const verl_inject_options_t *options);
int verl_inject_pause(int count, char **words, const verl_inject_options_t *options);
int verl_inject_resume(int count, char **words, const verl_inject_options_t *options);
int verl_inject_list(int count, char **words, const verl_inject_options_t *options);
int verl_inject_script(int count, char **words, const verl_inject_options_t *options);      // script_command.c

// inject_fragment.c. Texts are malloc'ed; NULL with a sentence.
// "lr=5e-6" under "stage.update" as a line of TOML: stage.update.lr = 5e-6. The value is TOML, or a bare word: a string.
char *verl_inject_line(const char *section, const char *assignment, verl_error_t *error);
// What the run says of a fragment that was made of `words`, a line each: "PATH:2:14: TEXT" becomes "PATH WORD: TEXT" with
// the second of them, and "PATH: TEXT" where there is none. Each line of `text`.
char *verl_inject_unplaced(const char *text, const char *path, char *const *words, int words_count);
// A whole file, "-": standard input; at most 1 MiB of UTF-8.
char *verl_inject_read(const char *path, verl_error_t *error);

// inject_names.c. The plan of the newest revision, as the run tells it; NULL, told: it does not.
json_t     *verl_inject_names(const verl_inject_options_t *options);
// Where the keys of a name are: "stage" or "actor"; NULL with a sentence: there is no such name.
const char *verl_inject_section(const json_t *plan, const char *name, verl_error_t *error);
// "x" of "stage.x" and of "actor.x".
const char *verl_inject_bare(const char *name);
// The fragment that takes away a stage, or an actor with all its stages: "actor.x" is the actor, also where a stage of
// another one is called x.
char       *verl_inject_unset(const json_t *plan, const char *word);

// inject_talk.c.
// The conversation with a run, which a signal (SIGINT, SIGTERM) interrupts. NULL with the reason on stderr.
verl_client_t *verl_inject_open(const verl_inject_options_t *options);
void           verl_inject_close(verl_client_t **client_p);
// Asks, shows what comes meanwhile, and returns the last answer: NULL or a refusal where it failed, which is told.
json_t        *verl_inject_ask(verl_client_t *client, const verl_inject_options_t *options, json_t *request);
// Says who asks: "name (verl-inject, process 123)".
const char    *verl_inject_who(void);
// Tells what became of a request, with `print` where it was granted and is told to people; takes the answer. Returns the
// exit code.
typedef void (*verl_inject_print_t)(const json_t *answer);
int            verl_inject_tell(verl_client_t *client, const verl_inject_options_t *options, json_t *answer,
                                verl_inject_print_t print);
// The same of a refusal: {"error": SENTENCE}.
int            verl_inject_refused(const verl_inject_options_t *options, json_t *answer);
// A text of one or more lines on standard output, without what would move a cursor.
void           verl_inject_text(const char *text);
// "verl-inject: SENTENCE" on stderr, each line of it. Returns INJECT_FAILED / INJECT_WRONG with where to read more.
int verl_inject_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));
int verl_inject_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
#endif
