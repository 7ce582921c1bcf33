// spy_follow_show.c: see spy_follow_show.h.
#include "tools/spy_follow_show.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/actor/stage.h"
#include "runtime/tensor/batch.h"
#include "tools/display_text.h"
#include "tools/spy_follow_batch.h"
#include "tools/spy_follow_words.h"
#include "tools/spy_views.h"

enum { NAME = 64, TEXT = 48, HEAD_ITEMS = 4, METRICS = 4, WORDS = 200, WIDEST = 48 };        // columns; numbers

// "a → b" in a column that grows with what it has to hold.
static void
s_put_pair(verl_buffer_t *line, const char *from, const char *to, int *width)
{
    int written = verl_text_shown(line, from, 2 * WIDEST, true);
    if (*to) {
        verl_display_text_add(line, " → ");
        written += 3 + verl_text_shown(line, to, 2 * WIDEST, true);
    }
    if (written > *width)
        *width = written < WIDEST ? written : WIDEST;
    verl_text_format(line, "%*s  ", *width > written ? *width - written : 0, "");
}

// --- what is in it ------------------------------------------------------------------------------------------------

static void
s_put_text(verl_buffer_t *line, const verl_spy_column_t *item)
{
    size_t size = item->head_size;
    const char *text = item->head;
    if (item->offsets && item->rows)
        text = verl_column_text(&item->column, 0, &size);
    verl_display_text_add(line, " \"");
    verl_text_shown_bytes(line, text, size, TEXT, true);
    verl_display_text_add(line, "\"");
}

static void
s_put_numbers(verl_buffer_t *line, const verl_spy_column_t *item)
{
    const verl_summary_t *summary = &item->summary;
    if (summary->numbers == summary->nans)
        verl_display_text_add(line, summary->nans ? "" : " empty");
    else if (summary->min == summary->max)
        verl_text_format(line, " all %.4g", summary->min);
    else
        verl_text_format(line, " %.4g…%.4g mean %.4g", summary->min, summary->max, summary->mean);
    if (summary->nans)
        verl_text_format(line, " NaN %" PRId64, summary->nans);
}

static void
s_put_head(verl_buffer_t *line, const verl_spy_column_t *item)
{
    int64_t count = (int64_t) (item->head_size / verl_dtype_bytes(item->dtype));
    verl_text_format(line, " [");
    for (int64_t i = 0; i < count && i < HEAD_ITEMS; i++)
        verl_text_format(line, "%s%.6g", i ? " " : "", verl_summary_element(item->dtype, item->head, i));
    verl_display_text_add(line, count > HEAD_ITEMS || item->arena ? " …]" : "]");
}

static void
s_put_column(verl_buffer_t *line, const verl_spy_column_t *item, bool values)
{
    verl_text_shown(line, item->name, NAME, true);
    verl_text_format(line, " %s[%" PRId64, verl_dtype_name(item->dtype), item->rows);
    if (item->ragged && item->dtype != VERL_TEXT)
        verl_text_format(line, ",*");
    if (item->width != 1)
        verl_text_format(line, ",%" PRId64, item->width);
    verl_text_format(line, "]%s", item->arena ? "@arena" : "");
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
s_put_batch(verl_buffer_t *line, const verl_trace_record_t *record, bool values)
{
    verl_spy_batch_t batch;
    verl_error_t error = { "" };
    if (!record->bytes) {
        verl_text_format(line, "skipped");
        return 0;
    }
    if (!record->message.body_size || verl_spy_batch_read(record, &batch, &error)) {
        verl_text_format(line, "%s", record->message.body_size ? error.text : "the body was too long to be copied");
        return record->bytes;
    }
    for (int i = 0; i < batch.count; i++) {
        verl_display_text_add(line, i ? ", " : "");
        s_put_column(line, &batch.items[i], values);
    }
    if (batch.columns > batch.count)
        verl_text_format(line, ", and %d columns more", batch.columns - batch.count);
    if (!batch.columns)
        verl_text_format(line, "%" PRId64 " rows, no columns", batch.rows);
    uint64_t bytes = batch.bytes;
    verl_spy_batch_done(&batch);
    return bytes;
}

// "critic/score/mean 0.5, …" of [[metric, value, weight], …], where a mean is said as its sum and its weight.
static void
s_put_metrics(verl_buffer_t *line, const json_t *metrics)
{
    const json_t *metric;
    size_t index;
    json_array_foreach(metrics, index, metric) {
        const char *name = json_string_value(json_array_get(metric, 0));
        double value = json_number_value(json_array_get(metric, 1)), weight = json_number_value(json_array_get(metric, 2));
        if (index == METRICS || !name)
            break;
        verl_display_text_add(line, index ? ", " : ": ");
        verl_text_shown(line, name, NAME, true);
        verl_text_format(line, " %.4g", verl_reduce_of(name) == VERL_REDUCE_MEAN ? value / weight : value);
    }
    if (json_array_size(metrics) > index)
        verl_display_text_add(line, ", …");
}

// What a stage reports when it is done with a batch: ["done", stage, batch, skipped, busy_ns, …, [metrics]].
static bool
s_put_done(verl_buffer_t *line, const json_t *words)
{
    const char *word = json_string_value(json_array_get(words, 0));
    const json_t *stage = json_array_get(words, 1), *batch = json_array_get(words, 2), *busy = json_array_get(words, 4);
    char took[40];
    if (!word || strcmp(word, "done") != 0 || !json_is_integer(stage) || !json_is_integer(batch) ||
        !json_is_integer(busy) || !json_is_array(json_array_get(words, 8)))
        return false;
    verl_text_format(line, "stage %lld %s batch %lld, busy %s", (long long) json_integer_value(stage),
                     json_is_true(json_array_get(words, 3)) ? "skips" : "is done with",
                     (long long) json_integer_value(batch),
                     verl_spy_seconds((double) json_integer_value(busy) / 1e9, took, sizeof took));
    s_put_metrics(line, json_array_get(words, 8));
    return true;
}

static void
s_put_words(verl_buffer_t *line, const verl_trace_record_t *record)
{
    verl_reader_t reader;
    verl_reader_init(&reader, record->message.body, record->message.body_size);
    json_t *words = verl_spy_words_json(&reader);
    size_t index;
    json_t *item;
    if (!record->message.body_size || !words || s_put_done(line, words)) {
        json_decref(words);
        return;
    }
    json_array_foreach(words, index, item) {
        char *text =
            json_is_string(item) ? NULL : json_dumps(item, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        const char *said = text ? text : json_is_string(item) ? json_string_value(item) : "";
        verl_display_text_add(line, index ? " " : "");
        verl_text_shown(line, said, WORDS, true);
        free(text);
    }
    json_decref(words);
}

static uint64_t
s_put_what(verl_buffer_t *line, const verl_trace_record_t *record, bool values)
{
    const verl_message_t *message = &record->message;
    switch (record->kind) {
    case VERL_TRACE_DATA:
    case VERL_TRACE_WEIGHTS: return s_put_batch(line, record, values);
    case VERL_TRACE_STATUS:
        verl_text_format(line, "received %" PRIu64 ", limit %" PRId64 ", done %" PRId64, message->seq,
                         message->revision, message->batch);
        break;
    case VERL_TRACE_RAN: verl_text_format(line, "ran %.3f ms", (double) (record->end - record->begin) / 1e6); break;
    default: s_put_words(line, record);
    }
    return record->bytes;
}

// --- the line -----------------------------------------------------------------------------------------------------

static void
s_format(verl_spy_view_t *view, const verl_trace_record_t *record, verl_buffer_t *line)
{
    const verl_message_t *message = &record->message;
    bool batch =
        record->kind == VERL_TRACE_DATA || record->kind == VERL_TRACE_WEIGHTS || record->kind == VERL_TRACE_RAN;
    verl_buffer_t what = { 0 };
    char number[64] = "", size[16] = "";
    uint64_t bytes = s_put_what(&what, record, view->values);
    if (record->kind != VERL_TRACE_RAN)
        verl_spy_size((double) bytes, size, sizeof size);
    verl_text_format(line, "%11.6f  %-7s ", (double) (record->t - view->begin) / 1e9,
                     verl_trace_kind_word(record->kind));
    s_put_pair(line, record->from, record->to, &view->who);
    s_put_pair(line, record->stage, record->reader, &view->way);
    if (batch && message->parts > 1)
        snprintf(number, sizeof number, "%" PRId64 " (%" PRId64 "/%" PRId64 ")", message->batch, message->part + 1,
                 message->parts);
    else if (batch)
        snprintf(number, sizeof number, "%" PRId64, message->batch);
    verl_text_format(line, "%6s %8s  ", number, size);
    verl_buffer_append(line, what.data, what.size);
    verl_display_text_add(line, "\n");
    line->failed |= what.failed;
    verl_buffer_done(&what);
}

int
verl_spy_show(verl_spy_view_t *view, const verl_trace_record_t *record)
{
    verl_buffer_t line = { 0 };
    if (!view->begin)
        view->begin = record->t;
    if (view->json) {
        json_t *json = verl_spy_show_json(record, view->offset, view->values);
        int failed = !json || json_dumpf(json, view->out, JSON_COMPACT);
        json_decref(json);
        return failed || fputc('\n', view->out) == EOF ? -1 : 0;
    }
    s_format(view, record, &line);
    bool failed = line.failed || fwrite(line.data, 1, line.size, view->out) != line.size;
    verl_buffer_done(&line);
    return failed ? -1 : 0;
}
