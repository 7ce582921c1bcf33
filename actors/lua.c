// lua.c: an actor that is a file of Lua 5.4: a reward in ten lines. What it may say: actors/lua/README.md.
#include "actors/lua/kind.h"

VERL_KIND(lua,
    .about = "calls a function of a Lua file with each batch",
    .state_size = sizeof(verl_lua_actor_t), .options = verl_lua_actor_options,
    .stages = { { "call", verl_lua_handle, .about = "what the file's function gives",
                  .options_size = sizeof(verl_lua_work_t), .options = verl_lua_work_options,
                  .declare = verl_lua_declare_stateless, .begin = verl_lua_begin } },
    .prepare = verl_lua_prepare, .finish = verl_lua_finish)
