// What a run costs while it waits: processor time of all threads of each of its processes, beside a process that waits
// in zmq_poll. Both settle first and are then measured over the same window, so that what is done once does not count.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zmq.h>
#include "tests/bench/bench.h"

#define SETTLE_SECONDS 2
#define SECONDS        10

static const char s_topology[] =
    "[run]\nname = \"idle\"\nsteps = 1\n"
    "[stage.source]\nkind = \"synthetic\"\nbusy_ms = 16000\n"
    "[stage.left]\nkind = \"synthetic\"\ndepends_on = [\"source\"]\n"
    "[stage.right]\nkind = \"synthetic\"\ndepends_on = [\"source\"]\nas = { payload = \"other\" }\n";

// Milliseconds of processor time that all threads of a process have had.
static double
s_spent_ms(int pid)
{
    char path[300];
    double spent = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        unsigned long long ns;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", pid, entry->d_name);
        FILE *file = fopen(path, "re");
        if (file && fscanf(file, "%llu", &ns) == 1)
            spent += (double) ns / 1e6;
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return spent;
}

static double
s_wait(const char *address, void *argument)
{
    (void) argument;
    void *zmq = zmq_ctx_new(), *router = zmq_socket(zmq, ZMQ_ROUTER);
    zmq_pollitem_t item = { .socket = router, .events = ZMQ_POLLIN };
    if (zmq_bind(router, address))
        _exit(1);
    zmq_poll(&item, 1, SETTLE_SECONDS * 1000);
    double before = s_spent_ms(getpid());
    zmq_poll(&item, 1, SECONDS * 1000);
    double spent = s_spent_ms(getpid()) - before;
    zmq_close(router);
    zmq_ctx_term(zmq);
    return spent / SECONDS;
}

static double
s_nothing(const char *address, void *argument)
{
    (void) address;
    (void) argument;
    return 0;
}

static double
s_spent_by(const int *pids, int count)
{
    double spent = 0;
    for (int i = 0; i < count; i++)
        spent += s_spent_ms(pids[i]);
    return spent;
}

// The run is measured while the reference settles and waits.
static int
s_idle(verl_bench_run_t *run, verl_error_t *error)
{
    verl_bench_child_t child;
    int pids[16];
    double raw;
    if (verl_bench_start(&child, s_topology, NULL, error))
        return -1;
    usleep((1 + SETTLE_SECONDS) * 1000000); // all are there, have said so and have settled
    int count = verl_bench_processes(&child, pids, 16);
    double begin = verl_bench_now(), spent = s_spent_by(pids, count);
    int failed = verl_bench_pair(s_wait, s_nothing, NULL, 30, &raw, error);
    spent = s_spent_by(pids, count) - spent;
    double seconds = verl_bench_now() - begin;
    json_t *end = verl_bench_finish(&child, error);
    json_decref(end);
    if (failed || !end || count != 4)
        return verl_error_set(error, "the run had %d processes, not 4", count);
    verl_bench_report(run, "", spent / seconds / count, "ms/s a process", "a process that waits in zmq_poll", raw);
    return 0;
}

VERL_BENCH(idle, "a waiting run takes under 0.1 ms of processor time a second and process", s_idle)
