// difference_impl.h: how a difference is gathered: its memory, and the keys of one thing that differ.
#ifndef VERL_DIFFERENCE_IMPL_H
#define VERL_DIFFERENCE_IMPL_H
#include "runtime/topology/difference.h"
#include "runtime/topology/pool.h"

typedef struct verl_difference_box {
    verl_difference_t difference;           // first, so that the one is found from the other
    verl_pool_t       pool;
    bool              failed;               // memory ran out
} verl_difference_box_t;

typedef struct verl_keys {                  // that differ, of one thing
    verl_difference_box_t *box;
    int                    count;
    verl_key_change_t     *items;
} verl_keys_t;

// Each adds a key where the two values differ. NULL of a text: absent.
void verl_differ(verl_keys_t *keys, const char *key, const char *before, const char *after);  // always; TOML already
void verl_differ_int(verl_keys_t *keys, const char *key, int64_t before, int64_t after);
void verl_differ_real(verl_keys_t *keys, const char *key, double before, double after);
void verl_differ_text(verl_keys_t *keys, const char *key, const char *before, const char *after);
// Options of before that may have stayed: all, or none where the actor is of another kind, with which they go.
const verl_value_t *verl_kept_options(const verl_plan_actor_t *before, const verl_plan_actor_t *after,
                                      const verl_value_t *options);
void verl_differ_options(verl_keys_t *keys, const verl_value_t *before, const verl_value_t *after);
// All keys of a stage.
void verl_differ_stage(verl_keys_t *keys, const verl_plan_t *old_plan, const verl_plan_stage_t *before,
                       const verl_plan_t *new_plan, const verl_plan_stage_t *after);
#endif
