// groups.h: rows that belong together, wherever they lie in a batch.
#ifndef VERL_RL_GROUPS_H
#define VERL_RL_GROUPS_H
#include <stdint.h>

typedef struct verl_groups {
    int64_t  count;
    int64_t *order;                         // [rows] rows, those of a group behind each other and in their order
    int64_t *starts;                        // [count + 1] where each group begins in it: by their first rows
} verl_groups_t;

// Rows of one key are a group. 0, or -1 without memory. Done in either case with verl_groups_done.
int  verl_groups_find(const int64_t *keys, int64_t rows, verl_groups_t *ret_groups);
void verl_groups_done(verl_groups_t *groups);
#endif
