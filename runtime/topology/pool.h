// pool.h: memory that is freed all at once. A plan, and all that is thought up while a topology is checked, lives in
// one.
//
// Invariant: what a pool gave stays where it is, zeroed at first, until verl_pool_done. One thread at a time.
#ifndef VERL_TOPOLOGY_POOL_H
#define VERL_TOPOLOGY_POOL_H
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct verl_pool {
    struct verl_pool_chunk *chunks;
    jmp_buf *out; // where to go when memory runs out; set by verl_pool_run
} verl_pool_t;

// An all-zero pool is an empty one. Frees everything and leaves an empty pool.
void verl_pool_done(verl_pool_t *pool);
// NULL without memory.
void *verl_pool_try(verl_pool_t *pool, size_t bytes);

// Calls work(argument), in which the functions below may be used: they never return NULL. Returns false when memory ran
// out; work was left then where it was, so it must hold nothing but the pool's memory. Calls may be nested.
bool verl_pool_run(verl_pool_t *pool, void (*work)(void *argument), void *argument);
void *verl_pool_alloc(verl_pool_t *pool, size_t bytes);
void *verl_pool_array(verl_pool_t *pool, size_t count, size_t bytes);
// The same items with room for one more: call before each append of item number `used`. It doubles when it moves.
void *verl_pool_grow(verl_pool_t *pool, void *items, int used, size_t bytes);
char *verl_pool_copy(verl_pool_t *pool, const char *text);
char *verl_pool_copy_n(verl_pool_t *pool, const char *text, size_t bytes);
char *verl_pool_print(verl_pool_t *pool, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *verl_pool_vprint(verl_pool_t *pool, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));

#ifdef __cplusplus
}
#endif
#endif
