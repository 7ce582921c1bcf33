// verl.h: everything that an actor needs. The only header of ours that a file in actors/ includes for being an actor.
//
// An actor kind is a constant: state size, option tables, stages with their columns, handlers. The runtime owns
// memory, threads, sockets and errors; a handler gets a batch, adds columns to another, and returns 0 or verl_fail.
#ifndef VERL_H
#define VERL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---------------------------------------------------------------------------------------------------------------
// Columns

// name, bytes of an element, name in topologies and traces
#define VERL_DTYPE_MAP(X) \
    X(VERL_U8, 1, "u8")   \
    X(VERL_I32, 4, "i32") \
    X(VERL_I64, 8, "i64") \
    X(VERL_F32, 4, "f32") \
    X(VERL_BF16, 2, "bf16") \
    X(VERL_TEXT, 1, "text")                 // ragged bytes, UTF-8 by convention

typedef enum verl_dtype {
#define X(id, bytes, name) id,
    VERL_DTYPE_MAP(X)
#undef X
    VERL_DTYPE_COUNT
} verl_dtype_t;

size_t      verl_dtype_bytes(verl_dtype_t dtype);
const char *verl_dtype_name(verl_dtype_t dtype);

// A column as a handler sees it. Memory belongs to the runtime and lives until the handler returns.
typedef struct verl_column {
    const char    *name;
    verl_dtype_t   dtype;
    bool           ragged;                  // [n, *] or text: offsets is set
    int64_t        rows;                    // of the batch as the handler sees it
    int64_t        width;                   // elements of a row of a fixed column, or of one position of a ragged one
    const int64_t *offsets;                 // ragged: positions before each stored row, stored rows + 1 of them
    const void    *data;
    const int32_t *map;                     // stored row of each row seen; NULL: row i is stored row i
} verl_column_t;

// The stored row behind a row. Two rows with the same stored row share one value (a prompt and its samples).
static inline int64_t
verl_column_stored(const verl_column_t *column, int64_t row)
{
    return column->map ? column->map[row] : row;
}

// Positions in a row: its length where ragged, else 1.
static inline int64_t
verl_column_length(const verl_column_t *column, int64_t row)
{
    if (!column->ragged)
        return 1;
    int64_t stored = verl_column_stored(column, row);
    return column->offsets[stored + 1] - column->offsets[stored];
}

// The first element of a row.
static inline const void *
verl_column_at(const verl_column_t *column, int64_t row)
{
    int64_t stored = verl_column_stored(column, row);
    int64_t position = column->ragged ? column->offsets[stored] : stored;
    return (const char *) column->data + (size_t) (position * column->width) * verl_dtype_bytes(column->dtype);
}

static inline const float *
verl_column_f32(const verl_column_t *column, int64_t row)
{
    return (const float *) verl_column_at(column, row);
}

static inline const int32_t *
verl_column_i32(const verl_column_t *column, int64_t row)
{
    return (const int32_t *) verl_column_at(column, row);
}

static inline const int64_t *
verl_column_i64(const verl_column_t *column, int64_t row)
{
    return (const int64_t *) verl_column_at(column, row);
}

static inline const uint8_t *
verl_column_u8(const verl_column_t *column, int64_t row)
{
    return (const uint8_t *) verl_column_at(column, row);
}

// Bytes of a text row (not terminated) and their number.
static inline const char *
verl_column_text(const verl_column_t *column, int64_t row, size_t *ret_bytes)
{
    *ret_bytes = (size_t) verl_column_length(column, row);
    return (const char *) verl_column_at(column, row);
}

// ---------------------------------------------------------------------------------------------------------------
// Batches

typedef struct verl_batch verl_batch_t;     // a table of columns: read-only when given, growing when made
typedef struct verl_stage verl_stage_t;     // the stage whose handler runs

int64_t verl_batch_id(const verl_batch_t *batch);
int64_t verl_batch_rows(const verl_batch_t *batch);
int64_t verl_batch_first_row(const verl_batch_t *batch);   // of this part in the whole batch; 0 for a whole one
int     verl_batch_columns(const verl_batch_t *batch);
const verl_column_t *verl_batch_column_at(const verl_batch_t *batch, int index);

// A column by the name that the kind declared. Never NULL for a declared need without '?': that was checked at load.
const verl_column_t *verl_batch_column(const verl_batch_t *batch, const char *name);

// A batch that is made has the rows of the one that was given unless these say otherwise, before any column is added.
// verl_batch_set_rows: a source, which has no rows before it. verl_batch_set_map: the stage changes rows; returns the
// map to fill, rows entries: the given row that each new row comes from.
// All adders return memory to fill, where the consumer reads it, or NULL when there is none; the failure is recorded,
// and the handler just returns -1. Adding a name twice fails likewise.
int      verl_batch_set_rows(verl_batch_t *batch, int64_t rows);
int32_t *verl_batch_set_map(verl_batch_t *batch, int64_t rows);
void    *verl_batch_add(verl_batch_t *batch, const char *name, verl_dtype_t dtype, int64_t width);
float   *verl_batch_add_f32(verl_batch_t *batch, const char *name);
int32_t *verl_batch_add_i32(verl_batch_t *batch, const char *name);
int64_t *verl_batch_add_i64(verl_batch_t *batch, const char *name);
uint8_t *verl_batch_add_u8(verl_batch_t *batch, const char *name);
// Ragged: lengths has one number of positions a row (copied); rows follow each other in the memory returned.
void    *verl_batch_add_ragged(verl_batch_t *batch, const char *name, verl_dtype_t dtype, int64_t width,
                               const int64_t *lengths);
int      verl_batch_add_texts(verl_batch_t *batch, const char *name, const char *const *texts, const size_t *bytes);

// ---------------------------------------------------------------------------------------------------------------
// The stage that runs

void       *verl_stage_state(const verl_stage_t *stage);      // of the actor: state_size bytes, options filled in
const void *verl_stage_options(const verl_stage_t *stage);    // of this stage: options_size bytes
const char *verl_stage_name(const verl_stage_t *stage);       // in the topology
int64_t     verl_stage_version(const verl_stage_t *stage);    // of the weights that this batch is worked with
uint64_t    verl_stage_seed(const verl_stage_t *stage);       // hash of (run seed, stage name): key streams with batch and row
int64_t     verl_stage_steps(const verl_stage_t *stage);      // [run] steps
int64_t     verl_stage_batches(const verl_stage_t *stage);    // that the stage works on in the whole run …
int64_t     verl_stage_ordinal(const verl_stage_t *stage);    // … and how many of them come before this one

// Records why the handler fails, in one sentence, and returns -1. The runtime adds where. The first sentence wins.
int verl_fail(verl_stage_t *stage, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

// One value of a metric of this batch. Values under one name are reduced by weighted mean, or by the name's last part:
// "max", "min", or "sum". They are part of metrics.jsonl, so they must not depend on time (timing_s/ is the runtime's).
void verl_metric(verl_stage_t *stage, const char *name, double value);      // a name of at most 255 bytes
void verl_metric_weighted(verl_stage_t *stage, const char *name, double value, double weight);

// One example for people: shown now and then while the run goes on, and before and after at its end.
void verl_sample(verl_stage_t *stage, const char *prompt, const char *response, double score);

// A line in the run's log: what is behind 1023 bytes is cut off.
void verl_log(verl_stage_t *stage, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Seconds of a clock that only goes forward, to measure with.
double verl_clock(void);

// For `verl-spy report`. The stage loaded something that it works with (a tokenizer, a table, a model) in so many seconds:
// what is loaded again for every batch is named there. / So many seconds of this run of the handler went into moving
// bytes (a copy, a fetch): counted apart from the others.
void verl_loaded(verl_stage_t *stage, const char *what, double seconds);
void verl_moved(verl_stage_t *stage, double seconds);

// Long work: how far it is, from 0 to 1. Returns true when the run is being stopped and the handler should give up
// (return -1; no reason is needed).
bool verl_progress(verl_stage_t *stage, double done);

// Sleeps until so many seconds are over, or until the run is being stopped: then it returns true, at once. Costs no wake
// in between.
bool verl_sleep(verl_stage_t *stage, double seconds);

// ---------------------------------------------------------------------------------------------------------------
// Options

typedef enum verl_option_type {
    VERL_OPTION_BOOL,                       // bool
    VERL_OPTION_INT,                        // int64_t
    VERL_OPTION_REAL,                       // double
    VERL_OPTION_STRING,                     // const char *
    VERL_OPTION_CHOICE,                     // int: index into choices
    VERL_OPTION_PATH,                       // const char *: absolute; relative to the topology file where written
    VERL_OPTION_STRINGS,                    // verl_strings_t
    VERL_OPTION_PATHS,                      // verl_strings_t
    VERL_OPTION_WEIGHTS,                    // verl_weights_t: a table name = number, or an array of names (each 1)
    VERL_OPTION_TABLE,                      // const char *: a table of whatever values, as JSON; NULL where absent
    VERL_OPTION_COMMAND,                    // verl_strings_t: a program and its arguments; one that names a file which
                                            // lies beside the topology file (the program: with a '/') is absolute
} verl_option_type_t;

typedef struct verl_strings {
    int          count;
    const char **items;
} verl_strings_t;

typedef struct verl_weights {
    int          count;
    const char **names;
    double      *values;
} verl_weights_t;

// One option. Tables of them end with VERL_OPTIONS_END. Strings that options point to live as long as the actor.
typedef struct verl_option {
    const char        *name;
    verl_option_type_t type;
    size_t             offset;              // of the field
    const char        *fallback;            // default, as TOML ("64", "true", "exact", "[1, 2]"); NULL: must be given
    double             min, max;            // INT and REAL
    const char        *unit;                // "tokens", "ms", "" where it has none
    const char        *about;               // one sentence without a full stop
    const char        *choices;             // CHOICE: "sleep|spin"
    const char        *also;                // names in other systems: "verl:actor.optim.lr trl:learning_rate openrlhf:--actor_learning_rate"
    bool               optional;            // may be absent without default: "" / 0 / empty / NULL
    bool               must_exist;          // PATH, PATHS: checked at load
    bool               of_weights;          // decides the weights that the kind begins with: who works with those of
                                            // another begins with the same, and who is changed in it begins anew
} verl_option_t;

// A range check is written !(v >= min && v <= max), so that NaN is refused. The last argument is `about`; further
// members may follow it (.also = "…").
#define VERL_INT(type_, field, fallback_, min_, max_, unit_, ...) \
    { .name = #field, .type = VERL_OPTION_INT, .offset = offsetof(type_, field), .fallback = #fallback_, \
      .min = (double) (min_), .max = (double) (max_), .unit = unit_, .about = __VA_ARGS__ }
#define VERL_REAL(type_, field, fallback_, min_, max_, unit_, ...) \
    { .name = #field, .type = VERL_OPTION_REAL, .offset = offsetof(type_, field), .fallback = #fallback_, \
      .min = (double) (min_), .max = (double) (max_), .unit = unit_, .about = __VA_ARGS__ }
#define VERL_BOOL(type_, field, fallback_, ...) \
    { .name = #field, .type = VERL_OPTION_BOOL, .offset = offsetof(type_, field), .fallback = #fallback_, \
      .unit = "", .about = __VA_ARGS__ }
#define VERL_STRING(type_, field, fallback_, ...) \
    { .name = #field, .type = VERL_OPTION_STRING, .offset = offsetof(type_, field), .fallback = fallback_, \
      .unit = "", .about = __VA_ARGS__ }
#define VERL_CHOICE(type_, field, fallback_, choices_, ...) \
    { .name = #field, .type = VERL_OPTION_CHOICE, .offset = offsetof(type_, field), .fallback = fallback_, \
      .choices = choices_, .unit = "", .about = __VA_ARGS__ }
// PATH, PATHS, STRINGS, WEIGHTS, TABLE, COMMAND: fallback is NULL (must be given) or .optional = true follows.
#define VERL_OPTION_OF(kind_, type_, field, ...) \
    { .name = #field, .type = VERL_OPTION_##kind_, .offset = offsetof(type_, field), .unit = "", \
      .about = __VA_ARGS__ }
#define VERL_OPTIONS_END { .name = NULL }

// ---------------------------------------------------------------------------------------------------------------
// Kinds

#define VERL_MAX_COLUMNS 24                 // in a needs or gives list
#define VERL_MAX_STAGES  8                  // of a kind

// What a kind's declare function may ask and say while a topology is checked. The program that checks is not the one
// that runs the actor, so it must only look: read headers, count records, no state.
typedef struct verl_declaration verl_declaration_t;
void verl_declare_need(verl_declaration_t *declaration, const char *column);       // grammar as in .needs
void verl_declare_give(verl_declaration_t *declaration, const char *column);       // grammar as in .gives
// Ids in this column (given or needed) belong to an id space, such as the hash of a tokenizer: both ends must agree.
void verl_declare_space(verl_declaration_t *declaration, const char *column, const char *space, const char *who);
// A source that ends: how many batches it has in all.
void verl_declare_batches(verl_declaration_t *declaration, int64_t batches);
// A source whose options do not say how many rows a batch has: so many.
void verl_declare_rows(verl_declaration_t *declaration, int64_t rows);
// The stage writes this file, whose name `option` gives, in the run directory: no other stage may.
void verl_declare_writes(verl_declaration_t *declaration, const char *option, const char *file);
// The stage works row by row, or gives a row map, like .by_row and .maps of one that always does.
void verl_declare_by_row(verl_declaration_t *declaration);
void verl_declare_maps(verl_declaration_t *declaration);
// The stage works on so many rows at a time, as `option` says (0: on all of them), filled up to all that was made of one
// row. Where the rows of a batch are known before the start, both numbers have to divide them.
void verl_declare_divides(verl_declaration_t *declaration, const char *option, int64_t rows);
// The stage's name in the topology, and whether it has no dependency.
const char *verl_declare_stage(const verl_declaration_t *declaration);
bool        verl_declare_is_source(const verl_declaration_t *declaration);
// The topology says whose published weights the stage works with.
bool        verl_declare_has_weights(const verl_declaration_t *declaration);
// Something is wrong with an option (NULL: with the stage): what is wrong: what would be right. May be called often.
// Of a list, the entry is shown that the sentence names.
void verl_declare_error(verl_declaration_t *declaration, const char *option, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// column: "name", or "name of other" as in .needs.
bool verl_declare_has_upstream(const verl_declaration_t *declaration, const char *column);

// Columns are written:
//   needs: "name" | "name?" (taken where upstream gives it) | "name if option" | "name if option = value" |
//          "name if option > 0"; an option of type WEIGHTS or STRINGS whose entries are column names: "*option";
//          "name of other", "name? of other": not one that was made before the other column, which it belongs to
//   gives: "name:type[n]" | "name:type[n,*]" | "name:text" | "name" (f32[n]), with the same "if"
typedef int (*verl_handler_t)(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out);

typedef struct verl_stage_kind {
    const char          *name;              // what a topology calls it in `does`
    verl_handler_t       handler;
    const char          *about;             // optional: one sentence
    size_t               options_size;      // 0: the struct is its options and nothing else
    const verl_option_t *options;
    const char          *needs[VERL_MAX_COLUMNS];
    const char          *gives[VERL_MAX_COLUMNS];
    bool                 source_only;       // refuses depends_on (a loader)
    bool                 maps;              // gives a row map
    bool                 by_row;            // works row by row: may run on a part of a batch
    bool                 reads_weights;     // works with a version of the actor's weights; of an external kind: may
                                            // work with a published one, whatever kind publishes it
    bool                 writes_weights;    // makes the next version
    int                (*declare)(verl_declaration_t *declaration, const void *state, const void *options);
    int                (*begin)(verl_stage_t *stage);      // optional: in prepare, once per stage, after the actor's
} verl_stage_kind_t;

typedef struct verl_kind {
    const char              *name;
    const char              *about;         // one sentence without a full stop
    size_t                   state_size;    // the runtime allocates it, zeroed; 0: it is its options and nothing else
    const verl_option_t     *options;       // of the state; with a single stage they may be given in that stage
    verl_stage_kind_t        stages[VERL_MAX_STAGES];
    bool                     keeps_state;   // refuses replicas; saved in checkpoints
    bool                     external;      // its process is the program that option `command` names (strings), which
                                            // speaks the protocol itself; the kind is there to be checked
    // All optional. prepare loads what is big; it runs apart from wiring and beside the work of others.
    int  (*prepare)(verl_stage_t *stage);
    // A stage's first batch is known, and nothing of it was handled yet. `first` > 0: the run goes on from there, so what
    // an earlier actor left of that batch and later (in a file, say) goes. A kind with this can start at any batch.
    int  (*start)(verl_stage_t *stage, int64_t first);
    void (*finish)(verl_stage_t *stage);    // accepts half-made state; the run is over or being stopped
    // Published weights: put the current version into out, columns of the kind's own choosing; take the version in.
    // The memory of `in` stays valid until the next call of take_weights or finish.
    int  (*give_weights)(verl_stage_t *stage, verl_batch_t *out);
    int  (*take_weights)(verl_stage_t *stage, const verl_batch_t *in);
    // Checkpoints: write the state into directory, whole and synced, or say why not; read it back after prepare.
    int  (*snapshot)(verl_stage_t *stage, const char *directory);
    int  (*restore)(verl_stage_t *stage, const char *directory);
} verl_kind_t;

// One line registers a kind: VERL_KIND (length_reward, .about = …, .stages = {…}). In the tree its file is
// actors/length_reward.c; outside, a shared object length_reward.so that a topology names as its kind.
// Underscores are dashes in topologies.
#define VERL_KIND(symbol, ...) \
    extern const verl_kind_t verl_kind_##symbol; \
    const verl_kind_t verl_kind_##symbol = { .name = #symbol, __VA_ARGS__ };

#ifdef __cplusplus
}
#endif
#endif
