// spy_world.h: a run as verl-spy sees it, small enough to know every message of it: a process that answers on the watch
// socket, keeps traces as the director does, and has the taps of two actors through which it sends what a test asks
// for.
#ifndef VERL_TEST_SPY_WORLD_H
#define VERL_TEST_SPY_WORLD_H
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>
#include "runtime/base/clock.h"
#include "runtime/control/server.h"
#include "runtime/director/traces.h"
#include "runtime/observe/tap.h"

typedef struct world {                      // shared with the process of the run
    char          directory[64];
    pid_t         pid;
    _Atomic int64_t wanted;                 // messages of maker#2 that are to be sent, from batch 0 on
    _Atomic int64_t sent, seen;             // were sent; while somebody followed
    atomic_int    traces, stop, ready;
} world_t;

typedef struct world_run {
    world_t         *world;
    void            *zmq;
    int              epoll_fd, lock_fd;
    verl_control_t  *control;
    verl_traces_t   *traces;
    verl_tap_t      *taps[2];
    verl_buffer_t    body;
} world_run_t;

static int
s_world_send(void *context, const verl_buffer_t *body, void *party)
{
    world_run_t *run = context;
    (void) party;
    for (int i = 0; i < 2; i++) {
        verl_reader_t reader;
        uint32_t count;
        char word[32];
        verl_reader_init(&reader, body->data, body->size);
        if (verl_read_array(&reader, &count) || verl_read_cstr(&reader, word, sizeof word) ||
            verl_tap_order(run->taps[i], word, &reader, NULL))
            abort();
    }
    return 2;
}

static void
s_world_handle(void *context, const verl_control_request_t *request)
{
    world_run_t *run = context;
    verl_error_t error = { "" };
    json_t *answer = verl_traces_ask(run->traces, request->word, request->body, &error);
    if (answer)
        verl_control_answer(run->control, request->token, answer, true);
    else
        verl_control_refuse(run->control, request->token, "%s", error.text);
    atomic_store(&run->world->traces, verl_traces_count(run->traces));
}

// Batch k: prompt text[2] and score f32[2], k and k + 0.5, NaN in every tenth batch.
static void
s_world_pack(world_run_t *run, int64_t batch)
{
    const char *const names[] = { "prompt", "score" }, *const texts[] = { "two plus\ntwo?", "é" };
    const size_t bytes[] = { 13, 2 };
    verl_batch_t *made = verl_batch_new_made(batch, -1, 0, verl_heap_memory());
    verl_batch_set_rows(made, 2);
    verl_batch_add_texts(made, "prompt", texts, bytes);
    float *score = verl_batch_add_f32(made, "score");
    score[0] = (float) batch;
    score[1] = batch % 10 == 9 ? (float) (0.0 / 0.0 * 1.0) : (float) batch + 0.5f;
    verl_buffer_clear(&run->body);
    if (verl_batch_pack(made, names, NULL, 2, false, &run->body, NULL))
        abort();
    verl_batch_destroy(&made);
}

static void
s_world_message(world_run_t *run)
{
    int64_t batch = atomic_load(&run->world->sent);
    verl_message_t message = { .edge = 1 << 20, .seq = (uint64_t) batch + 1, .revision = 1, .batch = batch, .parts = 1,
                               .time = verl_now() };
    verl_tap_event_t event = { .kind = VERL_TRACE_DATA, .message = &message, .from = "maker#2", .to = "reader#3",
                               .stage = "make", .reader = "read" };
    if (verl_tap_on(run->taps[0])) {
        s_world_pack(run, batch);
        message.body = run->body.data;
        message.body_size = run->body.size;
        verl_tap_message(run->taps[0], &event);
        verl_tap_ran(run->taps[1], "read", 1, batch, 0, 1, message.time, verl_now());
        atomic_fetch_add(&run->world->seen, 1);
    }
    atomic_fetch_add(&run->world->sent, 1);
}

static void
s_world_run(world_t *world)
{
    world_run_t run = { .world = world, .zmq = zmq_ctx_new(), .epoll_fd = epoll_create1(0) };
    verl_error_t error = { "" };
    char path[100], id[32];
    snprintf(path, sizeof path, "%s/lock", world->directory);
    run.lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (flock(run.lock_fd, LOCK_EX | LOCK_NB) || dprintf(run.lock_fd, "%d\n", (int) getpid()) < 0)
        abort();
    snprintf(id, sizeof id, "spy%d", (int) getpid());
    run.taps[0] = verl_tap_new(run.zmq, "maker#2", &error);
    run.taps[1] = verl_tap_new(run.zmq, "reader#3", &error);
    run.traces = verl_traces_new(run.epoll_fd, s_world_send, &run, &error);
    run.control = verl_control_new(run.zmq, id, world->directory, run.epoll_fd, s_world_handle, &run, &error);
    if (!run.control)
        abort();
    atomic_store(&world->ready, 1);
    while (!atomic_load(&world->stop)) {
        struct epoll_event events[4];
        epoll_wait(run.epoll_fd, events, 4, 1);
        verl_control_step(run.control);
        verl_traces_step(run.traces);
        atomic_store(&world->traces, verl_traces_count(run.traces));
        for (int i = 0; i < 20 && atomic_load(&world->sent) < atomic_load(&world->wanted); i++)
            s_world_message(&run);
    }
    verl_tap_destroy(&run.taps[0]);
    verl_tap_destroy(&run.taps[1]);
    verl_traces_destroy(&run.traces);
    verl_control_destroy(&run.control);
    zmq_ctx_term(run.zmq);
    verl_buffer_done(&run.body);
    close(run.lock_fd);
    close(run.epoll_fd);
}

#define WORLD_UNTIL(condition, seconds) do { \
        int64_t limit_ = verl_now() + (int64_t) (seconds) * VERL_S; \
        while (!(condition) && verl_now() < limit_) \
            usleep(2000); \
        cr_assert(condition, #condition " within " #seconds " s"); \
    } while (0)

static world_t *
world_open(void)
{
    world_t *world = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(world != MAP_FAILED);
    *world = (world_t) { .directory = "/tmp/verl-test-XXXXXX" };
    cr_assert(mkdtemp(world->directory));
    pid_t pid = fork();                     // what both would write to is shared
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);   // a test that fails leaves nobody behind
        s_world_run(world);
        _exit(0);
    }
    world->pid = pid;
    WORLD_UNTIL(atomic_load(&world->ready), 10);
    return world;
}

// Ends the run as one ends by itself.
static void
world_stop(world_t *world)
{
    int status;
    if (!world->pid)
        return;
    atomic_store(&world->stop, 1);
    cr_assert_eq(waitpid(world->pid, &status, 0), world->pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the run ended with status %x", (unsigned) status);
    world->pid = 0;
}

static void
world_close(world_t *world)
{
    char command[100];
    world_stop(world);
    snprintf(command, sizeof command, "rm -r %s", world->directory);
    cr_assert_eq(system(command), 0);
    munmap(world, sizeof *world);
}

// --- verl-spy -----------------------------------------------------------------------------------------------------

typedef struct spy {
    pid_t pid;
    char  out[80], err[80];                 // files
    int   code;
    char *said, *remarks;                   // stdout, stderr; after spy_wait
} spy_t;

// Starts verl-spy with these words (as a shell splits them; $RUN is the run's directory).
static void
spy_start(spy_t *spy, const world_t *world, const char *words)
{
    static int number;
    char command[1000];
    *spy = (spy_t) { .code = -1 };
    snprintf(spy->out, sizeof spy->out, "%s/out%d", world->directory, number);
    snprintf(spy->err, sizeof spy->err, "%s/err%d", world->directory, number++);
    snprintf(command, sizeof command, "RUN=%s; exec %s/bin/verl-spy %s >%s 2>%s", world->directory, VERL_BINARY_DIR,
             words, spy->out, spy->err);
    spy->pid = fork();
    if (spy->pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(127);
    }
}

static bool
spy_has_said(const spy_t *spy)
{
    struct stat status;
    return stat(spy->err, &status) == 0 && status.st_size > 0;
}

// Starts a command that follows the run, and waits until it does: a signal before the run's answer interrupts the
// question. Without --quiet it says so.
static void
spy_follow(spy_t *spy, const world_t *world, const char *words)
{
    int before = atomic_load(&world->traces);
    spy_start(spy, world, words);
    WORLD_UNTIL(atomic_load(&world->traces) > before, 10);
    WORLD_UNTIL(strstr(words, "--quiet") || spy_has_said(spy), 10);
}

static char *
spy_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;
    cr_assert(file, "cannot read %s", path);
    if (getdelim(&text, &size, 0, file) < 0) {
        free(text);
        text = strdup("");
    }
    fclose(file);
    return text;
}

static void
spy_wait(spy_t *spy, double seconds)
{
    int64_t limit = verl_now() + (int64_t) (seconds * 1e9);
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(spy->pid, &status, WNOHANG)) == 0 && verl_now() < limit)
        usleep(2000);
    if (!ended) {
        kill(spy->pid, SIGKILL);
        waitpid(spy->pid, &status, 0);
        cr_assert_fail("verl-spy did not end within %.0f s", seconds);
    }
    spy->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    spy->said = spy_file(spy->out);
    spy->remarks = spy_file(spy->err);
}

static void
spy_done(spy_t *spy)
{
    free(spy->said);
    free(spy->remarks);
}

static int
spy_lines(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

// The number before a word of the remarks: "12 dropped" → 12; -1: it is not there.
static long
spy_count(const spy_t *spy, const char *word)
{
    const char *at = spy->remarks;
    while (at && *at) {
        char *end;
        long number = strtol(at, &end, 10);
        if (end != at && *end == ' ' && strncmp(end + 1, word, strlen(word)) == 0)
            return number;
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return -1;
}
#endif
