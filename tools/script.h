// script.h: scripts of experiments: a file of Lua that watches the steps of a run and changes its topology.
//
// A script is a process beside the run, which it talks to by the run's two control sockets. Whatever becomes of it,
// the run goes on: an error ends it, named with file:line. Its end, of whatever kind, takes back the branches that
// are open.
#ifndef VERL_SCRIPT_H
#define VERL_SCRIPT_H
#include <stdbool.h>
#include "runtime/base/error.h"

// Runs a script to its end. run_directory as verl_client_open takes it. It ends when nothing is left that it waits for,
// with an error, by SIGINT or SIGTERM, or with the run. Says on standard output what it logs (json: an object a line,
// with `script` and `text`), on standard error why it ended. Returns the exit code of verl-inject (tools/inject.h).
// Blocks until then.
int verl_script_main(const char *run_directory, const char *file, bool json);

// Reads a script without running it. 0, or -1 with what is wrong with it, as file:line: what.
int verl_script_check(const char *file, verl_error_t *error);

// The script of a run's own ([run] script). Starts `program`, verl-inject, on it; its output goes to
// run_directory/logs/script.log. The run grants no permit before the script says that it is ready; a script that ends
// without having said so is reported by a thread of ours. Call it before verl_director_run, with the run's directory
// made; NULL with the reason.
typedef struct verl_script_child verl_script_child_t;
verl_script_child_t *verl_script_start(const char *run_directory, const char *program, const char *file,
                                       verl_error_t *error);
// After verl_director_run: tells the script that the run is over and waits for it; kills it after two seconds. Returns
// 0, or -1 where it had failed, with the last line that it said. *child_p may be NULL.
int verl_script_finish(verl_script_child_t **child_p, verl_error_t *error);
#endif
