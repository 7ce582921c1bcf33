// script_command.c: verl-inject script FILE.lua.
#include "tools/inject.h"
#include "tools/script.h"

int
verl_inject_script(int count, char **words, const verl_inject_options_t *options)
{
    if (count != 2)
        return verl_inject_usage(count < 2 ? "script names no file of Lua" : "script takes one file");
    if (options->plan || options->now || options->at >= 0 || options->timeout > 0)
        return verl_inject_usage(
            "script takes neither --plan nor --now, --at or --timeout: its file says what it does");
    return verl_script_main(options->run, words[1]);
}
