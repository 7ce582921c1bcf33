// Any bytes as what a follower is sent and what it asks for: a frame of a trace, a filter in an order, a filter in a
// request, a recorded file. Each is refused with a sentence, or read to the end; a filter that is believed is the same
// when it is written again.
//
// The first byte of the input says which.
#include "runtime/observe/filter.h"
#include "runtime/observe/recording.h"
#include "runtime/observe/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static volatile uint64_t s_sum;             // so that every byte is really read

static void
s_use(const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        s_sum += ((const uint8_t *) bytes)[i];
}

static void
s_refused(const verl_error_t *error)
{
    if (!error->text[0])
        abort();
}

static void
s_use_record(const verl_trace_record_t *record)
{
    verl_error_t error = { "" };
    if (record->kind >= VERL_TRACE_KINDS || !verl_trace_kind_word(record->kind))
        abort();
    s_use(record->message.body, record->message.body_size);
    s_use(record->from, strlen(record->from));
    verl_reader_t about = record->about;
    for (uint32_t i = 0; i < record->about_count; i++) {
        verl_trace_about_t one;
        if (verl_trace_read_about(&about, &one, &error)) {
            s_refused(&error);
            return;
        }
        s_use(one.head, one.head_size);
    }
}

static void
s_frame(const uint8_t *bytes, size_t size)
{
    static verl_trace_head_t head;
    static verl_trace_record_t record;
    verl_error_t error = { "" };
    verl_reader_t reader;
    verl_reader_init(&reader, bytes, size);
    int rc = verl_trace_read_head(&reader, &head, &error);
    while (rc == 0 && verl_reader_left(&reader) > 0) {
        size_t before = verl_reader_left(&reader);
        rc = verl_trace_read_record(&reader, &record, &error);
        if (rc == 0 && verl_reader_left(&reader) >= before)
            abort();                        // it would be read for ever
        if (rc == 0)
            s_use_record(&record);
    }
    if (rc)
        s_refused(&error);
}

// What a filter is in an order, read back.
static void
s_check_again(const verl_filter_t *filter)
{
    static verl_filter_t again;
    verl_buffer_t one = { 0 }, other = { 0 };
    verl_error_t error = { "" };
    verl_reader_t reader;
    if (verl_filter_write(&one, filter))
        abort();
    verl_reader_init(&reader, one.data, one.size);
    if (verl_filter_read(&reader, &again, &error) || verl_filter_write(&other, &again) || one.size != other.size ||
        memcmp(one.data, other.data, one.size) != 0)
        abort();
    verl_buffer_done(&one);
    verl_buffer_done(&other);
}

static void
s_order(const uint8_t *bytes, size_t size)
{
    static verl_filter_t filter;
    verl_error_t error = { "" };
    verl_reader_t reader;
    verl_reader_init(&reader, bytes, size);
    if (verl_filter_read(&reader, &filter, &error))
        s_refused(&error);
    else
        s_check_again(&filter);
}

static void
s_request(const uint8_t *bytes, size_t size)
{
    static verl_filter_t filter;
    verl_error_t error = { "" };
    json_t *object = json_loadb((const char *) bytes, size, 0, NULL);
    if (object && verl_filter_from_json(object, &filter, &error))
        s_refused(&error);
    else if (object) {
        json_t *again = verl_filter_to_json(&filter);
        s_check_again(&filter);
        if (!again || verl_filter_from_json(again, &filter, &error))
            abort();
        json_decref(again);
    }
    json_decref(object);
}

static void
s_recording(const uint8_t *bytes, size_t size)
{
    char path[64];
    verl_error_t error = { "" };
    int fd = memfd_create("recording", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t) size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    verl_recording_t *recording = verl_recording_open(path, &error);
    if (!recording)
        s_refused(&error);
    const char *item;
    size_t item_size, all = 0;
    while (recording && verl_recording_read(recording, &item, &item_size, &error) != VERL_RECORDING_END) {
        s_use(item, item_size);
        all += item_size + 1;
        if (all > size)
            abort();                        // there is more in it than it has
    }
    verl_recording_close(&recording, &error);
    close(fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static void (*const works[])(const uint8_t *bytes, size_t size) = { s_frame, s_order, s_request, s_recording };
    if (size > 0)
        works[*bytes % 4](bytes + 1, size - 1);
    return 0;
}
