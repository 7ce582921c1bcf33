// What it costs to be followed: the processor time that a message takes its sender, with nobody there, traced, and for
// a follower that has stopped, beside what was promised; and that of a whole run of many messages a second, followed by
// verl-spy, beside the same run alone.
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>
#include "runtime/base/clock.h"
#include "runtime/observe/tap.h"
#include "runtime/wire/pack.h"
#include "tests/bench/bench.h"

#define TURNS      7
#define MESSAGES   2000                     // a turn; fewer than a follower may take at a time
#define BODY       200                      // bytes: a batch of small columns
#define ASKED      10000000                 // times whether anybody follows
#define PROMISED   500.0                    // ns; and with nobody there …
#define BRANCH     1.0
#define PAIRS      5
#define SPY_WAIT_S 10

// --- one message --------------------------------------------------------------------------------------------------

typedef struct follower {
    void       *router;
    atomic_bool ends;
    atomic_long came;
} follower_t;

// Takes what comes and gives credit for all of it.
static void *
s_take(void *context)
{
    follower_t *self = context;
    verl_trace_record_t record;
    while (!atomic_load(&self->ends)) {
        zmq_pollitem_t item = { .socket = self->router, .events = ZMQ_POLLIN };
        char routing[256], credit[32];
        if (zmq_poll(&item, 1, 20) <= 0)
            continue;
        int size = zmq_recv(self->router, routing, sizeof routing, 0);
        zmq_msg_t message;
        zmq_msg_init(&message);
        zmq_msg_recv(&message, self->router, 0);
        verl_trace_head_t head;
        verl_reader_t reader;
        verl_reader_init(&reader, zmq_msg_data(&message), zmq_msg_size(&message));
        verl_trace_read_head(&reader, &head, NULL);
        while (verl_reader_left(&reader) && verl_trace_read_record(&reader, &record, NULL) == 0)
            atomic_fetch_add(&self->came, 1);
        zmq_msg_close(&message);
        verl_buffer_t body = { 0 };
        verl_pack_array(&body, 2);
        verl_pack_uint(&body, (uint64_t) atomic_load(&self->came) + 100000);
        verl_pack_uint(&body, ((uint64_t) atomic_load(&self->came) + 100000) * 1000);
        memcpy(credit, body.data, body.size);
        zmq_send(self->router, routing, (size_t) size, ZMQ_SNDMORE);
        zmq_send(self->router, credit, body.size, 0);
        verl_buffer_done(&body);
    }
    return NULL;
}

static double
s_thread_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double) time.tv_sec * 1e9 + (double) time.tv_nsec;
}

static double
s_turn(verl_tap_t *tap)
{
    static char body[BODY];
    verl_message_t message = { .edge = 1 << 20, .seq = 1, .revision = 1, .parts = 1, .body = body, .body_size = BODY };
    verl_tap_event_t event = { .kind = VERL_TRACE_DATA, .message = &message, .from = "maker#2", .to = "reader#3",
                               .stage = "make", .reader = "read" };
    double begin = s_thread_ns();
    for (int i = 0; i < MESSAGES; i++) {
        message.seq = (uint64_t) i + 1;
        message.batch = i;
        verl_tap_message(tap, &event);
    }
    return (s_thread_ns() - begin) / MESSAGES;
}

// What every message costs, followed or not.
static double
s_ask(const verl_tap_t *tap)
{
    volatile int on = 0;
    double begin = s_thread_ns();
    for (int i = 0; i < ASKED; i++)
        if (verl_tap_on(tap))
            on++;
    return (s_thread_ns() - begin) / ASKED;
}

static int
s_follow(verl_tap_t *tap, const char *address, uint64_t records, verl_error_t *error)
{
    verl_buffer_t order = { 0 };
    verl_filter_t filter;
    verl_reader_t reader;
    verl_filter_init(&filter);
    filter.records = records ? records : filter.records;
    verl_pack_int(&order, 1);
    verl_pack_cstr(&order, address);
    verl_filter_write(&order, &filter);
    verl_reader_init(&reader, order.data, order.size);
    int failed = verl_tap_order(tap, "trace", &reader, error);
    verl_buffer_done(&order);
    return failed;
}

static int
s_message(verl_bench_run_t *run, verl_error_t *error)
{
    void *zmq = zmq_ctx_new();
    follower_t follower = { .router = zmq_socket(zmq, ZMQ_ROUTER) };
    char address[100], silent[110];
    double ns[TURNS];
    pthread_t thread;
    int none = 0;
    snprintf(address, sizeof address, "ipc://@verl-%u-bench-%d", (unsigned) getuid(), (int) getpid());
    snprintf(silent, sizeof silent, "%s-silent", address);      // nobody is there
    zmq_setsockopt(follower.router, ZMQ_LINGER, &none, sizeof none);
    if (zmq_bind(follower.router, address) || pthread_create(&thread, NULL, s_take, &follower))
        return verl_error_set(error, "cannot bind %s", address);
    verl_tap_t *tap = verl_tap_new(zmq, "maker#2", error), *stopped = verl_tap_new(zmq, "maker#3", error);
    double nobody = tap ? s_ask(tap) : 0, without = 0;
    int failed = !tap || !stopped || s_follow(tap, address, 0, error) || s_follow(stopped, silent, 1, error);
    for (int i = 0; !failed && i < TURNS; i++) {
        ns[i] = s_turn(tap);
        for (int64_t limit = verl_now() + 10 * VERL_S; atomic_load(&follower.came) < (i + 1) * MESSAGES;)
            if (verl_now() > limit && (failed = verl_error_set(error, "the follower did not get all within 10 s")))
                break;
    }
    for (int i = 0; !failed && i < TURNS; i++)
        without = s_turn(stopped);          // the credit of the first turn is used up
    verl_tap_destroy(&tap);
    verl_tap_destroy(&stopped);
    atomic_store(&follower.ends, true);
    pthread_join(thread, NULL);
    zmq_close(follower.router);
    zmq_ctx_term(zmq);
    if (failed)
        return -1;
    verl_bench_report(run, "nobody", nobody, "ns", "a branch", BRANCH);
    verl_bench_report(run, "message", verl_bench_median(ns, TURNS), "ns", "of its sender, as promised", PROMISED);
    verl_bench_report(run, "stopped", without, "ns", "the same", PROMISED);
    return 0;
}

// --- a whole run --------------------------------------------------------------------------------------------------

// Three messages a batch, a batch every 0.3 ms; its orders, reports and statuses are not shown, but looked at.
static const char s_topology[] =
    "[run]\nname = \"followed\"\nsteps = 8000\nmax_in_flight = 64\n"
    "[stage.source]\nkind = \"synthetic\"\nrows = 4\nbytes = 8\nbusy_ms = 0.3\n"
    "[stage.middle]\nkind = \"synthetic\"\ndepends_on = [\"source\"]\nbytes = 8\nas = { payload = \"more\" }\n"
    "[stage.sink]\nkind = \"synthetic\"\ndepends_on = [\"middle\", \"source\"]\nbytes = 8\n"
    "as = { payload = \"most\" }\n";

static double
s_seconds(const struct rusage *usage)
{
    return (double) (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
           (double) (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1e6;
}

// Follows from when the run can be spoken to until it ends.
static pid_t
s_spy(const verl_bench_child_t *child)
{
    char program[PATH_MAX], directory[128], path[160];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 16);
    char *slash = length > 0 ? (program[length] = 0, strrchr(program, '/')) : NULL;
    if (!slash)
        return -1;
    memcpy(slash, "/verl-spy", sizeof "/verl-spy");
    snprintf(directory, sizeof directory, "%s/run", child->folder);
    snprintf(path, sizeof path, "%s/control.json", directory);
    for (int64_t limit = verl_now() + SPY_WAIT_S * VERL_S; access(path, F_OK); usleep(2000))
        if (verl_now() > limit)
            return -1;
    pid_t pid = fork();
    if (pid == 0) {
        if (freopen("/dev/null", "w", stdout) && freopen("/dev/null", "w", stderr))
            execl(program, "verl-spy", "--run", directory, "--kind", "data", "--json", NULL);
        _exit(127);
    }
    return pid;
}

// Processor seconds of the run and its actors, without the spy's. NaN is no number: -1 on failure.
static double
s_run(bool followed, verl_error_t *error)
{
    verl_bench_child_t child;
    struct rusage before, after, spied = { 0 };
    int status = 0;
    getrusage(RUSAGE_CHILDREN, &before);
    if (verl_bench_start(&child, s_topology, NULL, error))
        return -1;
    pid_t spy = followed ? s_spy(&child) : 0;
    json_t *end = verl_bench_finish(&child, error);
    if (spy > 0 && (wait4(spy, &status, 0, &spied) != spy || status != 0))
        verl_error_set(error, "verl-spy ended with status %d", status);
    if (spy < 0)
        verl_error_set(error, "verl-spy could not be started");
    getrusage(RUSAGE_CHILDREN, &after);
    bool good = end && spy >= 0 && status == 0;
    json_decref(end);
    return good ? s_seconds(&after) - s_seconds(&before) - s_seconds(&spied) : -1;
}

static int
s_followed(verl_bench_run_t *run, verl_error_t *error)
{
    double alone[PAIRS], followed[PAIRS];
    for (int i = 0; i < PAIRS; i++)
        if ((alone[i] = s_run(false, error)) < 0 || (followed[i] = s_run(true, error)) < 0)
            return -1;
    verl_bench_report(run, "run", verl_bench_median(followed, PAIRS), "s of CPU", "the same run alone",
                      verl_bench_median(alone, PAIRS));
    return 0;
}

static int
s_trace(verl_bench_run_t *run, verl_error_t *error)
{
    return s_message(run, error) || s_followed(run, error) ? -1 : 0;
}

VERL_BENCH(trace, "a traced message costs its sender at most 0.5 us, a run of 10,000 messages a second under 5 %",
           s_trace)
