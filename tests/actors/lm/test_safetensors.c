// Safetensors files, whole and damaged.
#include "actors/lm/safetensors.h"
#include "scratch.h"

static const char s_header[] = "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"BF16\",\"shape\":[2],"
                               "\"data_offsets\":[24,28]},\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":"
                               "[0,24]},\"none\":{\"dtype\":\"F16\",\"shape\":[0,7],\"data_offsets\":[24,24]}}  ";

Test(lm_safetensors, tensors_are_found_by_name)
{
    char                error[512];
    size_t              size;
    uint8_t            *bytes = scratch_safetensors(s_header, NULL, 28, &size);
    verl_safetensors_t *file = verl_safetensors_open_memory(bytes, size, "f", error, sizeof error);
    cr_assert(file, "%s", error);
    cr_assert_eq(verl_safetensors_count(file), 3);
    const verl_safetensor_t *a = verl_safetensors_find(file, "a"), *b = verl_safetensors_find(file, "b");
    cr_assert(a && b && a == verl_safetensors_at(file, 0));
    cr_assert(a->dims == 2 && a->dim[0] == 2 && a->dim[1] == 3 && a->count == 6 && a->size == 24);
    cr_assert_eq(a->data, bytes + 8 + strlen(s_header));
    cr_assert_eq(verl_safetensor_quant(a), VERL_QUANT_F32);
    cr_assert_eq(verl_safetensor_quant(b), VERL_QUANT_BF16);
    cr_assert(!verl_safetensors_find(file, "c"));
    cr_assert(!verl_safetensors_at(file, 3) && !verl_safetensors_at(file, -1));
    verl_safetensors_close(&file);
    cr_assert(!file);
    free(bytes);
}

// A header of one tensor.
#define ONE(shape, dtype, offsets) \
    "{\"x\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define TWO(first, second) \
    "{\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" first "},\"y\":{\"dtype\":\"U8\",\"shape\":[4]," \
    "\"data_offsets\":" second "}}"

Test(lm_safetensors, each_thing_wrong_is_one_sentence)
{
    static const struct {
        const char *header;
        size_t      data;
        const char *says;
    } cases[] = {
        {"", 0, "f: the header is no valid JSON"},
        {"[]", 0, "the header is no JSON object"},
        {"{\"x\":1}", 0, "entry 1 of the header is no tensor"},
        {"{\"x\":{},\"x\":{}}", 0, "duplicate object key"},
        {"{\"x\\u0000\":{}}", 0, "no valid JSON"},
        {"{\"x\\n\":{}}", 0, "entry 1 of the header is no tensor"},
        {"{\"x\":{}}", 0, "tensor x needs a dtype"},
        {"{\"x\":{\"dtype\":\"AVERYLONGDTYPE\"}}", 0, "tensor x needs a dtype"},
        {ONE("4", "\"F32\"", "[0,4]"), 4, "tensor x needs a shape"},
        {ONE("[1,1,1,1,1,1,1,1,1]", "\"F32\"", "[0,4]"), 4, "tensor x needs a shape"},
        {ONE("[-1]", "\"F32\"", "[0,4]"), 4, "something that is no size"},
        {ONE("[1.5]", "\"F32\"", "[0,4]"), 4, "something that is no size"},
        {ONE("[4611686018427387904,4]", "\"F32\"", "[0,4]"), 4, "the shape of tensor x overflows"},
        {ONE("[4611686018427387904]", "\"F32\"", "[0,0]"), 0, "4611686018427387904 elements of F32"},
        {ONE("[1]", "\"F32\"", "[0]"), 4, "tensor x needs data_offsets: two integers"},
        {ONE("[1]", "\"F32\"", "[4,0]"), 4, "are no range"},
        {ONE("[1]", "\"F32\"", "[-4,0]"), 4, "are no range"},
        {ONE("[1]", "\"F32\"", "[0,4]"), 3, "tensor x ends at byte 4 of the data, which has only 3"},
        {ONE("[1]", "\"F32\"", "[0,9223372036854775807]"), 4, "ends at byte 9223372036854775807"},
        {ONE("[2]", "\"F32\"", "[0,4]"), 4, "tensor x has 2 elements of F32, and its data_offsets span 4 bytes"},
        {ONE("[1]", "\"F32\"", "[0,4]"), 6, "2 bytes after the last tensor belong to no tensor"},
        {ONE("[1]", "\"F32\"", "[2,6]"), 6, "2 bytes before tensor x belong to no tensor"},
        {TWO("[0,4]", "[2,6]"), 6, "tensors x and y overlap"},
        {TWO("[0,4]", "[0,4]"), 4, "tensors x and y overlap"},
        {TWO("[0,4]", "[5,9]"), 9, "1 bytes before tensor y"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char     error[512] = "";
        size_t   size;
        uint8_t *bytes = scratch_safetensors(cases[i].header, NULL, cases[i].data, &size);
        cr_assert(!verl_safetensors_open_memory(bytes, size, "f", error, sizeof error), "%s", cases[i].header);
        cr_assert_says(error, cases[i].says);
        cr_assert(!strchr(error, '\n'));
        free(bytes);
    }
}

Test(lm_safetensors, a_header_that_is_longer_than_the_file_is_refused)
{
    static const uint8_t lengths[][8] = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
                                         {0, 0, 0, 0, 0, 0, 0, 0x80}, {9, 0, 0, 0, 0, 0, 0, 0}};
    for (int i = 0; i < 3; i++) {
        char    error[512];
        uint8_t bytes[16] = {0};
        memcpy(bytes, lengths[i], 8);
        cr_assert(!verl_safetensors_open_memory(bytes, sizeof bytes, "f", error, sizeof error));
        cr_assert_says(error, "the header claims");
    }
}

Test(lm_safetensors, a_truncated_file_is_refused_wherever_it_ends)
{
    size_t   size;
    uint8_t *bytes = scratch_read(MODELS "llama-tiny/model.safetensors", &size);
    for (size_t cut = 0; cut < size; cut += cut < 4000 ? 1 : 1009) {
        char     error[512];
        uint8_t *copy = malloc(cut ? cut : 1);
        cr_assert(copy);
        memcpy(copy, bytes, cut);
        cr_assert(!verl_safetensors_open_memory(copy, cut, "f", error, sizeof error), "cut at %zu", cut);
        free(copy);
    }
    free(bytes);
}

Test(lm_safetensors, what_is_no_file_is_refused)
{
    char error[512], dir[PATH_MAX];
    scratch_make(dir);
    scratch_write(dir, "empty", "", 0);
    cr_assert(!verl_safetensors_open("/nowhere/model.safetensors", error, sizeof error));
    cr_assert_says(error, "cannot open /nowhere/model.safetensors: No such file or directory");
    cr_assert(!verl_safetensors_open(dir, error, sizeof error));
    cr_assert_says(error, "is not a regular file");
    cr_assert(!verl_safetensors_open("/dev/null", error, sizeof error));
    cr_assert_says(error, "is not a regular file");
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s/empty", dir);
    cr_assert(!verl_safetensors_open(path, error, sizeof error));
    cr_assert_says(error, "is empty");
    scratch_remove(dir);
}
