// trace.c: see trace.h.
#include "runtime/observe/trace.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "runtime/wire/pack.h"

enum { FIELDS_HEAD = 9, FIELDS_MESSAGE = 17, FIELDS_RAN = 11, FIELDS_ABOUT = 8 };

static const char *const s_words[] = {
#define X(id, word) word,
    VERL_TRACE_KIND_MAP(X)
#undef X
};

const char *
verl_trace_label(char *label, size_t size, const char *actor, int64_t replica, int64_t replicas, uint64_t incarnation)
{
    if (replicas > 1)
        snprintf(label, size, "%s.%" PRId64 "#%" PRIu64, actor, replica, incarnation);
    else
        snprintf(label, size, "%s#%" PRIu64, actor, incarnation);
    return label;
}

const char *
verl_trace_kind_word(verl_trace_kind_t kind)
{
    return (unsigned) kind < VERL_TRACE_KINDS ? s_words[kind] : "?";
}

int
verl_trace_kind_of(const char *word)
{
    for (int i = 0; i < VERL_TRACE_KINDS; i++)
        if (strcmp(word, s_words[i]) == 0)
            return i;
    return -1;
}

verl_trace_kind_t
verl_trace_kind_of_message(const verl_message_t *message, bool director)
{
    switch (message->type) {
    case VERL_MESSAGE_STATUS:
        return VERL_TRACE_STATUS;
    case VERL_MESSAGE_PING:
        return VERL_TRACE_PING;
    case VERL_MESSAGE_PONG:
        return VERL_TRACE_PONG;
    default:
        return director ? VERL_TRACE_ORDER : VERL_TRACE_REPORT;
    }
}

// --- writing ------------------------------------------------------------------------------------------------------

int
verl_trace_write_head(verl_buffer_t *frame, const verl_trace_head_t *head)
{
    verl_pack_array(frame, FIELDS_HEAD);
    verl_pack_int(frame, VERL_TRACE_FORMAT);
    verl_pack_cstr(frame, head->party);
    verl_pack_int(frame, head->trace);
    verl_pack_uint(frame, head->number);
    verl_pack_bool(frame, head->last);
    verl_pack_uint(frame, head->counts.seen);
    verl_pack_uint(frame, head->counts.matched);
    verl_pack_uint(frame, head->counts.sent);
    verl_pack_uint(frame, head->counts.dropped);
    return frame->failed ? -1 : 0;
}

int
verl_trace_write_message(verl_buffer_t *frame, const verl_trace_message_t *message)
{
    const verl_message_t *header = message->message;
    verl_pack_array(frame, FIELDS_MESSAGE);
    verl_pack_int(frame, 0);
    verl_pack_int(frame, message->t);
    verl_pack_int(frame, message->kind);
    verl_pack_cstr(frame, message->from);
    verl_pack_cstr(frame, message->to);
    verl_pack_cstr(frame, message->stage);
    verl_pack_cstr(frame, message->reader);
    verl_pack_int(frame, header->edge);
    verl_pack_uint(frame, header->seq);
    verl_pack_int(frame, header->revision);
    verl_pack_int(frame, header->batch);
    verl_pack_int(frame, header->part);
    verl_pack_int(frame, header->parts);
    verl_pack_int(frame, header->time);
    verl_pack_uint(frame, header->body_size);
    verl_pack_bin(frame, message->body, message->body_size);
    if (!message->about) {
        verl_pack_nil(frame);
    } else {
        verl_pack_array(frame, message->about_count);
        verl_buffer_append(frame, message->about->data, message->about->size);
    }
    return frame->failed ? -1 : 0;
}

int
verl_trace_write_ran(verl_buffer_t *frame, int64_t t, const char *party, const char *stage, int64_t revision,
                     int64_t batch, int64_t part, int64_t parts, int64_t begin, int64_t end)
{
    verl_pack_array(frame, FIELDS_RAN);
    verl_pack_int(frame, 1);
    verl_pack_int(frame, t);
    verl_pack_int(frame, VERL_TRACE_RAN);
    verl_pack_cstr(frame, party);
    verl_pack_cstr(frame, stage);
    const int64_t numbers[] = { revision, batch, part, parts, begin, end };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        verl_pack_int(frame, numbers[i]);
    return frame->failed ? -1 : 0;
}

int
verl_trace_write_about(verl_buffer_t *about, const char *column, const verl_summary_t *summary, const void *head,
                       size_t head_size)
{
    verl_pack_array(about, FIELDS_ABOUT);
    verl_pack_cstr(about, column);
    verl_pack_int(about, summary->elements);
    verl_pack_int(about, summary->numbers);
    verl_pack_int(about, summary->nans);
    verl_pack_real(about, summary->min);
    verl_pack_real(about, summary->max);
    verl_pack_real(about, summary->mean);
    verl_pack_bin(about, head, head_size);
    return about->failed ? -1 : 0;
}

// --- reading ------------------------------------------------------------------------------------------------------

static int
s_array(verl_reader_t *reader, uint32_t wanted, const char *what, verl_error_t *error)
{
    uint32_t count;
    if (verl_read_array(reader, &count) || count != wanted)
        return verl_error_set(error, "trace: %s is not an array of %u", what, wanted);
    return 0;
}

// A name that may be nil.
static int
s_name(verl_reader_t *reader, char ret[VERL_TRACE_NAME])
{
    ret[0] = 0;
    return verl_read_nil(reader) ? verl_read_cstr(reader, ret, VERL_TRACE_NAME) : 0;
}

int
verl_trace_read_head(verl_reader_t *frame, verl_trace_head_t *ret, verl_error_t *error)
{
    int64_t format;
    *ret = (verl_trace_head_t) { 0 };
    if (s_array(frame, FIELDS_HEAD, "the head", error))
        return -1;
    if (verl_read_int(frame, &format) || format != VERL_TRACE_FORMAT)
        return verl_error_set(error, "trace: its format is not %d, which this program reads", VERL_TRACE_FORMAT);
    if (verl_read_cstr(frame, ret->party, sizeof ret->party) || verl_read_int(frame, &ret->trace) ||
        verl_read_uint(frame, &ret->number) || verl_read_bool(frame, &ret->last) ||
        verl_read_uint(frame, &ret->counts.seen) || verl_read_uint(frame, &ret->counts.matched) ||
        verl_read_uint(frame, &ret->counts.sent) || verl_read_uint(frame, &ret->counts.dropped))
        return verl_error_set(error, "trace: the head does not say who, which trace, and four counts");
    const verl_trace_counts_t *counts = &ret->counts;
    if (counts->seen < counts->matched || counts->matched < counts->sent ||
        counts->matched - counts->sent != counts->dropped)
        return verl_error_set(error, "trace: the counts of %s do not add up", ret->party);
    return 0;
}

static int
s_read_ran(verl_reader_t *frame, verl_trace_record_t *ret)
{
    verl_message_t *message = &ret->message;
    return verl_read_cstr(frame, ret->from, sizeof ret->from) || s_name(frame, ret->stage) ||
           verl_read_int(frame, &message->revision) || verl_read_int(frame, &message->batch) ||
           verl_read_int(frame, &message->part) || verl_read_int(frame, &message->parts) ||
           verl_read_int(frame, &ret->begin) || verl_read_int(frame, &ret->end) || ret->begin > ret->end;
}

static int
s_read_message(verl_reader_t *frame, verl_trace_record_t *ret)
{
    verl_message_t *message = &ret->message;
    if (verl_read_cstr(frame, ret->from, sizeof ret->from) || verl_read_cstr(frame, ret->to, sizeof ret->to) ||
        s_name(frame, ret->stage) || s_name(frame, ret->reader) || verl_read_int(frame, &message->edge) ||
        verl_read_uint(frame, &message->seq) || verl_read_int(frame, &message->revision) ||
        verl_read_int(frame, &message->batch) || verl_read_int(frame, &message->part) ||
        verl_read_int(frame, &message->parts) || verl_read_int(frame, &message->time) ||
        verl_read_uint(frame, &ret->bytes) || verl_read_bin(frame, &message->body, &message->body_size))
        return -1;
    if (verl_read_nil(frame) == 0)
        return 0;
    if (verl_read_array(frame, &ret->about_count))
        return -1;
    ret->about = *frame;
    for (uint32_t i = 0; i < ret->about_count; i++)
        if (verl_read_skip(frame))
            return -1;
    ret->about.end = frame->at;
    return 0;
}

int
verl_trace_read_record(verl_reader_t *frame, verl_trace_record_t *ret, verl_error_t *error)
{
    int64_t what, kind;
    uint32_t count;
    ret->to[0] = ret->reader[0] = 0;
    ret->message = (verl_message_t) { 0 };
    ret->bytes = 0;
    ret->begin = ret->end = 0;
    ret->about = (verl_reader_t) { 0 };
    ret->about_count = 0;
    if (verl_read_array(frame, &count) || count < 3 || verl_read_int(frame, &what) || verl_read_int(frame, &ret->t) ||
        verl_read_int(frame, &kind))
        return verl_error_set(error, "trace: a record does not begin with its form, its time and its kind");
    if (kind < 0 || kind >= VERL_TRACE_KINDS || what != (kind == VERL_TRACE_RAN) ||
        count != (what ? FIELDS_RAN : FIELDS_MESSAGE))
        return verl_error_set(error, "trace: a record has a form or a kind that is none of ours");
    ret->kind = (verl_trace_kind_t) kind;
    if (what ? s_read_ran(frame, ret) : s_read_message(frame, ret))
        return verl_error_set(error, "trace: a record of kind %s is malformed", verl_trace_kind_word(ret->kind));
    return 0;
}

int
verl_trace_read_about(verl_reader_t *about, verl_trace_about_t *ret, verl_error_t *error)
{
    verl_summary_t *summary = &ret->summary;
    if (s_array(about, FIELDS_ABOUT, "what is said about a column", error))
        return -1;
    if (verl_read_cstr(about, ret->column, sizeof ret->column) || verl_read_int(about, &summary->elements) ||
        verl_read_int(about, &summary->numbers) || verl_read_int(about, &summary->nans) ||
        verl_read_real(about, &summary->min) || verl_read_real(about, &summary->max) ||
        verl_read_real(about, &summary->mean) || verl_read_bin(about, &ret->head, &ret->head_size) ||
        summary->elements < 0 || summary->numbers < 0 || summary->nans < 0 || summary->nans > summary->numbers)
        return verl_error_set(error, "trace: what is said about a column is malformed");
    return 0;
}
