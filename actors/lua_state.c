// lua_state.c: the kind `lua` for a file that keeps state from batch to batch: it has functions snapshot and restore.
//
// A kind of its own, since whether an actor keeps state is what the runtime knows of a kind: such an actor has no
// replicas and is saved in checkpoints.
#include "actors/lua/kind.h"

VERL_KIND(lua_state,
    .about = "calls a function of a Lua file that keeps state with each batch",
    .state_size = sizeof(verl_lua_actor_t), .options = verl_lua_actor_options,
    .stages = { { "call", verl_lua_handle, .about = "what the file's function gives",
                  .options_size = sizeof(verl_lua_work_t), .options = verl_lua_work_options,
                  .declare = verl_lua_declare_stateful, .begin = verl_lua_begin } },
    .keeps_state = true,
    .prepare = verl_lua_prepare_stateful, .finish = verl_lua_finish,
    .snapshot = verl_lua_snapshot, .restore = verl_lua_restore)
