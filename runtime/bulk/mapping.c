// mapping.c: how a slab gets into an address space. Its writer allocates and maps all pages at once, since a first
// touch costs over ten times what use costs (256 MiB: 299 ms against 22, measured), and a page that is not there would
// kill whoever reads it.
#include "runtime/bulk/arena_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static char *
s_map(int fd, uint64_t bytes, int protection)
{
    char *base = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return NULL;
    madvise(base, bytes, MADV_HUGEPAGE);    // a hint: it fails where the system has none for shared memory
    return base;
}

static void
s_touch(volatile char *base, uint64_t bytes)
{
    long page = sysconf(_SC_PAGESIZE);
    for (uint64_t at = 0; at < bytes; at += (uint64_t) page)
        base[at] = 0;
}

char *
verl_map_own(int fd, uint64_t bytes, verl_error_t *error)
{
    char *base = s_map(fd, bytes, PROT_READ | PROT_WRITE);
    if (!base) {
        verl_error_errno(error, "a new slab of %llu MiB cannot be mapped", (unsigned long long) bytes >> 20);
        return NULL;
    }
    int rc;
    do
        rc = fallocate(fd, 0, 0, (off_t) bytes);
    while (rc && errno == EINTR);
    if (rc == 0) {
        do
            rc = madvise(base, bytes, MADV_POPULATE_WRITE);
        while (rc && errno == EINTR);
        if (rc && errno == EINVAL) {        // a kernel before 5.14
            s_touch(base, bytes);
            rc = 0;
        }
    }
    if (rc == 0)
        return base;
    verl_error_errno(error, "the system has no memory for a new slab of %llu MiB", (unsigned long long) bytes >> 20);
    munmap(base, bytes);
    return NULL;
}

// A reader's pages come one by one, 16 at a fault: the same time in all (28 ms for 256 MiB, measured), and only for
// what is read; populating all of a slab would make its first reader wait for blocks that are not its own.
char *
verl_map_read(int fd, uint64_t bytes, verl_error_t *error)
{
    char *base = s_map(fd, bytes, PROT_READ);
    if (!base)
        verl_error_errno(error, "a slab of %llu MiB cannot be mapped for reading", (unsigned long long) bytes >> 20);
    return base;
}
