// Channels between two parties over real sockets: once, in order, kept until done, repeated while unanswered.
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>
#include "runtime/base/clock.h"
#include "runtime/mailbox/address.h"
#include "runtime/mailbox/endpoint.h"

typedef struct side {
    verl_endpoint_t *endpoint;
    char             address[VERL_ADDRESS_BYTES];
    int64_t          came, next, wrong, done, malformed;
    int64_t          pong;
} side_t;

typedef struct pair {
    void   *zmq;
    side_t  a, b;
} pair_t;

static int
s_on_message(void *context, verl_inbound_t *inbound, const verl_message_t *message, verl_error_t *error)
{
    side_t *side = context;
    (void) inbound;
    (void) error;
    side->wrong += message->batch != side->next++;
    side->came++;
    return 0;
}

static void
s_on_done(void *context, void *tag)
{
    side_t *side = context;
    (void) tag;
    side->done++;
}

static void
s_on_ping(void *context, verl_buffer_t *body)
{
    (void) context;
    verl_buffer_append(body, "x", 1);
}

static void
s_on_pong(void *context, const verl_message_t *message)
{
    side_t *side = context;
    side->pong = message->body_size == 1 ? message->batch : -1;
}

static void
s_on_malformed(void *context, const char *reason)
{
    side_t *side = context;
    (void) reason;
    side->malformed++;
}

static const verl_endpoint_handlers_t s_handlers = { .message = s_on_message, .done = s_on_done, .ping = s_on_ping,
                                                     .pong = s_on_pong, .malformed = s_on_malformed };

static void
s_side(pair_t *pair, side_t *side, uint64_t incarnation)
{
    verl_error_t error = { "" };
    char run[33];
    snprintf(run, sizeof run, "test%d", getpid());
    verl_address(side->address, run, incarnation);
    side->endpoint = verl_endpoint_new(pair->zmq, incarnation, side->address, &s_handlers, side, &error);
    cr_assert(side->endpoint, "%s", error.text);
}

static void
s_open(pair_t *pair)
{
    *pair = (pair_t) { .zmq = zmq_ctx_new() };
    s_side(pair, &pair->a, 11);
    s_side(pair, &pair->b, 12);
    cr_assert_eq(verl_endpoint_connect(pair->a.endpoint, 12, pair->b.address, NULL), 0);
    cr_assert_eq(verl_endpoint_connect(pair->b.endpoint, 11, pair->a.address, NULL), 0);
}

static void
s_close(pair_t *pair)
{
    verl_endpoint_destroy(&pair->a.endpoint);
    verl_endpoint_destroy(&pair->b.endpoint);
    zmq_ctx_term(pair->zmq);
}

// Lets both run until the condition holds, at most 10 s.
#define UNTIL(pair, condition) do { \
        int64_t limit_ = verl_now() + 10 * VERL_S; \
        while (!(condition) && verl_now() < limit_) { \
            verl_endpoint_step((pair)->a.endpoint, -1, 1); \
            verl_endpoint_step((pair)->b.endpoint, -1, 1); \
        } \
        cr_assert(condition, #condition " within 10 s"); \
    } while (0)

static void
s_send(verl_outbound_t *out, int64_t from, int64_t count, void *tag)
{
    for (int64_t i = from; i < from + count; i++)
        cr_assert_eq(verl_outbound_send(out, &(verl_message_t) { .batch = i, .parts = 1, .body = "hello",
                                                                 .body_size = 5 }, tag), 0);
    verl_outbound_flush(out);
}

Test(endpoint, delivers_each_message_once_and_in_order)
{
    pair_t pair;
    s_open(&pair);
    verl_outbound_t *out = verl_outbound_open(pair.a.endpoint, 12, 0, 100000);
    verl_inbound_open(pair.b.endpoint, 11, 0, 100000, NULL);
    s_send(out, 0, 5000, NULL);
    UNTIL(&pair, pair.b.came == 5000);
    cr_assert_eq(pair.b.wrong, 0);
    s_close(&pair);
}

Test(endpoint, keeps_messages_until_the_receiver_is_done)
{
    pair_t pair;
    int tag;
    s_open(&pair);
    verl_outbound_t *out = verl_outbound_open(pair.a.endpoint, 12, 3, 64);
    verl_inbound_t *in = verl_inbound_open(pair.b.endpoint, 11, 3, 64, NULL);
    s_send(out, 0, 10, &tag);
    UNTIL(&pair, pair.b.came == 10);
    cr_assert_eq(pair.a.done, 0);
    cr_assert_eq(verl_endpoint_unanswered(pair.a.endpoint), 10);
    verl_inbound_taken(in, 10);
    verl_inbound_done(in, 7);
    verl_endpoint_acknowledge(pair.b.endpoint, true);
    UNTIL(&pair, pair.a.done == 7);
    cr_assert_eq(verl_endpoint_unanswered(pair.a.endpoint), 3);
    s_close(&pair);
    cr_assert_eq(pair.a.done, 10, "what is not done with comes back when the endpoint ends");
}

Test(endpoint, sends_no_more_than_the_receiver_lets)
{
    pair_t pair;
    s_open(&pair);
    verl_outbound_t *out = verl_outbound_open(pair.a.endpoint, 12, 0, 8);
    verl_inbound_t *in = verl_inbound_open(pair.b.endpoint, 11, 0, 8, NULL);
    s_send(out, 0, 100, NULL);
    UNTIL(&pair, pair.b.came == 8);
    for (int i = 0; i < 20; i++) {
        verl_endpoint_step(pair.a.endpoint, -1, 1);
        verl_endpoint_step(pair.b.endpoint, -1, 1);
    }
    cr_assert_eq(pair.b.came, 8);
    while (pair.b.came < 100) {
        int64_t came = pair.b.came;
        verl_inbound_taken(in, 4);
        verl_endpoint_acknowledge(pair.b.endpoint, true);
        UNTIL(&pair, pair.b.came == (came + 4 < 100 ? came + 4 : 100));
    }
    cr_assert_eq(pair.b.wrong, 0);
    s_close(&pair);
}

Test(endpoint, repeats_what_came_before_the_channel_was_open)
{
    pair_t pair;
    s_open(&pair);
    verl_outbound_t *out = verl_outbound_open(pair.a.endpoint, 12, 0, 64);
    s_send(out, 0, 5, NULL);
    for (int i = 0; i < 20; i++)
        verl_endpoint_step(pair.b.endpoint, -1, 1);
    cr_assert_eq(pair.b.came, 0);
    verl_inbound_open(pair.b.endpoint, 11, 0, 64, NULL);
    UNTIL(&pair, pair.b.came == 5);
    cr_assert_eq(pair.b.wrong, 0);
    s_close(&pair);
}

Test(endpoint, drops_messages_for_another_incarnation)
{
    pair_t pair;
    s_open(&pair);
    cr_assert_eq(verl_endpoint_connect(pair.a.endpoint, 13, pair.b.address, NULL), 0);
    verl_outbound_t *stale = verl_outbound_open(pair.a.endpoint, 13, 0, 64);
    verl_outbound_t *out = verl_outbound_open(pair.a.endpoint, 12, 0, 64);
    verl_inbound_open(pair.b.endpoint, 11, 0, 64, NULL);
    s_send(stale, 100, 5, NULL);
    s_send(out, 0, 5, NULL);
    UNTIL(&pair, pair.b.came == 5);
    cr_assert_eq(pair.b.wrong, 0);
    s_close(&pair);
}

Test(endpoint, answers_a_ping)
{
    pair_t pair;
    s_open(&pair);
    cr_assert_eq(verl_endpoint_ping(pair.a.endpoint, 12, 4711), 0);
    UNTIL(&pair, pair.a.pong == 4711);
    s_close(&pair);
}

// Anybody may write to the socket: nothing of it is believed, nothing of it hurts.
Test(endpoint, survives_frames_that_are_no_messages)
{
    pair_t pair;
    s_open(&pair);
    void *stranger = zmq_socket(pair.zmq, ZMQ_DEALER);
    cr_assert_eq(zmq_connect(stranger, pair.b.address), 0);
    static const char *const frames[] = { "", "\xc1", "\x9c\x01", "\xdd\xff\xff\xff\xff", "\x9c\x02\x01", "hello" };
    static const size_t sizes[] = { 0, 1, 2, 5, 3, 5 };
    for (size_t i = 0; i < 6; i++)
        zmq_send(stranger, frames[i], sizes[i], 0);
    UNTIL(&pair, pair.b.malformed == 5);
    cr_assert_eq(verl_endpoint_ping(pair.a.endpoint, 12, 5), 0);
    UNTIL(&pair, pair.a.pong == 5);
    int none = 0;
    zmq_setsockopt(stranger, ZMQ_LINGER, &none, sizeof none);
    zmq_close(stranger);
    s_close(&pair);
}

// What no receiver can have come to: done with more than it received, received more than was sent, numbers below 0.
Test(endpoint, believes_no_status_that_cannot_be)
{
    static const struct { uint64_t received; int64_t limit, done; } wrong[] = {
        { 2, 100, 3 }, { 11, 100, 2 }, { 5, -1, 2 }, { 5, 100, -1 }, { UINT64_MAX, INT64_MAX, INT64_MAX },
    };
    pair_t pair;
    int64_t count = sizeof wrong / sizeof *wrong;
    s_open(&pair);
    verl_outbound_t *out = verl_outbound_open(pair.a.endpoint, 12, 0, 10);
    verl_inbound_t *in = verl_inbound_open(pair.b.endpoint, 11, 0, 10, NULL);
    int tag;
    s_send(out, 0, 10, &tag);
    UNTIL(&pair, pair.b.came == 10);
    void *stranger = zmq_socket(pair.zmq, ZMQ_DEALER);
    cr_assert_eq(zmq_connect(stranger, pair.a.address), 0);
    for (int64_t i = 0; i < count; i++) {
        verl_buffer_t frame = { 0 };
        verl_message_write(&frame, &(verl_message_t) { .type = VERL_MESSAGE_STATUS, .from = 12, .to = 11, .parts = 1,
                                                       .seq = wrong[i].received, .revision = wrong[i].limit,
                                                       .batch = wrong[i].done });
        cr_assert_eq(zmq_send(stranger, frame.data, frame.size, 0), (int) frame.size);
        verl_buffer_done(&frame);
    }
    UNTIL(&pair, pair.a.malformed == count);
    cr_assert_eq(pair.a.done, 0);
    s_send(out, 10, 5, &tag);               // the limit is what it was: 10
    verl_inbound_taken(in, 2);
    verl_endpoint_acknowledge(pair.b.endpoint, true);
    UNTIL(&pair, pair.b.came == 12);
    cr_assert_eq(pair.b.wrong, 0);
    zmq_close(stranger);
    s_close(&pair);
}

// A report of a batch reaches whoever it is for although nobody flushes it, before the batch's sender hears that it is done.
Test(endpoint, sends_what_is_queued_before_it_acknowledges)
{
    pair_t pair;
    side_t c = { 0 };
    int tag;
    s_open(&pair);
    s_side(&pair, &c, 13);
    cr_assert_eq(verl_endpoint_connect(pair.a.endpoint, 13, c.address, NULL), 0);
    cr_assert_eq(verl_endpoint_connect(c.endpoint, 11, pair.a.address, NULL), 0);
    verl_outbound_t *report = verl_outbound_open(pair.a.endpoint, 13, VERL_EDGE_REPORT, 64);
    verl_inbound_open(c.endpoint, 11, VERL_EDGE_REPORT, 64, NULL);
    verl_inbound_t *in = verl_inbound_open(pair.a.endpoint, 12, 0, 64, NULL);
    s_send(verl_outbound_open(pair.b.endpoint, 11, 0, 64), 0, 1, &tag);
    UNTIL(&pair, pair.a.came == 1);
    cr_assert_eq(verl_outbound_send(report, &(verl_message_t) { .parts = 1 }, NULL), 0);
    verl_inbound_taken(in, 1);
    verl_inbound_done(in, 1);
    verl_endpoint_acknowledge(pair.a.endpoint, true);
    for (int64_t limit = verl_now() + 10 * VERL_S; !c.came && verl_now() < limit;)   // a does nothing more
        verl_endpoint_step(c.endpoint, -1, 1);
    cr_assert_eq(c.came, 1);
    UNTIL(&pair, pair.b.done == 1);
    verl_endpoint_destroy(&c.endpoint);
    s_close(&pair);
}

// A successor is sent to before it knows of its senders: what it dropped comes again as soon as it does.
Test(endpoint, what_came_before_the_channel_was_opened_comes_again_at_once)
{
    pair_t pair;
    s_open(&pair);
    verl_outbound_t *out = verl_outbound_open(pair.a.endpoint, 12, 5, 64);
    s_send(out, 0, 10, NULL);
    verl_outbound_flush(out);
    int64_t began = verl_now();
    while (verl_now() - began < 50 * VERL_MS) {     // nobody is told of what is dropped
        verl_endpoint_step(pair.a.endpoint, -1, 1);
        verl_endpoint_step(pair.b.endpoint, -1, 1);
    }
    cr_assert_eq(pair.b.came, 0);
    verl_inbound_open(pair.b.endpoint, 11, 5, 64, NULL);
    began = verl_now();
    UNTIL(&pair, pair.b.came == 10);
    cr_assert_eq(pair.b.wrong, 0);
    cr_assert_lt(verl_now() - began, VERL_S, "it took as long as a lost message");
    s_close(&pair);
}
