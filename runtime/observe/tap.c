// tap.c: see tap.h. Orders, and the side of the threads that send.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "runtime/base/clock.h"
#include "runtime/observe/tap_impl.h"
#include "runtime/wire/pack.h"

#define HEAD_BYTES 64                       // of a column that is not in the body

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

static int
s_add(verl_tap_t *tap, follower_t *follower, verl_error_t *error)
{
    inside_t *inside = tap->inside;
    if (verl_tap_start(tap, error))
        return -1;
    int count = 0;
    pthread_mutex_lock(&inside->lock);
    bool known = s_find(inside, follower->id);
    for (const follower_t *other = inside->followers; other; other = other->next)
        count++;
    if (!known && count < VERL_TAP_FOLLOWERS) {
        follower->next = inside->followers;
        inside->followers = follower;
        atomic_fetch_add(&tap->followers, 1);
        follower = NULL;
    }
    pthread_mutex_unlock(&inside->lock);
    verl_tap_wake(inside);
    if (follower)
        verl_follower_free(follower);
    return known || !follower ? 0 : verl_error_set(error, "an actor has at most %d followers", VERL_TAP_FOLLOWERS);
}

static int
s_trace(verl_tap_t *tap, verl_reader_t *rest, verl_error_t *error)
{
    follower_t *follower = calloc(1, sizeof *follower);
    if (!follower)
        return verl_error_set(error, "out of memory");
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

// --- the senders' side: under the lock ----------------------------------------------------------------------------

// Counts a message, and says whether a copy is to be made.
static bool
s_wants(follower_t *follower, const verl_filter_message_t *message)
{
    const verl_filter_t *filter = &follower->filter;
    verl_trace_counts_t *counts = &follower->counts;
    if (follower->ending)
        return false;
    counts->seen++;
    if (!verl_filter_matches(filter, message) || follower->passed++ % filter->every ||
        (filter->first && counts->matched >= filter->first))
        return false;
    counts->matched++;
    if (follower->used < follower->limit && follower->used_bytes < follower->limit_bytes)
        return true;
    counts->dropped++;
    return false;
}

// A record was written behind `before` bytes, or could not be.
static bool
s_written(inside_t *inside, follower_t *follower, size_t before, int failed)
{
    if (failed) {
        follower->front.size = before;
        follower->front.failed = false;
        follower->counts.dropped++;
        return false;
    }
    follower->counts.sent++;
    follower->used++;
    follower->used_bytes += follower->front.size - before;
    bool wake = inside->sleeping;
    inside->sleeping = false;
    return wake;
}

static void
s_write_about(inside_t *inside, const follower_t *follower, const verl_tap_event_t *event, uint32_t *ret_count)
{
    verl_buffer_clear(&inside->about);
    *ret_count = 0;
    for (int i = 0; i < event->columns_count; i++) {
        const verl_column_t *column = verl_batch_column(event->made, event->names[i]);
        if (!column)
            continue;
        const void *data;
        size_t bytes = verl_summary_data(column, &data);
        size_t offsets = column->ragged ? ((size_t) column->rows + 1) * sizeof(int64_t) : 0;
        if (bytes + offsets <= VERL_BATCH_INLINE)
            continue;                       // it is in the body
        verl_summary_t summary = { .elements = (int64_t) (bytes / verl_dtype_bytes(column->dtype)) };
        if (follower->filter.stats)
            verl_summary_of(column, &summary);
        size_t head = follower->filter.values != VERL_VALUES_HEAD ? 0 : bytes < HEAD_BYTES ? bytes : HEAD_BYTES;
        if (verl_trace_write_about(&inside->about, (event->columns ? event->columns : event->names)[i], &summary, data,
                                   head) == 0)
            ++*ret_count;
    }
}

// What of the body goes into a record.
static void
s_take_body(inside_t *inside, const follower_t *follower, const verl_tap_event_t *event, verl_trace_message_t *record)
{
    bool batch = event->kind == VERL_TRACE_DATA || event->kind == VERL_TRACE_WEIGHTS;
    record->body = event->message->body;
    record->body_size = event->message->body_size;
    if (batch && follower->filter.values == VERL_VALUES_WHOLE && event->made) {
        verl_buffer_clear(&inside->scratch);
        if (verl_batch_pack_inline(event->made, event->names, event->columns, event->columns_count, event->map,
                                   &inside->scratch, NULL) == 0) {
            record->body = inside->scratch.data;
            record->body_size = inside->scratch.size;
            return;
        }
    }
    if (batch && record->body_size > VERL_TRACE_BODY)
        record->body_size = 0;
    else if (!batch && record->body_size > VERL_TRACE_WORDS)
        record->body_size = VERL_TRACE_WORDS;
}

static bool
s_copy(inside_t *inside, follower_t *follower, const verl_tap_event_t *event, int64_t t)
{
    verl_trace_message_t record = { .kind = event->kind, .t = t, .from = event->from, .to = event->to,
                                    .stage = event->stage, .reader = event->reader, .message = event->message };
    const verl_filter_t *filter = &follower->filter;
    size_t before = follower->front.size;
    s_take_body(inside, follower, event, &record);
    if (event->made && (filter->stats || filter->values == VERL_VALUES_HEAD)) {
        s_write_about(inside, follower, event, &record.about_count);
        record.about = &inside->about;
    }
    return s_written(inside, follower, before, verl_trace_write_message(&follower->front, &record));
}

void
verl_tap_message(verl_tap_t *tap, const verl_tap_event_t *event)
{
    inside_t *inside = tap->inside;
    verl_filter_message_t message = { event->kind, event->from, event->to, event->stage, event->reader,
                                      event->message->batch };
    bool wake = false;
    int64_t t = event->t ? event->t : verl_now();
    pthread_mutex_lock(&inside->lock);
    for (follower_t *follower = inside->followers; follower; follower = follower->next)
        if (s_wants(follower, &message))
            wake |= s_copy(inside, follower, event, t);
    pthread_mutex_unlock(&inside->lock);
    if (wake)
        verl_tap_wake(inside);
}

void
verl_tap_ran(verl_tap_t *tap, const char *stage, int64_t revision, int64_t batch, int64_t part, int64_t parts,
             int64_t begin_ns, int64_t end_ns)
{
    inside_t *inside = tap->inside;
    verl_filter_message_t message = { VERL_TRACE_RAN, inside->label, NULL, stage, NULL, batch };
    bool wake = false;
    pthread_mutex_lock(&inside->lock);
    for (follower_t *follower = inside->followers; follower; follower = follower->next) {
        size_t before = follower->front.size;
        if (follower->filter.kinds >> VERL_TRACE_RAN & 1u && s_wants(follower, &message))
            wake |= s_written(inside, follower, before,
                              verl_trace_write_ran(&follower->front, end_ns, inside->label, stage, revision, batch, part,
                                                   parts, begin_ns, end_ns));
    }
    pthread_mutex_unlock(&inside->lock);
    if (wake)
        verl_tap_wake(inside);
}
