// GGUF files: metadata, block formats against the reference package, and damaged files.
#include "actors/lm/gguf.h"
#include "gguf_file.h"
#include "scratch.h"

#include <math.h>

#define QUANTS VERL_SOURCE_DIR "/tests/fixtures/gguf/quants.gguf"

static verl_gguf_t *
s_open(const char *path)
{
    char         error[512];
    verl_gguf_t *file = verl_gguf_open(path, error, sizeof error);
    cr_assert(file, "%s", error);
    return file;
}

Test(lm_gguf, metadata_is_typed)
{
    verl_gguf_t       *file = s_open(QUANTS);
    int64_t            whole = 5;
    double             real;
    verl_gguf_string_t text;
    cr_assert(verl_gguf_int(file, "test.small", &whole) && whole == -7);
    cr_assert(verl_gguf_int(file, "test.large", &whole) && whole == (int64_t) 1 << 40);
    cr_assert(verl_gguf_int(file, "test.yes", &whole) && whole == 1);
    cr_assert(verl_gguf_real(file, "test.real", &real) && real == 0.1);
    cr_assert(verl_gguf_real(file, "test.small", &real) && real == -7);
    cr_assert(verl_gguf_string(file, "test.text", &text) && text.size == 3 && memcmp(text.data, "h\xc3\xa9", 3) == 0);
    cr_assert(!verl_gguf_int(file, "test.text", &whole) && !verl_gguf_int(file, "test.real", &whole) && whole == 1);
    cr_assert(!verl_gguf_string(file, "test.small", &text) && !verl_gguf_real(file, "nothing", &real));
    cr_assert(!verl_gguf_int(file, "test.integers", &whole));
    cr_assert(!verl_gguf_get(file, "nothing"));
    cr_assert_eq(verl_gguf_value_type(verl_gguf_get(file, "test.large")), VERL_GGUF_U64);
    cr_assert_str_eq(verl_gguf_value_key(verl_gguf_value_at(file, 0)), "general.architecture");
    cr_assert(!verl_gguf_value_at(file, verl_gguf_value_count(file)) && !verl_gguf_value_at(file, -1));
    verl_gguf_close(&file);
}

Test(lm_gguf, arrays_are_read_by_index)
{
    static const char    *strings[] = {"one", "", "drei"};
    static const int64_t  integers[] = {-3, 0, 70000};
    verl_gguf_t          *file = s_open(QUANTS);
    const verl_gguf_value_t *value = verl_gguf_get(file, "test.strings");
    verl_gguf_string_t    text;
    int64_t               whole;
    double                real;
    cr_assert_eq(verl_gguf_value_type(value), VERL_GGUF_ARRAY);
    cr_assert_eq(verl_gguf_element_type(value), VERL_GGUF_STRING);
    cr_assert_eq(verl_gguf_element_count(value), 3);
    for (int64_t i = 0; i < 3; i++) {
        cr_assert(verl_gguf_element_string(value, i, &text));
        cr_assert(text.size == strlen(strings[i]) && memcmp(text.data, strings[i], text.size) == 0);
        cr_assert(verl_gguf_element_int(verl_gguf_get(file, "test.integers"), i, &whole) && whole == integers[i]);
    }
    cr_assert(!verl_gguf_element_string(value, 3, &text) && !verl_gguf_element_string(value, -1, &text));
    cr_assert(!verl_gguf_element_int(value, 0, &whole) && !verl_gguf_element_real(value, 0, &real));
    cr_assert(!verl_gguf_element_string(NULL, 0, &text) && !verl_gguf_element_int(NULL, 0, &whole));
    cr_assert(verl_gguf_element_real(verl_gguf_get(file, "test.reals"), 1, &real) && real == -1.25);
    verl_gguf_close(&file);
}

// The reference multiplies in the same order, so that only a fused operation could differ.
Test(lm_gguf, block_formats_give_the_values_of_the_reference)
{
    static const char *const names[] = {"F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
                                        "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"};
    verl_gguf_t *file = s_open(QUANTS);
    cr_assert_eq(verl_gguf_tensor_count(file), 24);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char  key[32];
        float values[768];
        snprintf(key, sizeof key, "%s.stored", names[i]);
        const verl_gguf_tensor_t *stored = verl_gguf_tensor(file, key);
        snprintf(key, sizeof key, "%s.expected", names[i]);
        const verl_gguf_tensor_t *expected = verl_gguf_tensor(file, key);
        cr_assert(stored && expected && stored->count == expected->count && stored->count <= 768, "%s", names[i]);
        cr_assert_str_eq(verl_quant_format((int64_t) stored->type).name, names[i]);
        cr_assert_eq(expected->type, VERL_QUANT_F32);
        verl_dequantize(stored->type, stored->data, stored->count, values);
        for (int64_t k = 0; k < stored->count; k++) {
            float value;
            memcpy(&value, expected->data + 4 * k, sizeof value);
            cr_assert_float_eq(values[k], value, 1e-6f * (1 + fabsf(value)), "%s[%d]: %g for %g", names[i], (int) k,
                               (double) values[k], (double) value);
        }
    }
    verl_gguf_close(&file);
}

Test(lm_gguf, halves_cover_every_kind_of_number)
{
    static const uint16_t halves[] = {0x0000, 0x8000, 0x3c00, 0xc000, 0x7bff, 0x0400,
                                      0x03ff, 0x0001, 0x8001, 0x7c00, 0xfc00};
    static const float    values[] = {0, -0.0f, 1, -2, 65504, 0x1p-14f, 0x1.ff8p-15f, 0x1p-24f, -0x1p-24f, INFINITY,
                                      -INFINITY};
    float read[11];
    verl_dequantize(VERL_QUANT_F16, halves, 11, read);
    cr_assert(memcmp(read, values, sizeof read) == 0);
    uint16_t nan = 0x7e01;
    verl_dequantize(VERL_QUANT_F16, &nan, 1, read);
    cr_assert(isnan(read[0]));
}

Test(lm_gguf, brain_halves_round_to_nearest_even)
{
    static const float    values[] = {1, 0x1.01p0f, 0x1.03p0f, 0x1.010002p0f, -0x1.01p0f, INFINITY, 0x1.fffffep127f};
    static const uint16_t halves[] = {0x3f80, 0x3f80, 0x3f82, 0x3f81, 0xbf80, 0x7f80, 0x7f80};
    for (int i = 0; i < 7; i++)
        cr_assert_eq(verl_bf16_from_float(values[i]), halves[i], "%g", (double) values[i]);
    float    back;
    uint16_t half = verl_bf16_from_float(NAN);
    verl_dequantize(VERL_QUANT_BF16, &half, 1, &back);
    cr_assert(isnan(back));
}

Test(lm_gguf, a_large_tensor_gives_the_bits_of_its_parts)
{
    enum { BLOCKS = 5000, BYTES = BLOCKS * 34 };
    uint8_t *bytes = malloc(BYTES);
    float   *whole = malloc(BLOCKS * 32 * sizeof *whole), part[32];
    cr_assert(bytes && whole);
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t) (i % 34 == 1 ? 0x30 : i * 37);
    verl_dequantize(VERL_QUANT_Q8_0, bytes, BLOCKS * 32, whole);
    for (int i = 0; i < BLOCKS; i++) {
        verl_dequantize(VERL_QUANT_Q8_0, bytes + 34 * i, 32, part);
        cr_assert(memcmp(part, whole + 32 * i, sizeof part) == 0);
    }
    free(bytes);
    free(whole);
}

static void
s_refused(const gguf_file_t *file, const char *says)
{
    char     error[512] = "";
    uint8_t *copy = malloc(file->size);
    cr_assert(copy);
    memcpy(copy, file->bytes, file->size);
    cr_assert(!verl_gguf_open_memory(copy, file->size, "f", error, sizeof error), "%s", says);
    cr_assert_says(error, says);
    cr_assert(!strchr(error, '\n'));
    free(copy);
}

Test(lm_gguf, versions_2_and_3_are_read)
{
    for (uint64_t version = 1; version <= 4; version++) {
        gguf_file_t file;
        char     error[512];
        gguf_head(&file, version, 1, 0);
        gguf_tensor(&file, "x", 4, 0, 0);
        gguf_data(&file, 16);
        verl_gguf_t *reader = verl_gguf_open_memory(file.bytes, file.size, "f", error, sizeof error);
        cr_assert_eq(reader != NULL, version == 2 || version == 3);
        if (!reader)
            cr_assert_says(error, "2 and 3 are");
        verl_gguf_close(&reader);
    }
}

Test(lm_gguf, a_wrong_head_is_one_sentence)
{
    gguf_file_t file;
    gguf_head(&file, 3, 0, 0);
    file.bytes[0] = 'X';
    s_refused(&file, "f: this is no GGUF file");
    gguf_head(&file, 0x03000000, 0, 0);
    s_refused(&file, "big-endian");
    gguf_head(&file, 3, UINT64_MAX, 0);
    s_refused(&file, "claims 18446744073709551615 tensors, more than the file holds");
    gguf_head(&file, 3, 0, UINT64_MAX);
    s_refused(&file, "claims 18446744073709551615 metadata entries");
}

Test(lm_gguf, wrong_metadata_is_one_sentence)
{
    static const struct {
        uint64_t    type, element, count;
        const char *says;
    } cases[] = {{13, 0, 0, "k.ey has type 13, which GGUF does not define"},
                 {9, 9, 1, "k.ey is an array of type 9, which is not supported"},
                 {9, 77, 1, "k.ey is an array of type 77"},
                 {9, 10, UINT64_MAX / 8 + 2, "k.ey claims 2305843009213693953 elements"},
                 {9, 8, 1ull << 40, "k.ey claims 1099511627776 elements"}};
    gguf_file_t file;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gguf_head(&file, 3, 0, 1);
        gguf_text(&file, "k.ey");
        gguf_number(&file, cases[i].type, 4);
        gguf_number(&file, cases[i].element, 4);
        gguf_number(&file, cases[i].count, 8);
        gguf_data(&file, 64);
        s_refused(&file, cases[i].says);
    }
    gguf_head(&file, 3, 0, 1);
    gguf_text(&file, "k.ey");
    gguf_number(&file, VERL_GGUF_STRING, 4);
    gguf_number(&file, UINT64_MAX, 8);
    s_refused(&file, "k.ey claims 18446744073709551615 bytes");
    gguf_head(&file, 3, 0, 1);
    gguf_text(&file, "");
    gguf_data(&file, 32);
    s_refused(&file, "the key of a metadata entry has 0 bytes");
    gguf_head(&file, 3, 0, 1);
    gguf_text(&file, "a\nb");
    gguf_data(&file, 32);
    s_refused(&file, "holds a control character");
    gguf_head(&file, 3, 0, 2);
    for (int i = 0; i < 2; i++) {
        gguf_text(&file, "k.ey");
        gguf_number(&file, VERL_GGUF_U32, 4);
        gguf_number(&file, 1, 4);
    }
    s_refused(&file, "the metadata has k.ey twice");
    gguf_head(&file, 3, 0, 1);
    gguf_text(&file, "general.alignment");
    gguf_number(&file, VERL_GGUF_U32, 4);
    gguf_number(&file, 24, 4);
    s_refused(&file, "general.alignment must be a power of two");
}

Test(lm_gguf, wrong_tensors_are_one_sentence)
{
    static const struct {
        const char *first, *second;
        uint64_t    rows, type, offset;
        const char *says;
    } cases[] = {{"x", "y", 8, 0, 16, "tensor y starts at offset 16, which is no multiple of the alignment 32"},
                 {"x", "y", 8, 0, 0, "overlap"},
                 {"x", "x", 8, 0, 32, "the file has tensor x twice"},
                 {"x", "y", 9, 0, 32, "tensor y needs bytes 32 to 68 of the data, which has only 64"},
                 {"x", "y", 8, 0, UINT64_MAX - 31, "tensor y needs bytes"},
                 {"x", "y", UINT64_MAX, 0, 32, "the dimensions of tensor y overflow"},
                 {"x", "y", 1ull << 60, 0, 32, "the dimensions of tensor y overflow"},
                 {"x", "y", 8, 4, 32, "tensor y has type 4, which is not supported"},
                 {"x", "y", 8, 1ull << 31, 32, "tensor y has type 2147483648"},
                 {"x", "y", 33, 8, 32, "the rows of tensor y have 33 elements: Q8_0 needs a multiple of 32"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gguf_file_t file;
        gguf_head(&file, 3, 2, 0);
        gguf_tensor(&file, cases[i].first, 8, 0, 0);
        gguf_tensor(&file, cases[i].second, cases[i].rows, cases[i].type, cases[i].offset);
        gguf_data(&file, 64);
        s_refused(&file, cases[i].says);
    }
    gguf_file_t file;
    gguf_head(&file, 3, 1, 0);
    gguf_text(&file, "x");
    gguf_number(&file, 5, 4);
    gguf_data(&file, 64);
    s_refused(&file, "tensor x has 5 dimensions");
}

Test(lm_gguf, a_truncated_file_is_refused_wherever_it_ends)
{
    size_t   size;
    uint8_t *bytes = scratch_read(QUANTS, &size);
    for (size_t cut = 0; cut < size; cut += cut < 3000 ? 1 : 503) {
        char     error[512];
        uint8_t *copy = malloc(cut ? cut : 1);
        cr_assert(copy);
        memcpy(copy, bytes, cut);
        cr_assert(!verl_gguf_open_memory(copy, cut, "f", error, sizeof error), "cut at %zu", cut);
        free(copy);
    }
    free(bytes);
}
