// A batch over the wire: it comes back the same, inside a message and through a slab; whatever lies is refused.
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/tensor/batch.h"
#include "runtime/wire/pack.h"

// One slab, number 5, from which blocks are cut one behind the other, and which counts its uses.
typedef struct s_slab {
    char    *base;
    uint64_t bytes, used;
    int      uses;
} s_slab_t;

static int
s_take(void *context, size_t bytes, verl_block_t *ret, verl_error_t *error)
{
    s_slab_t *self = context;
    if (bytes > self->bytes - self->used)
        return verl_error_set(error, "the slab is full");
    *ret = (verl_block_t) {.data = self->base + self->used, .slab = 5, .offset = self->used, .bytes = bytes};
    self->used += (bytes + 63) / 64 * 64;
    return 0;
}

static void
s_give(void *context, const verl_block_t *block)
{
    cr_assert_eq(((s_slab_t *) context)->base + block->offset, (char *) block->data);
}

static const char *
s_map(void *context, uint64_t slab, uint64_t *ret_bytes, verl_error_t *error)
{
    s_slab_t *self = context;
    if (slab != 5) {
        verl_error_set(error, "slab %d is not there", (int) slab);
        return NULL;
    }
    self->uses++;
    *ret_bytes = self->bytes;
    return self->base;
}

static void
s_release(void *context, uint64_t slab)
{
    cr_assert_eq(slab, 5);
    ((s_slab_t *) context)->uses--;
}

static s_slab_t s_slab;
static verl_memory_t s_memory = {.take = s_take, .give = s_give, .context = &s_slab};
static verl_slabs_t s_slabs = {.map = s_map, .release = s_release, .context = &s_slab};

static void
s_setup(void)
{
    s_slab = (s_slab_t) {.base = aligned_alloc(4096, 1 << 20), .bytes = 1 << 20};
    memset(s_slab.base, 0xaa, s_slab.bytes);
}

static void
s_teardown(void)
{
    cr_assert_eq(s_slab.uses, 0, "a slab is still held");
    free(s_slab.base);
}

TestSuite(batch_pack, .init = s_setup, .fini = s_teardown);

// A batch of every kind of column, small and large, with a map of `rows` entries.
static verl_batch_t *
s_make(int64_t rows)
{
    verl_batch_t *batch = verl_batch_new_made(7, rows, 0, &s_memory);
    int32_t *map = verl_batch_set_map(batch, rows);
    int64_t *lengths = malloc(((size_t) rows + 1) * sizeof *lengths);
    const char **texts = malloc(((size_t) rows + 1) * sizeof *texts);
    size_t *bytes = malloc(((size_t) rows + 1) * sizeof *bytes);
    int64_t positions = 0;
    for (int64_t row = 0; row < rows; row++) {
        map[row] = (int32_t) (rows - 1 - row);
        lengths[row] = row % 5;
        positions += lengths[row];
        texts[row] = "abcdefg" + row % 7;
        bytes[row] = 7 - (size_t) (row % 7);
    }
    float *score = verl_batch_add_f32(batch, "score");
    int64_t *wide = verl_batch_add(batch, "wide", VERL_I64, 3);
    int32_t *ids = verl_batch_add_ragged(batch, "ids", VERL_I32, 2, lengths);
    cr_assert_eq(verl_batch_add_texts(batch, "text", texts, bytes), 0);
    for (int64_t i = 0; i < rows; i++)
        score[i] = (float) i / 2;
    for (int64_t i = 0; i < rows * 3; i++)
        wide[i] = -i;
    for (int64_t i = 0; i < positions * 2; i++)
        ids[i] = (int32_t) i;
    free(lengths);
    free(texts);
    free(bytes);
    cr_assert_eq(verl_batch_seal(batch, NULL), 0);
    return batch;
}

static const char *const s_names[] = {"score", "wide", "ids", "text"};

static void
s_assert_same(const verl_batch_t *batch, const verl_batch_t *copy, const char *const *names)
{
    cr_assert_eq(verl_batch_rows(batch), verl_batch_rows(copy));
    cr_assert_eq(verl_batch_first_row(batch), verl_batch_first_row(copy));
    for (int c = 0; c < 4; c++) {
        const verl_column_t *a = verl_batch_column(batch, s_names[c]), *b = verl_batch_column(copy, names[c]);
        cr_assert(b, "column %s is not there", names[c]);
        cr_assert(a->dtype == b->dtype && a->ragged == b->ragged && a->width == b->width && a->rows == b->rows);
        cr_assert_eq((uintptr_t) b->data % VERL_BLOCK_ALIGN, 0);
        for (int64_t row = 0; row < a->rows; row++) {
            cr_assert_eq(verl_column_length(a, row), verl_column_length(b, row));
            size_t bytes = (size_t) (verl_column_length(a, row) * a->width) * verl_dtype_bytes(a->dtype);
            cr_assert_eq(memcmp(verl_column_at(a, row), verl_column_at(b, row), bytes), 0);
        }
    }
}

static verl_batch_t *
s_unpack(const verl_buffer_t *buffer, verl_error_t *error)
{
    char *exact = malloc(buffer->size);     // so that a sanitizer sees a read behind the end
    memcpy(exact, buffer->data, buffer->size);
    verl_batch_t *batch = verl_batch_unpack(7, exact, buffer->size, &s_slabs, error);
    free(exact);
    return batch;
}

Test(batch_pack, comes_back_through_message_and_slab)
{
    static const char *const as[] = {"a", "b", "c", "d"};
    static const int64_t sizes[] = {0, 1, 2, 60, 500};
    for (int i = 0; i < 5; i++) {
        verl_batch_t *batch = s_make(sizes[i]);
        verl_buffer_t buffer = {0};
        verl_error_t error = {0};
        cr_assert_eq(verl_batch_pack(batch, s_names, as, 4, true, &buffer, &error), 0, "%s", error.text);
        verl_batch_t *copy = s_unpack(&buffer, &error);
        cr_assert(copy, "%s", error.text);
        s_assert_same(batch, copy, as);
        cr_assert_eq(verl_batch_bytes(batch), verl_batch_bytes(copy));
        for (int64_t row = 0; row < sizes[i]; row++)
            cr_assert_eq(verl_batch_map(copy)[row], sizes[i] - 1 - row);
        if (sizes[i] == 500) {
            cr_assert(buffer.size < 300, "large columns do not travel in the message");
            cr_assert_eq(verl_batch_column(copy, "b")->data, verl_batch_column(batch, "wide")->data, "used in place");
        }
        verl_batch_destroy(&copy);
        verl_batch_destroy(&batch);
        verl_buffer_done(&buffer);
    }
}

Test(batch_pack, everything_can_travel_inside_and_be_packed_again)
{
    verl_batch_t *batch = s_make(500);
    verl_buffer_t buffer = {0}, again = {0};
    verl_error_t error = {0};
    cr_assert_eq(verl_batch_pack_inline(batch, s_names, NULL, 4, true, &buffer, &error), 0);
    verl_batch_t *copy = verl_batch_unpack(7, buffer.data, buffer.size, NULL, &error);
    cr_assert(copy, "%s", error.text);
    s_assert_same(batch, copy, s_names);
    cr_assert_eq(verl_batch_pack_inline(copy, s_names, NULL, 4, true, &again, &error), 0);
    cr_assert(again.size == buffer.size && memcmp(again.data, buffer.data, buffer.size) == 0);
    verl_batch_destroy(&copy);
    verl_batch_destroy(&batch);
    verl_buffer_done(&buffer);
    verl_buffer_done(&again);
}

Test(batch_pack, only_what_is_named_travels)
{
    verl_batch_t *batch = s_make(3);
    verl_buffer_t buffer = {0};
    verl_error_t error = {0};
    cr_assert_eq(verl_batch_pack(batch, s_names, NULL, 1, false, &buffer, &error), 0);
    verl_batch_t *copy = s_unpack(&buffer, &error);
    cr_assert_eq(verl_batch_columns(copy), 1);
    cr_assert_null(verl_batch_map(copy));
    verl_batch_destroy(&copy);
    cr_assert_eq(verl_batch_pack(batch, (const char *const[]) {"nobody"}, NULL, 1, false, &buffer, &error), -1);
    cr_assert(strstr(error.text, "'nobody'"));
    verl_batch_destroy(&batch);
    verl_buffer_done(&buffer);
}

Test(batch_pack, a_given_batch_packs_what_it_shows)
{
    verl_batch_t *batch = s_make(60);
    verl_batch_t *given = verl_batch_new_given(7, 20, 0);
    int64_t length = 60;
    const int32_t *map = verl_batch_map(batch);
    verl_error_t error = {0};
    verl_batch_put(given, "ids", verl_batch_column(batch, "ids"), &map, &length, 1, 5, &error);
    verl_batch_put(given, "text", verl_batch_column(batch, "text"), NULL, NULL, 0, 40, &error);
    verl_batch_put(given, "wide", verl_batch_column(batch, "wide"), NULL, NULL, 0, 40, &error);
    verl_batch_put(given, "score", verl_batch_column(batch, "score"), &map, &length, 1, 40, &error);
    cr_assert_str_empty(error.text);
    verl_buffer_t buffer = {0};
    cr_assert_eq(verl_batch_pack(given, s_names, NULL, 4, true, &buffer, &error), 0);
    verl_batch_t *copy = s_unpack(&buffer, &error);
    cr_assert(copy, "%s", error.text);
    s_assert_same(given, copy, s_names);
    verl_batch_destroy(&copy);
    verl_batch_destroy(&given);
    verl_batch_destroy(&batch);
    verl_buffer_done(&buffer);
}

// ---------------------------------------------------------------------------------------------------------------
// Lies

typedef struct s_lie {
    int64_t     format, rows, first, width, column_rows;
    const char *name, *dtype, *data;
    bool        ragged;
    size_t      size;
    uint64_t    slab, offset, bytes;        // slab 0: data inside
    const char *map;
    size_t      map_size;
    const char *words;                      // that the refusal must have; NULL: it is the truth
} s_lie_t;

static void
s_pack_lie(const s_lie_t *lie, verl_buffer_t *out)
{
    verl_pack_array(out, 5);
    verl_pack_int(out, lie->format);
    verl_pack_int(out, lie->rows);
    verl_pack_int(out, lie->first);
    if (lie->map)
        verl_pack_bin(out, lie->map, lie->map_size);
    else
        verl_pack_nil(out);
    verl_pack_array(out, 1);
    verl_pack_array(out, 6);
    verl_pack_cstr(out, lie->name);
    verl_pack_cstr(out, lie->dtype);
    verl_pack_bool(out, lie->ragged);
    verl_pack_int(out, lie->width);
    verl_pack_int(out, lie->column_rows);
    if (lie->slab == 0) {
        verl_pack_bin(out, lie->data, lie->size);
        return;
    }
    verl_pack_array(out, 3);
    verl_pack_uint(out, lie->slab);
    verl_pack_uint(out, lie->offset);
    verl_pack_uint(out, lie->bytes);
}

#pragma GCC diagnostic ignored "-Woverride-init"      // a lie is the truth with some fields said again
#define LIE(...) {.format = 1, .rows = 2, .width = 1, .column_rows = 2, .name = "x", .dtype = "i32", \
                  .data = "aaaabbbb", .size = 8, __VA_ARGS__}

static void
s_assert_lie(const s_lie_t *lie)
{
    verl_buffer_t buffer = {0};
    s_pack_lie(lie, &buffer);
    verl_error_t error = {0};
    verl_batch_t *batch = s_unpack(&buffer, &error);
    if (!lie->words)
        cr_assert(batch, "%s", error.text);
    else {
        cr_assert_null(batch, "a lie was believed: %s", lie->words);
        cr_assert(strstr(error.text, lie->words), "'%s' does not say '%s'", error.text, lie->words);
    }
    verl_batch_destroy(&batch);
    for (size_t size = 0; size < buffer.size; size++) {    // cut anywhere, it is refused
        verl_buffer_t cut = {.data = buffer.data, .size = size, .room = size ? size : 1};
        verl_batch_t *part = s_unpack(&cut, NULL);
        cr_assert_null(part);
    }
    verl_buffer_done(&buffer);
}

Test(batch_pack, lies_about_shape_are_refused)
{
    s_lie_t lies[] = {
        LIE(.words = NULL),
        LIE(.format = 2, .words = "format is 2"),
        LIE(.rows = -1, .words = "-1 rows"),
        LIE(.rows = (int64_t) 1 << 40, .words = "at most"),
        LIE(.first = -1, .words = "from row -1"),
        LIE(.first = INT32_MAX, .words = "at most"),
        LIE(.column_rows = 3, .words = "3 rows in a batch of 2"),
        LIE(.width = -1, .words = "width -1"),
        LIE(.width = 2, .words = "needs another number"),
        LIE(.width = INT64_MAX, .words = "needs another number"),
        LIE(.size = 7, .words = "needs another number"),
        LIE(.size = 0, .words = "needs another number"),
        LIE(.name = "", .words = "name"),
        LIE(.dtype = "f64", .words = "dtype"),
        LIE(.dtype = "text", .words = "text is ragged"),
        LIE(.map = "\0\0\0\0\1\0\0\0", .map_size = 8, .words = NULL),
        LIE(.map = "\0\0\0\0\1\0\0", .map_size = 7, .words = "row map has 7 bytes"),
        LIE(.map = "\0\0\0\0\1\0\0\x80", .map_size = 8, .words = "row 1 came from row -"),
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        s_assert_lie(&lies[i]);
}

Test(batch_pack, lies_about_offsets_are_refused)
{
    struct {
        int64_t     offsets[3];
        size_t      size;
        const char *words;
    } lies[] = {
        {{0, 1, 2}, 64 + 8, NULL},
        {{0, 0, 0}, 64, NULL},
        {{0, 1, 2}, 64 + 4, "needs another number"},
        {{0, 1, 2}, 23, "do not hold the offsets"},
        {{1, 1, 2}, 64 + 8, "begin with 1"},
        {{0, 2, 1}, 64 + 4, "decrease at row 1"},
        {{0, -1, 2}, 64 + 8, "decrease at row 0"},
        {{0, 0, INT64_MAX}, 64, "needs another number"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        char bytes[128] = {0};
        memcpy(bytes, lies[i].offsets, sizeof lies[i].offsets);
        s_lie_t lie = LIE(.ragged = true, .data = bytes, .size = lies[i].size, .words = lies[i].words);
        s_assert_lie(&lie);
    }
}

Test(batch_pack, lies_about_blocks_are_refused)
{
    s_lie_t lies[] = {
        LIE(.slab = 5, .offset = 64, .bytes = 8, .words = NULL),
        LIE(.slab = 6, .offset = 64, .bytes = 8, .words = "slab 6 is not there"),
        LIE(.slab = 5, .offset = 60, .bytes = 8, .words = "multiples of 64"),
        LIE(.slab = 5, .offset = 64, .bytes = 0, .words = "neither a binary nor"),
        LIE(.slab = 5, .offset = 64, .bytes = 12, .words = "needs another number"),
        LIE(.slab = 5, .offset = 1 << 20, .bytes = 8, .words = "which has 1048576"),
        LIE(.slab = 5, .offset = (1 << 20) - 64, .bytes = 65, .words = "which has 1048576"),
        LIE(.slab = 5, .offset = UINT64_MAX - 63, .bytes = 128, .words = "which has 1048576"),
        LIE(.slab = 5, .offset = 64, .bytes = UINT64_MAX, .words = "which has 1048576"),
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        s_assert_lie(&lies[i]);
}

Test(batch_pack, what_is_not_a_batch_is_refused)
{
    static const char *const bytes[] = {"", "\x00", "\x90", "\x95\x01", "\xc1", "\x91\x01",
                                        "\x95\x01\x00\x00\xc0\x91\x96",
                                        "\x95\x01\x00\x00\xc0\xdd\xff\xff\xff\xff",
                                        "\x95\x01\x00\x00\xc0\x81\x01\x02"};
    static const size_t sizes[] = {0, 1, 1, 2, 1, 2, 7, 10, 8};
    for (int i = 0; i < 9; i++) {
        verl_error_t error = {0};
        cr_assert_null(verl_batch_unpack(1, bytes[i], sizes[i], &s_slabs, &error));
        cr_assert_eq(strncmp(error.text, "packed batch: ", 14), 0, "%s", error.text);
    }
    verl_error_t error = {0};
    cr_assert_null(verl_batch_unpack(1, "\x95\x01\x00\x00\xc0\x90\xc0", 7, &s_slabs, &error));
    cr_assert(strstr(error.text, "behind its end"));
    verl_batch_t *batch = verl_batch_unpack(1, "\x95\x01\x00\x00\xc0\x90", 6, &s_slabs, &error);
    cr_assert_not_null(batch);
    verl_batch_destroy(&batch);
}

Test(batch_pack, one_name_twice_is_refused)
{
    verl_batch_t *batch = s_make(2);
    verl_buffer_t buffer = {0};
    static const char *const as[] = {"a", "b", "a", "c"};
    cr_assert_eq(verl_batch_pack(batch, s_names, as, 4, false, &buffer, NULL), 0);
    verl_error_t error = {0};
    cr_assert_null(s_unpack(&buffer, &error));
    cr_assert(strstr(error.text, "'a' is there twice"));
    verl_buffer_done(&buffer);
    verl_batch_destroy(&batch);
}
