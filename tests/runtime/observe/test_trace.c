// The form of a trace: what is written is read; what is cut or damaged is refused.
#include <criterion/criterion.h>
#include <string.h>
#include "runtime/observe/trace.h"

static void
s_write(verl_buffer_t *frame)
{
    verl_trace_head_t head = { .party = "maker#2", .trace = 4, .number = 9, .last = true,
                               .counts = { 100, 40, 30, 10 } };
    verl_message_t header = { .edge = 5 << 20 | 3, .seq = 77, .revision = 5, .batch = 12, .part = 1, .parts = 4,
                              .time = 123456789, .body_size = 5000 };
    verl_buffer_t about = { 0 };
    verl_summary_t summary = { 10, 9, 1, -2, 7.5, 3 };
    verl_trace_write_about(&about, "score", &summary, "abc", 3);
    verl_trace_message_t message = { .kind = VERL_TRACE_WEIGHTS,
                                     .t = 987654321,
                                     .from = "maker#2",
                                     .to = "reader#3",
                                     .stage = "make",
                                     .reader = NULL,
                                     .message = &header,
                                     .body = "body",
                                     .body_size = 4,
                                     .about = &about,
                                     .about_count = 1 };
    cr_assert_eq(verl_trace_write_head(frame, &head), 0);
    cr_assert_eq(verl_trace_write_message(frame, &message), 0);
    cr_assert_eq(verl_trace_write_ran(frame, 50, "maker#2", "make", 5, 12, 0, 1, 40, 50), 0);
    verl_buffer_done(&about);
}

Test(trace, what_is_written_is_read)
{
    verl_buffer_t frame = { 0 };
    verl_reader_t reader;
    verl_trace_head_t head;
    verl_trace_record_t record;
    verl_trace_about_t about;
    s_write(&frame);
    verl_reader_init(&reader, frame.data, frame.size);
    cr_assert_eq(verl_trace_read_head(&reader, &head, NULL), 0);
    cr_assert_str_eq(head.party, "maker#2");
    cr_assert(head.trace == 4 && head.number == 9 && head.last);
    cr_assert(head.counts.seen == 100 && head.counts.matched == 40 && head.counts.sent == 30 &&
              head.counts.dropped == 10);
    cr_assert_eq(verl_trace_read_record(&reader, &record, NULL), 0);
    cr_assert(record.kind == VERL_TRACE_WEIGHTS && record.t == 987654321 && record.bytes == 5000);
    cr_assert_str_eq(record.to, "reader#3");
    cr_assert_str_eq(record.stage, "make");
    cr_assert_str_eq(record.reader, "");
    const verl_message_t *message = &record.message;
    cr_assert(message->edge == (5 << 20 | 3) && message->seq == 77 && message->revision == 5 && message->batch == 12);
    cr_assert(message->part == 1 && message->parts == 4 && message->time == 123456789);
    cr_assert(message->body_size == 4 && memcmp(message->body, "body", 4) == 0);
    cr_assert_eq(record.about_count, 1);
    cr_assert_eq(verl_trace_read_about(&record.about, &about, NULL), 0);
    cr_assert_str_eq(about.column, "score");
    cr_assert(about.summary.elements == 10 && about.summary.numbers == 9 && about.summary.nans == 1);
    cr_assert(about.summary.min == -2 && about.summary.max == 7.5 && about.summary.mean == 3 && about.head_size == 3);
    cr_assert_eq(verl_trace_read_record(&reader, &record, NULL), 0);
    cr_assert(record.kind == VERL_TRACE_RAN && record.begin == 40 && record.end == 50 && record.message.batch == 12);
    cr_assert_str_eq(record.from, "maker#2");
    cr_assert_eq(verl_reader_left(&reader), 0);
    verl_buffer_done(&frame);
}

// Reads all of it; false where any of it is refused.
static bool
s_read(const char *bytes, size_t size)
{
    verl_reader_t reader;
    verl_trace_head_t head;
    verl_trace_record_t record;
    verl_error_t error = { "" };
    verl_reader_init(&reader, bytes, size);
    bool good = verl_trace_read_head(&reader, &head, &error) == 0;
    while (good && verl_reader_left(&reader))
        good = verl_trace_read_record(&reader, &record, &error) == 0;
    cr_assert(good || error.text[0]);
    return good;
}

Test(trace, cut_anywhere_but_between_records_is_refused)
{
    verl_buffer_t frame = { 0 };
    int whole = 0;
    s_write(&frame);
    for (size_t cut = 0; cut < frame.size; cut++)
        whole += s_read(frame.data, cut);
    cr_assert_eq(whole, 2, "behind the head, and behind the first record");
    verl_buffer_done(&frame);
}

Test(trace, counts_that_do_not_add_up_are_refused)
{
    const verl_trace_counts_t wrong[] = { { 5, 6, 6, 0 }, { 9, 5, 6, 0 }, { 9, 8, 4, 3 } };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        verl_buffer_t frame = { 0 };
        verl_trace_head_t head = { .party = "a#2", .counts = wrong[i] };
        verl_trace_write_head(&frame, &head);
        cr_assert_not(s_read(frame.data, frame.size));
        verl_buffer_done(&frame);
    }
}

Test(trace, kinds_have_words)
{
    for (int i = 0; i < VERL_TRACE_KINDS; i++)
        cr_assert_eq(verl_trace_kind_of(verl_trace_kind_word((verl_trace_kind_t) i)), i);
    cr_assert_eq(verl_trace_kind_of("dada"), -1);
}

// Against what is plain to see.
Test(summary, numbers_of_every_type)
{
    const int32_t i32[] = { 5, -3, 9, 1 };
    const int64_t i64[] = { 1LL << 40, 7, 0, 1 };
    const uint16_t bf16[] = { 0x3f80, 0xc000, 0x7fc0, 0x4040 };    // 1, -2, NaN, 3
    const uint8_t u8[] = { 255, 0, 1, 4 };
    const struct { verl_dtype_t dtype; const void *data; double min, max, mean; int64_t nans; } cases[] = {
        { VERL_I32, i32, -3, 9, 3, 0 },
        { VERL_I64, i64, 0, 1099511627776.0, (1099511627776.0 + 8) / 4, 0 },
        { VERL_BF16, bf16, -2, 3, 2.0 / 3, 1 },
        { VERL_U8, u8, 0, 255, 65, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        verl_column_t column = { .name = "x", .dtype = cases[i].dtype, .rows = 2, .width = 2, .data = cases[i].data };
        verl_summary_t summary;
        verl_summary_of(&column, &summary);
        cr_assert(summary.elements == 4 && summary.numbers == 4 && summary.nans == cases[i].nans);
        cr_assert_float_eq(summary.min, cases[i].min, 1e-12);
        cr_assert_float_eq(summary.max, cases[i].max, 1e-12);
        cr_assert_float_eq(summary.mean, cases[i].mean, 1e-9);
    }
}

Test(summary, of_text_it_is_the_lengths_of_rows)
{
    const int64_t offsets[] = { 0, 3, 3, 10 };
    verl_column_t column = { .name = "x", .dtype = VERL_TEXT, .ragged = true, .rows = 3, .width = 1, .offsets = offsets,
                             .data = "abcdefghij" };
    verl_summary_t summary;
    verl_summary_of(&column, &summary);
    cr_assert(summary.elements == 10 && summary.numbers == 3 && summary.min == 0 && summary.max == 7);
    cr_assert_float_eq(summary.mean, 10.0 / 3, 1e-12);
}

Test(trace, a_label_names_the_replica_where_there_are_several)
{
    char label[64], narrow[9];
    cr_assert_str_eq(verl_trace_label(label, sizeof label, "reward", 0, 1, 7), "reward#7");
    cr_assert_str_eq(verl_trace_label(label, sizeof label, "reward", 0, 0, 7), "reward#7");
    cr_assert_str_eq(verl_trace_label(label, sizeof label, "reward", 0, 4, 7), "reward.0#7");
    cr_assert_str_eq(verl_trace_label(label, sizeof label, "reward", 3, 4, UINT64_MAX), "reward.3#18446744073709551615");
    cr_assert_str_eq(verl_trace_label(narrow, sizeof narrow, "reward", 3, 4, 7), "reward.3");
}
