// groups.h: which rows of a batch belong together.
#ifndef VERL_KIT_GROUPS_H
#define VERL_KIT_GROUPS_H
#include <verl.h>
#include "actors/rl/groups.h"

// The keys that a column holds, one integer a row: all 64 bits of them. NULL, verl_fail was called: no memory, or it holds
// something else. The caller frees them.
int64_t *verl_groups_keys(verl_stage_t *stage, const verl_column_t *column);
#endif
