// test_control.c: a run that answers and tools that ask, over the real sockets: server.h, client.h, found.h.
#include <criterion/criterion.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <fcntl.h>
#include <zmq.h>
#include "runtime/base/clock.h"
#include "runtime/control/names.h"
#include "runtime/control/server.h"
#include "tools/client.h"

#define BIG 20000                           // bytes of an answer, where it is to be big

typedef struct server {
    char            directory[64], run_id[20];
    void           *zmq;
    int             epoll_fd, stop_fd, lock_fd;
    verl_control_t *control;
    pthread_t       thread;
    uint64_t        kept;                   // token of the last "keep"
    atomic_int      handled, dead;          // requests; questions of "keep" whose client went away
    atomic_int      burst;                  // most that one step handled
} server_t;

static json_t *
s_big(int number)
{
    char *text = calloc(1, BIG + 1);
    memset(text, 'x', BIG);
    json_t *answer = json_pack("{s:i, s:s}", "n", number, "text", text);
    free(text);
    return answer;
}

static void
s_handle(void *context, const verl_control_request_t *request)
{
    server_t *self = context;
    self->handled++;
    int n = (int) json_integer_value(json_object_get(request->body, "n"));
    if (strcmp(request->word, "echo") == 0)
        verl_control_answer(self->control, request->token, json_pack("{s:b, s:i}", "change", request->change, "n", n),
                            true);
    else if (strcmp(request->word, "count") == 0)
        for (int i = 0; i < n; i++)
            verl_control_answer(self->control, request->token, json_pack("{s:i}", "n", i), i == n - 1);
    else if (strcmp(request->word, "big") == 0) {
        for (int i = 0; i < n; i++)
            verl_control_answer(self->control, request->token, s_big(i), false);
        verl_control_answer(self->control, request->token, json_object(), true);
    } else if (strcmp(request->word, "keep") == 0)
        self->kept = request->token;
    else if (strcmp(request->word, "silence") != 0)
        verl_control_refuse(self->control, request->token, "there is no \"%s\" here", request->word);
}

static void *
s_serve(void *context)
{
    server_t *self = context;
    struct epoll_event events[8];
    bool stopped = false;
    while (!stopped) {
        eventfd_t ignored;
        epoll_wait(self->epoll_fd, events, 8, 100);
        stopped = eventfd_read(self->stop_fd, &ignored) == 0;
        int before = self->handled;
        verl_control_step(self->control);
        if (self->handled - before > self->burst)
            self->burst = self->handled - before;
        if (self->kept && !verl_control_alive(self->control, self->kept)) {
            self->dead++;
            self->kept = 0;
        }
    }
    return NULL;
}

static void
s_directory(server_t *self)
{
    char path[128];
    *self = (server_t) { .directory = "/tmp/verl-test-XXXXXX" };
    cr_assert(mkdtemp(self->directory));
    snprintf(path, sizeof path, "%s/lock", self->directory);
    self->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    cr_assert(flock(self->lock_fd, LOCK_EX | LOCK_NB) == 0);
    dprintf(self->lock_fd, "%d\n", getpid());
}

static void
s_open(server_t *self)
{
    uint64_t random;
    verl_error_t error = { "" };
    struct epoll_event event = { .events = EPOLLIN };
    cr_assert(getrandom(&random, sizeof random, 0) == sizeof random);
    snprintf(self->run_id, sizeof self->run_id, "%016llx", (unsigned long long) random);
    self->zmq = zmq_ctx_new();
    self->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    self->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, self->stop_fd, &event);
    self->control = verl_control_new(self->zmq, self->run_id, self->directory, self->epoll_fd, s_handle, self, &error);
    cr_assert(self->control, "%s", error.text);
}

static void
s_start(server_t *self)
{
    s_directory(self);
    s_open(self);
    pthread_create(&self->thread, NULL, s_serve, self);
}

static int
s_remove(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void) info;
    (void) type;
    (void) walk;
    return remove(path);
}

static void
s_end(server_t *self)
{
    eventfd_write(self->stop_fd, 1);
    pthread_join(self->thread, NULL);
    verl_control_destroy(&self->control);
    zmq_ctx_term(self->zmq);
    close(self->epoll_fd);
    close(self->stop_fd);
    close(self->lock_fd);
    nftw(self->directory, s_remove, 8, FTW_DEPTH | FTW_PHYS);
}

static verl_client_t *
s_client(const server_t *server, bool change)
{
    verl_error_t error = { "" };
    verl_client_t *client = verl_client_open(server->directory, change, &error);
    cr_assert(client, "%s", error.text);
    return client;
}

// What a client that knows nothing of ours would send and get.
static void *
s_raw(const server_t *server, void *zmq)
{
    char address[VERL_CONTROL_BYTES];
    int none = 0, limit = 10000;
    void *dealer = zmq_socket(zmq, ZMQ_DEALER);
    verl_control_address(address, server->run_id, "watch");
    zmq_setsockopt(dealer, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &limit, sizeof limit);
    cr_assert(zmq_connect(dealer, address) == 0);
    return dealer;
}

static void
s_gets_error(void *dealer, const char *words)
{
    char text[4096];
    int size = zmq_recv(dealer, text, sizeof text - 1, 0);
    cr_assert(size > 0, "no answer");
    text[size] = 0;
    json_t *answer = json_loads(text, 0, NULL);
    const char *sentence = json_string_value(json_object_get(answer, "error"));
    cr_assert(sentence && strstr(sentence, words), "expected \"%s\": %s", words, text);
    json_decref(answer);
}

Test(control, names_of_both_sockets_are_in_a_file_that_only_the_user_reads_and_goes_with_the_run)
{
    server_t server;
    struct stat status;
    char path[128];
    s_start(&server);
    snprintf(path, sizeof path, "%s/control.json", server.directory);
    cr_assert(stat(path, &status) == 0);
    cr_assert_eq(status.st_mode & 0777, 0600);
    json_t *names = json_load_file(path, 0, NULL);
    cr_assert_str_eq(json_string_value(json_object_get(names, "run_id")), server.run_id);
    cr_assert_eq(json_integer_value(json_object_get(names, "pid")), getpid());
    cr_assert(strstr(json_string_value(json_object_get(names, "watch")), "-watch"));
    cr_assert(strstr(json_string_value(json_object_get(names, "change")), "-change"));
    json_decref(names);
    eventfd_write(server.stop_fd, 1);
    pthread_join(server.thread, NULL);
    verl_control_destroy(&server.control);
    cr_assert(stat(path, &status) != 0);
    zmq_ctx_term(server.zmq);
    nftw(server.directory, s_remove, 8, FTW_DEPTH | FTW_PHYS);
}

Test(control, a_question_is_answered_by_the_socket_that_it_came_by)
{
    server_t server;
    verl_error_t error = { "" };
    s_start(&server);
    for (int change = 0; change < 2; change++) {
        verl_client_t *client = s_client(&server, change);
        for (int i = 0; i < 100; i++) {
            json_t *answer = verl_client_ask(client, json_pack("{s:s, s:i}", "do", "echo", "n", i), 10000, &error);
            cr_assert(answer, "%s", error.text);
            cr_assert_eq(json_integer_value(json_object_get(answer, "n")), i);
            cr_assert_eq(json_is_true(json_object_get(answer, "change")), change);
            cr_assert(!verl_client_more(answer) && !verl_client_refusal(answer));
            json_decref(answer);
        }
        verl_client_close(&client);
    }
    s_end(&server);
}

Test(control, further_answers_come_in_order_and_the_last_has_no_more)
{
    server_t server;
    verl_error_t error = { "" };
    s_start(&server);
    verl_client_t *client = s_client(&server, false);
    json_t *answer = verl_client_ask(client, json_pack("{s:s, s:i}", "do", "count", "n", 50), 10000, &error);
    for (int i = 0; i < 50; i++) {
        cr_assert(answer, "%s", error.text);
        cr_assert_eq(json_integer_value(json_object_get(answer, "n")), i);
        cr_assert_eq(verl_client_more(answer), i < 49);
        json_decref(answer);
        answer = i < 49 ? verl_client_next(client, 10000, &error) : NULL;
    }
    verl_client_close(&client);
    s_end(&server);
}

Test(control, answers_to_an_earlier_question_are_not_taken_for_those_to_the_next)
{
    server_t server;
    verl_error_t error = { "" };
    s_start(&server);
    verl_client_t *client = s_client(&server, false);
    json_decref(verl_client_ask(client, json_pack("{s:s, s:i}", "do", "count", "n", 5), 10000, &error));
    json_t *answer = verl_client_ask(client, json_pack("{s:s, s:i}", "do", "echo", "n", 77), 10000, &error);
    cr_assert_eq(json_integer_value(json_object_get(answer, "n")), 77);
    json_decref(answer);
    verl_client_close(&client);
    s_end(&server);
}

Test(control, what_is_no_request_is_answered_with_what_would_be_one)
{
    static const struct { const char *text, *words; } bad[] = {
        { "", "is a JSON object" },
        { "{", "is a JSON object" },
        { "[1, 2]", "\"do\" and \"id\"" },
        { "7", "JSON object" },
        { "{\"do\": \"echo\"}", "number as \"id\"" },
        { "{\"do\": \"echo\", \"id\": \"x\"}", "number as \"id\"" },
        { "{\"id\": 1}", "says with \"do\"" },
        { "{\"id\": 1, \"do\": 3}", "says with \"do\"" },
        { "{\"id\": 1, \"id\": 2, \"do\": \"echo\"}", "duplicate" },
        { "{\"id\": 1, \"do\": \"dance\"}", "no \"dance\"" },
        { "\xff\xfe{}", "JSON" },
    };
    server_t server;
    s_start(&server);
    void *zmq = zmq_ctx_new(), *dealer = s_raw(&server, zmq);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zmq_send(dealer, bad[i].text, strlen(bad[i].text), 0);
        s_gets_error(dealer, bad[i].words);
    }
    zmq_send(dealer, "{}", 2, ZMQ_SNDMORE);
    zmq_send(dealer, "{}", 2, 0);
    s_gets_error(dealer, "one frame");
    char *deep = calloc(1, 400001);
    memset(deep, '[', 400000);
    zmq_send(dealer, deep, 400000, 0);
    s_gets_error(dealer, "JSON");
    free(deep);
    zmq_close(dealer);
    zmq_ctx_term(zmq);
    s_end(&server);
}

Test(control, a_request_beyond_its_size_is_refused_at_either_end)
{
    server_t server;
    verl_error_t error = { "" };
    s_start(&server);
    void *zmq = zmq_ctx_new(), *dealer = s_raw(&server, zmq);
    char *big = calloc(1, VERL_CONTROL_REQUEST_BYTES + 2);
    memset(big, ' ', VERL_CONTROL_REQUEST_BYTES + 1);
    zmq_send(dealer, big, VERL_CONTROL_REQUEST_BYTES + 1, 0);
    s_gets_error(dealer, "at most");
    verl_client_t *client = s_client(&server, true);
    cr_assert(!verl_client_ask(client, json_pack("{s:s, s:s}", "do", "echo", "text", big), 10000, &error));
    cr_assert(strstr(error.text, "at most"), "%s", error.text);
    cr_assert_eq(verl_client_why(client), VERL_CLIENT_FAILED);
    json_t *answer = verl_client_ask(client, json_pack("{s:s, s:i}", "do", "echo", "n", 1), 10000, &error);
    cr_assert_eq(json_integer_value(json_object_get(answer, "n")), 1);
    json_decref(answer);
    free(big);
    verl_client_close(&client);
    zmq_close(dealer);
    zmq_ctx_term(zmq);
    s_end(&server);
}

// 600 answers of 20 kB are far more than a stopped client's buffers hold; another client is served meanwhile.
Test(control, a_client_that_does_not_read_loses_only_its_own_answers)
{
    server_t server;
    verl_error_t error = { "" };
    int few = 1;
    s_start(&server);
    void *zmq = zmq_ctx_new(), *dealer = zmq_socket(zmq, ZMQ_DEALER);
    char address[VERL_CONTROL_BYTES];
    verl_control_address(address, server.run_id, "watch");
    zmq_setsockopt(dealer, ZMQ_RCVHWM, &few, sizeof few);
    zmq_connect(dealer, address);
    zmq_send(dealer, "{\"do\": \"big\", \"id\": 5, \"n\": 600}", 32, 0);
    while (server.handled == 0)
        usleep(1000);
    verl_client_t *client = s_client(&server, false);
    json_t *answer = verl_client_ask(client, json_pack("{s:s, s:i}", "do", "echo", "n", 1), 10000, &error);
    cr_assert(answer, "%s", error.text);
    json_decref(answer);
    // What it reads later is a beginning in order, and the last answer, which tells the exact loss.
    int got = 0, limit = 10000;
    json_int_t lost = -1;
    zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &limit, sizeof limit);
    while (lost < 0) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        cr_assert(zmq_msg_recv(&frame, dealer, 0) > 0, "the last answer does not come");
        answer = json_loadb(zmq_msg_data(&frame), zmq_msg_size(&frame), 0, NULL);
        if (json_object_get(answer, "lost"))
            lost = json_integer_value(json_object_get(answer, "lost"));
        else if (json_object_get(answer, "n"))
            cr_assert_eq(json_integer_value(json_object_get(answer, "n")), got++);
        json_decref(answer);
        zmq_msg_close(&frame);
    }
    cr_assert_gt(lost, 0);
    cr_assert_eq(got + lost, 600, "%d came, %d lost", got, (int) lost);
    verl_client_close(&client);
    zmq_close(dealer);
    zmq_ctx_term(zmq);
    s_end(&server);
}

Test(control, the_question_of_a_client_that_is_gone_is_known_to_be_dead_within_two_seconds)
{
    server_t server;
    int told[2];
    cr_assert(pipe(told) == 0);
    pid_t child = fork();                   // before there are threads
    if (child == 0) {
        verl_error_t error = { "" };
        if (read(told[0], server.directory, sizeof server.directory) != sizeof server.directory)
            _exit(1);
        verl_client_t *client = verl_client_open(server.directory, false, &error);
        verl_client_ask(client, json_pack("{s:s}", "do", "keep"), -1, &error);
        _exit(0);
    }
    s_start(&server);
    cr_assert(write(told[1], server.directory, sizeof server.directory) == sizeof server.directory);
    int64_t limit = verl_now() + 10 * VERL_S;
    while (server.handled == 0 && verl_now() < limit)
        usleep(1000);
    usleep(1500000);                        // signs of life go to it meanwhile
    cr_assert_eq(server.dead, 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    int64_t killed = verl_now();
    while (server.dead == 0 && verl_now() < limit)
        usleep(1000);
    cr_assert_eq(server.dead, 1);
    cr_assert_lt(verl_now() - killed, 2 * VERL_S);
    s_end(&server);
}

Test(control, signs_of_life_are_no_answers)
{
    server_t server;
    verl_error_t error = { "" };
    s_start(&server);
    verl_client_t *client = s_client(&server, false);
    int64_t began = verl_now();
    cr_assert(!verl_client_ask(client, json_pack("{s:s}", "do", "keep"), 2500, &error));
    cr_assert_eq(verl_client_why(client), VERL_CLIENT_LATE);
    cr_assert_geq(verl_now() - began, 2500 * VERL_MS);
    cr_assert(strstr(error.text, "did not answer within 2.5 s"), "%s", error.text);
    verl_client_close(&client);
    s_end(&server);
}

// 200 at once are handled in steps of a bound each, and none is forgotten in between.
Test(control, a_step_does_a_bounded_amount_and_comes_back_for_the_rest)
{
    server_t server;
    int none = 0;
    s_directory(&server);
    s_open(&server);
    void *zmq = zmq_ctx_new(), *dealer = s_raw(&server, zmq);
    zmq_setsockopt(dealer, ZMQ_SNDHWM, &none, sizeof none);
    for (int i = 0; i < 200; i++) {
        char text[64];
        int size = snprintf(text, sizeof text, "{\"do\": \"echo\", \"id\": %d, \"n\": %d}", i, i);
        zmq_send(dealer, text, (size_t) size, 0);
    }
    pthread_create(&server.thread, NULL, s_serve, &server);
    for (int i = 0; i < 200; i++) {
        char text[256];
        int size = zmq_recv(dealer, text, sizeof text - 1, 0);
        cr_assert(size > 0, "only %d of 200 are answered", i);
        text[size] = 0;
        json_t *answer = json_loads(text, 0, NULL);
        cr_assert_eq(json_integer_value(json_object_get(answer, "n")), i);
        json_decref(answer);
    }
    cr_assert_leq(server.burst, 128);
    zmq_close(dealer);
    zmq_ctx_term(zmq);
    s_end(&server);
}

Test(control, a_client_notices_within_a_second_that_its_run_was_killed)
{
    server_t server;
    verl_error_t error = { "" };
    int ready[2];
    char byte;
    cr_assert(pipe(ready) == 0);
    server.lock_fd = -1;
    snprintf(server.directory, sizeof server.directory, "/tmp/verl-test-XXXXXX");
    cr_assert(mkdtemp(server.directory));
    pid_t child = fork();
    if (child == 0) {
        server_t own;
        s_directory(&own);
        rmdir(server.directory);
        rename(own.directory, server.directory);
        memcpy(own.directory, server.directory, sizeof own.directory);
        s_open(&own);
        cr_assert(write(ready[1], "x", 1) == 1);
        s_serve(&own);
        _exit(0);
    }
    cr_assert(read(ready[0], &byte, 1) == 1);
    verl_client_t *client = s_client(&server, true);
    cr_assert_eq(verl_client_pid(client), child);
    json_t *answer = verl_client_ask(client, json_pack("{s:s, s:i}", "do", "echo", "n", 3), 10000, &error);
    cr_assert(answer, "%s", error.text);
    json_decref(answer);
    kill(child, SIGKILL);
    int64_t began = verl_now();
    cr_assert(!verl_client_ask(client, json_pack("{s:s}", "do", "silence"), -1, &error));
    cr_assert_lt(verl_now() - began, VERL_S);
    cr_assert_eq(verl_client_why(client), VERL_CLIENT_ENDED);
    cr_assert(strstr(error.text, "ended"), "%s", error.text);
    verl_client_close(&client);
    waitpid(child, NULL, 0);
    error.text[0] = 0;
    cr_assert(!verl_client_open(server.directory, true, &error));
    cr_assert(strstr(error.text, "was killed"), "%s", error.text);
    nftw(server.directory, s_remove, 8, FTW_DEPTH | FTW_PHYS);
}

Test(control, a_wait_ends_when_its_descriptor_is_readable)
{
    server_t server;
    verl_error_t error = { "" };
    s_start(&server);
    verl_client_t *client = s_client(&server, true);
    int fd = eventfd(1, EFD_CLOEXEC);
    verl_client_interrupt_by(client, fd);
    cr_assert(!verl_client_ask(client, json_pack("{s:s}", "do", "silence"), -1, &error));
    cr_assert_eq(verl_client_why(client), VERL_CLIENT_INTERRUPTED);
    verl_client_close(&client);
    close(fd);
    s_end(&server);
}

static void
s_cannot_open(const char *directory, const char *words)
{
    verl_error_t error = { "" };
    verl_client_t *client = verl_client_open(directory, false, &error);
    cr_assert(!client);
    cr_assert(strstr(error.text, words), "expected \"%s\": %s", words, error.text);
}

static void
s_write(const char *directory, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "we");
    cr_assert(file);
    fputs(text, file);
    fclose(file);
}

Test(control, a_directory_without_a_run_that_lives_is_told_by_what_it_holds)
{
    char directory[] = "/tmp/verl-test-XXXXXX", path[128], names[512];
    cr_assert(mkdtemp(directory));
    s_cannot_open("/nowhere/at/all", "there is no run in /nowhere/at/all");
    s_cannot_open(directory, "holds no run");
    snprintf(path, sizeof path, "%s/topology.toml", directory);
    s_write(directory, "topology.toml", "");
    s_cannot_open(directory, "has ended");
    s_cannot_open(path, "Not a directory");
    s_write(directory, "control.json", "{\"pid\": ");
    s_cannot_open(directory, "is not what a run of this user writes");
    snprintf(names, sizeof names, "{\"pid\": %d, \"watch\": \"tcp://1.2.3.4:5\", \"change\": \"ipc://@x\"}", getpid());
    s_write(directory, "control.json", names);
    s_cannot_open(directory, "is not what a run of this user writes");
    snprintf(names, sizeof names, "{\"pid\": %d, \"watch\": \"ipc://@verl-%u-1-watch\", \"change\": "
             "\"ipc://@verl-%u-1-change\"}", getpid(), getuid(), getuid());
    s_write(directory, "control.json", names);
    s_cannot_open(directory, "was killed");
    nftw(directory, s_remove, 8, FTW_DEPTH | FTW_PHYS);
}

Test(control, where_none_is_named_the_newest_of_the_runs_here_is_meant)
{
    char here[] = "/tmp/verl-test-XXXXXX", to[64], expected[64];
    server_t servers[2];
    verl_error_t error = { "" };
    cr_assert(mkdtemp(here) && chdir(here) == 0);
    unsetenv("VERL_RUN_DIR");
    cr_assert(mkdir("runs", 0700) == 0);
    s_start(&servers[0]);
    usleep(20000);
    s_start(&servers[1]);
    for (int i = 0; i < 2; i++) {
        snprintf(to, sizeof to, "%s/runs/%d", here, i);
        cr_assert(rename(servers[i].directory, to) == 0);
        memcpy(servers[i].directory, to, sizeof to);
    }
    verl_client_t *client = verl_client_open(NULL, false, &error);
    cr_assert(client, "%s", error.text);
    cr_assert_str_eq(verl_client_directory(client), "runs/1");
    verl_client_close(&client);
    snprintf(expected, sizeof expected, "%s/runs/0", here);
    setenv("VERL_RUN_DIR", expected, 1);
    client = verl_client_open(NULL, false, &error);
    cr_assert(client, "%s", error.text);
    cr_assert_str_eq(verl_client_directory(client), expected);
    verl_client_close(&client);
    for (int i = 0; i < 2; i++)
        s_end(&servers[i]);
    cr_assert(chdir("/") == 0);
    nftw(here, s_remove, 8, FTW_DEPTH | FTW_PHYS);
}

static void
s_live_again(server_t *server)
{
    verl_error_t error = { "" };
    eventfd_write(server->stop_fd, 1);
    pthread_join(server->thread, NULL);
    verl_control_destroy(&server->control);
    server->run_id[0] = server->run_id[0] == 'a' ? 'b' : 'a';
    server->control = verl_control_new(server->zmq, server->run_id, server->directory, server->epoll_fd, s_handle,
                                       server, &error);
    cr_assert(server->control, "%s", error.text);
    pthread_create(&server->thread, NULL, s_serve, server);
}

// As a run does that goes back to a checkpoint.
Test(control, a_run_that_has_other_sockets_is_asked_again_by_those)
{
    server_t server;
    verl_error_t error = { "" };
    s_start(&server);
    verl_client_t *client = s_client(&server, true);
    s_live_again(&server);
    json_t *answer = verl_client_ask(client, json_pack("{s:s, s:i}", "do", "echo", "n", 6), 10000, &error);
    cr_assert(answer, "%s", error.text);
    cr_assert_eq(json_integer_value(json_object_get(answer, "n")), 6);
    json_decref(answer);
    json_decref(verl_client_ask(client, json_pack("{s:s, s:i}", "do", "big", "n", 2), 10000, &error));
    json_decref(verl_client_next(client, 10000, &error));
    s_live_again(&server);
    json_decref(verl_client_next(client, 10000, &error));
    cr_assert(!verl_client_next(client, 10000, &error));
    cr_assert_eq(verl_client_why(client), VERL_CLIENT_BACK);
    cr_assert(strstr(error.text, "went back"), "%s", error.text);
    verl_client_close(&client);
    s_end(&server);
}
