// The bulk server, spoken to packet by packet: limits, seals, who may do what, and that one bad client harms nobody
// else.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "runtime/bulk/channel.h"
#include "runtime/bulk/protocol.h"
#include "runtime/bulk/server.h"

#define MIB ((uint64_t) 1 << 20)

static verl_bulk_server_t *s_server;

static void
s_setup(void)
{
    verl_error_t error = {0};
    s_server = verl_bulk_server_new(16 * MIB, &error);
    cr_assert(s_server, "%s", error.text);
}

static void
s_teardown(void)
{
    verl_bulk_server_destroy(&s_server);
}

TestSuite(server, .init = s_setup, .fini = s_teardown);

static int
s_connect(uint64_t incarnation)
{
    verl_error_t error = {0};
    int fd = verl_bulk_server_add(s_server, incarnation, &error);
    cr_assert(fd >= 0, "%s", error.text);
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    return fd;
}

static void
s_say(int fd, uint32_t kind, uint64_t slab, uint64_t bytes)
{
    verl_bulk_request_t request = {.magic = VERL_BULK_MAGIC, .kind = kind, .slab = slab, .bytes = bytes};
    cr_assert_eq(verl_channel_send(fd, &request, sizeof request, -1), 0);
}

// The next packet from the server within 2 s; its bytes, 0 at the end of the connection.
static ssize_t
s_hear(int fd, verl_bulk_reply_t *reply, int *passed)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};
    cr_assert_eq(poll(&item, 1, 2000), 1, "the server is silent");
    return verl_channel_receive(fd, reply, sizeof *reply, passed);
}

static verl_bulk_reply_t
s_ask(int fd, uint32_t kind, uint64_t slab, uint64_t bytes, int *passed)
{
    verl_bulk_reply_t reply;
    s_say(fd, kind, slab, bytes);
    cr_assert_eq(s_hear(fd, &reply, passed), sizeof reply);
    cr_assert_eq(reply.kind, VERL_BULK_ANSWER);
    return reply;
}

static void
s_assert_closed(int fd)
{
    verl_bulk_reply_t reply;
    int passed;
    ssize_t got = s_hear(fd, &reply, &passed);
    cr_assert(got == 0 || (got < 0 && errno == ECONNRESET), "the connection is open");
    close(fd);
}

static bool
s_silent(int fd)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};
    return poll(&item, 1, 50) == 0;
}

// A sealed slab of the client's.
static uint64_t
s_slab(int fd, uint64_t bytes)
{
    int memory, none;
    verl_bulk_reply_t reply = s_ask(fd, VERL_BULK_TAKE, 0, bytes, &memory);
    cr_assert_eq(reply.code, VERL_BULK_OK);
    cr_assert_eq(fallocate(memory, 0, 0, (off_t) bytes), 0);
    close(memory);
    cr_assert_eq(s_ask(fd, VERL_BULK_MAPPED, reply.slab, 0, &none).code, VERL_BULK_OK);
    return reply.slab;
}

// Waits until the server has done what was said without an answer.
static void
s_settle(uint64_t bytes)
{
    for (int i = 0; i < 2000 && verl_bulk_server_bytes(s_server) != bytes; i++)
        usleep(1000);
    cr_assert_eq(verl_bulk_server_bytes(s_server), bytes);
}

Test(server, the_limit_is_kept_and_explained)
{
    int client = s_connect(1), memory;
    s_slab(client, 12 * MIB);
    verl_bulk_reply_t reply = s_ask(client, VERL_BULK_TAKE, 0, 6 * MIB, &memory);
    cr_assert_eq(reply.code, VERL_BULK_LIMIT);
    cr_assert_eq(reply.in_use, 12 * MIB);
    cr_assert_eq(reply.limit, 16 * MIB);
    cr_assert_eq(memory, -1);
    s_slab(client, 4 * MIB);
    verl_bulk_stats_t stats = verl_bulk_server_stats(s_server);
    cr_assert(stats.bytes == 16 * MIB && stats.slabs == 2 && stats.slabs_made == 2 && stats.clients == 1);
    close(client);
}

Test(server, a_slab_is_sealed_before_it_is_read)
{
    int writer = s_connect(1), reader = s_connect(2), memory, seen, none;
    verl_bulk_reply_t reply = s_ask(writer, VERL_BULK_TAKE, 0, 4 * MIB, &memory);
    uint64_t slab = reply.slab;
    cr_assert_eq(s_ask(reader, VERL_BULK_MAP, slab, 0, &none).code, VERL_BULK_UNKNOWN);
    cr_assert_eq(s_ask(writer, VERL_BULK_MAPPED, slab, 0, &none).code, VERL_BULK_HOLES, "its pages are not there");
    char *bytes = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    cr_assert_eq(fallocate(memory, 0, 0, 4 * MIB), 0);
    cr_assert_eq(s_ask(writer, VERL_BULK_MAPPED, slab, 0, &none).code, VERL_BULK_OK);
    cr_assert_eq(mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0), MAP_FAILED, "its own writer's");
    cr_assert_eq(s_ask(reader, VERL_BULK_MAP, slab, 0, &seen).bytes, 4 * MIB);
    cr_assert_eq(mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, seen, 0), MAP_FAILED);
    cr_assert_eq(errno, EPERM);
    cr_assert_eq(ftruncate(seen, 0), -1);
    cr_assert_eq(ftruncate(seen, 8 * MIB), -1);
    cr_assert_eq(fallocate(seen, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    cr_assert_eq(pwrite(seen, "x", 1, 0), -1);
    char *view = mmap(NULL, 4 * MIB, PROT_READ, MAP_SHARED, seen, 0);
    cr_assert_eq(mprotect(view, 4096, PROT_READ | PROT_WRITE), -1, "a view cannot be made writable later");
    bytes[4 * MIB - 1] = 42;
    cr_assert_eq(view[4 * MIB - 1], 42);
    close(writer);
    close(reader);
}

Test(server, ids_are_never_used_again)
{
    int client = s_connect(1);
    uint64_t last = 0;
    for (int i = 0; i < 20; i++) {
        uint64_t slab = s_slab(client, 2 * MIB);
        cr_assert(slab > last);
        last = slab;
        s_say(client, VERL_BULK_FREE, slab, 0);
    }
    s_settle(0);
    close(client);
}

Test(server, a_retired_slab_lives_until_its_last_reader)
{
    int writer = s_connect(1), one = s_connect(2), two = s_connect(3), seen, none;
    uint64_t slab = s_slab(writer, 4 * MIB);
    s_ask(one, VERL_BULK_MAP, slab, 0, &seen);
    s_ask(two, VERL_BULK_MAP, slab, 0, &seen);
    s_say(writer, VERL_BULK_FREE, slab, 0);
    verl_bulk_reply_t news;
    cr_assert_eq(s_hear(one, &news, &none), sizeof news);
    cr_assert(news.kind == VERL_BULK_RETIRED && news.slab == slab);
    cr_assert_eq(s_hear(two, &news, &none), sizeof news);
    cr_assert_eq(verl_bulk_server_stats(s_server).retired, 1);
    cr_assert_eq(s_ask(writer, VERL_BULK_MAP, slab, 0, &none).code, VERL_BULK_UNKNOWN, "nobody new may read it");
    s_say(one, VERL_BULK_UNMAP, slab, 0);
    cr_assert(s_silent(one));
    cr_assert_eq(verl_bulk_server_bytes(s_server), 4 * MIB);
    close(two);                             // its death lets go as well
    s_settle(0);
    cr_assert_eq(verl_bulk_server_stats(s_server).retired, 0);
}

Test(server, a_dead_writers_slabs_stay_until_it_is_gone)
{
    int writer = s_connect(1), reader = s_connect(2), seen, none;
    uint64_t slab = s_slab(writer, 4 * MIB);
    s_ask(writer, VERL_BULK_TAKE, 0, 2 * MIB, &seen);
    close(writer);
    s_settle(4 * MIB);                      // what was never sealed is nobody's
    verl_error_t error = {0};
    cr_assert_eq(verl_bulk_server_add(s_server, 1, &error), -1);
    cr_assert(strstr(error.text, "incarnation 1 is connected"), "%s", error.text);
    cr_assert_eq(s_ask(reader, VERL_BULK_MAP, slab, 0, &seen).code, VERL_BULK_OK);
    verl_bulk_server_gone(s_server, 1);
    verl_bulk_reply_t news;
    cr_assert_eq(s_hear(reader, &news, &none), sizeof news);
    cr_assert_eq(news.kind, VERL_BULK_RETIRED);
    cr_assert_eq(verl_bulk_server_bytes(s_server), 4 * MIB);
    s_say(reader, VERL_BULK_UNMAP, slab, 0);
    s_settle(0);
    verl_bulk_server_gone(s_server, 1);
    verl_bulk_server_gone(s_server, 77);
}

Test(server, gone_closes_a_live_connection)
{
    int client = s_connect(1);
    s_slab(client, 4 * MIB);
    verl_bulk_server_gone(s_server, 1);
    s_settle(0);
    s_assert_closed(client);
}

Test(server, a_malformed_request_closes_that_client_only)
{
    int good = s_connect(1);
    uint64_t slab = s_slab(good, 4 * MIB);
    struct { uint32_t kind; uint64_t slab, bytes; } bad[] = {
        {0, 0, 0}, {99, 0, 0}, {VERL_BULK_TAKE, 0, 0}, {VERL_BULK_TAKE, 0, 4096}, {VERL_BULK_TAKE, 1, 2 * MIB},
        {VERL_BULK_TAKE, 0, UINT64_MAX - 2 * MIB + 1}, {VERL_BULK_MAPPED, slab, 0}, {VERL_BULK_MAPPED, 1234, 0},
        {VERL_BULK_FREE, slab, 0}, {VERL_BULK_UNMAP, slab, 0},
    };
    uint64_t incarnation = 10;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int client = s_connect(incarnation++);
        s_say(client, bad[i].kind, bad[i].slab, bad[i].bytes);
        s_assert_closed(client);
    }
    verl_bulk_request_t request = {.magic = 1, .kind = VERL_BULK_MAP, .slab = slab};
    static const size_t sizes[] = {1, sizeof request - 1, sizeof request, sizeof request + 8};
    for (int i = 0; i < 4; i++) {
        char bytes[sizeof request + 8] = {0};
        memcpy(bytes, &request, sizeof request);
        int client = s_connect(incarnation++);
        cr_assert_eq(verl_channel_send(client, bytes, sizes[i], -1), 0);
        s_assert_closed(client);
    }
    int client = s_connect(incarnation++);
    request.magic = VERL_BULK_MAGIC;
    cr_assert_eq(verl_channel_send(client, &request, sizeof request, STDERR_FILENO), 0, "a descriptor nobody wants");
    s_assert_closed(client);
    int seen;
    cr_assert_eq(s_ask(good, VERL_BULK_MAP, slab, 0, &seen).code, VERL_BULK_OK);
    cr_assert_eq(verl_bulk_server_stats(s_server).clients, 1);
    close(good);
}

Test(server, a_client_that_never_listens_is_told_when_it_does)
{
    int writer = s_connect(1), deaf = s_connect(2), seen, none;
    enum { ROUNDS = 600 };                  // more than its queue takes
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t slab = s_slab(writer, 2 * MIB);
        // The reader's own answers are read; the news pile up.
        s_say(deaf, VERL_BULK_MAP, slab, 0);
        verl_bulk_reply_t reply;
        do {
            cr_assert_eq(s_hear(deaf, &reply, &seen), sizeof reply);
            if (reply.kind == VERL_BULK_RETIRED)
                s_say(deaf, VERL_BULK_UNMAP, reply.slab, 0);
        } while (reply.kind != VERL_BULK_ANSWER);
        close(seen);
        s_say(writer, VERL_BULK_FREE, slab, 0);
        cr_assert_eq(s_ask(writer, VERL_BULK_MAP, 1u << 30, 0, &none).code, VERL_BULK_UNKNOWN);   // it was served
    }
    verl_bulk_reply_t reply;
    cr_assert_eq(s_hear(deaf, &reply, &none), sizeof reply);
    s_say(deaf, VERL_BULK_UNMAP, reply.slab, 0);
    s_settle(0);
    close(writer);
    close(deaf);
}
