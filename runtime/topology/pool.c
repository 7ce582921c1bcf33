// pool.c: see pool.h. Chunks double in size; what is large gets a chunk of its own.
#include "runtime/topology/pool.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verl_pool_chunk {
    struct verl_pool_chunk *next;
    size_t used, room;
    max_align_t bytes[];
};

#define S_ALIGN     sizeof(max_align_t)
#define S_CHUNK_MIN 4096
#define S_CHUNK_MAX 262144

void
verl_pool_done(verl_pool_t *pool)
{
    while (pool->chunks) {
        struct verl_pool_chunk *next = pool->chunks->next;
        free(pool->chunks);
        pool->chunks = next;
    }
}

static struct verl_pool_chunk *
s_chunk(verl_pool_t *pool, size_t bytes)
{
    size_t room = pool->chunks ? pool->chunks->room * 2 : S_CHUNK_MIN;
    if (room > S_CHUNK_MAX)
        room = S_CHUNK_MAX;
    if (room < bytes)
        room = bytes;
    struct verl_pool_chunk *chunk = calloc(1, sizeof *chunk + room);
    if (!chunk)
        return NULL;
    chunk->room = room;
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    return chunk;
}

void *
verl_pool_try(verl_pool_t *pool, size_t bytes)
{
    if (bytes > SIZE_MAX / 4)
        return NULL;
    bytes = (bytes + S_ALIGN - 1) / S_ALIGN * S_ALIGN;
    if (bytes == 0)
        bytes = S_ALIGN;
    struct verl_pool_chunk *chunk = pool->chunks;
    if (!chunk || chunk->room - chunk->used < bytes)
        chunk = s_chunk(pool, bytes);
    if (!chunk)
        return NULL;
    void *memory = (char *) chunk->bytes + chunk->used;
    chunk->used += bytes;
    return memory;
}

bool
verl_pool_run(verl_pool_t *pool, void (*work)(void *argument), void *argument)
{
    jmp_buf here;
    jmp_buf *const before = pool->out;
    if (setjmp(here) != 0) {
        pool->out = before;
        return false;
    }
    pool->out = &here;
    work(argument);
    pool->out = before;
    return true;
}

void *
verl_pool_alloc(verl_pool_t *pool, size_t bytes)
{
    void *memory = verl_pool_try(pool, bytes);
    if (!memory)
        longjmp(*pool->out, 1);
    return memory;
}

void *
verl_pool_array(verl_pool_t *pool, size_t count, size_t bytes)
{
    if (bytes && count > SIZE_MAX / 4 / bytes)
        longjmp(*pool->out, 1);
    return verl_pool_alloc(pool, count * bytes);
}

// Room is kept at powers of two from 4 on, so that it need not be stored.
void *
verl_pool_grow(verl_pool_t *pool, void *items, int used, size_t bytes)
{
    bool full = used == 0 || (used >= 4 && (used & (used - 1)) == 0);
    if (!full)
        return items;
    void *more = verl_pool_array(pool, used == 0 ? 4 : (size_t) used * 2, bytes);
    if (used)
        memcpy(more, items, (size_t) used * bytes);
    return more;
}

char *
verl_pool_copy_n(verl_pool_t *pool, const char *text, size_t bytes)
{
    char *copy = verl_pool_alloc(pool, bytes + 1);
    if (bytes)
        memcpy(copy, text, bytes);
    return copy;
}

char *
verl_pool_copy(verl_pool_t *pool, const char *text)
{
    return text ? verl_pool_copy_n(pool, text, strlen(text)) : NULL;
}

char *
verl_pool_vprint(verl_pool_t *pool, const char *format, va_list arguments)
{
    char *text = NULL;
    int length = vasprintf(&text, format, arguments);
    char *copy = length < 0 ? NULL : verl_pool_try(pool, (size_t) length + 1);
    if (copy)
        memcpy(copy, text, (size_t) length + 1);
    if (length >= 0)
        free(text);
    if (!copy)
        longjmp(*pool->out, 1);
    return copy;
}

char *
verl_pool_print(verl_pool_t *pool, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = verl_pool_vprint(pool, format, arguments);
    va_end(arguments);
    return text;
}
