// mapped.c: open, look, map, and let go of the descriptor.
#include "actors/lm/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int
s_map(verl_mapped_t *self, int fd, const char *path, char *error, size_t error_size)
{
    struct stat status;
    if (fstat(fd, &status) != 0) {
        snprintf(error, error_size, "cannot look at %s: %s", path, strerror(errno));
        return -1;
    }
    if (!S_ISREG(status.st_mode)) {
        snprintf(error, error_size, "%s is not a regular file", path);
        return -1;
    }
    if (status.st_size == 0) {
        snprintf(error, error_size, "%s is empty", path);
        return -1;
    }
    void *bytes = mmap(NULL, (size_t) status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) {
        snprintf(error, error_size, "cannot map %s: %s", path, strerror(errno));
        return -1;
    }
    self->bytes = bytes;
    self->size = (size_t) status.st_size;
    return 0;
}

int
verl_mapped_open(verl_mapped_t *self, const char *path, char *error, size_t error_size)
{
    memset(self, 0, sizeof *self);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        snprintf(error, error_size, "cannot open %s: %s", path, strerror(errno));
        return -1;
    }
    int result = s_map(self, fd, path, error, error_size);
    close(fd);
    return result;
}

void
verl_mapped_close(verl_mapped_t *self)
{
    if (self->bytes)
        munmap((void *) (uintptr_t) self->bytes, self->size);
    memset(self, 0, sizeof *self);
}
