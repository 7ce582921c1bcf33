// What is made of records: put in order, shown as a line or as JSON, and whatever bytes come, something is said of
// them.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/tensor/batch.h"
#include "tools/display_text.h"
#include "tools/spy_follow_batch.h"
#include "tools/spy_follow_merge.h"
#include "tools/spy_follow_names.h"
#include "tools/spy_follow_show.h"
#include "tools/spy_views.h"

// A frame of a party with `count` records at times from, from + step, …
static void
s_frame(verl_buffer_t *frame, const char *party, uint64_t before, int count, int64_t from, int64_t step)
{
    uint64_t sent = before + (uint64_t) count;
    verl_trace_head_t head = { .trace = 1, .number = 1, .counts = { sent + 5, sent + 2, sent, 2 } };
    snprintf(head.party, sizeof head.party, "%s", party);
    verl_buffer_clear(frame);
    verl_trace_write_head(frame, &head);
    for (int i = 0; i < count; i++)
        verl_trace_write_ran(frame, from + i * step, party, "s", 1, i, 0, 1, 0, 1);
}

static void
s_add(verl_spy_merge_t *merge, const char *party, uint64_t before, int count, int64_t from, int64_t step)
{
    verl_buffer_t frame = { 0 };
    s_frame(&frame, party, before, count, from, step);
    cr_assert_eq(verl_spy_merge_add(merge, party, strlen(party), frame.data, frame.size), 0);
    verl_buffer_done(&frame);
}

Test(spy_merge, records_of_all_come_in_the_order_of_their_times)
{
    verl_spy_merge_t *merge = verl_spy_merge_new(1000, 1 << 20);
    const verl_trace_record_t *record;
    int64_t last = 0;
    int count = 0;
    s_add(merge, "a#2", 0, 50, 1000, 10);
    s_add(merge, "b#3", 0, 50, 1003, 7);
    s_add(merge, "a#2", 50, 50, 1500, 10);
    cr_assert_null(verl_spy_merge_next(merge, 999));
    while ((record = verl_spy_merge_next(merge, 1600))) {
        cr_assert_geq(record->t, last);
        cr_assert_leq(record->t, 1600);
        last = record->t;
        count++;
        verl_spy_merge_pop(merge);
    }
    cr_assert_eq(count, 50 + 50 + 11);
    while (verl_spy_merge_next(merge, INT64_MAX)) {
        verl_spy_merge_pop(merge);
        count++;
    }
    cr_assert_eq(count, 150);
    verl_spy_totals_t totals;
    verl_spy_merge_totals(merge, &totals);
    cr_assert(totals.parties == 2 && totals.came == 150 && totals.counts.sent == 150 && totals.counts.dropped == 4);
    cr_assert(totals.unfinished == 2 && verl_spy_merge_finished(merge) == 0);
    verl_spy_merge_destroy(&merge);
}

Test(spy_merge, credit_is_given_back_when_records_were_taken)
{
    verl_spy_merge_t *merge = verl_spy_merge_new(40, 1 << 20);
    verl_spy_credit_t credit;
    s_add(merge, "a#2", 0, 20, 0, 1);
    cr_assert_not(verl_spy_merge_credit(merge, &credit), "they wait here still");
    for (int i = 0; i < 9; i++) {
        verl_spy_merge_next(merge, INT64_MAX);
        verl_spy_merge_pop(merge);
    }
    cr_assert_not(verl_spy_merge_credit(merge, &credit), "a quarter moves it");
    verl_spy_merge_next(merge, INT64_MAX);
    verl_spy_merge_pop(merge);
    cr_assert(verl_spy_merge_credit(merge, &credit));
    cr_assert_eq(credit.records, 50);
    cr_assert_gt(credit.bytes, 1u << 20);
    cr_assert_not(verl_spy_merge_credit(merge, &credit));
    verl_spy_merge_destroy(&merge);
}

Test(spy_merge, what_is_malformed_is_counted)
{
    verl_spy_merge_t *merge = verl_spy_merge_new(40, 1 << 20);
    verl_spy_totals_t totals;
    cr_assert_eq(verl_spy_merge_add(merge, "x", 1, "nonsense", 8), -1);
    verl_spy_merge_totals(merge, &totals);
    cr_assert_eq(totals.malformed, 1);
    verl_spy_merge_destroy(&merge);
}

// Whatever its length: the same unit as in the plan and in top.
Test(spy_show, sizes_have_units)
{
    static const struct { double bytes; const char *shown; } cases[] = {
        { 0, "0 B" }, { 1023, "1023 B" }, { 1024, "1.0 KiB" }, { 12345, "12.1 KiB" }, { 123456, "121 KiB" },
        { 5.0 * (1 << 30), "5.0 GiB" }, { 18446744073709551615.0, "16777216 TiB" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char shown[16];
        cr_assert_str_eq(verl_spy_size(cases[i].bytes, shown, sizeof shown), cases[i].shown);
    }
}

// Names of wide characters stand in columns of a terminal, not of characters; nothing of them steers it.
Test(spy_show, columns_are_as_wide_as_a_terminal_shows_them)
{
    static const char *const names[] = { "ab", "\xe6\x97\xa5\xe6\x9c\xac", "e\xcc\x81z", "\x1b" };
    char *said = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&said, &size);
    verl_spy_view_t view = { .out = out };
    verl_trace_record_t *record = calloc(1, sizeof *record);
    int column = -1;
    record->kind = VERL_TRACE_RAN;
    for (int turn = 0; turn < 2; turn++) {  // the first turn finds the widest
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            snprintf(record->from, sizeof record->from, "%s", names[i]);
            snprintf(record->stage, sizeof record->stage, "s");
            record->message.batch = 77;
            cr_assert_eq(verl_spy_show(&view, record), 0);
            fflush(out);
            char *line = said + size - 1;
            while (line > said && line[-1] != '\n')
                line--;
            char *number = strstr(line, "77 ");
            cr_assert(number, "%s", line);
            *number = 0;                    // what stands before it
            int width = verl_text_width(line);
            *number = '7';
            cr_assert_null(strchr(line, '\x1b'));
            if (turn == 1 && column < 0)
                column = width;
            cr_assert(turn == 0 || width == column, "%s: %d, not %d", names[i], width, column);
        }
    }
    fclose(out);
    free(said);
    free(record);
}

Test(spy_names, a_name_that_the_run_does_not_have_is_remarked)
{
    json_t *status = json_loads("{\"actors\": [{\"name\": \"policy\"}, {\"name\": \"reward\"}],"
                                " \"stages\": [{\"name\": \"generate\"}, {\"name\": \"score\"}]}", 0, NULL);
    static const struct { const char *actor, *stage, *maker, *reader; int unknown; const char *said; } cases[] = {
        { "reward", "score", "policy", "score", 0, "" },
        { "reward.3", NULL, NULL, NULL, 0, "" },
        { "reward#12", NULL, "director", "", 0, "" },
        { "rewrad", NULL, NULL, NULL, 1, "x: the run has no actor 'rewrad'; did you mean 'reward'?\n" },
        { NULL, "reward", NULL, NULL, 1, "x: the run has no stage 'reward'\n" },
        { NULL, NULL, "generat", "nothing-like-it", 2,
          "x: the run has no actor or stage 'generat'; did you mean 'generate'?\n"
          "x: the run has no actor or stage 'nothing-like-it'\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        verl_filter_t filter;
        const char *const names[] = { cases[i].actor, cases[i].stage, cases[i].maker, cases[i].reader };
        verl_filter_init(&filter);
        verl_filter_names_t *const lists[] = { &filter.actors, &filter.stages, &filter.makers, &filter.readers };
        for (int j = 0; j < 4; j++)
            if (names[j])
                snprintf(lists[j]->items[lists[j]->count++], VERL_FILTER_BYTES, "%s", names[j]);
        char said[500] = "";
        FILE *out = fmemopen(said, sizeof said, "w");
        cr_assert_eq(verl_spy_filter_unknown(status, &filter, "x", out), cases[i].unknown);
        fclose(out);
        cr_assert_str_eq(said, cases[i].said);
    }
    json_decref(status);
}

// --- whatever bytes come ------------------------------------------------------------------------------------------

static uint64_t s_state = 88172645463325252u;

static uint64_t
s_random(void)
{
    s_state ^= s_state << 13;
    s_state ^= s_state >> 7;
    return s_state ^= s_state << 17;
}

static void
s_make(verl_buffer_t *frame)
{
    static const char *const names[] = { "prompt", "ids", "score" }, *const texts[] = { "one", "", "three\n" };
    const size_t bytes[] = { 3, 0, 6 };
    const int64_t lengths[] = { 2, 0, 3 };
    verl_buffer_t body = { 0 };
    verl_batch_t *made = verl_batch_new_made(4, -1, 0, verl_heap_memory());
    verl_batch_set_rows(made, 3);
    verl_batch_add_texts(made, "prompt", texts, bytes);
    int32_t *ids = verl_batch_add_ragged(made, "ids", VERL_I32, 1, lengths);
    float *score = verl_batch_add_f32(made, "score");
    for (int i = 0; i < 5; i++)
        ids[i] = i;
    for (int i = 0; i < 3; i++)
        score[i] = (float) i;
    cr_assert_eq(verl_batch_pack(made, names, NULL, 3, false, &body, NULL), 0);
    verl_message_t header = { .seq = 1, .batch = 4, .parts = 1, .body = body.data, .body_size = body.size };
    verl_trace_message_t message = { .kind = VERL_TRACE_DATA, .t = 5, .from = "a#2", .to = "b#3", .stage = "s",
                                     .reader = "r", .message = &header, .body = body.data, .body_size = body.size };
    verl_trace_write_message(frame, &message);
    message.kind = VERL_TRACE_REPORT;
    message.body = "\x93\xa4" "done" "\x03\x81\xa1k\xc4\x02xy";
    message.body_size = 13;
    verl_trace_write_message(frame, &message);
    verl_batch_destroy(&made);
    verl_buffer_done(&body);
}

Test(spy_show, says_something_of_whatever_comes)
{
    verl_buffer_t frame = { 0 };
    verl_trace_record_t *record = malloc(sizeof *record);
    FILE *nowhere = fopen("/dev/null", "w");
    verl_spy_view_t view = { .out = nowhere, .values = true };
    int shown = 0;
    s_make(&frame);
    char *bytes = malloc(frame.size);
    for (int turn = 0; turn < 20000; turn++) {
        verl_reader_t reader;
        memcpy(bytes, frame.data, frame.size);
        for (uint64_t i = s_random() % 4; i > 0; i--)
            bytes[s_random() % frame.size] = (char) s_random();
        verl_reader_init(&reader, bytes, frame.size);
        while (verl_reader_left(&reader) && verl_trace_read_record(&reader, record, NULL) == 0) {
            view.json = turn % 2;
            cr_assert_eq(verl_spy_show(&view, record), 0);
            shown++;
        }
    }
    cr_assert_gt(shown, 10000);
    fclose(nowhere);
    free(bytes);
    free(record);
    verl_buffer_done(&frame);
}

Test(spy_show, the_end_of_a_batch_is_said_in_words)
{
    static const char body[] = "\x99\xa4" "done" "\x03\x04\xc2\xce\x00\x0f\x42\x40\x00\x00\x90\x92"
                               "\x93\xa6" "a/mean" "\x06\x04" "\x93\xa5" "a/max" "\x06\x04";
    verl_buffer_t frame = { 0 };
    verl_reader_t reader;
    verl_trace_record_t *record = malloc(sizeof *record);
    verl_message_t header = { .seq = 1, .parts = 1, .body = body, .body_size = sizeof body - 1 };
    verl_trace_message_t message = { .kind = VERL_TRACE_REPORT, .t = 5, .from = "a#2", .to = "director#1", .stage = "",
                                     .reader = "", .message = &header, .body = body, .body_size = sizeof body - 1 };
    char said[500] = "";
    verl_spy_view_t view = { .out = fmemopen(said, sizeof said, "w") };
    verl_trace_write_message(&frame, &message);
    verl_reader_init(&reader, frame.data, frame.size);
    cr_assert_eq(verl_trace_read_record(&reader, record, NULL), 0);
    cr_assert_eq(verl_spy_show(&view, record), 0);
    fclose(view.out);
    cr_assert(strstr(said, "  stage 3 is done with batch 4, busy 1.0 ms: a/mean 1.5, a/max 6\n"), "%s", said);
    free(record);
    verl_buffer_done(&frame);
}

Test(spy_show, a_column_whose_bytes_are_not_of_its_shape_is_refused)
{
    verl_buffer_t frame = { 0 };
    verl_reader_t reader;
    verl_spy_batch_t batch;
    verl_trace_record_t *record = malloc(sizeof *record);
    verl_error_t error = { "" };
    s_make(&frame);
    verl_reader_init(&reader, frame.data, frame.size);
    cr_assert_eq(verl_trace_read_record(&reader, record, NULL), 0);
    cr_assert_eq(verl_spy_batch_read(record, &batch, &error), 0, "%s", error.text);
    cr_assert(batch.count == 3 && batch.rows == 3 && !batch.shared);
    cr_assert(batch.items[1].summary.elements == 5 && batch.items[1].summary.max == 4);
    cr_assert(batch.items[2].summary.mean == 1);
    verl_spy_batch_done(&batch);
    record->message.body_size--;
    cr_assert_eq(verl_spy_batch_read(record, &batch, &error), -1);
    cr_assert(strstr(error.text, "packed batch"));
    free(record);
    verl_buffer_done(&frame);
}
