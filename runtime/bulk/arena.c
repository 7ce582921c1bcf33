// arena.c: blocks to write, slabs to read. See arena.h; link.c talks to the node, extents.c divides a slab.
#include "runtime/bulk/arena_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define S_GRAIN    ((uint64_t) 2 << 20)     // slabs are multiples of it
#define S_SMALLEST ((uint64_t) 4 << 20)
#define S_LARGEST  ((uint64_t) 256 << 20)   // unless one block needs more
#define S_MOST     ((uint64_t) 1 << 45)     // bytes of one block
#define S_PATIENCE ((int64_t) 5000000000)   // ns that an empty slab is kept

enum { S_EMPTY = 2 };                       // slabs kept without waiting

static int64_t
s_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint64_t
s_round(uint64_t bytes, uint64_t grain)
{
    return (bytes + grain - 1) / grain * grain;
}

verl_arena_t *
verl_arena_new(int fd, verl_error_t *error)
{
    int type = 0;
    socklen_t size = sizeof type;
    verl_arena_t *arena = calloc(1, sizeof *arena);
    if (!arena || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) || type != SOCK_SEQPACKET ||
        fcntl(fd, F_SETFD, FD_CLOEXEC)) {
        verl_error_set(error, arena ? "descriptor %d is no connection to the node's shared memory"
                                    : "no memory for the arena of descriptor %d", fd);
        free(arena);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    arena->fd = fd;
    pthread_mutex_init(&arena->link, NULL);
    pthread_mutex_init(&arena->mutex, NULL);
    return arena;
}

static void
s_free_own(verl_own_slab_t *slab)
{
    if (!slab)
        return;
    if (slab->base)
        munmap(slab->base, slab->bytes);
    verl_extents_done(&slab->extents);
    free(slab);
}

void
verl_arena_destroy(verl_arena_t **arena_p)
{
    verl_arena_t *arena = *arena_p;
    if (!arena)
        return;
    for (int i = 0; i < arena->own_count; i++)
        s_free_own(arena->own[i]);
    for (int i = 0; i < arena->read_count; i++)
        munmap(arena->read[i].base, arena->read[i].bytes);
    close(arena->fd);
    pthread_mutex_destroy(&arena->link);
    pthread_mutex_destroy(&arena->mutex);
    free(arena->own);
    free(arena->read);
    free(arena);
    *arena_p = NULL;
}

// ---------------------------------------------------------------------------------------------------------------
// Slabs that come and go

// Takes the slab that is to be given back now out of the table, or returns NULL: of the empty ones all but the largest,
// the smallest first, when there are more than `keep` or it has been empty for long. mutex is held.
static verl_own_slab_t *
s_spare(verl_arena_t *arena, int keep, int64_t now)
{
    int empty = 0, largest = -1, smallest = -1;
    for (int i = 0; i < arena->own_count; i++) {
        if (arena->own[i]->extents.live)
            continue;
        empty++;
        if (largest < 0 || arena->own[i]->bytes > arena->own[largest]->bytes)
            largest = i;
    }
    for (int i = 0; i < arena->own_count; i++) {
        const verl_own_slab_t *slab = arena->own[i];
        if (slab->extents.live || (i == largest && keep > 0))
            continue;
        if ((empty > keep || now - slab->empty_since > S_PATIENCE) &&
            (smallest < 0 || slab->bytes < arena->own[smallest]->bytes))
            smallest = i;
    }
    if (smallest < 0 || verl_link_say(arena, VERL_BULK_FREE, arena->own[smallest]->id))
        return NULL;
    verl_own_slab_t *slab = arena->own[smallest];
    arena->own_count--;
    memmove(arena->own + smallest, arena->own + smallest + 1,
            (size_t) (arena->own_count - smallest) * sizeof(verl_own_slab_t *));
    return slab;
}

// Gives back empty slabs that are too many or too old. No lock is held. Returns how many.
static int
s_shed(verl_arena_t *arena, int keep)
{
    for (int count = 0;; count++) {
        int64_t now = s_now();
        pthread_mutex_lock(&arena->mutex);
        verl_own_slab_t *slab = s_spare(arena, keep, now);
        pthread_mutex_unlock(&arena->mutex);
        if (!slab)
            return count;
        s_free_own(slab);
    }
}

// Takes a block from the slabs that are there. mutex is held.
static bool
s_take(verl_arena_t *arena, uint64_t bytes, verl_block_t *ret)
{
    for (int i = 0; i < arena->own_count; i++) {
        verl_own_slab_t *slab = arena->own[i];
        uint64_t offset;
        if (!verl_extents_take(&slab->extents, bytes, &offset))
            continue;
        *ret = (verl_block_t) {.data = slab->base + offset, .slab = slab->id, .offset = offset, .bytes = bytes};
        return true;
    }
    return false;
}

static bool
s_take_locked(verl_arena_t *arena, uint64_t bytes, verl_block_t *ret)
{
    pthread_mutex_lock(&arena->mutex);
    bool found = s_take(arena, bytes, ret);
    pthread_mutex_unlock(&arena->mutex);
    return found;
}

// How large the next slab is: twice the largest that is there, within bounds, and as large as one block needs.
static uint64_t
s_next_bytes(verl_arena_t *arena, uint64_t need)
{
    uint64_t bytes = S_SMALLEST;
    pthread_mutex_lock(&arena->mutex);
    for (int i = 0; i < arena->own_count; i++)
        if (arena->own[i]->bytes * 2 > bytes)
            bytes = arena->own[i]->bytes * 2;
    pthread_mutex_unlock(&arena->mutex);
    if (bytes > S_LARGEST)
        bytes = S_LARGEST;
    return bytes > need ? bytes : need;
}

static int
s_explain(const verl_bulk_reply_t *reply, uint64_t bytes, verl_error_t *error)
{
    unsigned long long wanted = bytes >> 20;
    errno = (int) reply->number;
    if (reply->code == VERL_BULK_LIMIT && bytes > reply->limit)
        return verl_error_set(error, "%llu MiB are needed in one piece, and this machine has %llu MiB in all: fewer "
                              "rows, or shorter ones, would be right", wanted,
                              (unsigned long long) reply->limit >> 20);
    if (reply->code == VERL_BULK_LIMIT)
        return verl_error_set(error, "%llu MiB more are needed, and the run has %llu MiB of the %llu MiB of this "
                              "machine in use: a lower [run] max_in_flight, or smaller batches, would be right", wanted,
                              (unsigned long long) reply->in_use >> 20,
                              (unsigned long long) reply->limit >> 20);
    if (reply->code == VERL_BULK_SYSTEM)
        return verl_error_errno(error, "the node cannot make a slab of %llu MiB", wanted);
    return verl_error_set(error, "the node refuses to seal a slab of %llu MiB: not all its pages are allocated",
                          wanted);
}

// Makes a slab of the node's ready for blocks: maps it, has it sealed, puts it into the table. link is held; slab is
// freed on failure.
static int
s_adopt(verl_arena_t *arena, verl_own_slab_t *slab, int fd, verl_error_t *error)
{
    verl_bulk_reply_t reply;
    int passed;
    slab->base = verl_map_own(fd, slab->bytes, error);
    if (!slab->base || verl_extents_init(&slab->extents, slab->bytes)) {
        verl_error_set(error, "no memory for the table of a slab");
        return -1;
    }
    if (verl_link_ask(arena, VERL_BULK_MAPPED, slab->id, 0, &reply, &passed, error))
        return -1;
    if (reply.code != VERL_BULK_OK)
        return s_explain(&reply, slab->bytes, error);
    int rc = 0;
    slab->empty_since = s_now();
    pthread_mutex_lock(&arena->mutex);
    if (arena->own_count == arena->own_room) {
        int room = arena->own_room ? arena->own_room * 2 : 8;
        verl_own_slab_t **own = realloc(arena->own, (size_t) room * sizeof(verl_own_slab_t *));
        if (own) {
            arena->own = own;
            arena->own_room = room;
        } else {
            rc = verl_error_set(error, "no memory for the table of slabs");
        }
    }
    if (rc == 0)
        arena->own[arena->own_count++] = slab;
    pthread_mutex_unlock(&arena->mutex);
    return rc;
}

// Asks the node for a slab of so many bytes. link is held.
static int
s_grow(verl_arena_t *arena, uint64_t bytes, verl_error_t *error)
{
    verl_bulk_reply_t reply;
    int fd;
    if (verl_link_ask(arena, VERL_BULK_TAKE, 0, bytes, &reply, &fd, error))
        return -1;
    if (reply.code != VERL_BULK_OK)
        return s_explain(&reply, bytes, error);
    verl_own_slab_t *slab = fd >= 0 ? calloc(1, sizeof *slab) : NULL;
    int rc = -1;
    if (slab) {
        *slab = (verl_own_slab_t) {.id = reply.slab, .bytes = bytes};
        rc = s_adopt(arena, slab, fd, error);
    } else {
        verl_error_set(error, fd >= 0 ? "no memory for the table of a slab" : "no descriptor is left for a slab");
    }
    if (rc) {
        verl_link_say(arena, VERL_BULK_FREE, reply.slab);
        s_free_own(slab);
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

// A slab with room for `bytes`: of the size that growth proposes; where that is refused, of the size that is needed;
// and where that is refused too, once more after all empty slabs were given back. link is held.
static int
s_grow_somehow(verl_arena_t *arena, uint64_t bytes, verl_error_t *error)
{
    uint64_t need = s_round(bytes, S_GRAIN), wish = s_next_bytes(arena, need);
    verl_error_t first = {0};
    if (s_grow(arena, wish, &first) == 0)
        return 0;
    if (!arena->broken && wish > need && s_grow(arena, need, NULL) == 0)
        return 0;
    if (!arena->broken && s_shed(arena, 0) && s_grow(arena, need, NULL) == 0)
        return 0;
    return verl_error_set(error, "%s", first.text);
}

int
verl_arena_take(verl_arena_t *arena, size_t bytes, verl_block_t *ret, verl_error_t *error)
{
    if (bytes > S_MOST)
        return verl_error_set(error, "a block of %zu bytes is more than any memory", bytes);
    uint64_t need = s_round(bytes ? bytes : 1, VERL_BLOCK_ALIGN);
    if (s_take_locked(arena, need, ret))
        return 0;
    int rc = 0;
    pthread_mutex_lock(&arena->link);
    verl_link_listen(arena);
    while (rc == 0 && !s_take_locked(arena, need, ret))     // another thread may have grown it, or taken all of it
        rc = s_grow_somehow(arena, need, error);
    pthread_mutex_unlock(&arena->link);
    return rc;
}

void
verl_arena_give(verl_arena_t *arena, const verl_block_t *block)
{
    verl_own_slab_t *spare = NULL;
    pthread_mutex_lock(&arena->mutex);
    for (int i = 0; i < arena->own_count; i++) {
        verl_own_slab_t *slab = arena->own[i];
        if (slab->id != block->slab)
            continue;
        if (verl_extents_give(&slab->extents, block->offset) && slab->extents.live == 0) {
            slab->empty_since = s_now();
            spare = s_spare(arena, S_EMPTY, slab->empty_since);
        }
        break;
    }
    pthread_mutex_unlock(&arena->mutex);
    s_free_own(spare);
    if (spare)
        s_shed(arena, S_EMPTY);
}

// ---------------------------------------------------------------------------------------------------------------
// Slabs of others

static verl_read_slab_t *
s_find_read(verl_arena_t *arena, uint64_t id)
{
    for (int i = 0; i < arena->read_count; i++)
        if (arena->read[i].id == id)
            return &arena->read[i];
    return NULL;
}

// Takes a slab that is retired and unused out of the table into *ret. mutex is held.
static bool
s_end_read(verl_arena_t *arena, verl_read_slab_t *slab, verl_read_slab_t *ret)
{
    if (!slab || slab->uses || !slab->retired)
        return false;
    *ret = *slab;
    *slab = arena->read[--arena->read_count];
    return true;
}

static void
s_unmap_read(verl_arena_t *arena, const verl_read_slab_t *slab)
{
    munmap(slab->base, slab->bytes);
    verl_link_say(arena, VERL_BULK_UNMAP, slab->id);
}

void
verl_arena_retired(verl_arena_t *arena, uint64_t id)
{
    verl_read_slab_t ended;
    pthread_mutex_lock(&arena->mutex);
    verl_read_slab_t *slab = s_find_read(arena, id);
    if (slab)
        slab->retired = true;
    bool end = s_end_read(arena, slab, &ended);
    pthread_mutex_unlock(&arena->mutex);
    if (end)
        s_unmap_read(arena, &ended);
}

static void
s_release(void *context, uint64_t id)
{
    verl_arena_t *arena = context;
    verl_read_slab_t ended;
    pthread_mutex_lock(&arena->mutex);
    verl_read_slab_t *slab = s_find_read(arena, id);
    if (slab && slab->uses)
        slab->uses--;
    bool end = s_end_read(arena, slab, &ended);
    pthread_mutex_unlock(&arena->mutex);
    if (end)
        s_unmap_read(arena, &ended);
}

// Counts one more use of a slab that is mapped. Returns its first byte, or NULL where it is not mapped.
static const char *
s_use(verl_arena_t *arena, uint64_t id, uint64_t *ret_bytes)
{
    const char *base = NULL;
    pthread_mutex_lock(&arena->mutex);
    verl_read_slab_t *slab = s_find_read(arena, id);
    if (slab) {
        slab->uses++;
        base = slab->base;
        *ret_bytes = slab->bytes;
    }
    pthread_mutex_unlock(&arena->mutex);
    return base;
}

static int
s_insert_read(verl_arena_t *arena, uint64_t id, char *base, uint64_t bytes)
{
    int rc = 0;
    pthread_mutex_lock(&arena->mutex);
    if (arena->read_count == arena->read_room) {
        int room = arena->read_room ? arena->read_room * 2 : 8;
        verl_read_slab_t *read = realloc(arena->read, (size_t) room * sizeof *read);
        if (read) {
            arena->read = read;
            arena->read_room = room;
        } else {
            rc = -1;
        }
    }
    if (rc == 0)
        arena->read[arena->read_count++] = (verl_read_slab_t) {.id = id, .bytes = bytes, .base = base};
    pthread_mutex_unlock(&arena->mutex);
    return rc;
}

// Fetches a slab from the node and maps it. link is held.
static int
s_fetch(verl_arena_t *arena, uint64_t id, verl_error_t *error)
{
    verl_bulk_reply_t reply;
    int fd;
    if (verl_link_ask(arena, VERL_BULK_MAP, id, 0, &reply, &fd, error))
        return -1;
    if (reply.code == VERL_BULK_UNKNOWN)
        return verl_error_set(error, "slab %llu is not there: its writer let it go, or never had it sealed",
                              (unsigned long long) id);
    if (reply.code != VERL_BULK_OK) {
        errno = (int) reply.number;
        return verl_error_errno(error, "the node cannot hand out slab %llu", (unsigned long long) id);
    }
    char *base = NULL;
    if (fd < 0)
        verl_error_set(error, "no descriptor is left for slab %llu", (unsigned long long) id);
    else
        base = verl_map_read(fd, reply.bytes, error);
    if (fd >= 0)
        close(fd);
    if (base && s_insert_read(arena, id, base, reply.bytes) == 0)
        return 0;
    if (base)
        munmap(base, reply.bytes);
    verl_link_say(arena, VERL_BULK_UNMAP, id);
    return verl_error_set(error, "no memory for the table of slabs");
}

static const char *
s_map(void *context, uint64_t id, uint64_t *ret_bytes, verl_error_t *error)
{
    verl_arena_t *arena = context;
    const char *base = s_use(arena, id, ret_bytes);
    if (base)
        return base;
    pthread_mutex_lock(&arena->link);
    verl_link_listen(arena);
    base = s_use(arena, id, ret_bytes);
    if (!base && s_fetch(arena, id, error) == 0)
        base = s_use(arena, id, ret_bytes);
    pthread_mutex_unlock(&arena->link);
    return base;
}

// ---------------------------------------------------------------------------------------------------------------

void
verl_arena_tend(verl_arena_t *arena)
{
    if (pthread_mutex_trylock(&arena->link) == 0) {         // else somebody is listening already
        verl_link_listen(arena);
        pthread_mutex_unlock(&arena->link);
    }
    s_shed(arena, S_EMPTY);
}

static int
s_memory_take(void *context, size_t bytes, verl_block_t *ret, verl_error_t *error)
{
    return verl_arena_take(context, bytes, ret, error);
}

static void
s_memory_give(void *context, const verl_block_t *block)
{
    verl_arena_give(context, block);
}

verl_memory_t
verl_arena_memory(verl_arena_t *arena)
{
    return (verl_memory_t) {.take = s_memory_take, .give = s_memory_give, .context = arena};
}

verl_slabs_t
verl_arena_slabs(verl_arena_t *arena)
{
    return (verl_slabs_t) {.map = s_map, .release = s_release, .context = arena};
}

verl_arena_stats_t
verl_arena_stats(verl_arena_t *arena)
{
    verl_arena_stats_t stats = {0};
    pthread_mutex_lock(&arena->mutex);
    for (int i = 0; i < arena->own_count; i++) {
        stats.live_bytes += arena->own[i]->extents.live_bytes;
        stats.live_blocks += arena->own[i]->extents.live;
        stats.slab_bytes += arena->own[i]->bytes;
    }
    for (int i = 0; i < arena->read_count; i++)
        stats.read_bytes += arena->read[i].bytes;
    stats.slabs = (uint64_t) arena->own_count;
    stats.read_slabs = (uint64_t) arena->read_count;
    pthread_mutex_unlock(&arena->mutex);
    return stats;
}

uint64_t
verl_arena_live_bytes(verl_arena_t *arena)
{
    return verl_arena_stats(arena).live_bytes;
}
