// The mailbox of a stage: what a bad sender sends is refused by name, and what is let go gives its credit back. And what
// it reports is not lost in silence.
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>
#include "runtime/actor/host_impl.h"
#include "runtime/base/clock.h"
#include "runtime/mailbox/address.h"

// A stage `work` of this actor, given batches by `make` and weights by `learn`, of actor 12.
typedef struct fixture {
    void             *zmq;
    verl_endpoint_t  *maker;
    verl_outbound_t  *out;
    int64_t           heard, failures;      // by the maker, as the director that it is too
    char              sentence[1024];
    host_t            host;
    verl_plan_t       plan;
    verl_plan_stage_t stages[3];
    verl_plan_edge_t  edges[2];
    world_t           world;
    seat_t            seat;
    edge_in_t         in[2];
    verl_inbound_t   *inbound[2];
    label_t          *label;
} fixture_t;

static int
s_take(void *context, verl_inbound_t *inbound, const verl_message_t *message, verl_error_t *error)
{
    fixture_t *fixture = context;
    return verl_host_receive(&fixture->host, verl_inbound_tag(inbound), inbound, message, error);
}

static int
s_hear(void *context, verl_inbound_t *inbound, const verl_message_t *message, verl_error_t *error)
{
    fixture_t *fixture = context;
    verl_reader_t reader;
    uint32_t fields;
    char word[32];
    int64_t stage, batch;
    (void) error;
    verl_reader_init(&reader, message->body, message->body_size);
    cr_assert_eq(verl_read_array(&reader, &fields), 0);
    cr_assert_eq(verl_read_cstr(&reader, word, sizeof word), 0);
    fixture->heard++;
    if (strcmp(word, "failed") == 0) {
        fixture->failures++;
        cr_assert_eq(verl_read_int(&reader, &stage) || verl_read_int(&reader, &batch) ||
                     verl_read_cstr(&reader, fixture->sentence, sizeof fixture->sentence), 0);
    }
    verl_inbound_taken(inbound, 1);
    verl_inbound_done(inbound, 1);
    return 0;
}

static void
s_done(void *context, void *tag)
{
    (void) context;
    (void) tag;
}

static verl_endpoint_t *
s_endpoint(fixture_t *fixture, uint64_t incarnation, char *address,
           int (*message)(void *, verl_inbound_t *, const verl_message_t *, verl_error_t *))
{
    verl_error_t error = { "" };
    char run[33];
    const verl_endpoint_handlers_t handlers = { .message = message, .done = s_done };
    snprintf(run, sizeof run, "units%d", (int) getpid());
    verl_address(address, run, incarnation);
    verl_endpoint_t *endpoint = verl_endpoint_new(fixture->zmq, incarnation, address, &handlers, fixture, &error);
    cr_assert(endpoint, "%s", error.text);
    return endpoint;
}

static void
s_plan(fixture_t *fixture)
{
    static const char *const names[] = { "make", "learn", "work" };
    for (int i = 0; i < 3; i++)
        fixture->stages[i] = (verl_plan_stage_t) { .name = (char *) (uintptr_t) names[i], .parts = 1, .parts_of = -1 };
    fixture->edges[0] = (verl_plan_edge_t) { .maker = 0, .reader = 2 };
    fixture->edges[1] = (verl_plan_edge_t) { .maker = 1, .reader = 2, .weights = true };
    fixture->plan = (verl_plan_t) { .revision = 4, .steps = 100, .stages_count = 3, .stages = fixture->stages,
                                    .edges = fixture->edges, .max_in_flight = 4 };
    fixture->world = (world_t) { .host = &fixture->host, .plan = &fixture->plan, .seats = &fixture->seat,
                                 .seats_count = 1, .end = INT64_MAX };
    fixture->seat = (seat_t) { .host = &fixture->host, .world = &fixture->world, .plan = &fixture->stages[2],
                               .index = 2, .in = fixture->in, .in_count = 2, .writer = -1, .granted = -1,
                               .version_update = -1, .weights = &fixture->in[1] };
    for (int i = 0; i < 2; i++)
        fixture->in[i] = (edge_in_t) { .plan = &fixture->edges[i], .edge = i, .seat = &fixture->seat };
}

static void
s_open(fixture_t *fixture)
{
    char mine[VERL_ADDRESS_BYTES], theirs[VERL_ADDRESS_BYTES];
    memset(fixture, 0, sizeof *fixture);
    fixture->zmq = zmq_ctx_new();
    s_plan(fixture);
    host_t *host = &fixture->host;
    pthread_mutex_init(&host->lock, NULL);
    pthread_cond_init(&host->changed, NULL);
    host->worlds = &fixture->world;
    host->config = (verl_host_config_t) { .actor = "worker", .incarnation = 11 };
    label_t *label = fixture->label = calloc(1, sizeof *label + 32);
    label->incarnation = 12;
    verl_trace_label(label->text, 32, "maker", 1, 2, 12);
    atomic_store(&host->labels, label);
    host->endpoint = s_endpoint(fixture, 11, mine, s_take);
    fixture->maker = s_endpoint(fixture, 12, theirs, s_hear);
    cr_assert_eq(verl_endpoint_connect(host->endpoint, 12, theirs, NULL), 0);
    cr_assert_eq(verl_endpoint_connect(fixture->maker, 11, mine, NULL), 0);
    for (int i = 0; i < 2; i++)
        fixture->inbound[i] = verl_inbound_open(host->endpoint, 12, i, 64, &fixture->in[i]);
    fixture->out = verl_outbound_open(fixture->maker, 11, 0, 64);
    host->report = verl_outbound_open(host->endpoint, 12, VERL_EDGE_REPORT, VERL_CONTROL_WINDOW);
    verl_inbound_open(fixture->maker, 11, VERL_EDGE_REPORT, VERL_CONTROL_WINDOW, NULL);
}

static void
s_close(fixture_t *fixture)
{
    for (int i = 0; i < 2; i++)
        verl_units_free(fixture->in[i].first, false);
    verl_endpoint_destroy(&fixture->maker);
    verl_endpoint_destroy(&fixture->host.endpoint);
    free(fixture->label);
    pthread_cond_destroy(&fixture->host.changed);
    pthread_mutex_destroy(&fixture->host.lock);
    zmq_ctx_term(fixture->zmq);
}

// As if it had come over the wire: part (from 0) of parts, with an empty body.
static int
s_give(fixture_t *fixture, int edge, int64_t batch, int64_t part, int64_t parts, verl_error_t *error)
{
    static uint64_t seq;
    verl_message_t message = { .type = VERL_MESSAGE_DATA, .edge = edge, .from = 12, .to = 11, .seq = ++seq,
                               .revision = 4, .batch = batch, .part = part, .parts = parts };
    *error = (verl_error_t) { "" };
    return verl_host_receive(&fixture->host, &fixture->in[edge], fixture->inbound[edge], &message, error);
}

#define REFUSED(fixture, sentence, ...) do { \
        verl_error_t error_; \
        int rc_ = s_give(fixture, __VA_ARGS__, &error_); \
        cr_assert_eq(rc_, -1, "%s", sentence); \
        cr_assert_str_eq(error_.text, sentence); \
    } while (0)

Test(units, a_batch_of_which_parts_disagree_is_refused)
{
    fixture_t fixture;
    verl_error_t error;
    s_open(&fixture);
    cr_assert_eq(s_give(&fixture, 0, 7, 0, 3, &error), 0, "%s", error.text);
    REFUSED(&fixture, "stage make of maker.1#12 sent batch 7 in 3 parts and in 2", 0, 7, 1, 2);
    cr_assert_eq(s_give(&fixture, 0, 8, 0, 1, &error), 0, "%s", error.text);
    REFUSED(&fixture, "stage make of maker.1#12 sent batch 8 in 1 parts and in 3", 0, 8, 1, 3);
    cr_assert_not(verl_edge_whole(&fixture.in[0], 7));
    cr_assert(verl_edge_whole(&fixture.in[0], 8));
    cr_assert_eq(s_give(&fixture, 0, 7, 2, 3, &error) || s_give(&fixture, 0, 7, 1, 3, &error), 0, "%s", error.text);
    cr_assert(verl_edge_whole(&fixture.in[0], 7));
    s_close(&fixture);
}

Test(units, weights_are_one_part_and_never_empty)
{
    fixture_t fixture;
    s_open(&fixture);
    REFUSED(&fixture, "stage learn of maker.1#12 sent batch 3 without the weights that it made", 1, 3, 0, 1);
    REFUSED(&fixture, "stage learn of maker.1#12 sent batch 3 in 2 parts: more than there may be", 1, 3, 1, 2);
    cr_assert_null(fixture.in[1].first);
    s_close(&fixture);
}

Test(units, what_the_run_does_not_have_is_refused)
{
    fixture_t fixture;
    s_open(&fixture);
    REFUSED(&fixture, "stage make of maker.1#12 sent batch -1, which the run does not have", 0, -1, 0, 3);
    REFUSED(&fixture, "stage make of maker.1#12 sent batch 101, which the run does not have", 0, 101, 0, 3);
    s_close(&fixture);
}

#define UNTIL(fixture, condition) do { \
        int64_t limit_ = verl_now() + 10 * VERL_S; \
        while (!(condition) && verl_now() < limit_) { \
            verl_endpoint_step((fixture)->host.endpoint, -1, 1); \
            verl_endpoint_step((fixture)->maker, -1, 1); \
        } \
        cr_assert(condition, #condition " within 10 s"); \
    } while (0)

static int64_t
s_count(const edge_in_t *edge)
{
    int64_t count = 0;
    for (const unit_t *unit = edge->first; unit; unit = unit->next)
        count++;
    return count;
}

// What came below the start of a stage is done with and was never taken: were it counted as lying in the mailbox for
// good, the window would be smaller for the rest of the run.
Test(units, what_is_let_go_untaken_gives_its_credit_back)
{
    fixture_t fixture;
    s_open(&fixture);
    for (int64_t i = 0; i < 100; i++)
        cr_assert_eq(verl_outbound_send(fixture.out, &(verl_message_t) { .revision = 4, .batch = i, .parts = 1 }, NULL), 0);
    verl_outbound_flush(fixture.out);
    UNTIL(&fixture, s_count(&fixture.in[0]) == 64);
    verl_units_free(verl_edge_take(&fixture.in[0], 49), true);
    UNTIL(&fixture, s_count(&fixture.in[0]) == 50);
    cr_assert_eq(verl_endpoint_unanswered(fixture.maker), 50);
    s_close(&fixture);
}

// Were a report lost in silence, the director would wait for the batch for ever.
Test(units, a_report_that_there_is_no_memory_for_is_told_as_a_failure)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    cr_skip_test("memory cannot be limited under a sanitizer");
#else
    enum { METRICS = 1 << 20 };
    fixture_t fixture;
    struct rlimit before, none = { 0 };
    s_open(&fixture);
    seat_t *seat = &fixture.seat;
    seat->stage.metrics = calloc(METRICS, sizeof *seat->stage.metrics);
    seat->stage.metrics_count = METRICS;
    for (int i = 0; i < METRICS; i++)
        seat->stage.metrics[i].name = (char *) (uintptr_t) "loss";
    cr_assert_not(verl_report_unheard(&fixture.host));
    getrlimit(RLIMIT_AS, &before);
    none.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_AS, &none);
    int rc = verl_report_done(seat, 5, NULL);
    setrlimit(RLIMIT_AS, &before);
    cr_assert_eq(rc, -1);
    cr_assert(fixture.host.failed);
    cr_assert_eq(fixture.heard, 0);
    cr_assert_not(verl_report_unheard(&fixture.host));
    UNTIL(&fixture, fixture.heard == 1);
    cr_assert_eq(fixture.failures, 1);
    cr_assert_str_eq(fixture.sentence, "out of memory: a report to the director was lost");
    free(seat->stage.metrics);
    s_close(&fixture);
#endif
}
