// kinds.h: the kinds that the build found in actors/.
#ifndef VERL_TOOLS_KINDS_H
#define VERL_TOOLS_KINDS_H
#include <verl.h>

extern const verl_kind_t *const verl_kinds[];   // ends with NULL
#endif
