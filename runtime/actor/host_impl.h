// host_impl.h: what the files of the host share. Not for others.
//
// Threads: M, the mailbox thread, receives; W, the worker, runs handlers and sends. `lock` guards the queues, the
// counters by which readiness is judged, and the profile. Neither holds it while it sends or computes.
#ifndef VERL_HOST_IMPL_H
#define VERL_HOST_IMPL_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "runtime/actor/host.h"
#include "runtime/actor/stage.h"
#include "runtime/bulk/arena.h"
#include "runtime/mailbox/endpoint.h"
#include "runtime/tensor/batch.h"
#include "runtime/topology/plan.h"

typedef struct host host_t;
typedef struct seat seat_t;

// What a stage made of a batch or a part: kept while readers are not done with it.
typedef struct output {
    atomic_int    refs;
    verl_batch_t *made;
    seat_t       *seat;                     // whose live bytes it counts to; NULL: a published version
    int64_t       bytes;
    host_t       *host;
} output_t;

// One message of a data or weights edge, in the mailbox.
typedef struct unit {
    struct unit    *next;
    int64_t         batch, part, parts;
    int64_t         time;                   // when its maker had it ready
    bool            taken;                  // a handler took it: counted to the credit
    verl_batch_t   *stored;                 // NULL: the batch was skipped
    verl_inbound_t *inbound;                // NULL: made by a stage of this actor
    output_t       *output;                 // then its maker's
} unit_t;

typedef struct edge_in {
    const verl_plan_edge_t *plan;
    int      edge;
    seat_t  *seat;
    bool     through_map;                   // some need reads its columns through a row map: always seen whole
    unit_t  *first;                         // by rising (batch, part)
} edge_in_t;

typedef struct edge_out {
    const verl_plan_edge_t *plan;
    int                edge;
    const verl_plan_stage_t *reader;
    int64_t            replicas;            // of the reader's actor
    verl_outbound_t  **channels;            // one a replica; NULL where that is this very actor
    edge_in_t         *local;               // the reader's end where it is in this actor
    const char       **names;               // the handler's names of the columns that it carries
} edge_out_t;

// Why a stage does not run, or that it does. Every nanosecond of a stage is counted under one of them.
typedef enum { SEAT_BUSY, SEAT_DATA, SEAT_WEIGHTS, SEAT_ROOM, SEAT_WORKER, SEAT_OVER, SEAT_STATES } seat_state_t;

struct seat {                               // a stage in its actor
    verl_stage_t             stage;
    int                      index;         // in the plan
    const verl_plan_stage_t *plan;
    host_t                  *host;
    int                      in_count, out_count;
    edge_in_t               *in;
    edge_out_t              *out;
    int                      rows_edge;     // of `in`: whose rows it is given; -1: a source
    int                      writer;        // seat of this actor whose weights it reads in place; -1: none
    edge_in_t               *weights;       // the edge that brings versions; NULL: none

    int64_t                  next;          // the batch that it works on next; -1: no more
    int64_t                  part;          // and the part
    int64_t                  made_rows;     // of the parts before it
    int64_t                  granted;       // a source: the highest batch that it has leave for
    bool                     skipped;       // a part of this batch was
    unit_t                  *version;       // the weights in use, where they came over an edge
    int64_t                  version_update;// and the update that made them; -1: the ones of the beginning
    _Atomic int64_t          live_bytes, last_bytes;

    seat_state_t             state;
    int64_t                  since;         // of the state
    int64_t                  spent[SEAT_STATES];
    _Atomic int64_t          started;       // the handler, while it runs
    int64_t                  batch_busy;    // ns in the handler for this batch, all parts
    int64_t                  handoff;       // from the newest input being ready to the handler's start
};

struct host {
    verl_host_config_t config;
    verl_endpoint_t   *endpoint;
    verl_outbound_t   *report;
    verl_arena_t      *arena;
    verl_memory_t      memory;
    verl_slabs_t       slabs;
    verl_plan_t       *plan;
    const verl_plan_actor_t *actor;
    int                actor_index;
    void              *state;
    int                seats_count;
    seat_t            *seats;

    pthread_mutex_t    lock;
    pthread_cond_t     changed;
    pthread_t          worker;
    bool               worker_runs, wired, prepared;
    atomic_bool        stopping, ended;
    bool               failed;
    int64_t            save_next;           // the next checkpoint: that many batches done; -1: none
    int64_t            save_now;            // asked for by the director; -1: none
    seat_t            *running;
    int                task;                // what else W does: VERL_TASK_…
    int64_t            task_batch, task_since;
    bool               unacknowledged;      // W did something that its peers have not been told …
    int64_t            unacknowledged_since;
    int64_t            last_run;            // ns that the last handler took
    int64_t            idle_since;          // when it returned
    bool               kind_prepared;
};

// wiring.c
int  verl_host_take_table(host_t *host, const char *bytes, size_t size, verl_error_t *error);
int  verl_host_take_peers(host_t *host, verl_reader_t *reader, verl_error_t *error);
void verl_host_unwire(host_t *host);
int64_t verl_host_window(const verl_plan_t *plan);

// mailbox side: units.c
int     verl_host_receive(host_t *host, edge_in_t *edge, verl_inbound_t *inbound, const verl_message_t *message,
                          verl_error_t *error);
void    verl_edge_insert(edge_in_t *edge, unit_t *unit);           // under the lock
unit_t *verl_edge_find(const edge_in_t *edge, int64_t batch, int64_t part);
bool    verl_edge_whole(const edge_in_t *edge, int64_t batch);     // all parts of the batch are here
int64_t verl_edge_parts(const edge_in_t *edge, int64_t batch);     // as far as is known; 0: nothing came
void    verl_edge_finish(edge_in_t *edge, int64_t batch);          // lets go of all units up to and with the batch
void    verl_unit_free(unit_t *unit, bool done);

// readiness.c, under the lock
seat_state_t verl_seat_state(const seat_t *seat);                  // as if the worker were idle: SEAT_WORKER = ready
seat_t      *verl_host_pick(host_t *host);
void         verl_host_account(host_t *host);                      // books the time since the last change
void         verl_host_changed(host_t *host);                      // the same, and wakes W where there is work for it
int64_t      verl_seat_wanted_update(const seat_t *seat, int64_t batch);
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
int  verl_publish(seat_t *seat, verl_batch_t *made, int64_t part, int64_t parts, int64_t time, verl_error_t *error);
int  verl_publish_weights(seat_t *writer, int64_t batch, verl_error_t *error);
void verl_output_release(output_t *output);
bool verl_seat_is_sink(const seat_t *seat, int64_t batch);

// reports.c: what is said to the director. Any thread.
void verl_report_hello(host_t *host);
void verl_report_word(host_t *host, const char *word);
void verl_report_done(seat_t *seat, int64_t batch);
void verl_report_failed(host_t *host, const seat_t *seat, int64_t batch, const char *text);
void verl_report_saved(host_t *host, int64_t step);
void verl_report_state(host_t *host, verl_buffer_t *body);         // the answer to a ping
extern const verl_reporter_t verl_host_reporter;

// worker.c, W
void *verl_worker(void *host);
#endif
