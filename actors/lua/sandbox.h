// sandbox.h: a Lua 5.4 state in which a file of a user's can compute, and do nothing else.
//
// There is no io, os, package, debug, load, dofile, require or coroutine; a chunk is text. Memory and instructions are
// bounded: what goes beyond them ends with a sentence that names file and line. Invariants: what a file computes is a
// function of its inputs (pairs and next go in an order that depends on the keys alone); after the instructions are
// used up, every further one fails too, so that no pcall keeps a loop alive; nothing of Lua runs but inside of
// verl_lua_run. What C functions of the string library cost is not counted: a handler's timeout bounds that, and a
// script's own (tools/script.c).
// A sandbox belongs to one thread at a time.
#ifndef VERL_LUA_SANDBOX_H
#define VERL_LUA_SANDBOX_H
#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERL_LUA_MAX_FILE (1 << 20) // bytes of a file, at most
#define VERL_LUA_SENTENCE 900       // bytes that hold every sentence of this folder

typedef struct verl_lua {
    lua_State *state;
    int64_t bytes, max_bytes;               // of memory
    int64_t instructions, max_instructions; // since verl_lua_run began
    bool exhausted;                         // instructions are used up
    bool stopped;                           // tick said so
    bool (*tick)(void *context);            // asked every 10,000 instructions: true ends what runs, without a word
    void *context;                          // of the owner, for tick and for functions of its own
    const char *memory_key, *instructions_key; // what a user sets for more of them; NULL: nothing. Borrowed
    char name[64];                          // of the file, without its folder
    char where[96];                         // "reward.lua:7: ", where memory was refused last; empty: unknown
    char limit[256];                        // the sentence of a limit that was met
} verl_lua_t;

// A new sandbox with the libraries in it. NULL without memory. max_bytes: at least 1 MiB.
verl_lua_t *verl_lua_new(int64_t max_bytes, int64_t max_instructions, void *context);
void verl_lua_destroy(verl_lua_t **lua_p);

// Runs a function protected, with `argument` as its only argument, a light userdata; the stack is as before when it
// returns. Returns 0, or -1 with one sentence that begins with file:line where there is a line to name. Instructions
// are counted from here.
int verl_lua_run(verl_lua_t *lua, lua_CFunction function, void *argument, char *error, size_t size);

// Inside of verl_lua_run: reads a file and leaves its chunk as a function on the stack. Raises what is wrong.
void verl_lua_load(lua_State *state, const char *path);
// The same of a text; name is what errors call it.
void verl_lua_load_text(lua_State *state, const char *text, size_t bytes, const char *name);
// Closes the globals of a loaded chunk (its index on the stack): what is assigned to one from here on is an error whose
// sentence ends with `cure`, a string that lives as long as the sandbox.
void verl_lua_freeze(lua_State *state, int chunk, const char *cure);
// Pushes the table in which a loaded chunk's globals are.
void verl_lua_push_globals(lua_State *state);

// The sandbox of a state.
verl_lua_t *verl_lua_of(lua_State *state);
// Counts instructions for work that a C function does in a loop; raises the limit's sentence where they are used up.
void verl_lua_charge(lua_State *state, int64_t instructions);
// A global of C's own, beside the library.
void verl_lua_register(lua_State *state, const char *name, lua_CFunction function);

// Used by sandbox.c: fills the table of globals with what is allowed.
void verl_lua_open_library(lua_State *state);
#endif
