// host_impl.h: what the files of the host share. Not for others.
//
// Threads: M, the mailbox thread, receives; W, the worker, runs handlers and sends. `lock` guards the queues, the
// counters by which readiness is judged, and the profile. Nobody holds it while computing or waiting; a message is queued
// under it, so that a reader's successor gets it or its predecessor had it.
#ifndef VERL_HOST_IMPL_H
#define VERL_HOST_IMPL_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "runtime/actor/host.h"
#include "runtime/actor/stage.h"
#include "runtime/bulk/arena.h"
#include "runtime/mailbox/endpoint.h"
#include "runtime/observe/tap.h"
#include "runtime/tensor/batch.h"
#include "runtime/topology/plan.h"

typedef struct host host_t;
typedef struct world world_t;
typedef struct seat seat_t;
typedef struct unit unit_t;

// What a stage took of a batch, acknowledged to its senders when nothing hangs on what it made of it any more: all
// readers are done with that, and the director has its report. So a successor gets every unfinished batch again.
typedef struct ack {
    struct ack *next;                       // of the seat, by rising batch
    seat_t     *seat;
    int64_t     batch;
    atomic_int  pending;                    // the run itself, its outputs, its report
    unit_t     *units;
} ack_t;

// What a stage made of a batch or a part, or its report of it: kept while receivers are not done with it.
typedef struct output {
    atomic_int    refs;
    verl_batch_t *made;
    seat_t       *seat;                     // whose live bytes it counts to; NULL: a published version
    ack_t        *ack;                      // NULL: an actor with state, which acknowledges at once
    int64_t       bytes;
    host_t       *host;
} output_t;

// One message of a data or weights edge, in the mailbox.
struct unit {
    unit_t         *next;
    int             edge;                   // of the plan
    int64_t         batch, part, parts;
    int64_t         time;                   // when its maker had it ready
    bool            taken;                  // a handler took it: counted to the credit
    verl_batch_t   *stored;                 // NULL: the batch was skipped
    verl_inbound_t *inbound;                // held; NULL: made by a stage of this actor, or its sender is gone
    output_t       *output;                 // its maker's, where that is a stage of this actor
};

typedef struct edge_in {
    const verl_plan_edge_t *plan;
    int      edge;
    seat_t  *seat;
    bool     through_map;                   // some need reads its columns through a row map: always seen whole
    unit_t  *first;                         // by rising (batch, part)
    verl_inbound_t **inbound;               // one a replica of the maker's actor; NULL where none is open
} edge_in_t;

typedef struct edge_out {
    const verl_plan_edge_t *plan;
    int                edge;
    const verl_plan_stage_t *reader;
    int64_t            replicas;            // of the reader's actor
    verl_outbound_t  **channels;            // one a replica; NULL: that is this very actor, or nobody reads any more
    edge_in_t         *local;               // the reader's end where it is in this actor
    const char       **names;               // the handler's names of the columns that it carries
} edge_out_t;

// Why a stage does not run, or that it does. Every nanosecond of a stage is counted under one of them.
// MOVE is never the state of the moment: it is what of BUSY went into moving bytes, booked when the run is over.
typedef enum { SEAT_BUSY, SEAT_DATA, SEAT_WEIGHTS, SEAT_ROOM, SEAT_WORKER, SEAT_OVER, SEAT_MOVE,
               SEAT_STATES } seat_state_t;

// Bytes, counted beside the times: given to readers; of columns that are what the stage was given; of columns that came
// and that the handler never asked for.
typedef enum { SEAT_BYTES_OUT, SEAT_BYTES_AGAIN, SEAT_BYTES_UNSEEN, SEAT_BYTES } seat_bytes_t;

struct seat {                               // a stage of one revision in its actor
    verl_stage_t             stage;
    int                      index;         // in the plan
    const verl_plan_stage_t *plan;
    world_t                 *world;
    host_t                  *host;
    int                      in_count, out_count;
    edge_in_t               *in;
    edge_out_t              *out;
    int                      rows_edge;     // of `in`: whose rows it is given; -1: a source
    int                      writer;        // seat of this world whose weights it reads in place; -1: none
    edge_in_t               *weights;       // the edge that brings versions; NULL: none

    int64_t                  start;         // the first batch that may be its own
    int64_t                  next;          // the batch that it works on next; -1: no more
    int64_t                  part;          // and the part
    int64_t                  made_rows;     // of the parts before it
    int64_t                  granted;       // a source: the highest batch that it has leave for
    bool                     skipped;       // a part of this batch was
    ack_t                   *ack;           // of this batch
    ack_t                   *acks;          // all that are not given, this batch's too
    int64_t                  version_update;// the update that made the weights in use; -1: the ones of the beginning
    int64_t                  passed;        // a writer: the last update before the cut that its readers have; -1: none
    _Atomic int64_t          live_bytes, last_bytes;

    seat_state_t             state;
    int64_t                  since;         // of the state
    int64_t                  spent[SEAT_STATES];
    int64_t                  bytes[SEAT_BYTES];   // W's
    int64_t                  moved;         // ns of the run under way, for SEAT_MOVE
    _Atomic int64_t          started;       // the handler, while it runs
    int64_t                  batch_busy;    // ns in the handler for this batch, all parts
    int64_t                  handoff;       // from the newest input being ready to the handler's start
};

// One revision in this actor: its table, its stages, their mailboxes and channels. Worlds share the actor's state.
struct world {
    world_t                 *next;          // by rising revision
    host_t                  *host;
    verl_plan_t             *plan;
    const verl_plan_actor_t *actor;
    int                      actor_index;
    int                      seats_count;
    seat_t                  *seats;
    bool                     begun;         // W let the kind look at the new stages
    bool                     failed;        // it did not like them
    int                      unwired;       // lists of peers that are not answered yet
    bool                     ordered;       // in force, and its stages know where to start
    bool                     open;          // W may run them
    int64_t                  cut;           // the first batch of the revision
    int64_t                  end;           // the first that is no more of it; INT64_MAX: not known
    int64_t                 *base;          // by stage of the plan: an update below it means this one
    bool                     retired;       // M has closed its channels: W frees it
    atomic_int               outputs;       // alive, of its seats
};

typedef struct version {                    // of the weights, published, and still wanted
    struct version *next;                   // older
    int64_t         update;                 // that made it
    output_t       *output;
} version_t;

typedef struct label {                      // who is who, for traces
    struct label *next;
    uint64_t      incarnation;
    char          text[];                   // as verl_trace_label makes it
} label_t;

struct host {
    verl_host_config_t config;
    char               label[VERL_TRACE_NAME];
    verl_endpoint_t   *endpoint;
    verl_outbound_t   *report;
    verl_arena_t      *arena;
    verl_memory_t      memory;
    verl_slabs_t       slabs;
    verl_tap_t        *tap;
    const verl_kind_t *kind;
    void              *state;
    verl_plan_t       *state_plan;          // whose values the state's options point into; kept to the end
    bool               chained;             // acknowledges when nothing hangs on a batch any more (an actor without state)
    world_t           *worlds;              // M adds, W takes away
    _Atomic(label_t *) labels;              // M adds, all read

    pthread_mutex_t    lock;
    pthread_cond_t     changed;
    pthread_t          worker;
    bool               worker_runs, prepared, paused;
    atomic_bool        stopping, ended;
    atomic_bool        unheard;             // a report was lost, and the director has not been told
    bool               failed;
    int64_t            save_every, save_next;// the next checkpoint: that many batches done; -1: none
    int64_t            save_now;            // asked for by the director; -1: none
    char              *save_path;           // where
    char              *restore_path;        // asked for: the state to go on from
    char              *restored_path;       // done: it has the versions that are still wanted
    version_t         *versions;            // W's: those that it published and keeps
    unit_t            *old_version;         // weights in use that came by a revision which is gone
    seat_t            *running;
    int                task;                // what else W does: VERL_TASK_…
    int64_t            task_batch, task_since;
    bool               unacknowledged;      // W did something that its peers have not been told …
    int64_t            unacknowledged_since;
    int64_t            last_run;            // ns that the last handler took
    int64_t            idle_since;          // when it returned
    bool               kind_prepared;
};

// The number of an edge on the wire: a revision's edges are its own.
static inline int64_t
verl_edge_number(const world_t *world, int edge)
{
    return (world->plan->revision << 20) | edge;
}

// worlds.c
int      verl_host_take_table(host_t *host, const char *bytes, size_t size, verl_error_t *error);
world_t *verl_host_world(host_t *host, int64_t revision);           // M; NULL: not here
seat_t  *verl_host_first_seat(host_t *host);                        // W; of the newest revision: for what is the actor's
int      verl_world_order(world_t *world, verl_reader_t *reader, verl_error_t *error);   // "begin"
void     verl_world_free(world_t *world);

// channels.c, M
int         verl_host_take_peers(world_t *world, verl_reader_t *reader, verl_error_t *error);
void        verl_world_close(world_t *world);
const char *verl_host_label(const host_t *host, uint64_t incarnation);     // any thread; "?": nobody known

// acks.c
ack_t   *verl_ack_new(seat_t *seat);                                // under no lock; NULL without memory
void     verl_ack_release(ack_t *ack);
void     verl_ack_forget(seat_t *seat, const verl_inbound_t *inbound);                  // under the lock
unit_t  *verl_ack_find(const seat_t *seat, int edge, int64_t batch, int64_t part);      // under the lock

// mailbox side: units.c
int     verl_host_receive(host_t *host, edge_in_t *edge, verl_inbound_t *inbound, const verl_message_t *message,
                          verl_error_t *error);
void    verl_edge_insert(edge_in_t *edge, unit_t *unit);           // under the lock
unit_t *verl_edge_find(const edge_in_t *edge, int64_t batch, int64_t part);
bool    verl_edge_whole(const edge_in_t *edge, int64_t batch);     // all parts of the batch are here
int64_t verl_edge_parts(const edge_in_t *edge, int64_t batch);     // as far as is known; 0: nothing came
unit_t *verl_edge_take(edge_in_t *edge, int64_t batch);            // all up to and with the batch; under the lock
void    verl_units_free(unit_t *units, bool done);
void    verl_unit_let_go(unit_t *unit);                            // of its sender

// readiness.c, under the lock
seat_state_t verl_seat_state(const seat_t *seat);                  // as if the worker were idle: SEAT_WORKER = ready
seat_t      *verl_host_pick(host_t *host);
void         verl_host_account(host_t *host);                      // books the time since the last change
void         verl_host_changed(host_t *host);                      // the same, and wakes W where there is work for it
int64_t      verl_seat_wanted_update(const seat_t *seat, int64_t batch);
bool         verl_seat_over(const seat_t *seat);
bool         verl_world_over(const world_t *world);
bool         verl_seat_changes_state(const seat_t *seat);          // what a checkpoint has to be before or after
int64_t      verl_seat_after(const seat_t *seat, int64_t batch);   // the next batch of this replica behind `batch`

// assemble.c, W
typedef struct view {                       // what one run of a handler is given, and what has to go after it
    verl_batch_t  *given;
    int            joined_count;
    verl_batch_t **joined;                  // parts made whole
    bool           skipped;                 // an input was
    int64_t        parts;                   // that this run is one of
    int64_t        ready;                   // when the newest input was
} view_t;
int  verl_view_make(view_t *view, seat_t *seat, verl_error_t *error);
void verl_view_done(view_t *view);

// publish.c, W
int       verl_publish(seat_t *seat, verl_batch_t *made, int64_t part, int64_t parts, int64_t time,
                       verl_error_t *error);
int       verl_publish_to(seat_t *seat, edge_out_t *edge, int64_t replica, const verl_message_t *message,
                          output_t *output, verl_error_t *error);
output_t *verl_output_new(host_t *host, seat_t *seat, ack_t *ack, verl_batch_t *made);   // takes `made` where it is not NULL
void      verl_output_release(output_t *output);
bool      verl_seat_is_sink(const seat_t *seat, int64_t batch);

// versions.c, W
int  verl_publish_weights(seat_t *writer, int64_t batch, verl_error_t *error);
int  verl_publish_base(seat_t *writer, verl_error_t *error);       // what readers want of before its first batch
// Of the same, in a world that is in force and not open yet, what is there. Returns how many versions went, or -1.
int  verl_pass_on_versions(world_t *world, verl_error_t *error);
void verl_versions_forget(host_t *host);
int  verl_save_versions(host_t *host, int64_t step, const char *directory, verl_error_t *error);

// run.c, W
void verl_seat_run(seat_t *seat);
void verl_host_fail(host_t *host, seat_t *seat, int64_t batch, const char *text);
void verl_host_set_task(host_t *host, int task, int64_t batch);

// saves.c, W. Under the lock, which they let go while they work.
bool verl_save_due(const host_t *host);
void verl_save(host_t *host);
void verl_restore(host_t *host);

// reports.c: what is said to the director. Any thread.
int  verl_report_hello(host_t *host);                              // -1 without memory
void verl_report_word(host_t *host, const char *word, int64_t revision);
int  verl_report_done(seat_t *seat, int64_t batch, ack_t *ack);    // -1: nothing of the batch may be acknowledged
void verl_report_log(host_t *host, const char *text);              // of the actor, not of a stage
bool verl_report_unheard(host_t *host);                            // M: says that a report was lost; is that lost too?
void verl_report_failed(host_t *host, const seat_t *seat, int64_t batch, const char *text);
void verl_report_failed_world(world_t *world, const seat_t *seat, const char *text);
void verl_report_saved(host_t *host, int64_t step);
void verl_report_state(host_t *host, verl_buffer_t *body);         // the answer to a ping
extern const verl_reporter_t verl_host_reporter;

// worker.c, W
void *verl_worker(void *host);
#endif
