// server.c: one thread that answers the clients of a ledger of slabs. See server.h.
//
// The thread and the callers of the public functions share everything under one mutex. An epoll event carries a
// client's serial number, never a pointer, so that an event of a client that has just been closed finds nothing.
#include "runtime/bulk/server.h"
#include "runtime/bulk/channel.h"
#include "runtime/bulk/slab_ledger.h"
#include "runtime/bulk/protocol.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { S_EVENTS = 32, S_PACKETS = 64 };     // handled at a time: of all clients, of one client
#define S_GRAIN ((uint64_t) 2 << 20)        // slabs are multiples of it
#define S_MOST  ((uint64_t) 1 << 46)        // bytes of one slab

typedef struct s_client {
    uint64_t serial, incarnation;
    int      fd;
    bool     waiting;                       // for room to be told something
} s_client_t;

struct verl_bulk_server {
    pthread_mutex_t mutex;
    pthread_t       thread;
    int             epoll, stop;            // stop: an eventfd
    uint64_t        next_serial;
    verl_slab_ledger_t   ledger;
    s_client_t    **clients;
    int             count, room;
};

static s_client_t *
s_find(verl_bulk_server_t *server, uint64_t serial)
{
    for (int i = 0; i < server->count; i++)
        if (server->clients[i]->serial == serial)
            return server->clients[i];
    return NULL;
}

static s_client_t *
s_find_incarnation(verl_bulk_server_t *server, uint64_t incarnation)
{
    for (int i = 0; i < server->count; i++)
        if (server->clients[i]->incarnation == incarnation)
            return server->clients[i];
    return NULL;
}

// Ends a connection. Its sealed slabs stay until the incarnation is said to be gone.
static void
s_close(verl_bulk_server_t *server, s_client_t *client)
{
    for (int i = 0; i < server->count; i++)
        if (server->clients[i] == client) {
            server->clients[i] = server->clients[--server->count];
            break;
        }
    verl_slab_ledger_leave(&server->ledger, client->incarnation);
    close(client->fd);
    free(client);
}

static void
s_watch(verl_bulk_server_t *server, s_client_t *client, bool waiting)
{
    if (client->waiting == waiting)
        return;
    client->waiting = waiting;
    struct epoll_event event = {.events = EPOLLIN | (waiting ? EPOLLOUT : 0), .data.u64 = client->serial};
    epoll_ctl(server->epoll, EPOLL_CTL_MOD, client->fd, &event);
}

// Tells a client of every retired slab that it reads and was not told of; whom there is no room to tell is told later.
static void
s_tell(verl_bulk_server_t *server, s_client_t *client)
{
    bool waiting = false;
    for (int i = 0; i < server->ledger.count; i++) {
        verl_slab_t *slab = server->ledger.slabs[i];
        for (int j = 0; slab->retired && j < slab->count; j++) {
            verl_slab_reader_t *reader = &slab->readers[j];
            if (reader->incarnation != client->incarnation || reader->told)
                continue;
            verl_bulk_reply_t news = {.magic = VERL_BULK_MAGIC, .kind = VERL_BULK_RETIRED, .slab = slab->id,
                                      .bytes = slab->bytes};
            reader->told = verl_channel_send(client->fd, &news, sizeof news, -1) == 0;
            waiting |= !reader->told;
        }
    }
    s_watch(server, client, waiting);
}

static void
s_tell_all(verl_bulk_server_t *server)
{
    if (server->ledger.stats.retired)
        for (int i = 0; i < server->count; i++)
            s_tell(server, server->clients[i]);
}

// The client's slab that a request names, or NULL: a request about another's is malformed.
static verl_slab_t *
s_own(verl_bulk_server_t *server, const s_client_t *client, uint64_t id)
{
    verl_slab_t *slab = verl_slab_ledger_find(&server->ledger, id);
    return slab && slab->owner == client->incarnation && !slab->retired ? slab : NULL;
}

// Answers one request. Returns -1 where the client is to be closed.
static int
s_serve(verl_bulk_server_t *server, s_client_t *client, const verl_bulk_request_t *request)
{
    verl_bulk_reply_t reply = {.magic = VERL_BULK_MAGIC, .kind = VERL_BULK_ANSWER};
    verl_slab_t *slab = NULL;
    switch (request->kind) {
    case VERL_BULK_TAKE:
        if (request->slab || request->bytes == 0 || request->bytes % S_GRAIN || request->bytes > S_MOST)
            return -1;
        slab = verl_slab_ledger_take(&server->ledger, client->incarnation, request->bytes, &reply);
        return verl_channel_send(client->fd, &reply, sizeof reply, slab ? slab->fd : -1);
    case VERL_BULK_MAPPED:
        slab = s_own(server, client, request->slab);
        if (!slab || slab->sealed)
            return -1;
        verl_slab_ledger_seal(&server->ledger, slab, &reply);
        return verl_channel_send(client->fd, &reply, sizeof reply, -1);
    case VERL_BULK_MAP:
        slab = verl_slab_ledger_map(&server->ledger, client->incarnation, request->slab, &reply);
        return verl_channel_send(client->fd, &reply, sizeof reply, slab ? slab->fd : -1);
    case VERL_BULK_UNMAP:
        return verl_slab_ledger_unmap(&server->ledger, client->incarnation, request->slab) ? 0 : -1;
    case VERL_BULK_FREE:
        slab = s_own(server, client, request->slab);
        if (!slab)
            return -1;
        verl_slab_ledger_retire(&server->ledger, slab);
        s_tell_all(server);
        return 0;
    default:
        return -1;
    }
}

// Reads what a client sent. Returns -1 where the client is to be closed.
static int
s_read(verl_bulk_server_t *server, s_client_t *client)
{
    for (int i = 0; i < S_PACKETS; i++) {
        verl_bulk_request_t request;
        int passed;
        ssize_t got = verl_channel_receive(client->fd, &request, sizeof request, &passed);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (passed >= 0)
            close(passed);                  // nobody sends us one
        if (got != sizeof request || passed >= 0 || request.magic != VERL_BULK_MAGIC ||
            s_serve(server, client, &request))
            return -1;
    }
    return 0;
}

static void
s_handle(verl_bulk_server_t *server, const struct epoll_event *event)
{
    pthread_mutex_lock(&server->mutex);
    s_client_t *client = s_find(server, event->data.u64);
    if (client && event->events & EPOLLOUT)
        s_tell(server, client);
    if (client && event->events & (EPOLLIN | EPOLLHUP | EPOLLERR) && s_read(server, client))
        s_close(server, client);
    pthread_mutex_unlock(&server->mutex);
}

static void *
s_run(void *context)
{
    verl_bulk_server_t *server = context;
    for (;;) {
        struct epoll_event events[S_EVENTS];
        int count = epoll_wait(server->epoll, events, S_EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == 0)
                return NULL;
            s_handle(server, &events[i]);
        }
    }
}

// Starts the thread with all signals blocked, so that they reach the threads that expect them.
static int
s_start(verl_bulk_server_t *server)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&server->thread, NULL, s_run, server);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = rc;
    return rc ? -1 : 0;
}

verl_bulk_server_t *
verl_bulk_server_new(uint64_t max_bytes, verl_error_t *error)
{
    verl_bulk_server_t *server = calloc(1, sizeof *server);
    if (!server) {
        verl_error_set(error, "no memory for the node's shared memory");
        return NULL;
    }
    pthread_mutex_init(&server->mutex, NULL);
    verl_slab_ledger_init(&server->ledger, max_bytes);
    server->next_serial = 1;
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    server->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
    if (server->epoll >= 0 && server->stop >= 0 &&
        epoll_ctl(server->epoll, EPOLL_CTL_ADD, server->stop, &event) == 0 && s_start(server) == 0)
        return server;
    verl_error_errno(error, "the node's shared memory cannot be started");
    if (server->epoll >= 0)
        close(server->epoll);
    if (server->stop >= 0)
        close(server->stop);
    pthread_mutex_destroy(&server->mutex);
    free(server);
    return NULL;
}

void
verl_bulk_server_destroy(verl_bulk_server_t **server_p)
{
    verl_bulk_server_t *server = *server_p;
    if (!server)
        return;
    eventfd_write(server->stop, 1);
    pthread_join(server->thread, NULL);
    while (server->count)
        s_close(server, server->clients[0]);
    verl_slab_ledger_done(&server->ledger);
    close(server->epoll);
    close(server->stop);
    pthread_mutex_destroy(&server->mutex);
    free(server->clients);
    free(server);
    *server_p = NULL;
}

// Takes the server's end of a connection into the table. The mutex is held.
static int
s_insert(verl_bulk_server_t *server, uint64_t incarnation, int fd)
{
    if (server->count == server->room) {
        int room = server->room ? server->room * 2 : 16;
        s_client_t **clients = realloc(server->clients, (size_t) room * sizeof(s_client_t *));
        if (!clients)
            return -1;
        server->clients = clients;
        server->room = room;
    }
    s_client_t *client = malloc(sizeof *client);
    if (!client)
        return -1;
    *client = (s_client_t) {.serial = server->next_serial, .incarnation = incarnation, .fd = fd};
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = client->serial};
    if (epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event)) {
        free(client);
        return -1;
    }
    server->next_serial++;
    server->clients[server->count++] = client;
    return 0;
}

int
verl_bulk_server_add(verl_bulk_server_t *server, uint64_t incarnation, verl_error_t *error)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return verl_error_errno(error, "no connection to the node's shared memory for incarnation %llu",
                                (unsigned long long) incarnation);
    pthread_mutex_lock(&server->mutex);
    bool used = s_find_incarnation(server, incarnation) || verl_slab_ledger_owns(&server->ledger, incarnation);
    int rc = used ? -1 : s_insert(server, incarnation, pair[0]);
    if (rc && used)
        verl_error_set(error, "incarnation %llu is connected to the node's shared memory already: each start of an "
                       "actor has a number of its own", (unsigned long long) incarnation);
    else if (rc)
        verl_error_errno(error, "no connection to the node's shared memory for incarnation %llu",
                         (unsigned long long) incarnation);
    pthread_mutex_unlock(&server->mutex);
    if (rc == 0)
        return pair[1];
    close(pair[0]);
    close(pair[1]);
    return -1;
}

void
verl_bulk_server_gone(verl_bulk_server_t *server, uint64_t incarnation)
{
    pthread_mutex_lock(&server->mutex);
    s_client_t *client = s_find_incarnation(server, incarnation);
    if (client)
        s_close(server, client);
    verl_slab_ledger_gone(&server->ledger, incarnation);
    s_tell_all(server);
    pthread_mutex_unlock(&server->mutex);
}

verl_bulk_stats_t
verl_bulk_server_stats(verl_bulk_server_t *server)
{
    pthread_mutex_lock(&server->mutex);
    verl_bulk_stats_t stats = server->ledger.stats;
    stats.clients = (uint64_t) server->count;
    pthread_mutex_unlock(&server->mutex);
    return stats;
}

uint64_t
verl_bulk_server_bytes(verl_bulk_server_t *server)
{
    return verl_bulk_server_stats(server).bytes;
}
