// Any bytes as a file of JSON lines: refused with a sentence, or records of one schema that read the same twice.
#include "actors/data/jsonl.h"
#include "actors/data/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

// Touches every byte that a value says it has, so that the sanitizer sees a wrong count.
static uint64_t
s_touch(const verl_schema_t *schema, const verl_record_t *record)
{
    uint64_t sum = record->count;
    for (size_t f = 0; f < record->count; f++) {
        const verl_value_t *value = &record->values[f];
        sum = sum * 31 + (uint64_t) value->integer + (uint64_t) value->count;
        for (int64_t i = 0; i < value->count; i++) {
            if (value->text)
                sum = sum * 31 + (unsigned char) value->text[i];
            if (value->ints)
                sum = sum * 31 + (uint64_t) value->ints[i];
            if (value->reals)
                sum += value->reals[i] > 0;
        }
        if (value->text && value->text[value->count])
            abort();
        if (schema->fields[f].type == VERL_FIELD_MESSAGES) {
            char             error[512];
            verl_messages_t *messages = verl_messages_parse(value->text, (size_t) value->count, error, sizeof error);
            if (!messages || !verl_messages_looks_like(value->text, (size_t) value->count))
                abort();
            verl_messages_destroy(&messages);
        }
    }
    return sum;
}

static void
s_read_all(const verl_jsonl_t *set)
{
    char error[512];
    for (int64_t i = verl_jsonl_records(set); i-- > 0;) {
        error[0] = 0;
        verl_record_t *record = verl_jsonl_read(set, i, error, sizeof error);
        if (!record && !error[0])
            abort();
        if (!record)
            continue;
        uint64_t       sum = s_touch(verl_jsonl_schema(set), record);
        verl_record_t *again = verl_jsonl_read(set, i, error, sizeof error);
        if (!again || s_touch(verl_jsonl_schema(set), again) != sum)
            abort();
        verl_jsonl_release(&record);
        verl_jsonl_release(&again);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char          error[512] = "", path[64];
    verl_schema_t schema = { 0 };
    int           handle = memfd_create("jsonl", MFD_CLOEXEC);
    if (handle < 0 || write(handle, bytes, size) != (ssize_t) size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", handle);
    const char   *paths[] = { path, path };
    verl_jsonl_t *set = verl_jsonl_open(paths, 2, error, sizeof error);
    if (!set && !error[0])
        abort();
    if (set)
        s_read_all(set);
    verl_jsonl_destroy(&set);
    if (verl_jsonl_discover(paths, 1, &schema, error, sizeof error) == 0)
        verl_schema_done(&schema);
    close(handle);
    return 0;
}
