// safetensors.c: the header goes through jansson; its numbers are believed only after they agree with the file.
//
// Invariant: once open, every tensor's range lies inside the mapping and has exactly the bytes of its shape and dtype.
#include "actors/lm/safetensors.h"
#include "actors/lm/mapped.h"
#include "actors/lm/refuse.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 100 * 1000 * 1000, MAX_TENSORS = 1 << 20, MAX_NAME = 512 };

struct verl_safetensors {
    verl_mapped_t       file;               // empty where the caller owns the bytes
    verl_safetensor_t  *tensors;            // by name
    int64_t             count;
};

typedef struct {
    const char    *name;                    // of the file
    const uint8_t *data;                    // after the header
    size_t         size;
    char          *error;
    size_t         error_size;
} s_reading_t;

#define s_fail(reading, ...) verl_lm_refuse((reading)->name, (reading)->error, (reading)->error_size, __VA_ARGS__)

// Bits of one element; 0 for a dtype that is not known, whose shape is then not compared with its range.
static int64_t
s_bits(const char *dtype)
{
    static const struct {
        const char *name;
        int64_t     bits;
    } known[] = {{"F32", 32}, {"BF16", 16}, {"F16", 16}, {"F64", 64}, {"I64", 64}, {"I32", 32}, {"I16", 16},
                 {"I8", 8}, {"U64", 64}, {"U32", 32}, {"U16", 16}, {"U8", 8}, {"BOOL", 8}, {"F8_E4M3", 8},
                 {"F8_E5M2", 8}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(dtype, known[i].name) == 0)
            return known[i].bits;
    return 0;
}

static int
s_read_shape(const s_reading_t *reading, const json_t *shape, verl_safetensor_t *tensor)
{
    if (!json_is_array(shape) || json_array_size(shape) > VERL_SAFETENSORS_DIMS)
        return s_fail(reading, "tensor %s needs a shape: a list of at most %d sizes", tensor->name,
                      VERL_SAFETENSORS_DIMS);
    tensor->dims = (int) json_array_size(shape);
    tensor->count = 1;
    for (int i = 0; i < tensor->dims; i++) {
        const json_t *extent = json_array_get(shape, (size_t) i);
        if (!json_is_integer(extent) || json_integer_value(extent) < 0)
            return s_fail(reading, "the shape of tensor %s has something that is no size", tensor->name);
        tensor->dim[i] = json_integer_value(extent);
        if (__builtin_mul_overflow(tensor->count, tensor->dim[i], &tensor->count))
            return s_fail(reading, "the shape of tensor %s overflows", tensor->name);
    }
    return 0;
}

static int
s_read_range(const s_reading_t *reading, const json_t *range, verl_safetensor_t *tensor)
{
    const json_t *first = json_array_get(range, 0), *second = json_array_get(range, 1);
    if (json_array_size(range) != 2 || !json_is_integer(first) || !json_is_integer(second))
        return s_fail(reading, "tensor %s needs data_offsets: two integers", tensor->name);
    json_int_t start = json_integer_value(first), end = json_integer_value(second);
    if (start < 0 || end < start)
        return s_fail(reading, "the data_offsets of tensor %s, %" PRId64 " to %" PRId64 ", are no range", tensor->name,
                      (int64_t) start, (int64_t) end);
    if ((uint64_t) end > reading->size)
        return s_fail(reading, "tensor %s ends at byte %" PRId64 " of the data, which has only %zu: the file is "
                      "truncated or its header is wrong", tensor->name, (int64_t) end, reading->size);
    tensor->data = reading->data + start;
    tensor->size = (size_t) (end - start);
    return 0;
}

static int
s_read_tensor(const s_reading_t *reading, const json_t *entry, verl_safetensor_t *tensor)
{
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!dtype || strlen(dtype) >= sizeof tensor->dtype)
        return s_fail(reading, "tensor %s needs a dtype, such as \"F32\"", tensor->name);
    snprintf(tensor->dtype, sizeof tensor->dtype, "%s", dtype);
    if (s_read_shape(reading, json_object_get(entry, "shape"), tensor)
        || s_read_range(reading, json_object_get(entry, "data_offsets"), tensor))
        return -1;
    int64_t bytes, bits = s_bits(dtype);
    if (bits && (__builtin_mul_overflow(tensor->count, bits / 8, &bytes) || (uint64_t) bytes != tensor->size))
        return s_fail(reading, "tensor %s has %" PRId64 " elements of %s, and its data_offsets span %zu bytes",
                      tensor->name, tensor->count, dtype, tensor->size);
    return 0;
}

static int
s_compare_names(const void *a, const void *b)
{
    return strcmp(((const verl_safetensor_t *) a)->name, ((const verl_safetensor_t *) b)->name);
}

static int
s_compare_places(const void *a, const void *b)
{
    const verl_safetensor_t *first = *(verl_safetensor_t *const *) a, *second = *(verl_safetensor_t *const *) b;
    if (first->data != second->data)
        return first->data < second->data ? -1 : 1;
    return first->size < second->size ? -1 : first->size > second->size;
}

// Ranges must tile the data: the format allows neither overlap nor hole.
static int
s_check_tiling(const s_reading_t *reading, const verl_safetensors_t *self)
{
    verl_safetensor_t **order = malloc(((size_t) self->count + 1) * sizeof(verl_safetensor_t *));
    if (!order)
        return s_fail(reading, "no memory for %" PRId64 " tensors", self->count);
    for (int64_t i = 0; i < self->count; i++)
        order[i] = &self->tensors[i];
    qsort(order, (size_t) self->count, sizeof(verl_safetensor_t *), s_compare_places);
    const uint8_t *at = reading->data;
    int            result = 0;
    for (int64_t i = 0; result == 0 && i < self->count; i++) {
        if (order[i]->data < at)
            result = s_fail(reading, "tensors %s and %s overlap", order[i - 1]->name, order[i]->name);
        else if (order[i]->data > at)
            result = s_fail(reading, "%zu bytes before tensor %s belong to no tensor", (size_t) (order[i]->data - at),
                            order[i]->name);
        at = order[i]->data + order[i]->size;
    }
    free(order);
    if (result == 0 && at != reading->data + reading->size)
        return s_fail(reading, "%zu bytes after the last tensor belong to no tensor",
                      (size_t) (reading->data + reading->size - at));
    return result;
}

// A name that can stand in a sentence.
static bool
s_is_name(const char *name)
{
    size_t size = strlen(name);
    for (size_t i = 0; i < size; i++)
        if ((unsigned char) name[i] < 32 || name[i] == 127)
            return false;
    return size > 0 && size <= MAX_NAME;
}

static int
s_read_tensors(const s_reading_t *reading, verl_safetensors_t *self, json_t *header)
{
    const char *name;
    json_t     *entry;
    if (json_object_size(header) > MAX_TENSORS)
        return s_fail(reading, "the header has %zu tensors: at most %d are supported", json_object_size(header),
                      MAX_TENSORS);
    self->tensors = calloc(json_object_size(header) + 1, sizeof *self->tensors);
    if (!self->tensors)
        return s_fail(reading, "no memory for %zu tensors", json_object_size(header));
    json_object_foreach(header, name, entry) {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        if (!json_is_object(entry) || !s_is_name(name))
            return s_fail(reading, "entry %zu of the header is no tensor: it needs an object under a printable name "
                          "of at most %d bytes", (size_t) self->count + 1, MAX_NAME);
        verl_safetensor_t *tensor = &self->tensors[self->count];
        tensor->name = strdup(name);
        if (!tensor->name)
            return s_fail(reading, "no memory for the names of tensors");
        self->count++;
        if (s_read_tensor(reading, entry, tensor))
            return -1;
    }
    qsort(self->tensors, (size_t) self->count, sizeof *self->tensors, s_compare_names);
    return s_check_tiling(reading, self);
}

// Sets reading up to point at the data, and returns the parsed header, or NULL with the error said.
static json_t *
s_read_header(s_reading_t *reading, const uint8_t *bytes, size_t size)
{
    uint64_t length = 0;
    if (size < 8) {
        s_fail(reading, "a safetensors file begins with 8 bytes of length, and this one has only %zu", size);
        return NULL;
    }
    for (int i = 0; i < 8; i++)
        length |= (uint64_t) bytes[i] << (8 * i);
    if (length > MAX_HEADER || length > size - 8) {
        s_fail(reading, "the header claims %" PRIu64 " bytes, and the file has %zu (at most %d are possible): it is "
               "truncated or no safetensors file", length, size - 8, MAX_HEADER);
        return NULL;
    }
    reading->data = bytes + 8 + length;
    reading->size = size - 8 - (size_t) length;
    json_error_t why;
    json_t      *header = json_loadb((const char *) bytes + 8, (size_t) length, JSON_REJECT_DUPLICATES, &why);
    if (!header)
        s_fail(reading, "the header is no valid JSON at its byte %d: %s", why.position, why.text);
    else if (!json_is_object(header)) {
        s_fail(reading, "the header is no JSON object");
        json_decref(header);
        header = NULL;
    }
    return header;
}

verl_safetensors_t *
verl_safetensors_open_memory(const void *bytes, size_t size, const char *name, char *error, size_t error_size)
{
    s_reading_t         reading = {name, NULL, 0, error, error_size};
    verl_safetensors_t *self = calloc(1, sizeof *self);
    if (!self) {
        s_fail(&reading, "no memory to read it");
        return NULL;
    }
    json_t *header = s_read_header(&reading, bytes, size);
    if (!header || s_read_tensors(&reading, self, header))
        verl_safetensors_close(&self);
    json_decref(header);
    return self;
}

verl_safetensors_t *
verl_safetensors_open(const char *path, char *error, size_t error_size)
{
    verl_mapped_t file;
    verl_safetensors_t *self = NULL;
    if (verl_mapped_open(&file, path, error, error_size) == 0)
        self = verl_safetensors_open_memory(file.bytes, file.size, path, error, error_size);
    if (self)
        self->file = file;
    else
        verl_mapped_close(&file);
    return self;
}

void
verl_safetensors_close(verl_safetensors_t **self_p)
{
    verl_safetensors_t *self = *self_p;
    if (!self)
        return;
    for (int64_t i = 0; i < self->count; i++)
        free(self->tensors[i].name);
    free(self->tensors);
    verl_mapped_close(&self->file);
    free(self);
    *self_p = NULL;
}

int64_t
verl_safetensors_count(const verl_safetensors_t *self)
{
    return self->count;
}

const verl_safetensor_t *
verl_safetensors_at(const verl_safetensors_t *self, int64_t index)
{
    return index >= 0 && index < self->count ? &self->tensors[index] : NULL;
}

const verl_safetensor_t *
verl_safetensors_find(const verl_safetensors_t *self, const char *name)
{
    verl_safetensor_t key = {.name = (char *) (uintptr_t) name};
    return bsearch(&key, self->tensors, (size_t) self->count, sizeof *self->tensors, s_compare_names);
}

int
verl_safetensor_quant(const verl_safetensor_t *tensor)
{
    if (strcmp(tensor->dtype, "F32") == 0)
        return VERL_QUANT_F32;
    if (strcmp(tensor->dtype, "F16") == 0)
        return VERL_QUANT_F16;
    return strcmp(tensor->dtype, "BF16") == 0 ? VERL_QUANT_BF16 : -1;
}
