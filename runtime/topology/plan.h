// plan.h: a topology as it will run: actors, stages in topological order, and the edges between them.
//
// The loader makes a plan from a file; the director sends it to every actor, encoded, as the table of a revision; an
// actor decodes it and routes by it. All indices are into the plan's own arrays. A plan never changes once it is made.
#ifndef VERL_PLAN_H
#define VERL_PLAN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/error.h"
#include "runtime/include/verl.h"

// A typed value, as an option has it.
typedef enum { VERL_VALUE_BOOL, VERL_VALUE_INT, VERL_VALUE_REAL, VERL_VALUE_STRING, VERL_VALUE_ARRAY,
               VERL_VALUE_TABLE } verl_value_type_t;
typedef struct verl_value {
    verl_value_type_t  type;
    bool               boolean;
    int64_t            integer;
    double             real;
    char              *string;
    int                count;               // of an array or a table
    struct verl_value *items;
    char             **keys;                // of a table
} verl_value_t;

// The batches that a stage works on: k with k % period == 0 and begin <= k < steps, and the closing one (k == steps)
// where closing is set (a held-out set is looked at once more after the last update).
typedef struct verl_span {
    int64_t period, begin;
    bool    closing;
} verl_span_t;

typedef enum { VERL_PLACE_PROCESS, VERL_PLACE_THREAD } verl_place_t;
typedef enum { VERL_ON_FAILURE_STOP, VERL_ON_FAILURE_RESTART, VERL_ON_FAILURE_IGNORE } verl_on_failure_t;
typedef enum { VERL_ON_ERROR_STOP, VERL_ON_ERROR_SKIP } verl_on_error_t;

typedef struct verl_plan_actor {
    char              *name;
    const verl_kind_t *kind;                // found by kind_name in this process; NULL after decoding where unknown
    char              *kind_name;           // of the registry, or the path of a shared object
    verl_value_t       options;             // a table: every option of the kind's state that has a value, defaults too
    verl_place_t       place;
    int64_t            replicas;
    verl_on_failure_t  on_failure;
    char              *devices;             // "cpu", "cpu:0-1", "cuda:0-3": as resolved
    char              *role;                // of [mesh] that has them; NULL: none. Not in the table
    double             timeout, liveness;   // seconds; 0: none
    int                line, column;        // where the file names it
} verl_plan_actor_t;

// One need of a stage, resolved.
typedef struct verl_plan_need {
    char *name;                             // what the handler asks for
    int   edge;                             // that brings it; -1: optional and absent
    char *column;                           // its name on the edge
    int   maps;                             // row maps between the stage's rows and the column's: edges that carry
    int  *map_edges;                        // them, from the stage's rows outwards
    bool  named;                            // by `uses`. Not in the table
} verl_plan_need_t;

typedef struct verl_plan_stage {
    char                    *name;
    int                      actor;
    const verl_stage_kind_t *handler;       // of the actor's kind; NULL after decoding where the kind is unknown
    char                    *does;          // its name
    verl_value_t             options;       // a table: every option of the stage that has a value, defaults too
    verl_span_t              span;
    bool                     source;        // has no dependency: works by permit
    bool                     maps;          // gives a row map
    int                      rows_of;       // stage whose rows this one is given: the last upstream that maps or the
                                            // source itself; its own index for a source
    int64_t                  parts;         // this stage cuts its batch into so many parts; 1: it does not
    int                      parts_of;      // stage whose cut this one's output has; -1: whole batches
    bool                     by_part;       // runs on each part (else it waits for the whole batch)
    verl_on_error_t          on_error;
    double                   timeout;       // of its handler, seconds; 0: none. Else its actor's
    int                      depends_count;
    int                     *depends;       // directly, as the topology has them; there may be more edges, since
                                            // columns and maps come straight from their makers
    int                      weights_edge;  // that brings published versions; -1: in place or none
    int                      needs_count;
    verl_plan_need_t        *needs;
    int                      gives_count;
    char                   **gives;         // the handler's names …
    char                   **gives_as;      // … and what they are called downstream (`as`)
    char                   **gives_type;    // "f32[n,*]"
    int                      in_count, out_count;
    int                     *in_edges, *out_edges;   // weights edges too
    int                      line, column;
} verl_plan_stage_t;

typedef struct verl_plan_edge {
    int     maker, reader;                  // stages
    bool    weights;                        // brings versions of the maker's weights instead of columns
    int64_t staleness;                      // of a weights edge
    bool    map;                            // carries the maker's row map
    int     columns_count;
    char  **columns;                        // downstream names of the maker's columns that the reader needs
} verl_plan_edge_t;

typedef struct verl_plan {
    int64_t  revision;
    char    *name;
    char    *file;                          // absolute path of the topology
    int64_t  steps;                         // of the run, and less where a source ends earlier
    uint64_t seed;
    int64_t  max_in_flight;
    int64_t  max_bytes;
    int64_t  save_every, keep;              // checkpoints; save_every 0: only at the end
    double   drain_timeout;                 // seconds
    char    *script;                        // absolute path of the run's own script; NULL: none. Not in the table
    char    *script_at;                     // where it was named, as errors say it; NULL: nobody knows. Not in the table
    int      roles_count;                   // of [mesh], and their devices, as resolved. Not in the table
    char   **roles, **roles_devices;
    int      actors_count, stages_count, edges_count;
    verl_plan_actor_t *actors;
    verl_plan_stage_t *stages;              // topological: an edge's maker stands before its reader (weights aside)
    verl_plan_edge_t  *edges;
} verl_plan_t;

void verl_plan_destroy(verl_plan_t **plan_p);

// Encoded as msgpack, for the TABLE message. Returns malloc'ed bytes, or NULL without memory.
char *verl_plan_encode(const verl_plan_t *plan, size_t *ret_bytes);
// Checks everything (counts, indices, types, nesting) before it believes it. NULL with a reason if it is malformed.
// Kinds that this process knows are filled in; a shared object is not loaded for it.
verl_plan_t *verl_plan_decode(const char *bytes, size_t size, verl_error_t *error);
// Finds the kind of one actor, loading its shared object where it is one, and the handlers of its stages: for the
// process that runs this actor, once, before it shares the plan. Returns 0, or -1 with the reason.
int verl_plan_bind(verl_plan_t *plan, int actor, verl_error_t *error);

// Does a stage work on batch k; the one it works on before / after k (-1: none); how many before k.
bool    verl_span_has(const verl_span_t *span, int64_t steps, int64_t k);
int64_t verl_span_next(const verl_span_t *span, int64_t steps, int64_t k);      // smallest > k
int64_t verl_span_previous(const verl_span_t *span, int64_t steps, int64_t k);  // largest < k
int64_t verl_span_ordinal(const verl_span_t *span, int64_t steps, int64_t k);   // batches < k that it works on
// The replica of a stage's actor that works on batch k: batches are dealt in turn.
int64_t verl_plan_replica(const verl_plan_t *plan, int stage, int64_t k);
// Does an actor only work with versions of weights that others publish? What it needs then comes by them.
bool    verl_plan_is_fed(const verl_plan_t *plan, int actor);
// The update whose weights a reader uses for batch k: the last batch < max(k - staleness, 0) that `writer` works on;
// -1: the weights that the run began with. In place, and of a weights edge alike.
int64_t verl_plan_version(const verl_plan_t *plan, int writer, int64_t staleness, int64_t k);
// The last batch id of the run: steps, where any stage works on the closing batch, else steps - 1.
int64_t verl_plan_last(const verl_plan_t *plan);
// Messages that a receiver lets come over an edge before it takes the first: more than the run allows to be alive.
int64_t verl_plan_window(const verl_plan_t *plan);

// Fills a struct from a table of options and values, with defaults for what is absent. Strings are borrowed from the
// values and, for defaults, from the option table; verl_options_done frees the lists that it made.
size_t verl_options_bytes(const verl_option_t *table, size_t given);   // of the struct: given, or where 0 what the table spans
int  verl_options_fill(const verl_option_t *table, const verl_value_t *values, void *options, verl_error_t *error);
void verl_options_done(const verl_option_t *table, void *options);

// Kinds of this program, and shared objects by path. Returns NULL with a reason that proposes the nearest name.
const verl_kind_t *verl_kind_find(const char *name, verl_error_t *error);
#endif
