// filter.h: which messages a follower wants, decided where they are sent, and how much it can take.
//
// A message passes where it matches each of the lists that are not empty; a list matches where one of its entries does.
// A filter is a plain value: copying it is enough.
#ifndef VERL_OBSERVE_FILTER_H
#define VERL_OBSERVE_FILTER_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/error.h"
#include "runtime/observe/trace.h"
#include "runtime/wire/buffer.h"
#include "runtime/wire/read.h"

#define VERL_FILTER_NAMES  16               // of one list, at most
#define VERL_FILTER_RANGES 16
#define VERL_FILTER_BYTES  256              // of a name with its end
#define VERL_FILTER_RECORDS_MAX 1000000     // credit at a time
#define VERL_FILTER_CREDIT_MAX  (1LL << 30) // bytes

typedef enum verl_filter_values {
    VERL_VALUES_NONE,                       // of a column that is not in the body: dtype and shape
    VERL_VALUES_HEAD,                       // its first bytes too
    VERL_VALUES_WHOLE,                      // all columns travel with all their bytes
} verl_filter_values_t;

typedef struct verl_filter_names {
    int  count;
    char items[VERL_FILTER_NAMES][VERL_FILTER_BYTES];
} verl_filter_names_t;

typedef struct verl_filter {
    verl_filter_names_t  actors;            // sender or receiver: "reward" (all replicas), "reward.1", "reward#7" (an
                                            // incarnation), "reward.1#7"
    verl_filter_names_t  stages;            // maker or reader
    verl_filter_names_t  makers, readers;   // edges, pair by pair: a stage or an actor; "": any
    uint32_t             kinds;             // bits, 1 << verl_trace_kind_t
    int                  ranges;
    int64_t              from[VERL_FILTER_RANGES], to[VERL_FILTER_RANGES];  // batches, both ends included
    uint64_t             first;             // of each sender only so many; 0: all
    uint64_t             every;             // of those that match only the first of so many; >= 1
    verl_filter_values_t values;
    bool                 stats;             // numbers of columns that are not in the body
    uint64_t             records, bytes;    // the credit that it begins with
} verl_filter_t;

typedef struct verl_filter_message {
    verl_trace_kind_t kind;
    const char       *from, *to;            // labels; NULL: none
    const char       *stage, *reader;       // NULL: none
    int64_t           batch;                // below 0: none
} verl_filter_message_t;

// Does it pass the lists? (first and every are the sender's to count.)
bool verl_filter_matches(const verl_filter_t *filter, const verl_filter_message_t *message);

// Everything but status, ping, pong and ran; and what a follower can take at a time.
void verl_filter_init(verl_filter_t *filter);
// From the "filter" of a request (NULL: all defaults) and to it (a new object; NULL without memory). Unknown keys,
// words and numbers out of range are refused with a sentence.
int     verl_filter_from_json(const json_t *object, verl_filter_t *ret, verl_error_t *error);
json_t *verl_filter_to_json(const verl_filter_t *filter);

// As it travels in an order: an array of 11: actors, stages, makers, readers (arrays of strings), kinds, batches (an
// array of numbers, two a range), first, every, values, stats, [records, bytes]. Read checks everything; -1 with a
// reason.
int verl_filter_write(verl_buffer_t *buffer, const verl_filter_t *filter);
int verl_filter_read(verl_reader_t *reader, verl_filter_t *ret, verl_error_t *error);
#endif
