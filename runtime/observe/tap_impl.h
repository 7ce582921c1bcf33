// tap_impl.h: what the files of the tap share. Not for others.
//
// `lock` guards the list and of each follower everything above its line; it is held for copying, never while waiting.
// The sockets and what stands below the line are the tap's thread's alone.
#ifndef VERL_OBSERVE_TAP_IMPL_H
#define VERL_OBSERVE_TAP_IMPL_H
#include <pthread.h>
#include "runtime/observe/tap.h"

#define VERL_TAP_ADDRESS 108
#define VERL_TAP_LISTED  (2 * VERL_TAP_FOLLOWERS)     // those that leave too

typedef struct follower {
    struct follower    *next;
    int64_t             id;
    char                address[VERL_TAP_ADDRESS];
    verl_filter_t       filter;
    verl_trace_counts_t counts;
    uint64_t            passed;             // the lists of the filter; of these every k-th is matched
    uint64_t            used, used_bytes;   // credit: records and frames without any; bytes of records
    uint64_t            limit, limit_bytes; // as the follower allowed
    bool                ending;
    verl_buffer_t       front;              // records that wait for the thread
    // ---
    void               *dealer;
    verl_buffer_t       back, head;
    verl_trace_counts_t told;
    uint64_t            frames;
    int64_t             told_at;
} follower_t;

typedef struct verl_tap_inside {
    void           *zmq;
    char            label[VERL_TRACE_NAME];
    pthread_mutex_t lock;
    follower_t     *followers;
    pthread_mutex_t looking;                // at columns; taken before `lock`, never by who looks at none
    verl_buffer_t   scratch, about;         // under it: a whole batch; what was found of its columns
    bool            thread_runs, stopping;
    bool            sleeping;               // the thread: has to be woken for a record
    pthread_t       thread;
    int             wake_fd;
} inside_t;

// tap_thread.c
int  verl_tap_start(verl_tap_t *tap, verl_error_t *error);    // the thread, once
void verl_tap_wake(inside_t *inside);
void verl_follower_free(follower_t *follower);
#endif
