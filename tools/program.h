// program.h: where the other programs of this installation are.
#ifndef VERL_PROGRAM_H
#define VERL_PROGRAM_H
#include <stddef.h>
#include "runtime/base/error.h"

// The path of a program that stands beside this one, wherever both were installed. -1 with a reason: it cannot be run.
int verl_program_beside(const char *name, char *ret, size_t size, verl_error_t *error);
#endif
