// message.h: what parties of a run say to each other. PROTOCOL.md beside it has the rules; here is the form.
//
// A frame holds one message or several behind each other. A message is a msgpack array of VERL_MESSAGE_FIELDS integers
// and a binary body. Its first field is the protocol, so that a party of another version is refused by name.
#ifndef VERL_WIRE_MESSAGE_H
#define VERL_WIRE_MESSAGE_H
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/error.h"
#include "runtime/wire/buffer.h"
#include "runtime/wire/read.h"

#define VERL_PROTOCOL 1
#define VERL_MESSAGE_FIELDS 11              // the body aside
#define VERL_FRAME_BYTES (8 * 1024)         // a frame is sent when it is that long or nothing more is queued

typedef enum verl_message_type {
    VERL_MESSAGE_DATA = 1,                  // numbered, kept by its sender until it is done with
    VERL_MESSAGE_STATUS = 2,                // of a channel, receiver to sender: received, limit, done
    VERL_MESSAGE_PING = 3,                  // is the mailbox alive?
    VERL_MESSAGE_PONG = 4,                  // it is; the body says what its worker is doing
} verl_message_type_t;

// Edges of the plan are numbered from 0. Two channels are there beside them.
#define VERL_EDGE_REPORT  (-1)              // actor -> director
#define VERL_EDGE_CONTROL (-2)              // director -> actor
#define VERL_CONTROL_WINDOW 4096            // of these two

typedef struct verl_message {
    int64_t     type;
    int64_t     edge;
    uint64_t    from, to;                   // incarnations of sender and receiver
    uint64_t    seq;                        // DATA: from 1 on each channel. STATUS: received
    int64_t     revision;                   // DATA: of the batch. STATUS: limit
    int64_t     batch;                      // DATA. STATUS: done. PING, PONG: a number of the asker's
    int64_t     part, parts;                // DATA: part (from 0) of so many
    int64_t     time;                       // ns, of CLOCK_MONOTONIC: when the sender had it ready
    const char *body;
    size_t      body_size;
} verl_message_t;

// Appends a message. Returns 0, or -1 without memory.
int verl_message_write(verl_buffer_t *frame, const verl_message_t *message);
// Reads the next message of a frame; body points into it. Returns 0, or -1 with a reason.
int verl_message_read(verl_reader_t *frame, verl_message_t *ret_message, verl_error_t *error);
#endif
