// limits.h: what the system allows a process of ours, made as wide as it may be.
#ifndef VERL_LIMITS_H
#define VERL_LIMITS_H
#include <stdint.h>
#include "runtime/base/error.h"

// At the start of a program, before any thread: as many open files as the hard limit has, stacks of 1 MiB at least, and
// writes that fail with a reason where a signal would end the process (SIGPIPE, SIGXFSZ). A standard stream that is closed
// becomes one that gives nothing and takes nothing, so that no file of ours gets its number.
void verl_limits_widen(void);

// Whether a handful of files can be opened still: -1 with the reason where not. For what would abort otherwise, as libzmq
// and CZMQ do.
int verl_limits_spare(verl_error_t *error);

// Whether so many actors can run: -1 with the reason where the hard limit of open files is too low. After widen.
int verl_limits_check(int64_t actors, verl_error_t *error);
#endif
