// script_inverse.h: the change that takes a change back.
#ifndef VERL_SCRIPT_INVERSE_H
#define VERL_SCRIPT_INVERSE_H
#include "runtime/base/error.h"

// topology: the whole topology before the change, as a run directory has it (resolved). fragment: the change. Returns
// the fragment that gives every key that the change names the value that it had: what was there before is set again,
// what was not is unset, what was taken away stands whole. What others change meanwhile stays theirs, other keys aside.
// Malloc'ed; NULL with one sentence. Blocks nowhere; safe from any thread.
char *verl_script_inverse(const char *topology, const char *fragment, verl_error_t *error);
#endif
