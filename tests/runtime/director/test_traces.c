// The director's list of followers: who is ordered what, and that a process that ends takes its trace with it.
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/director/traces.h"
#include "runtime/observe/filter.h"
#include "runtime/wire/read.h"

typedef struct heard {
    int     orders;
    char    word[32], address[108];
    int64_t id;
    void   *party;
} heard_t;

static int
s_send(void *context, const verl_buffer_t *body, void *party)
{
    heard_t *heard = context;
    verl_reader_t reader;
    uint32_t count;
    verl_filter_t filter;
    heard->orders++;
    heard->party = party;
    verl_reader_init(&reader, body->data, body->size);
    cr_assert_eq(verl_read_array(&reader, &count), 0);
    cr_assert_eq(verl_read_cstr(&reader, heard->word, sizeof heard->word), 0);
    cr_assert_eq(verl_read_int(&reader, &heard->id), 0);
    if (strcmp(heard->word, "trace") == 0) {
        cr_assert_eq(verl_read_cstr(&reader, heard->address, sizeof heard->address), 0);
        cr_assert_eq(verl_filter_read(&reader, &filter, NULL), 0);
    }
    cr_assert_eq(verl_reader_left(&reader), 0);
    return 5;
}

static json_t *
s_request(pid_t pid, const char *name)
{
    char address[108];
    snprintf(address, sizeof address, "ipc://@verl-%u-%s", (unsigned) getuid(), name);
    return json_pack("{s:s, s:i, s:{s:[s]}}", "address", address, "pid", (int) pid, "filter", "actors", "a");
}

Test(traces, all_are_told_and_whoever_comes_later)
{
    heard_t heard = { 0 };
    verl_error_t error = { "" };
    int epoll_fd = epoll_create1(0), party = 0;
    verl_traces_t *traces = verl_traces_new(epoll_fd, s_send, &heard, &error);
    json_t *request = s_request(getpid(), "one"), *answer = verl_traces_ask(traces, "trace", request, &error);
    cr_assert(answer, "%s", error.text);
    cr_assert_eq(json_integer_value(json_object_get(answer, "trace")), 1);
    cr_assert_eq(json_integer_value(json_object_get(answer, "parties")), 5);
    cr_assert(heard.orders == 1 && heard.id == 1 && heard.party == NULL);
    cr_assert(strstr(heard.address, "-one"));
    verl_traces_welcome(traces, &party);
    cr_assert(heard.orders == 2 && heard.party == &party && strcmp(heard.word, "trace") == 0);
    json_t *end = verl_traces_ask(traces, "untrace", answer, &error);
    cr_assert(end && heard.orders == 3 && strcmp(heard.word, "untrace") == 0 && heard.id == 1);
    cr_assert_eq(verl_traces_count(traces), 0);
    cr_assert_null(verl_traces_ask(traces, "untrace", answer, &error));
    cr_assert_str_eq(error.text, "there is no trace 1");
    json_t *next = verl_traces_ask(traces, "trace", request, &error);
    cr_assert_eq(json_integer_value(json_object_get(next, "trace")), 2, "an id is never used again");
    json_decref(request);
    json_decref(answer);
    json_decref(end);
    json_decref(next);
    verl_traces_destroy(&traces);
    close(epoll_fd);
}

Test(traces, the_end_of_a_process_ends_its_trace_and_no_other)
{
    heard_t heard = { 0 };
    verl_error_t error = { "" };
    struct epoll_event event;
    int epoll_fd = epoll_create1(0);
    verl_traces_t *traces = verl_traces_new(epoll_fd, s_send, &heard, &error);
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    json_t *ours = s_request(getpid(), "ours"), *theirs = s_request(pid, "theirs");
    int64_t kept = verl_traces_add(traces, ours, NULL, &error), gone = verl_traces_add(traces, theirs, NULL, &error);
    cr_assert(kept > 0 && gone > 0, "%s", error.text);
    verl_traces_step(traces);
    cr_assert_eq(verl_traces_count(traces), 2);
    kill(pid, SIGKILL);
    cr_assert_eq(epoll_wait(epoll_fd, &event, 1, 5000), 1, "the loop is woken by the death");
    verl_traces_step(traces);
    cr_assert_eq(verl_traces_count(traces), 1);
    cr_assert(strcmp(heard.word, "untrace") == 0 && heard.id == gone);
    waitpid(pid, NULL, 0);
    cr_assert_eq(epoll_wait(epoll_fd, &event, 1, 0), 0);
    json_decref(ours);
    json_decref(theirs);
    verl_traces_destroy(&traces);
    close(epoll_fd);
}

Test(traces, what_is_wrong_is_refused_and_orders_nothing)
{
    heard_t heard = { 0 };
    int epoll_fd = epoll_create1(0);
    verl_traces_t *traces = verl_traces_new(epoll_fd, s_send, &heard, NULL);
    json_t *wrong[] = { json_pack("{s:s, s:i}", "address", "tcp://127.0.0.1:1", "pid", (int) getpid()),
                        json_pack("{s:i}", "pid", (int) getpid()),
                        s_request(0, "x"),
                        s_request(0x3fffffff, "x"),
                        s_request(getpid(), "x"),
                        json_pack("{s:s}", "address", "ipc://@verl-0-x") };
    json_object_set_new(wrong[4], "filter", json_pack("{s:i}", "kinds", 3));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        verl_error_t error = { "" };
        cr_assert_null(verl_traces_ask(traces, "trace", wrong[i], &error));
        cr_assert(error.text[0]);
        json_decref(wrong[i]);
    }
    cr_assert_eq(heard.orders, 0);
    verl_traces_destroy(&traces);
    close(epoll_fd);
}

Test(traces, there_is_a_limit)
{
    heard_t heard = { 0 };
    verl_error_t error = { "" };
    int epoll_fd = epoll_create1(0);
    verl_traces_t *traces = verl_traces_new(epoll_fd, s_send, &heard, NULL);
    json_t *request = s_request(getpid(), "x");
    for (int i = 0; i < VERL_TRACES_MAX; i++)
        cr_assert_gt(verl_traces_add(traces, request, NULL, &error), 0, "%s", error.text);
    cr_assert_eq(verl_traces_add(traces, request, NULL, &error), -1);
    cr_assert(strstr(error.text, "at most"));
    json_decref(request);
    verl_traces_destroy(&traces);
    close(epoll_fd);
}
