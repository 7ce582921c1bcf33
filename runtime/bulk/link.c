// link.c: an arena's questions to the node, one at a time, each with a deadline.
#include "runtime/bulk/arena_impl.h"
#include "runtime/bulk/channel.h"
#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#define S_DEADLINE ((int64_t) 5000)         // ms

static int64_t
s_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int
s_break(verl_arena_t *arena, verl_error_t *error)
{
    arena->broken = true;
    return verl_error_set(error, "the node that owns the shared memory is gone");
}

// Receives one reply: 1, or 0 where there is none now, or -1 where the link is broken.
static int
s_receive(verl_arena_t *arena, verl_bulk_reply_t *ret, int *ret_passed)
{
    ssize_t got = verl_channel_receive(arena->fd, ret, sizeof *ret, ret_passed);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (got == sizeof *ret && ret->magic == VERL_BULK_MAGIC)
        return 1;
    if (*ret_passed >= 0)
        close(*ret_passed);
    *ret_passed = -1;
    return -1;
}

int
verl_link_say(verl_arena_t *arena, verl_bulk_request_kind_t kind, uint64_t slab)
{
    verl_bulk_request_t request = {.magic = VERL_BULK_MAGIC, .kind = kind, .slab = slab};
    return verl_channel_send(arena->fd, &request, sizeof request, -1);
}

// Waits until the node can be talked to. Returns -1 after the deadline.
static int
s_wait(verl_arena_t *arena, short events, int64_t until)
{
    int64_t left = until - s_now();
    struct pollfd item = {.fd = arena->fd, .events = events};
    return left > 0 && (poll(&item, 1, (int) left) >= 0 || errno == EINTR) ? 0 : -1;
}

static int
s_send(verl_arena_t *arena, const verl_bulk_request_t *request, int64_t until)
{
    while (verl_channel_send(arena->fd, request, sizeof *request, -1))
        if ((errno != EAGAIN && errno != EWOULDBLOCK) || s_wait(arena, POLLOUT, until))
            return -1;
    return 0;
}

int
verl_link_ask(verl_arena_t *arena, verl_bulk_request_kind_t kind, uint64_t slab, uint64_t bytes,
              verl_bulk_reply_t *ret, int *ret_passed, verl_error_t *error)
{
    verl_bulk_request_t request = {.magic = VERL_BULK_MAGIC, .kind = kind, .slab = slab, .bytes = bytes};
    int64_t until = s_now() + S_DEADLINE;
    if (arena->broken || s_send(arena, &request, until))
        return s_break(arena, error);
    for (;;) {
        int got = s_receive(arena, ret, ret_passed);
        if (got < 0)
            return s_break(arena, error);
        if (got == 1 && ret->kind == VERL_BULK_ANSWER)
            return 0;
        if (got == 1 && *ret_passed >= 0)
            close(*ret_passed);
        if (got == 1)
            verl_arena_retired(arena, ret->slab);
        else if (s_wait(arena, POLLIN, until)) {
            arena->broken = true;           // an answer that comes later would be taken for another one's
            return verl_error_set(error, "the node that owns the shared memory did not answer within %d s",
                                  (int) (S_DEADLINE / 1000));
        }
    }
}

void
verl_link_listen(verl_arena_t *arena)
{
    verl_bulk_reply_t reply;
    int passed, got = 0;
    while (!arena->broken && (got = s_receive(arena, &reply, &passed)) == 1) {
        if (passed >= 0)
            close(passed);
        if (reply.kind == VERL_BULK_RETIRED)
            verl_arena_retired(arena, reply.slab);
    }
    if (got < 0)
        arena->broken = true;
}
