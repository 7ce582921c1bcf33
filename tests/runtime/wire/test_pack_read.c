// Packing and reading: every boundary of every type comes back, and whatever is cut short or malformed is refused
// without a byte behind the end being looked at (the bytes under test lie at the end of an exact allocation).
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "runtime/wire/pack.h"
#include "runtime/wire/read.h"

static const int64_t s_ints[] = {
    0, 1, 127, 128, 255, 256, 65535, 65536, 4294967295, 4294967296, INT64_MAX, -1, -32, -33, -128, -129, -32768, -32769,
    -2147483648, -2147483649, INT64_MIN,
};
enum { S_INTS = sizeof s_ints / sizeof *s_ints };

static verl_reader_t
s_reader(const verl_buffer_t *buffer)
{
    verl_reader_t reader;
    verl_reader_init(&reader, buffer->data, buffer->size);
    return reader;
}

Test(pack_read, integers_come_back)
{
    verl_buffer_t buffer = {0};
    for (int i = 0; i < S_INTS; i++)
        verl_pack_int(&buffer, s_ints[i]);
    verl_pack_uint(&buffer, UINT64_MAX);
    verl_reader_t reader = s_reader(&buffer);
    for (int i = 0; i < S_INTS; i++) {
        int64_t value;
        uint64_t positive;
        double real;
        verl_reader_t again = reader, third = reader;
        cr_assert_eq(verl_read_peek(&reader), VERL_READ_INT);
        cr_assert_eq(verl_read_int(&reader, &value), 0);
        cr_assert_eq(value, s_ints[i]);
        cr_assert_eq(verl_read_uint(&again, &positive), s_ints[i] < 0 ? -1 : 0);
        if (s_ints[i] >= 0)
            cr_assert_eq(positive, (uint64_t) s_ints[i]);
        cr_assert_eq(verl_read_real(&third, &real), 0);
        cr_assert_eq(real, (double) s_ints[i]);
    }
    int64_t value;
    uint64_t positive;
    double real;
    cr_assert_eq(verl_read_int(&reader, &value), -1, "2^64 - 1 is not a signed number of 64 bits");
    verl_reader_t again = reader;
    cr_assert_eq(verl_read_real(&again, &real), 0);
    cr_assert_eq(real, 18446744073709551616.0);
    cr_assert_eq(verl_read_uint(&reader, &positive), 0);
    cr_assert_eq(positive, UINT64_MAX);
    cr_assert_eq(verl_reader_left(&reader), 0);
    cr_assert_eq(verl_read_peek(&reader), VERL_READ_NONE);
    cr_assert_eq(verl_read_int(&reader, &value), -1);
    verl_buffer_done(&buffer);
}

Test(pack_read, integers_take_the_fewest_bytes)
{
    static const size_t sizes[S_INTS] = {1, 1, 1, 2, 2, 3, 3, 5, 5, 9, 9, 1, 1, 2, 2, 3, 3, 5, 5, 9, 9};
    for (int i = 0; i < S_INTS; i++) {
        verl_buffer_t buffer = {0};
        verl_pack_int(&buffer, s_ints[i]);
        cr_assert_eq(buffer.size, sizes[i], "%lld takes %zu bytes", (long long) s_ints[i], buffer.size);
        verl_buffer_done(&buffer);
    }
}

Test(pack_read, reals_booleans_and_nil_come_back)
{
    static const double reals[] = {0, -0.0, 1.5, DBL_MAX, DBL_MIN, -DBL_MAX, INFINITY, -INFINITY};
    enum { REALS = sizeof reals / sizeof *reals };
    verl_buffer_t buffer = {0};
    for (int i = 0; i < REALS; i++)
        verl_pack_real(&buffer, reals[i]);
    verl_pack_real(&buffer, NAN);
    verl_pack_bool(&buffer, true);
    verl_pack_bool(&buffer, false);
    verl_pack_nil(&buffer);
    verl_pack_cstr(&buffer, NULL);
    verl_buffer_append(&buffer, "\xca\x40\x49\x0f\xdb", 5);       // f32, as other packers write it
    verl_reader_t reader = s_reader(&buffer);
    double real;
    bool boolean;
    for (int i = 0; i < REALS; i++) {
        cr_assert_eq(verl_read_real(&reader, &real), 0);
        cr_assert_eq(memcmp(&real, &reals[i], sizeof real), 0);
    }
    cr_assert_eq(verl_read_real(&reader, &real), 0);
    cr_assert(isnan(real));
    cr_assert_eq(verl_read_real(&reader, &real), -1);
    cr_assert_eq(verl_read_bool(&reader, &boolean), 0);
    cr_assert(boolean);
    cr_assert_eq(verl_read_bool(&reader, &boolean), 0);
    cr_assert_not(boolean);
    cr_assert_eq(verl_read_bool(&reader, &boolean), -1);
    cr_assert_eq(verl_read_nil(&reader), 0);
    cr_assert_eq(verl_read_nil(&reader), 0);
    cr_assert_eq(verl_read_nil(&reader), -1);
    cr_assert_eq(verl_read_real(&reader, &real), 0);
    cr_assert_eq((float) real, 3.14159274f);
    verl_buffer_done(&buffer);
}

Test(pack_read, strings_and_binaries_come_back)
{
    static const size_t sizes[] = {0, 1, 31, 32, 255, 256, 65535, 65536};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    char *text = malloc(65536);
    memset(text, 'x', 65536);
    verl_buffer_t buffer = {0};
    for (int i = 0; i < SIZES; i++) {
        verl_pack_str(&buffer, text, sizes[i]);
        verl_pack_bin(&buffer, text, sizes[i]);
    }
    verl_reader_t reader = s_reader(&buffer);
    const char *bytes;
    size_t size;
    for (int i = 0; i < SIZES; i++) {
        cr_assert_eq(verl_read_bin(&reader, &bytes, &size), -1);
        cr_assert_eq(verl_read_str(&reader, &bytes, &size), 0);
        cr_assert_eq(size, sizes[i]);
        cr_assert_eq(memcmp(bytes, text, size), 0);
        cr_assert_eq(verl_read_str(&reader, &bytes, &size), -1);
        cr_assert_eq(verl_read_bin(&reader, &bytes, &size), 0);
        cr_assert_eq(size, sizes[i]);
    }
    cr_assert_eq(verl_reader_left(&reader), 0);
    verl_buffer_done(&buffer);
    free(text);
}

Test(pack_read, a_string_is_copied_only_where_it_fits)
{
    verl_buffer_t buffer = {0};
    verl_pack_cstr(&buffer, "score");
    verl_pack_str(&buffer, "a\0b", 3);
    verl_reader_t reader = s_reader(&buffer);
    char text[6] = "";
    cr_assert_eq(verl_read_cstr(&reader, text, 5), -1);
    cr_assert_eq(verl_read_cstr(&reader, text, 6), 0);
    cr_assert_str_eq(text, "score");
    cr_assert_eq(verl_read_cstr(&reader, text, 6), -1, "a zero byte would cut it");
    verl_buffer_done(&buffer);
}

Test(pack_read, counts_are_believed_only_where_bytes_are_left)
{
    uint32_t count;
    verl_reader_t reader;
    verl_reader_init(&reader, "\xdd\xff\xff\xff\xff\x01\x02", 7);
    cr_assert_eq(verl_read_array(&reader, &count), -1);
    verl_reader_init(&reader, "\xdf\x00\x00\x00\x02\x01\x02\x03", 8);
    cr_assert_eq(verl_read_map(&reader, &count), -1);
    verl_reader_init(&reader, "\xdf\x00\x00\x00\x01\x01\x02\x03", 8);
    cr_assert_eq(verl_read_map(&reader, &count), 0);
    cr_assert_eq(count, 1);
    verl_reader_init(&reader, "\xdc\x00\x02\x01\x02", 5);
    cr_assert_eq(verl_read_array(&reader, &count), 0);
    cr_assert_eq(count, 2);
    verl_reader_init(&reader, "\x93\x01\x02", 3);
    cr_assert_eq(verl_read_array(&reader, &count), -1);
    cr_assert_eq(verl_read_skip(&reader), -1);
}

static void
s_pack_everything(verl_buffer_t *buffer)
{
    verl_pack_array(buffer, 6);
    verl_pack_map(buffer, 2);
    verl_pack_cstr(buffer, "a");
    verl_pack_int(buffer, -70000);
    verl_pack_cstr(buffer, "b");
    verl_pack_real(buffer, 0.5);
    verl_pack_bin(buffer, "0123456789", 10);
    verl_pack_array(buffer, 0);
    verl_pack_nil(buffer);
    verl_buffer_append(buffer, "\xc7\x03\x01xyz", 6);      // ext 8
    verl_buffer_append(buffer, "\xd6\x01wxyz", 6);         // fixext 4
}

Test(pack_read, skip_passes_whole_items_and_refuses_cut_ones)
{
    verl_buffer_t buffer = {0};
    s_pack_everything(&buffer);
    verl_reader_t reader = s_reader(&buffer);
    cr_assert_eq(verl_read_skip(&reader), 0);
    cr_assert_eq(verl_reader_left(&reader), 0);
    for (size_t size = 0; size < buffer.size; size++) {
        char *cut = malloc(size ? size : 1);
        memcpy(cut, buffer.data, size);
        verl_reader_init(&reader, cut, size);
        cr_assert_eq(verl_read_skip(&reader), -1, "%zu of %zu bytes were taken for a whole item", size, buffer.size);
        cr_assert_eq(reader.at, cut, "a refused item was passed");
        free(cut);
    }
    verl_buffer_done(&buffer);
}

Test(pack_read, skip_bounds_the_depth)
{
    char deep[64];
    memset(deep, 0x91, sizeof deep);
    verl_reader_t reader;
    deep[VERL_READ_DEPTH] = 1;
    verl_reader_init(&reader, deep, VERL_READ_DEPTH + 1);
    cr_assert_eq(verl_read_skip(&reader), 0);
    deep[VERL_READ_DEPTH] = (char) 0x91;
    deep[VERL_READ_DEPTH + 1] = 1;
    verl_reader_init(&reader, deep, VERL_READ_DEPTH + 2);
    cr_assert_eq(verl_read_skip(&reader), -1);
    verl_reader_init(&reader, "\xc1", 1);
    cr_assert_eq(verl_read_skip(&reader), -1);
}

// Every first byte, followed by too little: no function accepts it and looks behind the end (under the sanitizer).
Test(pack_read, no_first_byte_makes_a_reader_look_too_far)
{
    for (int lead = 0; lead < 256; lead++)
        for (size_t size = 1; size <= 9; size++) {
            char *bytes = malloc(size);
            memset(bytes, 0xff, size);
            bytes[0] = (char) lead;
            verl_reader_t reader;
            verl_reader_init(&reader, bytes, size);
            int64_t integer;
            uint64_t positive;
            uint32_t count;
            double real;
            bool boolean;
            const char *text;
            size_t length;
            int accepted = 0;
            accepted += verl_read_int(&(verl_reader_t) {reader.at, reader.end}, &integer) == 0;
            accepted += verl_read_uint(&(verl_reader_t) {reader.at, reader.end}, &positive) == 0 && integer < 0;
            accepted += verl_read_bool(&(verl_reader_t) {reader.at, reader.end}, &boolean) == 0;
            accepted += verl_read_nil(&(verl_reader_t) {reader.at, reader.end}) == 0;
            accepted += verl_read_str(&(verl_reader_t) {reader.at, reader.end}, &text, &length) == 0;
            accepted += verl_read_bin(&(verl_reader_t) {reader.at, reader.end}, &text, &length) == 0;
            accepted += verl_read_array(&(verl_reader_t) {reader.at, reader.end}, &count) == 0;
            accepted += verl_read_map(&(verl_reader_t) {reader.at, reader.end}, &count) == 0;
            accepted += verl_read_real(&(verl_reader_t) {reader.at, reader.end}, &real) == 0 &&
                        verl_read_peek(&reader) == VERL_READ_REAL;
            cr_assert(accepted <= 1, "byte 0x%02x is of %d types", (unsigned) lead, accepted);
            free(bytes);
        }
}

static double
s_ns(const struct timespec *from, const struct timespec *to)
{
    return (double) (to->tv_sec - from->tv_sec) * 1e9 + (double) (to->tv_nsec - from->tv_nsec);
}

Test(pack_read, a_header_takes_no_time_worth_mentioning)
{
    enum { TRIES = 200, ROUNDS = 1000 };
    verl_buffer_t buffer = {0};
    double pack = 1e18, read = 1e18;
    for (int try = 0; try < TRIES; try++) {
        struct timespec from, middle, to;
        int64_t sum = 0;
        clock_gettime(CLOCK_MONOTONIC, &from);
        for (int64_t i = 0; i < ROUNDS; i++) {
            verl_buffer_clear(&buffer);
            verl_pack_array(&buffer, 10);
            for (int k = 0; k < 10; k++)
                verl_pack_int(&buffer, i * (k + 1));
        }
        clock_gettime(CLOCK_MONOTONIC, &middle);
        for (int i = 0; i < ROUNDS; i++) {
            verl_reader_t reader = s_reader(&buffer);
            uint32_t count;
            int64_t value = 0;
            verl_read_array(&reader, &count);
            for (uint32_t k = 0; k < count; k++) {
                verl_read_int(&reader, &value);
                sum += value;
            }
        }
        clock_gettime(CLOCK_MONOTONIC, &to);
        cr_assert_eq(sum, (int64_t) (ROUNDS - 1) * 55 * ROUNDS);
        pack = s_ns(&from, &middle) < pack ? s_ns(&from, &middle) : pack;
        read = s_ns(&middle, &to) < read ? s_ns(&middle, &to) : read;
    }
    fprintf(stderr, "header of 10 integers: pack %.1f ns, read %.1f ns\n", pack / ROUNDS, read / ROUNDS);
    cr_assert(pack / ROUNDS < 20000 && read / ROUNDS < 20000, "far above what a loaded machine explains");
    verl_buffer_done(&buffer);
}
