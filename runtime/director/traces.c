// traces.c: see traces.h.
#include "runtime/director/traces.h"
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "runtime/observe/filter.h"
#include "runtime/wire/pack.h"

#define ADDRESS_BYTES 108

typedef struct trace {
    struct trace *next;
    int64_t       id;
    int           pid_fd;
    char          address[ADDRESS_BYTES];
    verl_filter_t filter;
} trace_t;

struct verl_traces {
    int                epoll_fd;
    verl_traces_send_t send;
    void              *context;
    int64_t            last;                // id; never used again
    int                count;
    trace_t           *first;
};

verl_traces_t *
verl_traces_new(int epoll_fd, verl_traces_send_t send, void *context, verl_error_t *error)
{
    verl_traces_t *traces = calloc(1, sizeof *traces);
    if (!traces) {
        verl_error_set(error, "out of memory");
        return NULL;
    }
    traces->epoll_fd = epoll_fd;
    traces->send = send;
    traces->context = context;
    return traces;
}

static void
s_free(verl_traces_t *traces, trace_t *trace)
{
    if (trace->pid_fd >= 0) {
        epoll_ctl(traces->epoll_fd, EPOLL_CTL_DEL, trace->pid_fd, NULL);
        close(trace->pid_fd);
    }
    free(trace);
}

void
verl_traces_destroy(verl_traces_t **traces_p)
{
    verl_traces_t *traces = *traces_p;
    *traces_p = NULL;
    while (traces && traces->first) {
        trace_t *trace = traces->first;
        traces->first = trace->next;
        s_free(traces, trace);
    }
    free(traces);
}

// --- orders -------------------------------------------------------------------------------------------------------

static int
s_order_trace(verl_traces_t *traces, const trace_t *trace, void *party)
{
    verl_buffer_t body = { 0 };
    int told = 0;
    verl_pack_array(&body, 4);
    verl_pack_cstr(&body, "trace");
    verl_pack_int(&body, trace->id);
    verl_pack_cstr(&body, trace->address);
    if (verl_filter_write(&body, &trace->filter) == 0)
        told = traces->send(traces->context, &body, party);
    verl_buffer_done(&body);
    return told;
}

static int
s_order_untrace(verl_traces_t *traces, int64_t id)
{
    verl_buffer_t body = { 0 };
    int told = 0;
    verl_pack_array(&body, 2);
    verl_pack_cstr(&body, "untrace");
    if (verl_pack_int(&body, id) == 0)
        told = traces->send(traces->context, &body, NULL);
    verl_buffer_done(&body);
    return told;
}

void
verl_traces_welcome(verl_traces_t *traces, void *party)
{
    for (const trace_t *trace = traces->first; trace; trace = trace->next)
        s_order_trace(traces, trace, party);
}

// --- requests -----------------------------------------------------------------------------------------------------

// A descriptor that is readable when the process is gone. Of this user: whoever asks was admitted as one.
static int
s_watch(verl_traces_t *traces, json_int_t pid, verl_error_t *error)
{
    char path[40];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%" PRId64, (int64_t) pid);
    if (pid < 1 || pid > INT32_MAX || stat(path, &status) || status.st_uid != getuid())
        return verl_error_set(error, "pid: %" PRId64 " is no process of this user", (int64_t) pid);
    int fd = (int) syscall(SYS_pidfd_open, (pid_t) pid, 0);
    struct epoll_event event = { .events = EPOLLIN };
    if (fd < 0)
        return verl_error_errno(error, "pid: process %" PRId64 " cannot be watched", (int64_t) pid);
    if (epoll_ctl(traces->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
        return fd;
    verl_error_errno(error, "pid: process %" PRId64 " cannot be watched", (int64_t) pid);
    close(fd);
    return -1;
}

static int
s_take_address(const json_t *request, char ret[ADDRESS_BYTES], verl_error_t *error)
{
    char prefix[64];
    const char *address = json_string_value(json_object_get(request, "address"));
    int length = snprintf(prefix, sizeof prefix, "ipc://@verl-%u-", (unsigned) getuid());
    if (!address || strncmp(address, prefix, (size_t) length) != 0 || strlen(address) >= ADDRESS_BYTES)
        return verl_error_set(error, "address: a trace goes to a socket of this user on this host, %s…", prefix);
    snprintf(ret, ADDRESS_BYTES, "%s", address);
    return 0;
}

int64_t
verl_traces_add(verl_traces_t *traces, const json_t *request, int *ret_parties, verl_error_t *error)
{
    const json_t *pid = json_object_get(request, "pid");
    if (traces->count == VERL_TRACES_MAX)
        return verl_error_set(error, "a run has at most %d followers at a time", VERL_TRACES_MAX);
    if (!json_is_integer(pid))
        return verl_error_set(error, "pid: the number of the process that follows is not there");
    trace_t *trace = calloc(1, sizeof *trace);
    if (!trace)
        return verl_error_set(error, "out of memory");
    trace->pid_fd = -1;
    if (s_take_address(request, trace->address, error) ||
        verl_filter_from_json(json_object_get(request, "filter"), &trace->filter, error) ||
        (trace->pid_fd = s_watch(traces, json_integer_value(pid), error)) < 0) {
        s_free(traces, trace);
        return -1;
    }
    trace->id = ++traces->last;
    trace->next = traces->first;
    traces->first = trace;
    traces->count++;
    int told = s_order_trace(traces, trace, NULL);
    if (ret_parties)
        *ret_parties = told;
    return trace->id;
}

int
verl_traces_remove(verl_traces_t *traces, int64_t id, int *ret_parties, verl_error_t *error)
{
    trace_t **link = &traces->first;
    while (*link && (*link)->id != id)
        link = &(*link)->next;
    trace_t *trace = *link;
    if (!trace)
        return verl_error_set(error, "there is no trace %" PRId64, id);
    *link = trace->next;
    traces->count--;
    s_free(traces, trace);
    int told = s_order_untrace(traces, id);
    if (ret_parties)
        *ret_parties = told;
    return 0;
}

json_t *
verl_traces_ask(verl_traces_t *traces, const char *word, const json_t *request, verl_error_t *error)
{
    int parties = 0;
    int64_t id;
    if (strcmp(word, "trace") == 0) {
        id = verl_traces_add(traces, request, &parties, error);
        if (id < 0)
            return NULL;
    } else {
        const json_t *asked = json_object_get(request, "trace");
        id = json_is_integer(asked) ? json_integer_value(asked) : -1;
        if (verl_traces_remove(traces, id, &parties, error))
            return NULL;
    }
    return json_pack("{s:I, s:i}", "trace", (json_int_t) id, "parties", parties);
}

void
verl_traces_step(verl_traces_t *traces)
{
    for (trace_t *trace = traces->first, *next; trace; trace = next) {
        struct pollfd gone = { .fd = trace->pid_fd, .events = POLLIN };
        next = trace->next;
        if (poll(&gone, 1, 0) > 0)
            verl_traces_remove(traces, trace->id, NULL, NULL);
    }
}

int
verl_traces_count(const verl_traces_t *traces)
{
    return traces->count;
}
