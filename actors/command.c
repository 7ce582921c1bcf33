// command.c: an actor that is a program of its own, in any language, which speaks the protocol
// (runtime/wire/PROTOCOL.md).
//
// The node starts the program in place of verl-actor; what it needs and gives is asked of it when a topology is
// checked.
#include "actors/command/kind.h"

VERL_KIND(command,
    .about = "runs a program that speaks the protocol, in any language",
    .state_size = sizeof(verl_command_t), .options = verl_command_options,
    .stages = { { "run", verl_command_handle, .about = "what the program says that its stage does",
                  .options_size = sizeof(verl_command_work_t), .options = verl_command_work_options,
                  .reads_weights = true,
                  .declare = verl_command_declare } },
    .external = true)
