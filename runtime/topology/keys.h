// keys.h: the keys that [run], every actor and every stage have, as option tables like those of a kind.
#ifndef VERL_TOPOLOGY_KEYS_H
#define VERL_TOPOLOGY_KEYS_H
#include "runtime/include/verl.h"

typedef struct verl_run_keys {
    const char *name, *script;
    int64_t steps, seed, max_in_flight, max_bytes, save_every, keep;
    double drain_timeout;
} verl_run_keys_t;

typedef struct verl_actor_keys {
    const char *mesh;
    int place, on_failure;
    int64_t replicas;
    double timeout, liveness;
} verl_actor_keys_t;

typedef struct verl_stage_keys {
    const char *kind, *actor, *does, *as, *uses, *weights;
    verl_strings_t depends_on;
    int64_t staleness, every, begin, parts;
    double timeout;
    int on_error;
} verl_stage_keys_t;

extern const verl_option_t verl_run_table[];
extern const verl_option_t verl_actor_table[];
// `as` and `uses` are strings or tables; the stage checks them itself.
extern const verl_option_t verl_stage_table[];

#define VERL_STEPS_MAX INT64_C(1000000000000)
#endif
