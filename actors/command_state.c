// command_state.c: the kind `command` for a program that keeps state from batch to batch: it writes and reads
// checkpoints.
//
// A kind of its own, since whether an actor keeps state is what the runtime knows of a kind.
#include "actors/command/kind.h"

VERL_KIND(command_state,
    .about = "runs a program that speaks the protocol and keeps state, in any language",
    .state_size = sizeof(verl_command_t), .options = verl_command_options,
    .stages = { { "run", verl_command_handle, .about = "what the program says that its stage does",
                  .options_size = sizeof(verl_command_work_t), .options = verl_command_work_options,
                  .reads_weights = true,
                  .declare = verl_command_declare_stateful } },
    .keeps_state = true, .external = true,
    .snapshot = verl_command_keep, .restore = verl_command_keep)
