// draft.h: a topology while it is checked. Each pass below adds what it finds out and what is wrong, and goes on, so
// that all mistakes are reported at once; the last one makes the plan.
//
// Invariant: indices are in the order of the file until the plan is made. What is `broken` or `unsure` was reported
// already: later passes say nothing that only follows from it.
#ifndef VERL_TOPOLOGY_DRAFT_H
#define VERL_TOPOLOGY_DRAFT_H
#include "runtime/topology/keys.h"
#include "runtime/topology/node.h"
#include "runtime/topology/plan.h"
#include "runtime/topology/problems.h"

#define VERL_STAGES_MAX 1024

typedef struct verl_draft_actor {
    const char *name;
    verl_at_t at;            // of its name
    const verl_node_t *node; // its table; the stage's where a stage has it for itself
    const verl_kind_t *kind; // NULL: not known, reported
    const char *kind_name;
    verl_value_t options; // of the state
    verl_value_t common;  // the keys of every actor, defaults too
    verl_actor_keys_t keys;
    const char *devices;
    const char *role; // of [mesh] that has them; NULL: none
    int base;    // made from this one because a stage's weights may be stale; -1: not so
    bool own;    // of one stage that names its kind
    int stages;  // that run in it
    bool unsure; // something in its options is wrong
} verl_draft_actor_t;

typedef struct verl_draft_need {
    const char *name, *column; // what the handler asks for; what it is called upstream
    bool optional;
    bool named;              // by `uses`: it has to be there
    const verl_node_t *node; // of the option that lists it; NULL: the kind needs it
    const char *of;          // another need: not made before that one's column; NULL: no matter
    const char *space, *who; // of ids; NULL: none
    int maker;               // stage; -1: none
    int edge;                // into the stage's in; -1: none
    int maps;                // and edges (also into in) whose maps lead from the stage's rows to the
    int *map_edges;          // column's
} verl_draft_need_t;

typedef struct verl_draft_give {
    const char *name, *as, *type;
    const char *space, *who;
} verl_draft_give_t;

// An edge to a stage.
typedef struct verl_draft_edge {
    int maker;
    bool map;
    int columns_count;
    const char **columns;
    int id; // in the plan
} verl_draft_edge_t;

typedef struct verl_draft_stage {
    const char *name;
    verl_at_t at;
    const verl_node_t *node;
    int actor;                        // -1: not known, reported
    const verl_stage_kind_t *handler; // NULL: not known, reported
    verl_value_t options;
    verl_stage_keys_t keys; // depends_on aside
    double timeout;         // its own or its actor's
    int deps_count;
    int *deps;                     // stages
    const verl_node_t **deps_node; // where each was written
    int weights_from;              // stage that publishes its weights; -1: in place, or none
    bool unsure;                   // something that its columns depend on is wrong
    bool clouded;                  // it, or something upstream, is unsure: columns may be missing for that
    int lacks;                     // a stage that depends_on should name, as was reported; -1: none
    bool lost;                     // which rows it is given is not known, and reported
    bool ordered;                  // not in a cycle, nor behind one
    bool by_row, maps;             // as its handler always does, or as it declared
    int64_t batches;               // of a source that ends; -1: never
    int64_t rows;                  // of a batch of a source whose options do not say it; 0: not known
    const char *writes;            // a file of the run directory; NULL: none
    const char *divides_option;    // says how many rows it works on at a time; NULL: no matter
    int64_t divides;
    verl_span_t span;
    int needs_count, gives_count;
    verl_draft_need_t *needs;
    verl_draft_give_t *gives;
    int rows_of;
    int in_count;
    verl_draft_edge_t *in;
    bool by_part;
    int parts_of;
    int plan; // its index in the plan
} verl_draft_stage_t;

typedef struct verl_draft {
    verl_pool_t *pool;
    verl_problems_t problems;
    const char *file, *folder; // as given; absolute
    verl_node_t *root;
    verl_run_keys_t run;
    bool run_steps, run_in_flight, run_bytes; // given?
    bool lives;                               // a change of a run whose devices are settled
    int64_t steps;                            // of the run; 0: not known
    int roles_count;
    char **roles, **roles_devices; // NULL devices: wrong, reported
    int actors_count, stages_count, order_count;
    verl_draft_actor_t *actors;
    verl_draft_stage_t *stages;
    int *order;     // stages that are in no cycle, dependencies first
    bool *waits;    // [stage * stages + other]: for it, by depends_on or for its weights
    bool *upstream; // [reader * stages + maker]: by depends_on, transitively
} verl_draft_t;

// One table of options, and where its values go. values gets defaults too, at verl_draft_keys' end.
typedef struct verl_scope {
    const verl_option_t *table;
    verl_value_t *values;
} verl_scope_t;

// draft_keys.c. Checks the keys of a table against some scopes; `where` is "[stage.x]". For keys that no scope has,
// `elsewhere` (which may be NULL) may know better: it returns a hint or NULL. With lax, they are passed over in
// silence. Returns the number of mistakes.
typedef const char *(*verl_elsewhere_t)(verl_draft_t *draft, const void *who, const char *key);
int verl_draft_keys(verl_draft_t *draft, const verl_node_t *node, const char *where, const verl_scope_t *scopes,
                    int scopes_count, bool lax, verl_elsewhere_t elsewhere, const void *who);
// Where a key of a table was written; the fallback where it was not. The value's place, or the key's.
verl_at_t verl_draft_at(const verl_node_t *node, const char *key, verl_at_t fallback);
verl_at_t verl_draft_key_at(const verl_node_t *node, const char *key, verl_at_t fallback);
// Is it a name that stages, actors and files may have? Reports where not.
bool verl_draft_name(verl_draft_t *draft, const char *what, const char *name, verl_at_t at);

// Reports a key of a table that is nobody's and was probably meant to be one of some others, which are absent. False:
// there is none.
bool verl_draft_mistyped(verl_draft_t *draft, const verl_node_t *node, const char *where, const char *const *names,
                         int names_count);

// draft_systems.c. The system that calls an option `key`, by its whole name or the last parts of it, in a buffer; NULL:
// none does.
const char *verl_draft_system(const verl_option_t *option, const char *key, char *system, size_t size);
// All options of a table, from one that a system calls `key` on, which are set by that: "`clip_low` and `clip_high`".
const char *verl_draft_named(verl_draft_t *draft, const verl_option_t *first, const char *key);
// A key of ours or of another system: what it is called here, and where it belongs. NULL: of none that is known.
const char *verl_draft_ours(verl_draft_t *draft, const char *key);
// The same for all keys below a node, each reported at its place; path: of the node. Returns how many have an answer,
// and adds the number of keys.
int verl_draft_foreign(verl_draft_t *draft, const verl_node_t *node, const char *path, int *ret_keys);

// draft_sets.c: puts the --set arguments over a document; takes away what a fragment's `unset` names.
void verl_draft_sets(verl_draft_t *draft, const char *const *sets, int sets_count);
void verl_draft_unset(verl_draft_t *draft, const verl_node_t *unset);

// The passes, in this order.
void verl_draft_run(verl_draft_t *draft);     // draft_run.c: the top, [run], [mesh]
void verl_draft_actors(verl_draft_t *draft);  // draft_actors.c: [actor.*]
void verl_draft_stages(verl_draft_t *draft);  // draft_stages.c: [stage.*]
void verl_draft_weights(verl_draft_t *draft); // draft_weights.c: who works with whose weights
void verl_draft_order(verl_draft_t *draft);   // draft_order.c: cycles; what is upstream of what
void verl_draft_columns(verl_draft_t *draft); // draft_columns.c: needs, gives and the edges between them
void verl_draft_spans(verl_draft_t *draft);   // draft_spans.c: batches; the steps of the run
void verl_draft_limits(verl_draft_t *draft);  // draft_limits.c: parts, replicas, failures
void verl_draft_plan(verl_draft_t *draft, verl_plan_t *plan); // draft_plan.c: only where nothing is wrong

// draft_actors.c
const char *verl_draft_kind(verl_draft_t *draft, const verl_node_t *node, const verl_kind_t **ret_kind);
int verl_draft_add_actor(verl_draft_t *draft, verl_draft_actor_t actor);
int verl_draft_find_actor(const verl_draft_t *draft, const char *name);
void verl_draft_actor_common(verl_draft_t *draft, verl_draft_actor_t *actor, const verl_node_t *node);
// draft_stages.c
int verl_draft_find_stage(const verl_draft_t *draft, const char *name);
const char *verl_draft_nearest_stage(const verl_draft_t *draft, const char *name);
// draft_spans.c: of two periods; beyond any run where it would be too big.
int64_t verl_draft_common_multiple(int64_t a, int64_t b);
// draft_declare.c: asks a stage's kind what it needs and gives. What is upstream was asked before.
void verl_draft_declare(verl_draft_t *draft, int stage);
// The name upstream of what a handler calls `name`.
const char *verl_draft_uses(const verl_draft_stage_t *stage, const char *name);
// Where an option of a stage, or of its actor, was written; the stage's place where it was not.
verl_at_t verl_draft_option_at(const verl_draft_t *draft, const verl_draft_stage_t *stage, const char *option);
// Is it a name that a column may be given?
bool verl_draft_column_name(const char *name);
// draft_rows.c: which rows a stage is given, and the maps from there to each column that it needs.
void verl_draft_rows(verl_draft_t *draft, int stage);
// Rows of a whole batch, as options say them.
typedef struct verl_draft_count {
    int64_t rows;     // -1: not known before the start
    int64_t together; // that were made of one
    const char *text; // "32 of `prompts` × 8 of `generate`"
} verl_draft_count_t;
// How many rows a stage is given.
verl_draft_count_t verl_draft_count(const verl_draft_t *draft, const verl_draft_stage_t *stage);
// The stage that opened the rows of what a stage gives.
int verl_draft_space(const verl_draft_t *draft, int stage);
int verl_draft_edge(verl_draft_t *draft, int stage, int maker); // finds or adds; its index
// Is a stage upstream of another one, and makes a column?
bool verl_draft_makes(const verl_draft_t *draft, int stage, int maker, const char *column);
// Is a stage upstream of the one whose column of this name a stage is given?
bool verl_draft_is_before(const verl_draft_t *draft, int stage, int maker, const char *column);
// Does a stage depend on another, directly or not?
static inline bool
verl_draft_is_upstream(const verl_draft_t *draft, int reader, int maker)
{
    return draft->upstream[(size_t) reader * (size_t) draft->stages_count + (size_t) maker];
}
#endif
