// script_command.c: verl-inject script FILE.lua.
#include "tools/inject.h"
#include "tools/script.h"

int
verl_inject_script(int count, char **words, const verl_inject_options_t *options)
{
    if (count != 2)
        return verl_inject_usage(count < 2 ? "script names no file of Lua" : "script takes one file");
    return verl_script_main(options->run, words[1], options->json);
}
