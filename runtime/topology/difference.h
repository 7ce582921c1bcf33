// difference.h: what a change makes of a topology: which actors go on, are replaced, are added or go; which stages work
// otherwise; and what cannot change while a run lives.
#ifndef VERL_DIFFERENCE_H
#define VERL_DIFFERENCE_H
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include "runtime/base/error.h"
#include "runtime/topology/plan.h"

typedef enum {
    VERL_FATE_KEPT,                         // goes on as it is; of a stage: with the same keys
    VERL_FATE_CHANGED,                      // goes on with other keys. Of an actor: such as need no fresh process
    VERL_FATE_REPLACED,                     // an actor: fresh incarnations under the same name
    VERL_FATE_ADDED,
} verl_fate_t;

typedef enum {
    VERL_STATE_NONE,                        // the kind keeps none
    VERL_STATE_HANDED,                      // the old one writes it, the new one reads it
    VERL_STATE_FRESH,                       // it keeps some, and begins anew
} verl_state_fate_t;

// One key, as it was and as it is, in TOML. "" where it was or is absent.
typedef struct verl_key_change {
    char *key, *before, *after;
} verl_key_change_t;

typedef struct verl_change_item {
    const char        *name;                // the plan's
    verl_fate_t        fate;
    int                before;              // index in the plan before; -1: added
    bool               asked;               // an actor: it is to be swapped, whatever differs
    verl_state_fate_t  state;               // of an actor that is replaced
    int                keys_count;
    verl_key_change_t *keys;
} verl_change_item_t;

typedef struct verl_difference {
    const verl_plan_t  *before, *after;     // borrowed; they have to live as long
    bool                empty;              // nothing differs, and nothing is to be swapped
    int                 actors_count, stages_count;
    verl_change_item_t *actors, *stages;    // one for each of `after`, by its index
    int                 gone_actors_count, gone_stages_count;
    int                *gone_actors, *gone_stages;   // indices in `before`
    int                 run_count;          // keys of [run]
    verl_key_change_t  *run;
} verl_difference_t;

// Compares. swap: names of actors, or of stages that stand for theirs, to be replaced even if nothing of them differs.
// NULL with a sentence: something differs that cannot change while a run lives, or a name to swap is none. Any thread.
verl_difference_t *verl_difference_new(const verl_plan_t *before, const verl_plan_t *after, const char *const *swap,
                                       int swap_count, verl_error_t *error);
void verl_difference_destroy(verl_difference_t **difference_p);

// For people: a line for each thing that changes, and one that says what goes on.
void verl_difference_print(const verl_difference_t *difference, FILE *out);
// For programs: {"empty", "run": {key: [before, after]}, "actors": {name: {"fate", "state"?, "keys"?}}, "stages": {…}}
// without what is kept; removed ones have the fate "removed". NULL without memory.
json_t *verl_difference_json(const verl_difference_t *difference);
// In a few words for a sentence and a log: "replaced advantage, added critic2". Writes at most `size` bytes.
const char *verl_difference_brief(const verl_difference_t *difference, char *text, size_t size);
#endif
