// A file of items: what is written is read; a file that was cut or damaged is read up to where it is whole.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/observe/recording.h"

static char s_path[64];

static void
s_make(int items)
{
    verl_error_t error = { "" };
    snprintf(s_path, sizeof s_path, "/tmp/verl-recording-%d", (int) getpid());
    unlink(s_path);
    verl_recording_t *recording = verl_recording_create(s_path, &error);
    cr_assert(recording, "%s", error.text);
    for (int i = 0; i < items; i++) {
        char text[32];
        snprintf(text, sizeof text, "item %d", i);
        cr_assert_eq(verl_recording_write(recording, VERL_RECORDING_FRAME, text, strlen(text), &error), 0);
    }
    cr_assert_eq(verl_recording_close(&recording, &error), 0);
}

// How many items are read; the sentence in error.
static int
s_count(verl_error_t *error)
{
    const char *bytes;
    size_t size;
    int count = 0;
    verl_recording_t *recording = verl_recording_open(s_path, error);
    while (recording && verl_recording_read(recording, &bytes, &size, error) == VERL_RECORDING_FRAME) {
        char text[32];
        snprintf(text, sizeof text, "item %d", count);
        cr_assert(size == strlen(text) && memcmp(bytes, text, size) == 0);
        count++;
    }
    verl_recording_close(&recording, NULL);
    return count;
}

Test(recording, what_is_written_is_read)
{
    verl_error_t error = { "" };
    s_make(20);
    cr_assert_eq(s_count(&error), 20);
    cr_assert_str_eq(error.text, "");
    unlink(s_path);
}

Test(recording, a_file_that_is_there_is_not_written_over)
{
    verl_error_t error = { "" };
    s_make(1);
    cr_assert_null(verl_recording_create(s_path, &error));
    cr_assert(strstr(error.text, "is there already"), "%s", error.text);
    unlink(s_path);
}

Test(recording, cut_anywhere_it_is_read_up_to_there)
{
    s_make(3);
    FILE *file = fopen(s_path, "r");
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    fclose(file);
    for (long cut = size - 1; cut >= 8; cut--) {
        verl_error_t error = { "" };
        cr_assert_eq(truncate(s_path, cut), 0);
        long each = (size - 8) / 3;
        int count = s_count(&error);
        cr_assert_eq(count, (cut - 8) / each);
        cr_assert((cut - 8) % each == 0 || strstr(error.text, "cut short"), "cut at %ld: %s", cut, error.text);
    }
    unlink(s_path);
}

Test(recording, a_damaged_byte_is_noticed)
{
    s_make(3);
    FILE *file = fopen(s_path, "r+");
    fseek(file, 8 + 15 + 7, SEEK_SET);      // in the second item's bytes
    fputc('X', file);
    fclose(file);
    verl_error_t error = { "" };
    cr_assert_eq(s_count(&error), 1);
    cr_assert(strstr(error.text, "damaged"), "%s", error.text);
    unlink(s_path);
}

Test(recording, what_is_none_is_refused)
{
    verl_error_t error = { "" };
    s_make(0);
    FILE *file = fopen(s_path, "w");
    fputs("{\"batch\": 1}", file);
    fclose(file);
    cr_assert_null(verl_recording_open(s_path, &error));
    cr_assert(strstr(error.text, "no recording"), "%s", error.text);
    unlink(s_path);
    error.text[0] = 0;
    cr_assert_null(verl_recording_open("/tmp", &error));
    cr_assert(error.text[0]);
}
