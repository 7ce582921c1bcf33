// director_impl.h: what the files of the director share. Not for others. One thread: all of it is the director's.
#ifndef VERL_DIRECTOR_IMPL_H
#define VERL_DIRECTOR_IMPL_H
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/actor/host.h"
#include "runtime/base/clock.h"
#include "runtime/base/json.h"
#include "runtime/control/server.h"
#include "runtime/director/check.h"
#include "runtime/director/director.h"
#include "runtime/director/ledger.h"
#include "runtime/director/node.h"
#include "runtime/director/record.h"
#include "runtime/director/traces.h"
#include "runtime/mailbox/address.h"
#include "runtime/mailbox/endpoint.h"
#include "runtime/observe/tap.h"
#include "runtime/topology/difference.h"
#include "runtime/wire/pack.h"

#define VERL_IDLE_MS        4000            // longest sleep of the loop
#define VERL_WATCHED_NS     (VERL_S / 5)    // between views, and pings, when somebody looks
#define VERL_STATES         7               // of a stage: seat_state_t, as in the report "done" …
#define VERL_TIMES          (VERL_STATES + 3)   // … and behind them seat_bytes_t
#define VERL_TIMES_LEAST    6               // a host that keeps no account of bytes sends so many
#define VERL_HANDOVER       (INT64_C(1) << 40)   // "save" orders from here on are no checkpoints: + the revision

typedef struct director director_t;
typedef struct party party_t;

typedef enum { PHASE_STARTING, PHASE_RUNNING, PHASE_SAVING, PHASE_STOPPING } phase_t;

typedef struct seat_view {                  // a stage of an actor, as it says itself
    int64_t revision, stage, state;         // state: what it waits for, in the numbers of a pong
    int64_t credit;                         // messages that its readers would take now; -1: it has none
} seat_view_t;

struct party {                              // one incarnation, as the director knows it
    party_t         *next;
    verl_instance_t *instance;
    char            *name;                  // of its actor
    int64_t          replica;
    uint64_t         incarnation;
    verl_outbound_t *control;
    verl_inbound_t  *reports;
    bool             hello, ready;
    char            *restore;               // the state that it has to read back before it begins; NULL: none any more
    bool             restoring;             // it was told to
    bool             paused;
    char             paused_by[128];
    int64_t          paused_at;
    bool             leaving;               // its end is wanted
    bool             dead;
    bool             holds_lock;            // its mailbox cannot answer while it computes
    int64_t          saved;                 // last checkpoint that it reported
    int64_t          handed;                // last handover: VERL_HANDOVER + revision
    int64_t          begun_at;              // its process
    int64_t          pinged_at, answered_at;    // answered: it is not to blame before
    int64_t          told_at;               // its last answer, which says what follows
    int              running;               // stage, or a host_task_t
    int64_t          running_revision, running_batch, running_since;
    double           progress;
    seat_view_t     *seats;                 // owned
    uint32_t         seats_count;
};

typedef struct times {
    int64_t ns[VERL_TIMES];
    int64_t batches;                        // that they were spent on
} times_t;

typedef struct load {                       // something that a stage says it loaded
    struct load *next;
    char        *stage, *what;
    int64_t      times, in_batches;         // in all; while it worked on a batch
    double       seconds, batch_seconds;
} load_t;

typedef struct spent {                      // by a stage's name, of places and revisions that are gone
    struct spent *next;
    char         *stage;
    times_t       times;
} spent_t;

typedef struct slot {                       // the place of a replica of an actor in a revision
    int      actor;                         // in the plan
    int64_t  replica;
    party_t *party;                         // NULL: dead, and not followed yet, or for good
    bool     ignored;                       // for good: nobody depends on it
    int      sent, answered;                // lists of peers
    int      edition;                       // of the revision, when the last one was sent
    bool     tabled, begun;
    int64_t *through;                       // by stage of the plan: it needs no batch up to this one …
    times_t *times;                         // … and how it spent its time
} slot_t;

typedef struct revision {
    struct revision *next;                  // the one that follows
    verl_plan_t     *plan;
    bool             owned;
    int64_t          cut;                   // its first batch; -1: a candidate
    int64_t          permitted;             // the highest batch that its sources were told of
    int64_t         *base;                  // by stage of the plan: an update below it means this one (bases.c)
    int              edition;               // rises with each change of who has which place
    int              slots_count;
    slot_t          *slots;
} revision_t;

typedef enum { CHANGE_PREPARING, CHANGE_HOLDING, CHANGE_SAVING, CHANGE_RESTORING } change_step_t;

typedef struct change {                     // a request to change the topology, from its arrival to its answer
    struct change     *next;
    uint64_t           token;               // 0: nobody waits for an answer
    char              *text, *path;         // a fragment
    bool               show, now;
    int64_t            at;                  // the batch; -1: as soon as it can be
    int64_t            deadline;            // ns; 0: none
    char               who[128];
    int                swaps_count;
    char             **swaps;
    change_step_t      step;
    verl_check_t      *check;               // under way; NULL: not begun, or over
    revision_t        *candidate;
    verl_difference_t *difference;
    int64_t            hold;                // the batch whose permit it holds back; -1: none
    int64_t            said_at;             // when its asker was told what it waits for
} change_t;

typedef struct restart {                    // the places of a lost incarnation, which wait for the next one
    struct restart *next;
    uint64_t        incarnation;
    char           *name;
    int64_t         replica;
    int64_t         due;
} restart_t;

typedef struct crash {                      // of an actor: for the limit of restarts
    struct crash *next;
    char         *name;
    int64_t       at;
} crash_t;

typedef struct hold {
    struct hold *next;
    int64_t      batch;
    uint64_t     token;                     // of who asked for it: gone with its client
} hold_t;

typedef struct verl_resume_cut {
    struct verl_resume_cut *next;           // by rising first, and as they were made
    int64_t                 revision, first;
    bool                    pending;        // a life that went on before it has not made it again yet
    json_t                 *event;          // "cut", as logged
} verl_resume_cut_t;

typedef struct verl_resume {                // where a life begins
    verl_plan_t       *plan, *owned;
    int64_t            cut;                 // of its revision
    json_t            *base;                // of its stages, by name
    json_t            *owners;              // of names of metrics, as verl_ledger_owners has it; NULL: not known
    int64_t            step;                // its first batch
    int64_t            numbers;             // of revisions that were used before
    char               checkpoint[4200];    // whose state it is; step 0: none
    json_t            *actors;              // whose state is in it
    verl_resume_cut_t *cuts;                // changes to be made again
} verl_resume_t;

struct director {
    const verl_run_config_t *config;
    char                     run_id[33];
    void                    *zmq;
    int                      epoll_fd;
    verl_endpoint_t         *endpoint;
    verl_node_t             *node;
    verl_ledger_t           *ledger;
    verl_record_t           *record;
    verl_control_t          *control;
    verl_traces_t           *traces;
    verl_tap_t              *tap;
    revision_t              *revisions;     // with batches alive, or in force; by rising number
    party_t                 *parties;
    change_t                *changes;       // in order of arrival: the first is under way
    restart_t               *restarts;
    crash_t                 *crashes;
    hold_t                  *holds;
    spent_t                 *spent;
    load_t                  *loads;
    int64_t                  asked_at;      // when somebody asked how the run is
    uint64_t                 incarnations;  // given out
    int64_t                  numbers;       // of revisions, given out
    phase_t                  phase;
    bool                     interrupted, draining, halted;
    bool                     script_over;   // the run's own script has ended
    bool                     script_ready;  // the run's own script has said so, or there is none
    bool                     rollback;      // this life ends, and the next goes on from the last checkpoint
    int                      lives;         // of this process, so far
    int64_t                  pace;          // ns between two looks at the actor whose limits are the shortest
    int64_t                  first;         // batch of this life
    int64_t                  began;         // the first life's: this process goes on from there
    int64_t                  skipped_count, *skipped;   // batches of which a stage was skipped, by rising number
    int64_t                  started_at, stopping_at, drain_until, viewed_at, stepped_at;
    int64_t                  save_step;     // of the checkpoint that is being written; -1: none
    int64_t                  checkpointed;  // the last whole one
    verl_error_t             error;
    verl_run_result_t       *result;
    struct watchers         *watchers;      // who is told of each step
};

// orders.c
void verl_order(director_t *self, party_t *party, int64_t revision, verl_buffer_t *body);       // takes the body
void verl_order_number(director_t *self, party_t *party, int64_t revision, const char *word, int64_t number);
void verl_order_path(director_t *self, party_t *party, const char *word, int64_t step, const char *path);   // step < 0: none
void verl_order_table(director_t *self, party_t *party, const revision_t *revision);
void verl_order_peers(director_t *self, party_t *party, const revision_t *revision);
void verl_order_begin(director_t *self, party_t *party, const revision_t *revision, const int64_t *starts);

// parties.c
party_t    *verl_party_start(director_t *self, const verl_plan_actor_t *actor, int64_t replica, verl_error_t *error);
void        verl_party_free(director_t *self, party_t *party);      // a dead one: out of every list
void        verl_party_stop(director_t *self, party_t *party);
// Before its greeting: it is as paused as another incarnation of its actor, by the same person and since the same time.
void        verl_party_pause_as(party_t *party, const party_t *other);
const char *verl_party_label(const party_t *party, char *label, size_t size);
const char *verl_stage_label(const director_t *self, int64_t revision, int stage);
// The newest settings of its actor: of the last revision that has it.
const verl_plan_actor_t *verl_party_actor(const director_t *self, const party_t *party);
const verl_plan_t *verl_party_plan(const director_t *self, const party_t *party, int *ret_actor);
void        verl_waiters(const director_t *self, const party_t *party, char *text, size_t size);
bool        verl_party_saves(const director_t *self, const party_t *party);    // of several replicas only the first

// revisions.c
revision_t *verl_revision_new(director_t *self, verl_plan_t *plan, bool owned, verl_error_t *error);
void        verl_revision_free(director_t *self, revision_t *revision);
revision_t *verl_revision_find(const director_t *self, int64_t number);
revision_t *verl_revision_newest(const director_t *self);           // in force
revision_t *verl_revision_of(const director_t *self, int64_t batch);
slot_t     *verl_revision_slot(const revision_t *revision, const party_t *party);   // NULL: it has none
const slot_t *verl_revision_place(const revision_t *revision, int stage, int64_t batch);   // where a stage works on it
void        verl_revision_seat(director_t *self, revision_t *revision, slot_t *slot, party_t *party);
bool        verl_revision_wired(const revision_t *revision);
void        verl_settle(director_t *self);                          // tables, peers, beginnings that are due
void        verl_bury(director_t *self);                            // not while a message is handled
void        verl_grant(director_t *self);
void        verl_retire(director_t *self);

// bases.c: which versions of weights the stages of a revision work with from its cut on
void    verl_bases_at_cut(revision_t *revision, const revision_t *before, int64_t cut);
json_t *verl_bases_json(const revision_t *revision);                            // by name; NULL without memory
int     verl_bases_read(revision_t *revision, const json_t *bases, verl_error_t *error);    // bases: NULL: of the cut
// The stage whose updates make the weights that a stage works with, by an edge or in place; -1: none.
int     verl_plan_writer(const verl_plan_t *plan, int stage);

// advance.c: what follows from reports
void verl_advance(director_t *self);
int  verl_hear(director_t *self, party_t *party, const verl_message_t *message, verl_error_t *error);
void verl_hear_pong(director_t *self, const verl_message_t *message);

// saving.c
void verl_begin_checkpoints(director_t *self, int64_t last);        // directories of those up to a batch
void verl_on_saved(director_t *self, party_t *party, int64_t step);
void verl_end_checkpoints(director_t *self);                        // those that are whole now
void verl_finish(director_t *self);                                 // the last checkpoint, then the end
void verl_end_saving(director_t *self);                             // if that is whole

// seats.c: what a pong says of the stages. / What a stage waits for ("data", "permit", "weights", "room", "worker";
// NULL: for nothing, or nobody says), and the least that its readers would take now (-1: it has none, or nobody says).
void verl_hear_seats(party_t *party, verl_reader_t *reader);
void verl_view_seats(const director_t *self, const revision_t *revision, int stage, const char **ret_waits,
                     int64_t *ret_credit);

// ending.c
void verl_stop(director_t *self);
void verl_director_fail(director_t *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
void verl_event(director_t *self, const char *event, json_t *fields);
void verl_say(director_t *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The same of an actor that was lost, where the run goes on: an error, though it ends nothing.
void verl_say_lost(director_t *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

// watchdog.c: deaths and hangs; restarts.c: what follows
void verl_reap(director_t *self);
void verl_check_parties(director_t *self);
// Who works on what, since when, and who waits for it, in `text`: ": stage `mid` of `mid#2` has worked on batch 20 for
// 2 s (waiting for it: rec)"; "" where nobody is known to.
const char *verl_under_way(const director_t *self, char *text, size_t size);
bool    verl_asked_lately(const director_t *self);                 // how the run is
int64_t verl_ping_every(const director_t *self, const verl_plan_actor_t *actor);
// An actor is dead or has failed: its run ends, or it gets a successor, or nobody minds. why: one sentence.
void verl_lost(director_t *self, party_t *party, const char *why);
void verl_restarts_step(director_t *self);
// Nobody has this place of a revision any more, and nobody waits for its stages.
void verl_ignore(director_t *self, revision_t *revision, slot_t *slot);
bool verl_restartable(const verl_plan_actor_t *actor);

// resume.c
int  verl_resume_last(const char *directory, verl_resume_t *from, verl_error_t *error);
int  verl_resume_changes(director_t *self, const verl_resume_t *from, verl_error_t *error);
void verl_resume_done(verl_resume_t *from);
bool verl_resume_has(const verl_resume_t *from, const char *actor);     // its state

// takeover.c
// What speaks against ending at once what a change replaces, in `text`. NULL: nothing.
const char *verl_objection_to_now(const director_t *self, const change_t *change, char *text, size_t size);

// changes.c
void verl_change_free(change_t *change);                            // NULL: nothing
int  verl_change_swaps(change_t *change, const json_t *names);      // -1: no memory, or one is no string
void verl_changes_add(director_t *self, change_t *change);
void verl_changes_step(director_t *self);
// Whether only a change has it that was in force in an earlier life of the run and is made again.
bool verl_changes_remakes(const director_t *self, const party_t *party);
// A lost actor that only the change under way has: the change ends, and true.
bool verl_changes_lost(director_t *self, party_t *party, const char *why);
// A revision that is not in force yet is not to the liking of an actor: the change ends, and true.
bool verl_changes_failed(director_t *self, int64_t revision, const char *why);
void verl_changes_free(director_t *self);
int64_t verl_held(const director_t *self);                          // the lowest batch whose permit is held; INT64_MAX

// candidate.c: the people of the change under way
bool verl_candidate_is_new(const director_t *self, const change_t *change, const party_t *party);  // only it has them
int  verl_candidate_people(director_t *self, change_t *change, verl_error_t *error);  // starts who is new; -1: not all
bool verl_candidate_ready(const director_t *self, const change_t *change);            // all of them have the new table
// No trace of the candidate is left; its actors that are new end.
void verl_candidate_drop(director_t *self, change_t *change);

// handover.c: only where a change hands state over at all
bool verl_hands_over(const change_t *change);
void verl_handover_save(director_t *self, change_t *change);        // all old ones are told to write …
bool verl_handover_saved(director_t *self, change_t *change);       // … and have
void verl_handover_restore(director_t *self, change_t *change);     // all new ones are to read it …
bool verl_handover_restored(director_t *self, change_t *change);    // … and have
// An old one has written its state, or could not. step: as it was ordered. Its change may be over.
void verl_on_handed(director_t *self, party_t *party, int64_t step);
void verl_on_not_handed(director_t *self, int64_t step, const char *why);
// A sink whose predecessor, in an older revision, has batches to do: it does not begin yet.
bool verl_waits_for_predecessor(const director_t *self, const revision_t *revision, const slot_t *slot);

// cut.c
char *verl_plan_text(const verl_plan_t *plan, size_t *ret_size);    // as resolved; NULL without memory
// Logs the cut and puts the candidate into force. -1 with the reason: there is no trace of it. ret_answer: for who
// asked, owned by the caller; NULL without memory.
int   verl_cut(director_t *self, change_t *change, json_t **ret_answer, verl_error_t *error);

// requests.c: who asks by the control sockets
void verl_on_request(void *context, const verl_control_request_t *request);
void verl_tell_step(director_t *self, const json_t *line);
void verl_resume_all(director_t *self);
void verl_requests_step(director_t *self);
void verl_requests_free(director_t *self);

// times.c
void verl_keep_slot_times(director_t *self, const revision_t *revision, slot_t *slot);
void verl_keep_times(director_t *self, const revision_t *revision);
void verl_times(const director_t *self, const char *stage, verl_stage_times_t *ret);
void verl_stage_times(const director_t *self, const char *stage, times_t *ret);      // of all of them, summed
int  verl_stage_names(const director_t *self, const char ***ret_names);   // of all revisions, in order; free the array

// views.c
void verl_view(director_t *self, bool now);
void verl_view_stage(const director_t *self, const revision_t *revision, int index, verl_stage_view_t *ret);

// profile.c: where the time went, with the plan it went through: all that `verl-spy report` needs. NULL before a plan.
json_t *verl_profile(const director_t *self);
json_t *verl_revision_json(const revision_t *revision);             // its plan, and "first", its first batch
void    verl_loads_add(director_t *self, const char *stage, int64_t batch, const char *what, double seconds);
void    verl_loads_free(director_t *self);

// watch_batch.c: where a batch stands at each stage, and what it waits for there. NULL with a sentence.
json_t *verl_watch_batch(const director_t *self, int64_t batch, verl_error_t *error);

// watch.c: the words of the watch socket that are answered at once; NULL with a sentence.
json_t *verl_watch_answer(director_t *self, const char *word, const json_t *request, verl_error_t *error);
json_t *verl_watch_revisions(const director_t *self);               // those in force: [{"revision", "first"}]
#endif
