// spy_follow_json.c: a record as JSON; see spy_follow_show.h.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/json.h"
#include "tools/spy_follow_batch.h"
#include "tools/spy_follow_show.h"
#include "tools/spy_follow_words.h"

enum { HEAD_ITEMS = 8, HEAD_TEXT = 256 };

static json_t *
s_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *
s_head(const verl_spy_column_t *item)
{
    json_t *head = json_array();
    if (item->dtype == VERL_TEXT && !item->offsets) {
        size_t size = item->head_size < HEAD_TEXT ? item->head_size : HEAD_TEXT;
        json_array_append_new(head, verl_json_bytes(item->head, size));
    } else if (item->dtype == VERL_TEXT) {
        for (int64_t row = 0; row < item->rows && row < HEAD_ITEMS; row++) {
            size_t size;
            const char *text = verl_column_text(&item->column, row, &size);
            json_array_append_new(head, verl_json_bytes(text, size < HEAD_TEXT ? size : HEAD_TEXT));
        }
    } else {
        int64_t count = (int64_t) (item->head_size / verl_dtype_bytes(item->dtype));
        for (int64_t i = 0; i < count && i < HEAD_ITEMS; i++) {
            int64_t exact;                  // a double does not hold every i64
            double value = verl_summary_element(item->dtype, item->head, i);
            bool whole = item->dtype == VERL_I32 || item->dtype == VERL_U8;
            if (item->dtype == VERL_I64)
                memcpy(&exact, item->head + (size_t) i * sizeof exact, sizeof exact);
            json_array_append_new(head, item->dtype == VERL_I64 ? json_integer(exact)
                                        : whole                 ? json_integer((json_int_t) value)
                                                                : s_number(value));
        }
    }
    return head;
}

static json_t *
s_column(const verl_spy_column_t *item, bool values)
{
    json_t *shape = json_array();
    json_array_append_new(shape, json_integer(item->rows));
    if (item->ragged)
        json_array_append_new(shape, json_null());
    if (item->width != 1)
        json_array_append_new(shape, json_integer(item->width));
    json_t *column = json_pack("{s:s, s:o, s:s, s:I}", "dtype", verl_dtype_name(item->dtype), "shape", shape, "route",
                               item->arena ? "arena" : "inline", "bytes", (json_int_t) item->bytes);
    if (item->summed) {
        bool any = item->summary.numbers > item->summary.nans;
        json_object_set_new(column, "elements", json_integer(item->summary.elements));
        json_object_set_new(column, "min", any ? s_number(item->summary.min) : json_null());
        json_object_set_new(column, "max", any ? s_number(item->summary.max) : json_null());
        json_object_set_new(column, "mean", any ? s_number(item->summary.mean) : json_null());
        json_object_set_new(column, "nan", json_integer(item->summary.nans));
    }
    if (values && item->head)
        json_object_set_new(column, "head", s_head(item));
    return column;
}

static void
s_add_batch(json_t *line, const verl_trace_record_t *record, bool values)
{
    verl_spy_batch_t batch;
    verl_error_t error = { "" };
    uint64_t bytes = record->bytes;
    if (!record->bytes) {
        json_object_set_new(line, "skipped", json_true());
    } else if (!record->message.body_size) {
        json_object_set_new(line, "unseen", json_string("the body was too long to be copied"));
    } else if (verl_spy_batch_read(record, &batch, &error)) {
        json_object_set_new(line, "malformed", json_string(error.text));
    } else {
        json_t *columns = json_object();
        for (int i = 0; i < batch.count; i++) {
            json_t *key = verl_json_text(batch.items[i].name);
            json_object_set_new(columns, json_string_value(key), s_column(&batch.items[i], values));
            json_decref(key);
        }
        bytes = batch.bytes;
        json_object_set_new(line, "rows", json_integer(batch.rows));
        json_object_set_new(line, "first_row", json_integer(batch.first));
        json_object_set_new(line, "columns", columns);
        verl_spy_batch_done(&batch);
    }
    json_object_set_new(line, "bytes", json_integer((json_int_t) bytes));
}

static void
s_add_words(json_t *line, const verl_trace_record_t *record)
{
    verl_reader_t reader;
    verl_reader_init(&reader, record->message.body, record->message.body_size);
    if (record->message.body_size)
        json_object_set_new(line, "words", verl_spy_words_json(&reader));
}

static void
s_add_name(json_t *line, const char *key, const char *name)
{
    if (*name)
        json_object_set_new(line, key, verl_json_text(name));
    else
        json_object_set_new(line, key, json_null());
}

// A number, or null where a record of this kind has none.
static void
s_add_number(json_t *line, const char *key, bool has, int64_t number)
{
    json_object_set_new(line, key, has ? json_integer((json_int_t) number) : json_null());
}

// What every line has, whatever its kind.
static json_t *
s_head_of(const verl_trace_record_t *record, int64_t offset)
{
    const verl_message_t *message = &record->message;
    bool sent = record->kind != VERL_TRACE_RAN, status = record->kind == VERL_TRACE_STATUS;
    json_t *line = json_pack("{s:I, s:s}", "t", (json_int_t) (record->t + offset), "kind",
                             verl_trace_kind_word(record->kind));
    s_add_name(line, "from", record->from);
    s_add_name(line, "to", sent ? record->to : "");
    s_add_name(line, "stage", record->stage);
    s_add_name(line, "reader", sent ? record->reader : "");
    s_add_number(line, "edge", sent, message->edge);
    s_add_number(line, "seq", sent, (int64_t) message->seq);
    s_add_number(line, "revision", !status, message->revision);
    s_add_number(line, "batch", !status, message->batch);
    s_add_number(line, "part", !status, message->part);
    s_add_number(line, "parts", !status, message->parts);
    s_add_number(line, "bytes", sent, (int64_t) record->bytes);
    return line;
}

json_t *
verl_spy_show_json(const verl_trace_record_t *record, int64_t offset, bool values)
{
    const verl_message_t *message = &record->message;
    json_t *line = s_head_of(record, offset);
    switch (record->kind) {
    case VERL_TRACE_STATUS:                 // its header's fields stand for these
        s_add_number(line, "received", true, (int64_t) message->seq);
        s_add_number(line, "limit", true, message->revision);
        s_add_number(line, "done", true, message->batch);
        break;
    case VERL_TRACE_RAN:
        s_add_number(line, "begin", true, record->begin + offset);
        s_add_number(line, "end", true, record->end + offset);
        break;
    case VERL_TRACE_DATA:
    case VERL_TRACE_WEIGHTS: s_add_batch(line, record, values); break;
    default: s_add_words(line, record);
    }
    return line;
}
