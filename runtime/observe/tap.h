// tap.h: where an actor lets its messages be seen: copies for those who follow, nothing for nobody.
//
// A follower binds a ROUTER of its own and gives credit: so many records and bytes. The threads that send put copies of
// what passes its filter into a buffer; a thread of the tap, which begins with the first follower, hands them on.
// Without credit a copy is not even made, only counted. Invariants: the actor never waits for a follower; what waits
// for one is bounded by its credit; counts are exact and cumulative, and travel with each frame and, where no record
// goes, in frames without any (which use up a record's credit each), so that a follower that stood still is told its
// loss.
//
// Credit: a message of the follower to the tap: the array [records, bytes] of msgpack, how much it has ever allowed.
#ifndef VERL_OBSERVE_TAP_H
#define VERL_OBSERVE_TAP_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/error.h"
#include "runtime/observe/filter.h"
#include "runtime/observe/trace.h"
#include "runtime/tensor/batch.h"
#include "runtime/wire/message.h"
#include "runtime/wire/read.h"

#define VERL_TAP_FOLLOWERS 16               // of one actor at a time; the director admits no more. As many may be leaving

typedef struct verl_tap {
    atomic_int       followers;             // > 0: somebody may want to see
    struct verl_tap_inside *inside;
} verl_tap_t;

// label: as verl_trace_label makes it, copied. zmq, a libzmq context of this process, is borrowed. No thread and no socket
// before the first follower. NULL with the reason.
verl_tap_t *verl_tap_new(void *zmq, const char *label, verl_error_t *error);
// What is not handed on yet is still sent, with the last counts, if the follower takes it within 100 ms. No other
// thread may use the tap any more. Sets the pointer to NULL; *tap_p may be NULL.
void verl_tap_destroy(verl_tap_t **tap_p);

// The orders of the director: "trace" [id, address, filter] and "untrace" [id]; rest: what stands behind the word.
// Returns 0, also for a trace that is there already or an untrace of none; -1 with a reason: malformed, or an address that
// is not a socket of this user on this host; 1 with a reason: it is right and cannot be done, since there are too many or
// no thread or memory can be had. Never blocks.
int verl_tap_order(verl_tap_t *tap, const char *word, verl_reader_t *rest, verl_error_t *error);

// Does anybody follow? To be asked before an event is put together. NULL: no.
static inline bool
verl_tap_on(const verl_tap_t *tap)
{
#ifdef VERL_NO_TAP
    (void) tap;
    return false;
#else
    return tap && atomic_load_explicit(&((verl_tap_t *) (uintptr_t) tap)->followers, memory_order_relaxed) > 0;
#endif
}

// A message that is sent. All is borrowed until verl_tap_message returns.
typedef struct verl_tap_event {
    verl_trace_kind_t        kind;
    int64_t                  t;             // ns of CLOCK_MONOTONIC when it was sent; 0: now
    const verl_message_t    *message;       // its header and body as they are sent; data, weights: the body is a packed
                                            // batch, or empty where the batch was skipped
    const char              *from, *to;     // labels
    const char              *stage, *reader;// the maker's stage and the reader's; NULL where the kind has none
    // data and weights: what was packed (NULL: skipped), under which names, as verl_batch_pack was told; columns NULL:
    // the same names. Without it neither numbers nor whole values of columns in shared memory can be had.
    const verl_batch_t      *made;
    const char *const       *names, *const *columns;
    int                      columns_count;
    bool                     map;
} verl_tap_event_t;

// Any thread; takes well below 1 µs unless a follower asked for the numbers or the values of columns. Never blocks.
void verl_tap_message(verl_tap_t *tap, const verl_tap_event_t *event);

// A handler ran: times of CLOCK_MONOTONIC in ns. Any thread; as above.
void verl_tap_ran(verl_tap_t *tap, const char *stage, int64_t revision, int64_t batch, int64_t part, int64_t parts,
                  int64_t begin_ns, int64_t end_ns);
#endif
