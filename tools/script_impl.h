// script_impl.h: what the files of the script engine share. One thread.
//
// Functions that talk to the run know nothing of Lua; those that are called by Lua raise their errors and hold nothing
// when they do.
#ifndef VERL_SCRIPT_IMPL_H
#define VERL_SCRIPT_IMPL_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>
#include "actors/lua/sandbox.h"
#include "tools/client.h"
#include "tools/script_condition.h"

#define SCRIPT_HISTORY 256                  // steps that are remembered
#define SCRIPT_WAYS    2                    // to write a change down
#define SCRIPT_OVERTIME SIGVTALRM           // ends the process of a script that computes without end

typedef struct script_moment {              // at_step
    struct script_moment *next;
    int64_t               batch;
    int                   function;         // a reference in Lua's registry
} script_moment_t;

typedef struct script_watch {               // when, every
    struct script_watch   *next;
    verl_condition_tree_t *condition;       // NULL: every `period` steps
    int64_t                period;
    int                    function;
    bool                   again;
    bool                   held;            // the condition was true at the last step: it fires when it becomes so
    int64_t                number;          // of this script's, from 1 on
    int64_t                fired;           // the last step at which it did; -1: none yet
    bool                   over;
} script_watch_t;

typedef struct script_branch {
    struct script_branch *next;             // newest first
    int64_t               number;           // of this script's, from 1 on
    int64_t               first, until;     // batches
    int64_t               steps;            // of the run
    int64_t               revision;
    char                 *inverse;          // a fragment
    char                  place[96];        // "a.lua:7", where it was made
    int                   function;         // LUA_NOREF: none
    bool                  over;
} script_branch_t;

typedef struct script {
    const char      *file;
    char             name[64];              // of the file, without its folder
    verl_lua_t      *lua;
    timer_t          timer;                 // of what one function may compute
    verl_client_t   *watch, *change;
    int              signal_fd;
    bool             interrupted;           // by a signal
    bool             ended;                 // the run has
    bool             told_all;              // … and its last step was told
    bool             ending;                // it takes no more changes
    int64_t          signal_heard;          // ns: when a signal was last
    char             names[4200];           // the file that names the run's sockets …
    struct stat      names_as;              // … as it was when they were opened
    bool             following;             // they are opened anew
    json_t          *lines;                 // steps that were told and not looked at yet
    bool             json;                  // what it says is an object a line
    bool             own;                   // it is the run's own ([run] script)
    int64_t          done;                  // batches that are, as far as they were looked at
    int64_t          at;                    // the batch that is held for what runs now; -1: none
    int              history_count;
    json_t          *history[SCRIPT_HISTORY];   // by step modulo, the newest
    script_moment_t *moments;
    script_watch_t  *watches;
    script_branch_t *branches;
    int64_t          branches_begun;
    int64_t          watches_made;
    int              journal_fd;            // -1: there is none
    json_t          *recalled;              // what the journal knew at the beginning
    int              guard_fd;              // the guard hears of branches here; -1: there is none
} script_t;

// A change, in one or more ways to write it down, of which the first that is right is made.
typedef struct script_change {
    int         ways;
    char       *fragments[SCRIPT_WAYS];
    const char *swap;                       // a name; NULL: none
    bool        text;                       // the script wrote its only way as TOML, whose lines it knows
    int64_t     at;                         // -1: as soon as it can be
    char        place[128];                 // under which its mistakes are reported
    bool        asked;                      // the run was, so that it makes it whether or not its answer is heard
} script_change_t;

// script_talk.c
int     verl_script_open(script_t *self, const char *run_directory, verl_error_t *error);
void    verl_script_close(script_t *self);
// Asks by the socket for changes (takes the request) and waits for the answer, `first` only or the last. NULL with why.
json_t *verl_script_ask(script_t *self, json_t *request, bool first, verl_error_t *error);
// Waits for more to look at. False: nothing more will come, after a signal or the last step of a run that has ended.
bool    verl_script_wait(script_t *self);
// Looks whether a signal has come: SIGUSR1 says that the run is over. True: what runs now is to end.
bool    verl_script_signalled(script_t *self);
int     verl_script_hold(script_t *self, int64_t batch, verl_error_t *error);
int     verl_script_release(script_t *self, int64_t batch, verl_error_t *error);
// Holds the next permit that can be held; its batch, or -1.
int64_t verl_script_hold_next(script_t *self, verl_error_t *error);
// script_change.c
// 1: in force, with revision and first batch; 0: nothing would change; -1: what is wrong.
int     verl_script_apply(script_t *self, script_change_t *change, int64_t *ret_revision, int64_t *ret_first,
                          verl_error_t *error);
// The resolved topology that is in force, malloc'ed.
char   *verl_script_topology(script_t *self, verl_error_t *error);
// Its stages and actors, as the run tells them. NULL with why.
json_t *verl_script_plan(const script_t *self, verl_error_t *error);

// script_history.c
void verl_script_remember(script_t *self, const json_t *line);               // the next step
bool verl_script_metric(void *script, const char *name, double *ret_value);  // of the last step; `step` too
// The mean over the steps from `first` to `last` that have it; false: none has.
bool verl_script_mean(const script_t *self, const char *name, int64_t first, int64_t last, double *ret_value);
// Pushes a table name → mean over those steps.
void verl_script_push_means(lua_State *state, const script_t *self, int64_t first, int64_t last);
int64_t verl_script_oldest(const script_t *self);                            // step that is remembered

// script_words.c
int  verl_script_load(lua_State *state);                                     // for verl_lua_run, with the script
int  verl_script_raise(lua_State *state, const verl_error_t *error);           // does not return
void verl_script_place(lua_State *state, char *place, size_t size);          // "a.lua:7" of what runs
int  verl_script_branch(lua_State *state);                                   // script_branch.c: run:branch
script_t *verl_script_of(lua_State *state);
char *verl_script_fragment(lua_State *state, int index);                     // a table or a text of TOML; malloc'ed

// script_branch.c. The branch whose last batch is done; NULL: none is. It is taken back, and its function called, by
// script_branch_end: 0, or -1 with why.
script_branch_t *verl_script_branch_due(script_t *self);
int  verl_script_branch_end(script_t *self, script_branch_t *branch, verl_error_t *error);
void verl_script_take_all_back(script_t *self);
// Lets go of a batch that was held, unless something else of the script's still waits for it.
int  verl_script_let_go(script_t *self, int64_t batch, verl_error_t *error);
// script_journal.c. Opens the journal of the run's own script, and recalls what is in it, where the run is resumed.
int  verl_script_journal_open(script_t *self, verl_error_t *error);
void verl_script_note(const script_t *self, json_t *line);              // takes the line
void verl_script_recall(script_t *self, char *lines);                   // as noted, or told to a guard; cut up
int64_t verl_script_recalled_watch(const script_t *self, int64_t number);
bool verl_script_recalled_moment(const script_t *self, int64_t batch);
// script_guard.c. Tells the guard that a branch is about to begin; that it is over, or never began.
void verl_script_guard_begin(script_t *self, script_branch_t *branch);
void verl_script_guard_over(const script_t *self, const script_branch_t *branch);
// Runs `script` in a process of its own and guards it; returns its exit code. In that process it returns too.
int  verl_script_guarded(const char *run_directory, const char *file, bool json,
                         int (*script)(const char *, const char *, bool, int));
int64_t verl_script_seconds(void);                                      // of computing, that one function may take
int  verl_script_signals(void);                                         // blocks those that end a script: a signalfd
void verl_script_name(script_t *self);                                  // from its file
// script.c: calls a function of the script with `run` and, where push is not NULL, what it pushes. 0, or -1 with why.
int  verl_script_call(script_t *self, int function, void (*push)(lua_State *, void *), void *argument,
                      verl_error_t *error);
int  verl_script_ready(script_t *self, verl_error_t *error); // holds are there: the run may begin
void verl_script_say(script_t *self, const char *text);      // a line, on standard output and in the run's log
#endif
