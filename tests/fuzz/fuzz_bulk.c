// Any packets of one client to the node's server of shared memory, over a real connection: the server lives, keeps its
// limit, tells this client nothing that is malformed, goes on serving another client, and closes every descriptor.
//
// The input is a list of steps: a byte that says what is sent, then what it needs.
#include "runtime/bulk/channel.h"
#include "runtime/bulk/protocol.h"
#include "runtime/bulk/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { S_HONEST = 1, S_OTHER = 2, S_STEPS = 64, S_PACKET = 96, S_WAIT_MS = 30000 };
#define S_GRAIN ((uint64_t) 2 << 20)
#define S_LIMIT (4 * S_GRAIN)

static void __attribute__((noreturn))
s_broken(const char *promise)
{
    fprintf(stderr, "fuzz_bulk: broken: %s\n", promise);
    abort();
}

typedef struct {
    const uint8_t *at, *end;
} s_input_t;

static uint8_t
s_byte(s_input_t *input)
{
    return input->at < input->end ? *input->at++ : 0;
}

// The next reply, waited for; false where the connection is closed. A server that is silent has hung.
static bool
s_hear(int fd, verl_bulk_reply_t *reply, int *passed)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};
    int ready;
    do
        ready = poll(&item, 1, S_WAIT_MS);
    while (ready < 0 && errno == EINTR);    // libFuzzer's clock
    if (ready != 1)
        s_broken("every question is answered in time");
    ssize_t got = verl_channel_receive(fd, reply, sizeof *reply, passed);
    if (got <= 0)
        return false;
    if (got != sizeof *reply || reply->magic != VERL_BULK_MAGIC ||
        (reply->kind != VERL_BULK_ANSWER && reply->kind != VERL_BULK_RETIRED))
        s_broken("what is told is well formed");
    return true;
}

// What the other client is told without being asked to wait for it.
static void
s_drain(int fd)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};
    verl_bulk_reply_t reply;
    int passed = -1;
    while (poll(&item, 1, 0) == 1 && s_hear(fd, &reply, &passed))
        if (passed >= 0)
            close(passed);
}

static verl_bulk_request_t
s_request(uint32_t kind, uint64_t slab, uint64_t bytes)
{
    return (verl_bulk_request_t) {.magic = VERL_BULK_MAGIC, .kind = kind, .slab = slab, .bytes = bytes};
}

// Takes a slab as a right client does and, where `whole`, has all of its pages.
static void
s_take(int fd, bool whole)
{
    verl_bulk_request_t request = s_request(VERL_BULK_TAKE, 0, S_GRAIN);
    verl_bulk_reply_t reply = {0};
    int memory = -1;
    if (verl_channel_send(fd, &request, sizeof request, -1))
        return;
    while (s_hear(fd, &reply, &memory) && reply.kind == VERL_BULK_RETIRED)
        ;
    if (memory < 0)
        return;
    if (whole && fallocate(memory, 0, 0, (off_t) S_GRAIN) == 0) {
        request = s_request(VERL_BULK_MAPPED, reply.slab, 0);
        int passed = -1;
        if (verl_channel_send(fd, &request, sizeof request, -1) == 0 && s_hear(fd, &reply, &passed) && passed >= 0)
            close(passed);
    }
    close(memory);
}

static void
s_step(int fd, s_input_t *input)
{
    uint8_t what = s_byte(input), packet[S_PACKET] = {0};
    if (what % 8 == 0) {
        s_take(fd, what & 8);
    } else if (what % 8 < 5) {              // a request in form, with numbers of the input
        verl_bulk_request_t request = s_request(s_byte(input) % 8, s_byte(input), s_byte(input) * (S_GRAIN / 2));
        verl_channel_send(fd, &request, sizeof request, what % 8 == 4 ? 0 : -1);
    } else {                                // any packet
        size_t length = s_byte(input) % sizeof packet;
        for (size_t i = 0; i < length; i++)
            packet[i] = s_byte(input);
        verl_channel_send(fd, packet, length, what % 8 == 7 ? 0 : -1);
    }
    s_drain(fd);
}

// The honest client's slab can be taken, sealed and let go, whatever the other one did.
static void
s_use(int fd)
{
    verl_bulk_request_t request = s_request(VERL_BULK_TAKE, 0, S_GRAIN);
    verl_bulk_reply_t reply = {0};
    int memory = -1;
    if (verl_channel_send(fd, &request, sizeof request, -1) || !s_hear(fd, &reply, &memory) ||
        reply.code != VERL_BULK_OK || memory < 0)
        s_broken("another client is served");
    close(memory);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    s_input_t input = {bytes, bytes + size};
    verl_error_t error = {{0}};
    int before = dup(0);
    close(before);
    verl_bulk_server_t *server = verl_bulk_server_new(S_LIMIT, &error);
    int honest = server ? verl_bulk_server_add(server, S_HONEST, &error) : -1;
    int other = server ? verl_bulk_server_add(server, S_OTHER, &error) : -1;
    if (honest < 0 || other < 0)
        s_broken("a server can be started");
    if (s_byte(&input) & 1)
        s_take(honest, true);               // something to map: slab 1
    for (int i = 0; i < S_STEPS && input.at < input.end; i++)
        s_step(other, &input);
    if (verl_bulk_server_bytes(server) > S_LIMIT)
        s_broken("the limit is kept");
    verl_bulk_server_gone(server, S_OTHER);
    s_drain(honest);
    s_use(honest);
    close(other);
    close(honest);
    verl_bulk_server_destroy(&server);
    int after = dup(0);
    close(after);
    if (after != before)
        s_broken("no descriptor is left");
    return 0;
}
