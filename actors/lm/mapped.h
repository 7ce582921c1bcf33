// mapped.h: a regular file in memory, read-only, as the kernel pages it in.
//
// The file must not be truncated while it is mapped: reading past its new end would kill the process (SIGBUS).
#ifndef VERL_LM_MAPPED_H
#define VERL_LM_MAPPED_H
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const uint8_t *bytes;
    size_t         size;                    // more than 0 while open
} verl_mapped_t;

// Maps the file. Returns 0, or -1 with one sentence in error: it is absent, unreadable, empty, or no regular file.
// Never blocks on a pipe. The caller closes it.
int  verl_mapped_open(verl_mapped_t *self, const char *path, char *error, size_t error_size);
// Unmaps; accepts zeroed memory.
void verl_mapped_close(verl_mapped_t *self);
#endif
