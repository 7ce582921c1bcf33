// trace.h: what an actor tells those who follow its messages: the form of the frames, written here and read here.
//
// A frame is one head and then records behind each other, each a msgpack array. The head has cumulative counts, so that
// a follower knows exactly what it did not get, whatever was lost before. What a reader of it gets points into the
// frame.
//
//     head     [format 1, party, id of the trace, number of the frame from 1, last, seen, matched, sent, dropped]
//     message  [0, t, kind, from, to, stage, reader, edge, seq, revision, batch, part, parts, time, bytes, body, about]
//     ran      [1, t, kind, party, stage, revision, batch, part, parts, begin, end]
//     about    nil, or an array of [column, elements, numbers, NaNs, min, max, mean, head]: of columns whose bytes are
//              not in the body, where the follower asked for it; head: the first bytes of its data
//
// stage and reader are nil where the message belongs to none. t, time, begin and end are ns of CLOCK_MONOTONIC. `bytes`
// is the size of the body as it was sent; the body here is that, or nothing where it was too long, or, for orders and
// reports, its beginning, or the packed batch with all its bytes inside where the follower asked for whole values.
#ifndef VERL_OBSERVE_TRACE_H
#define VERL_OBSERVE_TRACE_H
#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/error.h"
#include "runtime/observe/summary.h"
#include "runtime/wire/buffer.h"
#include "runtime/wire/message.h"
#include "runtime/wire/read.h"

#define VERL_TRACE_FORMAT 1
#define VERL_TRACE_NAME   512               // bytes of a label or a stage's name with its end, at most
#define VERL_TRACE_BODY   (64 * 1024)       // a longer body is left out …
#define VERL_TRACE_WORDS  (4 * 1024)        // … or, of an order or a report, cut here

// name, word
#define VERL_TRACE_KIND_MAP(X)                                                     \
    X(VERL_TRACE_DATA, "data")              /* a batch, or a part of one */        \
    X(VERL_TRACE_WEIGHTS, "weights")        /* a version of a model's weights */   \
    X(VERL_TRACE_STATUS, "status")          /* of a channel, back to its sender */ \
    X(VERL_TRACE_PING, "ping")                                                     \
    X(VERL_TRACE_PONG, "pong")                                                     \
    X(VERL_TRACE_ORDER, "order")            /* director → actor */                 \
    X(VERL_TRACE_REPORT, "report")          /* actor → director */                 \
    X(VERL_TRACE_RAN, "ran")                /* no message: a handler ran */

typedef enum verl_trace_kind {
#define X(id, word) id,
    VERL_TRACE_KIND_MAP(X)
#undef X
    VERL_TRACE_KINDS
} verl_trace_kind_t;

// Who is who: "reward#7", or "reward.2#7" where the actor has several replicas. Cut where it does not fit. Returns label.
#define VERL_TRACE_DIRECTOR "director#1"
const char *verl_trace_label(char *label, size_t size, const char *actor, int64_t replica, int64_t replicas,
                             uint64_t incarnation);

const char *verl_trace_kind_word(verl_trace_kind_t kind);
int         verl_trace_kind_of(const char *word);           // -1: no such word
// What a message that is not of a plan's edge is, by its type and its sender: the director, or an actor.
verl_trace_kind_t verl_trace_kind_of_message(const verl_message_t *message, bool director);

// Of one party, since the follower came: seen = what passed its filter (matched) + what did not; matched = sent +
// dropped.
typedef struct verl_trace_counts {
    uint64_t seen, matched, sent, dropped;
} verl_trace_counts_t;

typedef struct verl_trace_head {
    char                party[VERL_TRACE_NAME];
    int64_t             trace;              // its id, as the director gave it
    uint64_t            number;
    bool                last;               // the party follows no more: these are its final counts
    verl_trace_counts_t counts;             // after the records of this frame
} verl_trace_head_t;

typedef struct verl_trace_record {
    verl_trace_kind_t kind;
    int64_t           t;                    // when it was sent; RAN: when the handler was done
    char              from[VERL_TRACE_NAME], to[VERL_TRACE_NAME];          // RAN: from is who ran
    char              stage[VERL_TRACE_NAME], reader[VERL_TRACE_NAME];     // "": none
    verl_message_t    message;              // edge, seq, revision, batch, part, parts, time, body
    uint64_t          bytes;                // of the body as it was sent
    int64_t           begin, end;           // RAN
    verl_reader_t     about;                // the items of `about`, about_count of them: verl_trace_read_about
    uint32_t          about_count;
} verl_trace_record_t;

typedef struct verl_trace_about {
    char           column[256];
    verl_summary_t summary;
    const char    *head;
    size_t         head_size;
} verl_trace_about_t;

// Append to a frame; 0, or -1 without memory. A record's body, bytes and about are written as they are; about: packed
// items, with their number.
int verl_trace_write_head(verl_buffer_t *frame, const verl_trace_head_t *head);
// The records are written field by field from where they are, since this is what costs a traced message its time.
typedef struct verl_trace_message {
    verl_trace_kind_t     kind;
    int64_t               t;
    const char           *from, *to, *stage, *reader;          // stage, reader: NULL where there is none
    const verl_message_t *message;          // the fields of its header
    const char           *body;             // what goes into the record
    size_t                body_size;
    const verl_buffer_t  *about;            // NULL: nil
    uint32_t              about_count;
} verl_trace_message_t;
int verl_trace_write_message(verl_buffer_t *frame, const verl_trace_message_t *message);
int verl_trace_write_ran(verl_buffer_t *frame, int64_t t, const char *party, const char *stage, int64_t revision,
                         int64_t batch, int64_t part, int64_t parts, int64_t begin, int64_t end);
int verl_trace_write_about(verl_buffer_t *about, const char *column, const verl_summary_t *summary, const void *head,
                           size_t head_size);

// Read the next one. Everything is checked. 0, or -1 with a reason.
int verl_trace_read_head(verl_reader_t *frame, verl_trace_head_t *ret, verl_error_t *error);
int verl_trace_read_record(verl_reader_t *frame, verl_trace_record_t *ret, verl_error_t *error);
int verl_trace_read_about(verl_reader_t *about, verl_trace_about_t *ret, verl_error_t *error);
#endif
