// tap.c: see tap.h. Its life, and what the director orders.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/observe/tap_impl.h"

verl_tap_t *
verl_tap_new(void *zmq, const char *label, verl_error_t *error)
{
    verl_tap_t *tap = calloc(1, sizeof *tap);
    inside_t *inside = calloc(1, sizeof *inside);
    if (!tap || !inside) {
        free(tap);
        free(inside);
        verl_error_set(error, "out of memory");
        return NULL;
    }
    tap->inside = inside;
    inside->zmq = zmq;
    inside->wake_fd = -1;
    snprintf(inside->label, sizeof inside->label, "%s", label);
    pthread_mutex_init(&inside->lock, NULL);
    pthread_mutex_init(&inside->looking, NULL);
    return tap;
}

void
verl_tap_destroy(verl_tap_t **tap_p)
{
    verl_tap_t *tap = *tap_p;
    *tap_p = NULL;
    if (!tap)
        return;
    inside_t *inside = tap->inside;
    if (inside->thread_runs) {
        pthread_mutex_lock(&inside->lock);
        inside->stopping = true;
        pthread_mutex_unlock(&inside->lock);
        verl_tap_wake(inside);
        pthread_join(inside->thread, NULL);
    }
    while (inside->followers) {
        follower_t *follower = inside->followers;
        inside->followers = follower->next;
        verl_follower_free(follower);
    }
    if (inside->wake_fd >= 0)
        close(inside->wake_fd);
    verl_buffer_done(&inside->scratch);
    verl_buffer_done(&inside->about);
    pthread_mutex_destroy(&inside->lock);
    pthread_mutex_destroy(&inside->looking);
    free(inside);
    free(tap);
}

// --- orders -------------------------------------------------------------------------------------------------------

// Under the lock. Only one is not ending.
static follower_t *
s_find(const inside_t *inside, int64_t id)
{
    follower_t *follower = inside->followers;
    while (follower && (follower->id != id || follower->ending))
        follower = follower->next;
    return follower;
}

// A socket of this user on this host, and nothing else: an order must not send what is traced elsewhere.
static bool
s_is_ours(const char *address)
{
    char prefix[64];
    int length = snprintf(prefix, sizeof prefix, "ipc://@verl-%u-", (unsigned) getuid());
    return strncmp(address, prefix, (size_t) length) == 0;
}

// Takes the follower. 1: it cannot be.
static int
s_add(verl_tap_t *tap, follower_t *follower, verl_error_t *error)
{
    inside_t *inside = tap->inside;
    if (verl_tap_start(tap, error)) {
        verl_follower_free(follower);
        return 1;
    }
    int count = 0, staying = 0;
    pthread_mutex_lock(&inside->lock);
    bool known = s_find(inside, follower->id);
    for (const follower_t *other = inside->followers; other; other = other->next) {
        count++;
        staying += !other->ending;
    }
    if (!known && staying < VERL_TAP_FOLLOWERS && count < VERL_TAP_LISTED) {
        follower->next = inside->followers;
        inside->followers = follower;
        atomic_fetch_add(&tap->followers, 1);
        follower = NULL;
    }
    pthread_mutex_unlock(&inside->lock);
    verl_tap_wake(inside);
    if (follower)
        verl_follower_free(follower);
    if (known || !follower)
        return 0;
    verl_error_set(error, "an actor has at most %d followers", VERL_TAP_FOLLOWERS);
    return 1;
}

static int
s_trace(verl_tap_t *tap, verl_reader_t *rest, verl_error_t *error)
{
    follower_t *follower = calloc(1, sizeof *follower);
    if (!follower) {
        verl_error_set(error, "out of memory");
        return 1;
    }
    if (verl_read_int(rest, &follower->id) ||
        verl_read_cstr(rest, follower->address, sizeof follower->address) || !s_is_ours(follower->address)) {
        verl_error_set(error, "an order to trace does not name a socket of this user on this host");
    } else if (verl_filter_read(rest, &follower->filter, error) == 0) {
        follower->limit = follower->filter.records;
        follower->limit_bytes = follower->filter.bytes;
        return s_add(tap, follower, error);
    }
    verl_follower_free(follower);
    return -1;
}

int
verl_tap_order(verl_tap_t *tap, const char *word, verl_reader_t *rest, verl_error_t *error)
{
    int64_t id;
    if (strcmp(word, "trace") == 0)
        return s_trace(tap, rest, error);
    if (strcmp(word, "untrace") != 0 || verl_read_int(rest, &id))
        return verl_error_set(error, "an order to the tap is neither a trace nor an untrace [id]");
    inside_t *inside = tap->inside;
    pthread_mutex_lock(&inside->lock);
    follower_t *follower = s_find(inside, id);
    if (follower) {
        follower->ending = true;
        atomic_fetch_sub(&tap->followers, 1);
    }
    pthread_mutex_unlock(&inside->lock);
    if (follower)
        verl_tap_wake(inside);
    return 0;
}
