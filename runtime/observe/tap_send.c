// tap_send.c: the side of the threads that send. What takes long, looking at columns, is done without the lock of the
// tap, so that the mailbox thread never waits for it.
#include "runtime/base/clock.h"
#include "runtime/observe/tap_impl.h"

#define HEAD_BYTES 64                       // of a column that is not in the body

// --- under the lock -----------------------------------------------------------------------------------------------

static bool
s_has_credit(const follower_t *follower)
{
    return follower->used < follower->limit && follower->used_bytes < follower->limit_bytes;
}

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
    if (s_has_credit(follower))
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

// What the followers that will get a copy want to know of the columns of a batch.
typedef struct look {
    bool stats, head, whole;
} look_t;

static look_t
s_look(const inside_t *inside, const verl_tap_event_t *event, const verl_filter_message_t *message)
{
    look_t look = { false, false, false };
    for (const follower_t *follower = inside->followers; event->made && follower; follower = follower->next) {
        const verl_filter_t *filter = &follower->filter;
        if ((!filter->stats && filter->values == VERL_VALUES_NONE) || follower->ending || !s_has_credit(follower) ||
            follower->passed % filter->every || (filter->first && follower->counts.matched >= filter->first) ||
            !verl_filter_matches(filter, message))
            continue;
        look.stats |= filter->stats;
        look.head |= filter->values == VERL_VALUES_HEAD;
        look.whole |= filter->values == VERL_VALUES_WHOLE;
    }
    return look;
}

// What was found, in buffers of the tap; nothing for a message that nobody looks into.
typedef struct found {
    const verl_buffer_t *about, *whole;
    uint32_t             about_count;
} found_t;

// What of the body goes into a record.
static void
s_take_body(const follower_t *follower, const verl_tap_event_t *event, const found_t *found,
            verl_trace_message_t *record)
{
    bool batch = event->kind == VERL_TRACE_DATA || event->kind == VERL_TRACE_WEIGHTS;
    record->body = event->message->body;
    record->body_size = event->message->body_size;
    if (found->whole && follower->filter.values == VERL_VALUES_WHOLE) {
        record->body = found->whole->data;
        record->body_size = found->whole->size;
    } else if (batch && record->body_size > VERL_TRACE_BODY) {
        record->body_size = 0;
    } else if (!batch && record->body_size > VERL_TRACE_WORDS) {
        record->body_size = VERL_TRACE_WORDS;
    }
}

static bool
s_copy(inside_t *inside, follower_t *follower, const verl_tap_event_t *event, const found_t *found, int64_t t)
{
    verl_trace_message_t record = { .kind = event->kind, .t = t, .from = event->from, .to = event->to,
                                    .stage = event->stage, .reader = event->reader, .message = event->message };
    const verl_filter_t *filter = &follower->filter;
    size_t before = follower->front.size;
    s_take_body(follower, event, found, &record);
    if (filter->stats || filter->values == VERL_VALUES_HEAD) {
        record.about = found->about;
        record.about_count = found->about_count;
    }
    return s_written(inside, follower, before, verl_trace_write_message(&follower->front, &record));
}

// --- without it: one thread at a time -----------------------------------------------------------------------------

static void
s_look_at(inside_t *inside, const verl_tap_event_t *event, int index, const look_t *look, uint32_t *count)
{
    const verl_column_t *column = verl_batch_column(event->made, event->names[index]);
    const void *data;
    if (!column)
        return;
    size_t bytes = verl_summary_data(column, &data);
    size_t offsets = column->ragged ? ((size_t) column->rows + 1) * sizeof(int64_t) : 0;
    if (bytes + offsets <= VERL_BATCH_INLINE)
        return;                             // it is in the body
    verl_summary_t summary = { .elements = (int64_t) (bytes / verl_dtype_bytes(column->dtype)) };
    if (look->stats)
        verl_summary_of(column, &summary);
    size_t head = !look->head ? 0 : bytes < HEAD_BYTES ? bytes : HEAD_BYTES;
    if (verl_trace_write_about(&inside->about, (event->columns ? event->columns : event->names)[index], &summary, data,
                               head) == 0)
        ++*count;
}

static void
s_find(inside_t *inside, const verl_tap_event_t *event, const look_t *look, found_t *found)
{
    verl_buffer_clear(&inside->about);
    verl_buffer_clear(&inside->scratch);
    for (int i = 0; (look->stats || look->head) && i < event->columns_count; i++)
        s_look_at(inside, event, i, look, &found->about_count);
    if (!inside->about.failed)
        found->about = &inside->about;
    else
        found->about_count = 0;
    if (look->whole && verl_batch_pack_inline(event->made, event->names, event->columns, event->columns_count,
                                              event->map, &inside->scratch, NULL) == 0)
        found->whole = &inside->scratch;
}

// --- any thread ---------------------------------------------------------------------------------------------------

void
verl_tap_message(verl_tap_t *tap, const verl_tap_event_t *event)
{
    inside_t *inside = tap->inside;
    verl_filter_message_t message = { event->kind, event->from, event->to, event->stage, event->reader,
                                      event->message->batch };
    found_t found = { NULL, NULL, 0 };
    bool wake = false;
    int64_t t = event->t ? event->t : verl_now();
    pthread_mutex_lock(&inside->lock);
    look_t look = s_look(inside, event, &message);
    bool looks = look.stats || look.head || look.whole;
    if (looks) {
        pthread_mutex_unlock(&inside->lock);
        pthread_mutex_lock(&inside->looking);
        s_find(inside, event, &look, &found);
        pthread_mutex_lock(&inside->lock);
    }
    for (follower_t *follower = inside->followers; follower; follower = follower->next)
        if (s_wants(follower, &message))
            wake |= s_copy(inside, follower, event, &found, t);
    pthread_mutex_unlock(&inside->lock);
    if (looks)
        pthread_mutex_unlock(&inside->looking);
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
                              verl_trace_write_ran(&follower->front, end_ns, inside->label, stage, revision, batch,
                                                   part, parts, begin_ns, end_ns));
    }
    pthread_mutex_unlock(&inside->lock);
    if (wake)
        verl_tap_wake(inside);
}
