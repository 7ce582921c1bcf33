// script_toml.h: a table of Lua as a fragment of a topology, in TOML.
#ifndef VERL_SCRIPT_TOML_H
#define VERL_SCRIPT_TOML_H
#include <lua.h>

// Inside of verl_lua_run: pushes the text of the table at `index`; raises what TOML cannot say, with its path. `run`,
// `actor.NAME` and `stage.NAME` become sections, which are merged key by key; tables below them stand in one line, and
// replace. Keys are in the order of their bytes, numbers keep their value to the bit. An empty table is a section where
// one may stand, else an empty array.
void verl_script_push_toml(lua_State *state, int index);
#endif
