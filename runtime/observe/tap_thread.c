// tap_thread.c: the thread of a tap, which owns its sockets: hands records on, takes credit, tells counts.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>
#include "runtime/base/clock.h"
#include "runtime/observe/tap_impl.h"

#define BUSY_MS    10                       // records are handed on so often while there are any
#define CALM_MS    250                      // counts are told so often while nothing else goes
#define LINGER_MS  100                      // what was sent may still arrive so long after the end

void
verl_tap_wake(inside_t *inside)
{
    uint64_t one = 1;
    ssize_t written = write(inside->wake_fd, &one, sizeof one);
    (void) written;                         // full: it is awake already
}

void
verl_follower_free(follower_t *follower)
{
    if (follower->dealer)
        zmq_close(follower->dealer);
    verl_buffer_done(&follower->front);
    verl_buffer_done(&follower->back);
    verl_buffer_done(&follower->head);
    free(follower);
}

// --- one follower -------------------------------------------------------------------------------------------------

// What cannot be connected is tried again at the next turn; its records wait, within its credit.
static void
s_connect(const inside_t *inside, follower_t *follower)
{
    int linger = LINGER_MS, none = 0;
    follower->dealer = zmq_socket(inside->zmq, ZMQ_DEALER);
    if (!follower->dealer)
        return;
    zmq_setsockopt(follower->dealer, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(follower->dealer, ZMQ_SNDHWM, &none, sizeof none);       // credit bounds it
    if (zmq_connect(follower->dealer, follower->address)) {
        zmq_close(follower->dealer);
        follower->dealer = NULL;
    }
}

// Returns whether it brought any.
static bool
s_take_credit(inside_t *inside, follower_t *follower)
{
    char bytes[64];
    bool more = false;
    int size;
    while (follower->dealer && (size = zmq_recv(follower->dealer, bytes, sizeof bytes, ZMQ_DONTWAIT)) >= 0) {
        verl_reader_t reader;
        uint32_t count;
        uint64_t limit, limit_bytes;
        if ((size_t) size > sizeof bytes)
            continue;
        verl_reader_init(&reader, bytes, (size_t) size);
        if (verl_read_array(&reader, &count) || count != 2 || verl_read_uint(&reader, &limit) ||
            verl_read_uint(&reader, &limit_bytes))
            continue;
        pthread_mutex_lock(&inside->lock);
        // More than it may ask for at a time is not believed.
        uint64_t most = follower->used + VERL_FILTER_RECORDS_MAX,
                 most_bytes = follower->used_bytes + VERL_FILTER_CREDIT_MAX;
        if (limit > follower->limit && limit <= most)
            follower->limit = limit;
        if (limit_bytes > follower->limit_bytes && limit_bytes <= most_bytes)
            follower->limit_bytes = limit_bytes;
        pthread_mutex_unlock(&inside->lock);
        more = true;
    }
    return more;
}

static void
s_send(const inside_t *inside, follower_t *follower, const verl_trace_counts_t *counts, bool last)
{
    verl_trace_head_t head = { .trace = follower->id, .number = follower->frames + 1, .last = last, .counts = *counts };
    zmq_msg_t message;
    memcpy(head.party, inside->label, sizeof head.party);
    verl_buffer_clear(&follower->head);
    if (!follower->dealer || verl_trace_write_head(&follower->head, &head) ||
        zmq_msg_init_size(&message, follower->head.size + follower->back.size))
        return;                             // its counts go with the next frame
    memcpy(zmq_msg_data(&message), follower->head.data, follower->head.size);
    if (follower->back.size)
        memcpy((char *) zmq_msg_data(&message) + follower->head.size, follower->back.data, follower->back.size);
    if (zmq_msg_send(&message, follower->dealer, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&message);
        return;
    }
    follower->frames++;
    follower->told = *counts;
    follower->told_at = verl_now();
}

typedef struct turn {
    int64_t now;
    bool    stopping;
    bool    records;                        // some went: more may come soon
    bool    waiting;                        // somebody has credit for being told counts
} turn_t;

// Hands on what waits. Returns false where the follower is done with.
static bool
s_tend(inside_t *inside, follower_t *follower, bool credited, turn_t *turn)
{
    if (!follower->dealer)
        s_connect(inside, follower);
    pthread_mutex_lock(&inside->lock);
    bool last = follower->ending || turn->stopping;
    if (!follower->dealer && !last) {
        turn->waiting = true;
        pthread_mutex_unlock(&inside->lock);
        return true;
    }
    verl_buffer_t records = follower->front;
    follower->front = follower->back;
    verl_buffer_clear(&follower->front);
    follower->back = records;
    verl_trace_counts_t counts = follower->counts;
    bool untold = counts.seen != follower->told.seen || !follower->frames;
    bool due = credited || !follower->frames || turn->now - follower->told_at >= CALM_MS * VERL_MS;
    bool empty = !records.size && !last && untold && due && follower->used < follower->limit;
    follower->used += empty;
    turn->waiting |= follower->used < follower->limit;
    pthread_mutex_unlock(&inside->lock);
    if (records.size || empty || last)
        s_send(inside, follower, &counts, last);
    turn->records |= records.size > 0;
    return !last;
}

// --- all of them --------------------------------------------------------------------------------------------------

static void
s_remove(verl_tap_t *tap, follower_t *follower)
{
    inside_t *inside = tap->inside;
    pthread_mutex_lock(&inside->lock);
    follower_t **link = &inside->followers;
    while (*link != follower)
        link = &(*link)->next;
    *link = follower->next;
    if (!follower->ending)
        atomic_fetch_sub(&tap->followers, 1);
    pthread_mutex_unlock(&inside->lock);
    verl_follower_free(follower);
}

// The followers there are. Only this thread takes any away, so the pointers stay good.
static int
s_list(inside_t *inside, follower_t *ret[VERL_TAP_LISTED])
{
    int count = 0;
    pthread_mutex_lock(&inside->lock);
    for (follower_t *follower = inside->followers; follower && count < VERL_TAP_LISTED; follower = follower->next)
        ret[count++] = follower;
    pthread_mutex_unlock(&inside->lock);
    return count;
}

static bool
s_turn(verl_tap_t *tap, turn_t *turn)
{
    inside_t *inside = tap->inside;
    follower_t *followers[VERL_TAP_LISTED];
    pthread_mutex_lock(&inside->lock);
    *turn = (turn_t) { .now = verl_now(), .stopping = inside->stopping };
    pthread_mutex_unlock(&inside->lock);
    int count = s_list(inside, followers);
    for (int i = 0; i < count; i++) {
        bool credited = s_take_credit(inside, followers[i]);
        if (!s_tend(inside, followers[i], credited, turn))
            s_remove(tap, followers[i]);
    }
    return !turn->stopping;
}

// How long to wait; where it is long, whoever writes a record has to wake us.
static int
s_wait_ms(inside_t *inside, const turn_t *turn, int64_t *busy_until)
{
    if (turn->records)
        *busy_until = turn->now + 10 * BUSY_MS * VERL_MS;
    if (turn->now < *busy_until)
        return BUSY_MS;
    bool records = false;
    pthread_mutex_lock(&inside->lock);
    for (const follower_t *follower = inside->followers; follower; follower = follower->next)
        records |= follower->dealer && follower->front.size > 0;
    inside->sleeping = !records;
    pthread_mutex_unlock(&inside->lock);
    return records ? 0 : turn->waiting ? CALM_MS : -1;
}

// Returns when there is something to do, or after wait_ms.
static void
s_wait(inside_t *inside, int wait_ms)
{
    follower_t *followers[VERL_TAP_LISTED];
    zmq_pollitem_t items[VERL_TAP_LISTED + 1] = { { NULL, inside->wake_fd, ZMQ_POLLIN, 0 } };
    int used = 1, count = s_list(inside, followers);
    for (int i = 0; i < count; i++)
        if (followers[i]->dealer)
            items[used++] = (zmq_pollitem_t) { followers[i]->dealer, 0, ZMQ_POLLIN, 0 };
    uint64_t woken;
    if (zmq_poll(items, used, wait_ms) > 0 && items[0].revents && read(inside->wake_fd, &woken, sizeof woken) < 0 &&
        errno != EAGAIN)
        return;
}

static void *
s_thread(void *context)
{
    verl_tap_t *tap = context;
    pthread_setname_np(pthread_self(), "verl-tap");
    int64_t busy_until = 0;
    turn_t turn;
    while (s_turn(tap, &turn))
        s_wait(tap->inside, s_wait_ms(tap->inside, &turn, &busy_until));
    return NULL;
}

// Signals are for the other threads of the process.
int
verl_tap_start(verl_tap_t *tap, verl_error_t *error)
{
    inside_t *inside = tap->inside;
    sigset_t all, before;
    if (inside->thread_runs)
        return 0;
    if (inside->wake_fd < 0)
        inside->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (inside->wake_fd < 0)
        return verl_error_errno(error, "cannot make an eventfd");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    inside->thread_runs = pthread_create(&inside->thread, NULL, s_thread, tap) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return inside->thread_runs ? 0 : verl_error_set(error, "cannot start the thread of a trace");
}
