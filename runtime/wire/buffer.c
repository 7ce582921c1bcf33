// buffer.c: see buffer.h.
#include "runtime/wire/buffer.h"
#include <stdint.h>
#include <stdlib.h>

enum { S_FIRST_ROOM = 256 };

void
verl_buffer_init(verl_buffer_t *buffer)
{
    *buffer = (verl_buffer_t) {0};
}

void
verl_buffer_done(verl_buffer_t *buffer)
{
    if (!buffer)
        return;
    free(buffer->data);
    verl_buffer_init(buffer);
}

int
verl_buffer_reserve(verl_buffer_t *buffer, size_t more)
{
    if (buffer->failed)
        return -1;
    if (buffer->room - buffer->size >= more)
        return 0;
    size_t room = buffer->room <= SIZE_MAX / 2 ? buffer->room * 2 : SIZE_MAX;
    if (room < S_FIRST_ROOM)
        room = S_FIRST_ROOM;
    if (more > SIZE_MAX - buffer->size)
        goto fail;
    if (room < buffer->size + more)
        room = buffer->size + more;
    char *data = realloc(buffer->data, room);
    if (!data)
        goto fail;
    buffer->data = data;
    buffer->room = room;
    return 0;
fail:
    buffer->failed = true;
    return -1;
}

char *
verl_buffer_take(verl_buffer_t *buffer, size_t *ret_size)
{
    char *data = buffer->data;
    *ret_size = buffer->size;
    verl_buffer_init(buffer);
    return data;
}
