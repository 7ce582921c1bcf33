// kind.h: what the parts of the kinds `lua` and `lua-state` share. See README.md for what a file may say.
//
// An actor has one sandbox, in which its file ran once; each of its stages knows the columns that it gives. Invariant:
// a stage's list is made in begin, which may run while another stage works, and is only read behind the lock.
#ifndef VERL_LUA_KIND_H
#define VERL_LUA_KIND_H
#include <pthread.h>
#include <verl.h>
#include "actors/data/random.h"
#include "actors/lua/sandbox.h"

#define VERL_LUA_NAME 128                   // bytes of a column as a file writes it, at most

// What a file says about one of its functions.
typedef struct verl_lua_spec {
    const char *function;                        // its name: lives as long as the stage
    int needs_count, gives_count;
    char needs[VERL_MAX_COLUMNS][VERL_LUA_NAME]; // "name", "name?"
    char gives[VERL_MAX_COLUMNS][VERL_LUA_NAME]; // "name", "name:i32[n,*]"
    bool snapshot, restore;                      // has functions of these names
} verl_lua_spec_t;

// A column that is given, read from its text.
typedef struct verl_lua_output {
    char name[VERL_LUA_NAME];
    verl_dtype_t dtype;
    bool ragged;
    int64_t width;
} verl_lua_output_t;

typedef struct verl_lua_entry {
    struct verl_lua_entry *next;
    const verl_stage_t *stage;
    verl_lua_spec_t spec;
    verl_lua_output_t outputs[VERL_MAX_COLUMNS];
} verl_lua_entry_t;

// The state of an actor; file and memory are its options.
typedef struct verl_lua_actor {
    const char *file;
    int64_t memory; // MiB
    pthread_mutex_t lock;
    bool locks; // the mutex is made
    bool keeps; // globals may be assigned
    verl_lua_t *lua;
    verl_lua_entry_t *entries;
} verl_lua_actor_t;

// Options of a stage.
typedef struct verl_lua_work {
    const char *function;
    int64_t instructions;
    verl_weights_t options;
} verl_lua_work_t;

// What Lua's functions find of the call that is going on, as the context of the sandbox; stage NULL: of none.
typedef struct verl_lua_call {
    verl_stage_t *stage;
    const verl_lua_work_t *work;
    verl_lua_entry_t *entry;
    const verl_batch_t *in;
    verl_batch_t *out;
    int64_t row;          // that was read last, -1: none
    verl_random_t random; // of the batch, for math.random
    int rc;               // -1: the batch recorded why
} verl_lua_call_t;

// spec.c. Runs the file in a sandbox of its own. -1 with one sentence.
int verl_lua_spec_read(const verl_lua_actor_t *actor, const verl_lua_work_t *work, const char *stage,
                       verl_lua_spec_t *ret_spec, char *error, size_t size);
// Reads "advantages:f32[n,*]". -1 with one sentence.
int verl_lua_output_read(const char *text, verl_lua_output_t *ret_output, char *error, size_t size);

// All of these run inside of verl_lua_run and raise what is wrong.
void verl_lua_start(lua_State *state, const verl_lua_actor_t *actor, const verl_lua_work_t *work); // runs the file
void verl_lua_push_function(lua_State *state, const char *name); // of the file's table, or nil
void verl_lua_set_options(lua_State *state, const verl_lua_work_t *work);
void verl_lua_open_says(lua_State *state);                              // says.c: metric, log, fail, sample, random
void verl_lua_push_batch(lua_State *state, verl_lua_call_t *call);      // views.c: the batch, with its columns
void verl_lua_take_outputs(lua_State *state, verl_lua_call_t *call, int batch, int result); // outputs.c
verl_lua_call_t *verl_lua_call_of(lua_State *state); // NULL: nothing is called
// Makes views of an earlier batch dead. views.c
void verl_lua_end_batch(lua_State *state);

// The functions of the kinds.
int verl_lua_handle(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out);
int verl_lua_declare_stateless(verl_declaration_t *declaration, const void *state, const void *options);
int verl_lua_declare_stateful(verl_declaration_t *declaration, const void *state, const void *options);
int verl_lua_begin(verl_stage_t *stage);
int verl_lua_prepare(verl_stage_t *stage);
int verl_lua_prepare_stateful(verl_stage_t *stage);
void verl_lua_finish(verl_stage_t *stage);
int verl_lua_snapshot(verl_stage_t *stage, const char *directory);
int verl_lua_restore(verl_stage_t *stage, const char *directory);

extern const verl_option_t verl_lua_actor_options[], verl_lua_work_options[];
#endif
