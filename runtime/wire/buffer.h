// buffer.h: bytes that grow at their end.
//
// Invariant: size <= room, and data holds room bytes (NULL while room is 0). A failure sticks: once memory ran out,
// every later append fails too, so that a writer of many small pieces may look once, at its end.
#ifndef VERL_WIRE_BUFFER_H
#define VERL_WIRE_BUFFER_H
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct verl_buffer {
    char  *data;
    size_t size;                            // bytes written
    size_t room;                            // bytes that fit without growing
    bool   failed;                          // memory ran out since the last init or clear
} verl_buffer_t;

// An all-zero buffer is an empty one; init makes it so.
void verl_buffer_init(verl_buffer_t *buffer);
// Frees the memory and leaves an empty buffer; so calling it twice is harmless. buffer may be NULL.
void verl_buffer_done(verl_buffer_t *buffer);

// Makes room for `more` bytes behind the end. Returns 0, or -1 without memory: what was written stays as it was.
int verl_buffer_reserve(verl_buffer_t *buffer, size_t more);

// Gives the memory to the caller, who frees it with free(), and leaves an empty buffer. NULL where nothing was written.
char *verl_buffer_take(verl_buffer_t *buffer, size_t *ret_size);

// Forgets the contents and a failure, keeps the memory.
static inline void
verl_buffer_clear(verl_buffer_t *buffer)
{
    buffer->size = 0;
    buffer->failed = false;
}

// Copies bytes behind the end. Returns 0, or -1 without memory.
static inline int
verl_buffer_append(verl_buffer_t *buffer, const void *bytes, size_t size)
{
    if ((buffer->failed || buffer->room - buffer->size < size) && verl_buffer_reserve(buffer, size))
        return -1;
    if (size)
        memcpy(buffer->data + buffer->size, bytes, size);
    buffer->size += size;
    return 0;
}
#endif
