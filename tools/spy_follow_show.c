// spy_follow_show.c: see spy_follow_show.h.
#include "tools/spy_follow_show.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/tensor/batch.h"
#include "tools/spy_follow_batch.h"
#include "tools/spy_follow_words.h"

enum { LINE = 4096, TEXT = 48, HEAD_ITEMS = 4, WIDEST = 48 };

typedef struct line {
    char   text[LINE];
    size_t length;
} line_t;

static void __attribute__((format(printf, 2, 3)))
s_put(line_t *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof line->text - line->length;
    int length = vsnprintf(line->text + line->length, room, format, arguments);
    va_end(arguments);
    if (length > 0)
        line->length += (size_t) length < room ? (size_t) length : room - 1;
}

// Characters of UTF-8 text.
static int
s_characters(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += ((unsigned char) *text & 0xc0) != 0x80;
    return count;
}

// "a → b" in a column that grows with what it has to hold.
static void
s_put_pair(line_t *line, const char *from, const char *to, int *width)
{
    char pair[2 * VERL_TRACE_NAME], shown[2 * VERL_TRACE_NAME];
    if (*from || *to)
        snprintf(pair, sizeof pair, *to ? "%.300s → %.300s" : "%.300s", from, to);
    else
        pair[0] = 0;
    verl_spy_words_text(pair, strlen(pair), shown, sizeof shown);
    int characters = s_characters(shown);
    if (characters > *width)
        *width = characters < WIDEST ? characters : WIDEST;
    s_put(line, "%s%*s  ", shown, *width > characters ? *width - characters : 0, "");
}

// --- what is in it ------------------------------------------------------------------------------------------------

static void
s_put_text(line_t *line, const verl_spy_column_t *item)
{
    char shown[TEXT * 4 + 8];
    size_t size = item->head_size;
    const char *text = item->head;
    if (item->offsets && item->rows)
        text = verl_column_text(&item->column, 0, &size);
    verl_spy_words_text(text, size, shown, TEXT);
    s_put(line, " \"%s\"", shown);
}

static void
s_put_numbers(line_t *line, const verl_spy_column_t *item)
{
    const verl_summary_t *summary = &item->summary;
    if (summary->numbers == summary->nans)
        s_put(line, summary->nans ? "" : " empty");
    else if (summary->min == summary->max)
        s_put(line, " all %.4g", summary->min);
    else
        s_put(line, " %.4g…%.4g mean %.4g", summary->min, summary->max, summary->mean);
    if (summary->nans)
        s_put(line, " NaN %" PRId64, summary->nans);
}

static void
s_put_head(line_t *line, const verl_spy_column_t *item)
{
    int64_t count = (int64_t) (item->head_size / verl_dtype_bytes(item->dtype));
    s_put(line, " [");
    for (int64_t i = 0; i < count && i < HEAD_ITEMS; i++)
        s_put(line, "%s%.6g", i ? " " : "", verl_summary_element(item->dtype, item->head, i));
    s_put(line, count > HEAD_ITEMS || item->arena ? " …]" : "]");
}

static void
s_put_column(line_t *line, const verl_spy_column_t *item, bool values)
{
    char name[64];
    verl_spy_words_text(item->name, strlen(item->name), name, sizeof name);
    s_put(line, "%s %s[%" PRId64, name, verl_dtype_name(item->dtype), item->rows);
    if (item->ragged && item->dtype != VERL_TEXT)
        s_put(line, ",*");
    if (item->width != 1)
        s_put(line, ",%" PRId64, item->width);
    s_put(line, "]%s", item->arena ? "@arena" : "");
    if (item->dtype == VERL_TEXT) {
        if (item->head && item->rows)
            s_put_text(line, item);
        return;
    }
    if (item->summed)
        s_put_numbers(line, item);
    if (values && item->head)
        s_put_head(line, item);
}

// Returns the bytes of the message and of what it names.
static uint64_t
s_put_batch(line_t *line, const verl_trace_record_t *record, bool values)
{
    verl_spy_batch_t batch;
    verl_error_t error = { "" };
    if (!record->bytes) {
        s_put(line, "skipped");
        return 0;
    }
    if (!record->message.body_size || verl_spy_batch_read(record, &batch, &error)) {
        s_put(line, "%s", record->message.body_size ? error.text : "the body was too long to be copied");
        return record->bytes;
    }
    for (int i = 0; i < batch.count; i++) {
        s_put(line, i ? ", " : "");
        s_put_column(line, &batch.items[i], values);
    }
    if (batch.columns > batch.count)
        s_put(line, ", and %d columns more", batch.columns - batch.count);
    if (!batch.columns)
        s_put(line, "%" PRId64 " rows, no columns", batch.rows);
    uint64_t bytes = batch.bytes;
    verl_spy_batch_done(&batch);
    return bytes;
}

static void
s_put_words(line_t *line, const verl_trace_record_t *record)
{
    verl_reader_t reader;
    verl_reader_init(&reader, record->message.body, record->message.body_size);
    json_t *words = verl_spy_words_json(&reader);
    size_t index;
    json_t *item;
    if (!record->message.body_size || !words) {
        json_decref(words);
        return;
    }
    json_array_foreach(words, index, item) {
        char *text =
            json_is_string(item) ? NULL : json_dumps(item, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        const char *said = text ? text : json_is_string(item) ? json_string_value(item) : "";
        char shown[200];
        verl_spy_words_text(said, strlen(said), shown, sizeof shown);
        s_put(line, "%s%s", index ? " " : "", shown);
        free(text);
    }
    json_decref(words);
}

static uint64_t
s_put_what(line_t *line, const verl_trace_record_t *record, bool values)
{
    const verl_message_t *message = &record->message;
    switch (record->kind) {
    case VERL_TRACE_DATA:
    case VERL_TRACE_WEIGHTS: return s_put_batch(line, record, values);
    case VERL_TRACE_STATUS:
        s_put(line, "received %" PRIu64 ", limit %" PRId64 ", done %" PRId64, message->seq, message->revision,
              message->batch);
        break;
    case VERL_TRACE_RAN: s_put(line, "ran %.3f ms", (double) (record->end - record->begin) / 1e6); break;
    default: s_put_words(line, record);
    }
    return record->bytes;
}

// --- the line -----------------------------------------------------------------------------------------------------

static void
s_format(verl_spy_view_t *view, const verl_trace_record_t *record, line_t *line)
{
    const verl_message_t *message = &record->message;
    bool batch =
        record->kind == VERL_TRACE_DATA || record->kind == VERL_TRACE_WEIGHTS || record->kind == VERL_TRACE_RAN;
    line_t what = { .length = 0 };
    char number[64] = "", bytes[16];
    uint64_t size = s_put_what(&what, record, view->values);
    what.text[what.length] = 0;
    verl_spy_words_bytes(size, bytes);
    s_put(line, "%11.6f  %-7s ", (double) (record->t - view->begin) / 1e9, verl_trace_kind_word(record->kind));
    s_put_pair(line, record->from, record->to, &view->who);
    s_put_pair(line, record->stage, record->reader, &view->way);
    if (batch && message->parts > 1)
        snprintf(number, sizeof number, "%" PRId64 " (%" PRId64 "/%" PRId64 ")", message->batch, message->part + 1,
                 message->parts);
    else if (batch)
        snprintf(number, sizeof number, "%" PRId64, message->batch);
    s_put(line, "%6s %8s  %s", number, record->kind == VERL_TRACE_RAN ? "" : bytes, what.text);
}

int
verl_spy_show(verl_spy_view_t *view, const verl_trace_record_t *record)
{
    if (!view->begin)
        view->begin = record->t;
    if (view->json) {
        json_t *json = verl_spy_show_json(record, view->offset, view->values);
        int failed = !json || json_dumpf(json, view->out, JSON_COMPACT);
        json_decref(json);
        return failed || fputc('\n', view->out) == EOF ? -1 : 0;
    }
    line_t line = { .length = 0 };
    line.text[0] = 0;
    s_format(view, record, &line);
    return fprintf(view->out, "%s\n", line.text) < 0 ? -1 : 0;
}
