// slab_ledger.c: see slab_ledger.h.
#include "runtime/bulk/slab_ledger.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void
verl_slab_ledger_init(verl_slab_ledger_t *ledger, uint64_t limit)
{
    *ledger = (verl_slab_ledger_t) {.limit = limit, .next = 1};
}

static void
s_close(verl_slab_ledger_t *ledger, verl_slab_t *slab)
{
    for (int i = 0; i < ledger->count; i++) {
        if (ledger->slabs[i] != slab)
            continue;
        for (int j = i + 1; j < ledger->count; j++)
            ledger->slabs[j - 1] = ledger->slabs[j];
        ledger->count--;
        break;
    }
    ledger->stats.bytes -= slab->bytes;
    ledger->stats.slabs--;
    ledger->stats.retired -= slab->retired;
    close(slab->fd);
    free(slab->readers);
    free(slab);
}

void
verl_slab_ledger_done(verl_slab_ledger_t *ledger)
{
    while (ledger->count)
        s_close(ledger, ledger->slabs[ledger->count - 1]);
    free(ledger->slabs);
    ledger->slabs = NULL;
}

// A memfd of the right size; its pages are allocated by the one who asked, so that the node never waits for them.
static int
s_make(uint64_t bytes)
{
    int fd = memfd_create("verl-slab", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && ftruncate(fd, (off_t) bytes)) {
        int number = errno;
        close(fd);
        errno = number;
        return -1;
    }
    return fd;
}

static int
s_append(verl_slab_ledger_t *ledger, verl_slab_t *slab)
{
    if (ledger->count == ledger->room) {
        int room = ledger->room ? ledger->room * 2 : 16;
        verl_slab_t **slabs = realloc(ledger->slabs, (size_t) room * sizeof(verl_slab_t *));
        if (!slabs)
            return -1;
        ledger->slabs = slabs;
        ledger->room = room;
    }
    ledger->slabs[ledger->count++] = slab;
    return 0;
}

static verl_slab_t *
s_fail(verl_bulk_reply_t *reply, verl_bulk_code_t code, int number)
{
    reply->code = code;
    reply->number = (uint32_t) number;
    return NULL;
}

verl_slab_t *
verl_slab_ledger_take(verl_slab_ledger_t *ledger, uint64_t owner, uint64_t bytes, verl_bulk_reply_t *reply)
{
    reply->in_use = ledger->stats.bytes;
    reply->limit = ledger->limit;
    if (ledger->limit && bytes > ledger->limit - ledger->stats.bytes)
        return s_fail(reply, VERL_BULK_LIMIT, 0);
    verl_slab_t *slab = calloc(1, sizeof *slab);
    if (!slab)
        return s_fail(reply, VERL_BULK_SYSTEM, ENOMEM);
    *slab = (verl_slab_t) {.id = ledger->next, .owner = owner, .bytes = bytes, .fd = s_make(bytes)};
    if (slab->fd < 0 || s_append(ledger, slab)) {
        s_fail(reply, VERL_BULK_SYSTEM, slab->fd < 0 ? errno : ENOMEM);
        if (slab->fd >= 0)
            close(slab->fd);
        free(slab);
        return NULL;
    }
    ledger->next++;
    ledger->stats.slabs++;
    ledger->stats.slabs_made++;
    ledger->stats.bytes += bytes;
    if (ledger->stats.bytes > ledger->stats.bytes_max)
        ledger->stats.bytes_max = ledger->stats.bytes;
    reply->slab = slab->id;
    reply->bytes = bytes;
    return slab;
}

// From here on nobody maps the slab writable or changes its size, so that a reader is never killed by a missing page.
void
verl_slab_ledger_seal(verl_slab_ledger_t *ledger, verl_slab_t *slab, verl_bulk_reply_t *reply)
{
    (void) ledger;
    struct stat status;
    if (fstat(slab->fd, &status)) {
        s_fail(reply, VERL_BULK_SYSTEM, errno);
        return;
    }
    if ((uint64_t) status.st_size != slab->bytes || (uint64_t) status.st_blocks * 512 < slab->bytes) {
        s_fail(reply, VERL_BULK_HOLES, 0);
        return;
    }
    if (fcntl(slab->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) ||
        fcntl(slab->fd, F_ADD_SEALS, F_SEAL_SEAL)) {
        s_fail(reply, VERL_BULK_SYSTEM, errno);
        return;
    }
    slab->sealed = true;
    reply->slab = slab->id;
    reply->bytes = slab->bytes;
}

verl_slab_t *
verl_slab_ledger_find(const verl_slab_ledger_t *ledger, uint64_t id)
{
    for (int i = 0; i < ledger->count; i++)
        if (ledger->slabs[i]->id == id)
            return ledger->slabs[i];
    return NULL;
}

static int
s_reader(const verl_slab_t *slab, uint64_t incarnation)
{
    for (int i = 0; i < slab->count; i++)
        if (slab->readers[i].incarnation == incarnation)
            return i;
    return -1;
}

verl_slab_t *
verl_slab_ledger_map(verl_slab_ledger_t *ledger, uint64_t reader, uint64_t id, verl_bulk_reply_t *reply)
{
    verl_slab_t *slab = verl_slab_ledger_find(ledger, id);
    if (!slab || !slab->sealed || slab->retired)
        return s_fail(reply, VERL_BULK_UNKNOWN, 0);
    if (s_reader(slab, reader) < 0) {
        if (slab->count == slab->room) {
            int room = slab->room ? slab->room * 2 : 4;
            verl_slab_reader_t *readers = realloc(slab->readers, (size_t) room * sizeof *readers);
            if (!readers)
                return s_fail(reply, VERL_BULK_SYSTEM, ENOMEM);
            slab->readers = readers;
            slab->room = room;
        }
        slab->readers[slab->count++] = (verl_slab_reader_t) {.incarnation = reader};
    }
    reply->slab = slab->id;
    reply->bytes = slab->bytes;
    return slab;
}

static bool
s_drop(verl_slab_ledger_t *ledger, verl_slab_t *slab, uint64_t reader)
{
    int at = s_reader(slab, reader);
    if (at < 0)
        return false;
    slab->readers[at] = slab->readers[--slab->count];
    if (slab->retired && slab->count == 0)
        s_close(ledger, slab);
    return true;
}

bool
verl_slab_ledger_unmap(verl_slab_ledger_t *ledger, uint64_t reader, uint64_t id)
{
    verl_slab_t *slab = verl_slab_ledger_find(ledger, id);
    return slab && s_drop(ledger, slab, reader);
}

void
verl_slab_ledger_retire(verl_slab_ledger_t *ledger, verl_slab_t *slab)
{
    if (!slab->retired)
        ledger->stats.retired++;
    slab->retired = true;
    if (slab->count == 0)
        s_close(ledger, slab);
}

void
verl_slab_ledger_leave(verl_slab_ledger_t *ledger, uint64_t incarnation)
{
    for (int i = ledger->count - 1; i >= 0; i--) {          // closing moves only slabs that were looked at
        verl_slab_t *slab = ledger->slabs[i];
        if (slab->owner == incarnation && !slab->sealed)
            verl_slab_ledger_retire(ledger, slab);
        else
            s_drop(ledger, slab, incarnation);
    }
}

void
verl_slab_ledger_gone(verl_slab_ledger_t *ledger, uint64_t incarnation)
{
    for (int i = ledger->count - 1; i >= 0; i--)
        if (ledger->slabs[i]->owner == incarnation)
            verl_slab_ledger_retire(ledger, ledger->slabs[i]);
}

bool
verl_slab_ledger_owns(const verl_slab_ledger_t *ledger, uint64_t incarnation)
{
    for (int i = 0; i < ledger->count; i++)
        if (ledger->slabs[i]->owner == incarnation)
            return true;
    return false;
}
