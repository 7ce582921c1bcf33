// gguf.c: one walk over the head of a GGUF file, with a cursor that cannot leave it.
//
// Invariant: every length is compared with the bytes that are left before it is used or allocated for, and what is
// allocated is at most a small multiple of what the file itself holds. The first thing wrong ends the walk.
#include "actors/lm/gguf_private.h"
#include "actors/lm/refuse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEY = 256, MAX_NAME = 127, LEAST_ENTRY = 8 + 4 + 1, LEAST_TENSOR = 8 + 4 + 8 + 4 + 8 };

// The walk: what is left, and where to say what is wrong.
typedef struct {
    const char    *name;
    const uint8_t *start, *at, *end;
    char          *error;
    size_t         error_size;
} s_walk_t;

#define s_fail(walk, ...) verl_lm_refuse((walk)->name, (walk)->error, (walk)->error_size, __VA_ARGS__)

static int
s_need(s_walk_t *walk, size_t size, const char *what)
{
    if ((size_t) (walk->end - walk->at) < size)
        return s_fail(walk, "the file ends inside %s, at byte %zu", what, (size_t) (walk->end - walk->start));
    return 0;
}

static int
s_number(s_walk_t *walk, size_t size, const char *what, uint64_t *ret)
{
    if (s_need(walk, size, what))
        return -1;
    *ret = verl_gguf_little(walk->at, size);
    walk->at += size;
    return 0;
}

static int
s_skip_string(s_walk_t *walk, const char *what, verl_gguf_string_t *ret)
{
    uint64_t size = 0;
    if (s_number(walk, 8, what, &size))
        return -1;
    if (size > (size_t) (walk->end - walk->at))
        return s_fail(walk, "%s claims %" PRIu64 " bytes at byte %zu, and only %zu are left", what, size,
                      (size_t) (walk->at - walk->start), (size_t) (walk->end - walk->at));
    *ret = (verl_gguf_string_t) {(const char *) walk->at, (size_t) size};
    walk->at += size;
    return 0;
}

// A name: not empty, at most most bytes, without control characters, so that it can stand in a sentence.
static int
s_name(s_walk_t *walk, const char *what, size_t most, verl_gguf_string_t *ret)
{
    if (s_skip_string(walk, what, ret))
        return -1;
    if (ret->size == 0 || ret->size > most)
        return s_fail(walk, "%s has %zu bytes: it must have 1 to %zu", what, ret->size, most);
    for (size_t i = 0; i < ret->size; i++)
        if ((unsigned char) ret->data[i] < 32 || ret->data[i] == 127)
            return s_fail(walk, "%s holds a control character", what);
    return 0;
}

static int
s_read_strings(s_walk_t *walk, verl_gguf_value_t *value)
{
    value->string_at = malloc((value->count ? (size_t) value->count : 1) * sizeof *value->string_at);
    if (!value->string_at)
        return s_fail(walk, "no memory for the %" PRId64 " strings of %s", value->count, value->key);
    for (int64_t i = 0; i < value->count; i++) {
        verl_gguf_string_t ignored;
        value->string_at[i] = (size_t) (walk->at - value->data);
        if (s_skip_string(walk, value->key, &ignored))
            return -1;
    }
    return 0;
}

static int
s_read_array(s_walk_t *walk, verl_gguf_value_t *value)
{
    uint64_t type = 0, count = 0;
    if (s_number(walk, 4, value->key, &type) || s_number(walk, 8, value->key, &count))
        return -1;
    size_t size = type == VERL_GGUF_STRING ? 8 : verl_gguf_type_size(type);
    if (size == 0)
        return s_fail(walk, "%s is an array of type %" PRIu64 ", which is not supported", value->key, type);
    if (count > (size_t) (walk->end - walk->at) / size)
        return s_fail(walk, "%s claims %" PRIu64 " elements, more than the file holds", value->key, count);
    value->element_type = (verl_gguf_type_t) type;
    value->count = (int64_t) count;
    value->data = walk->at;
    if (type == VERL_GGUF_STRING)
        return s_read_strings(walk, value);
    walk->at += count * size;
    return 0;
}

static int
s_read_value(s_walk_t *walk, verl_gguf_value_t *value)
{
    verl_gguf_string_t key = {NULL, 0}, ignored;
    uint64_t           type = 0;
    if (s_name(walk, "the key of a metadata entry", MAX_KEY, &key))
        return -1;
    value->key = strndup(key.data, key.size);
    if (!value->key)
        return s_fail(walk, "no memory for the metadata");
    if (s_number(walk, 4, value->key, &type))
        return -1;
    value->type = (verl_gguf_type_t) type;
    if (type == VERL_GGUF_ARRAY)
        return s_read_array(walk, value);
    value->element_type = value->type;
    value->count = 1;
    value->data = walk->at;
    if (type == VERL_GGUF_STRING)
        return s_skip_string(walk, value->key, &ignored);
    if (verl_gguf_type_size(type) == 0)
        return s_fail(walk, "%s has type %" PRIu64 ", which GGUF does not define", value->key, type);
    if (s_need(walk, verl_gguf_type_size(type), value->key))
        return -1;
    walk->at += verl_gguf_type_size(type);
    return 0;
}

static int
s_compare_keys(const void *a, const void *b)
{
    return strcmp((*(verl_gguf_value_t *const *) a)->key, (*(verl_gguf_value_t *const *) b)->key);
}

static int
s_compare_names(const void *a, const void *b)
{
    return strcmp((*(verl_gguf_tensor_t *const *) a)->name, (*(verl_gguf_tensor_t *const *) b)->name);
}

static int
s_compare_places(const void *a, const void *b)
{
    const verl_gguf_tensor_t *first = *(verl_gguf_tensor_t *const *) a, *second = *(verl_gguf_tensor_t *const *) b;
    if (first->data != second->data)
        return first->data < second->data ? -1 : 1;
    return first->size < second->size ? -1 : first->size > second->size;    // an empty one first
}

static int
s_read_values(s_walk_t *walk, verl_gguf_t *self, uint64_t count)
{
    if (count > (size_t) (walk->end - walk->at) / LEAST_ENTRY)
        return s_fail(walk, "the header claims %" PRIu64 " metadata entries, more than the file holds", count);
    self->values = calloc(count + 1, sizeof *self->values);
    self->by_key = calloc(count + 1, sizeof *self->by_key);
    if (!self->values || !self->by_key)
        return s_fail(walk, "no memory for the metadata");
    for (; self->value_count < (int64_t) count; self->value_count++) {
        verl_gguf_value_t *value = &self->values[self->value_count];
        if (s_read_value(walk, value)) {
            free(value->key);
            free(value->string_at);
            return -1;
        }
        self->by_key[self->value_count] = value;
    }
    qsort(self->by_key, count, sizeof *self->by_key, s_compare_keys);
    for (uint64_t i = 1; i < count; i++)
        if (strcmp(self->by_key[i - 1]->key, self->by_key[i]->key) == 0)
            return s_fail(walk, "the metadata has %s twice", self->by_key[i]->key);
    return 0;
}

static int
s_read_shape(s_walk_t *walk, verl_gguf_tensor_t *tensor)
{
    uint64_t dims = 0, extent;
    if (s_number(walk, 4, tensor->name, &dims))
        return -1;
    if (dims < 1 || dims > 4)
        return s_fail(walk, "tensor %s has %" PRIu64 " dimensions: 1 to 4 are possible", tensor->name, dims);
    tensor->dims = (int) dims;
    tensor->count = 1;
    for (int i = 0; i < 4; i++) {
        extent = 1;
        if (i < tensor->dims && s_number(walk, 8, tensor->name, &extent))
            return -1;
        if (extent > INT64_MAX / 8 || __builtin_mul_overflow(tensor->count, (int64_t) extent, &tensor->count))
            return s_fail(walk, "the dimensions of tensor %s overflow", tensor->name);
        tensor->dim[i] = (int64_t) extent;
    }
    return 0;
}

// The size in bytes by shape and type; the place of the data, still as an offset, goes to *ret_offset.
static int
s_read_tensor(s_walk_t *walk, verl_gguf_tensor_t *tensor, uint64_t *ret_offset)
{
    verl_gguf_string_t name = {NULL, 0};
    uint64_t           type = 0;
    if (s_name(walk, "the name of a tensor", MAX_NAME, &name))
        return -1;
    memcpy(tensor->name, name.data, name.size);
    if (s_read_shape(walk, tensor) || s_number(walk, 4, tensor->name, &type)
        || s_number(walk, 8, tensor->name, ret_offset))
        return -1;
    verl_quant_format_t format = verl_quant_format((int64_t) type);
    if (!format.name)
        return s_fail(walk, "tensor %s has type %" PRIu64 ", which is not supported (F32, F16, BF16, Q8_0, Q4_0, Q4_1, "
                      "Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K and Q6_K are)", tensor->name, type);
    if (tensor->dim[0] % format.block_count != 0)
        return s_fail(walk, "the rows of tensor %s have %" PRId64 " elements: %s needs a multiple of %" PRId64,
                      tensor->name, tensor->dim[0], format.name, format.block_count);
    tensor->type = (verl_quant_type_t) type;
    if (__builtin_mul_overflow((size_t) (tensor->count / format.block_count), format.block_size, &tensor->size))
        return s_fail(walk, "the dimensions of tensor %s overflow", tensor->name);
    return 0;
}

// Puts each tensor inside the data section, which starts at walk->at.
static int
s_place_tensor(s_walk_t *walk, verl_gguf_tensor_t *tensor, uint64_t offset, uint64_t alignment)
{
    size_t left = (size_t) (walk->end - walk->at);
    if (offset % alignment != 0)
        return s_fail(walk, "tensor %s starts at offset %" PRIu64 ", which is no multiple of the alignment %" PRIu64,
                      tensor->name, offset, alignment);
    if (offset > left || tensor->size > left - offset)
        return s_fail(walk, "tensor %s needs bytes %" PRIu64 " to %" PRIu64 " of the data, which has only %zu: the "
                      "file is truncated or its header is wrong", tensor->name, offset, offset + tensor->size, left);
    tensor->data = walk->at + offset;
    return 0;
}

static int
s_check_tensors(s_walk_t *walk, verl_gguf_t *self)
{
    size_t count = (size_t) self->tensor_count;
    qsort(self->by_name, count, sizeof *self->by_name, s_compare_places);
    for (size_t i = 1; i < count; i++)
        if (self->by_name[i - 1]->data + self->by_name[i - 1]->size > self->by_name[i]->data)
            return s_fail(walk, "tensors %s and %s overlap", self->by_name[i - 1]->name, self->by_name[i]->name);
    qsort(self->by_name, count, sizeof *self->by_name, s_compare_names);
    for (size_t i = 1; i < count; i++)
        if (strcmp(self->by_name[i - 1]->name, self->by_name[i]->name) == 0)
            return s_fail(walk, "the file has tensor %s twice", self->by_name[i]->name);
    return 0;
}

static int
s_alignment(s_walk_t *walk, const verl_gguf_t *self, uint64_t *ret)
{
    int64_t alignment = 32;
    if (verl_gguf_get(self, "general.alignment")
        && (!verl_gguf_int(self, "general.alignment", &alignment) || alignment < 1 || alignment > 1 << 20
            || (alignment & (alignment - 1)) != 0))
        return s_fail(walk, "general.alignment must be a power of two up to %d", 1 << 20);
    *ret = (uint64_t) alignment;
    return 0;
}

static int
s_place_tensors(s_walk_t *walk, verl_gguf_t *self, const uint64_t *offsets)
{
    uint64_t alignment = 1;
    if (s_alignment(walk, self, &alignment))
        return -1;
    uint64_t pad = (alignment - (uint64_t) (walk->at - walk->start) % alignment) % alignment;
    if (pad > (size_t) (walk->end - walk->at))
        pad = (uint64_t) (walk->end - walk->at);            // no data at all: legal without tensors
    walk->at += pad;
    for (int64_t i = 0; i < self->tensor_count; i++) {
        if (s_place_tensor(walk, &self->tensors[i], offsets[i], alignment))
            return -1;
        self->by_name[i] = &self->tensors[i];
    }
    return s_check_tensors(walk, self);
}

static int
s_read_tensors(s_walk_t *walk, verl_gguf_t *self, uint64_t count)
{
    if (count > (size_t) (walk->end - walk->at) / LEAST_TENSOR)
        return s_fail(walk, "the header claims %" PRIu64 " tensors, more than the file holds", count);
    uint64_t *offsets = calloc(count + 1, sizeof *offsets);
    self->tensors = calloc(count + 1, sizeof *self->tensors);
    self->by_name = calloc(count + 1, sizeof(verl_gguf_tensor_t *));
    int result = 0;
    if (!offsets || !self->tensors || !self->by_name)
        result = s_fail(walk, "no memory for the table of tensors");
    for (uint64_t i = 0; result == 0 && i < count; i++)
        result = s_read_tensor(walk, &self->tensors[i], &offsets[i]);
    if (result == 0) {
        self->tensor_count = (int64_t) count;
        result = s_place_tensors(walk, self, offsets);
    }
    free(offsets);
    return result;
}

static int
s_read_file(s_walk_t *walk, verl_gguf_t *self)
{
    uint64_t magic = 0, version = 0, tensors = 0, values = 0;
    if (s_number(walk, 4, "the header", &magic))
        return -1;
    if (magic != 0x46554747u)
        return s_fail(walk, "this is no GGUF file: it does not begin with \"GGUF\"");
    if (s_number(walk, 4, "the header", &version))
        return -1;
    if (version == 0x02000000u || version == 0x03000000u)
        return s_fail(walk, "the file is big-endian, which is not supported");
    if (version != 2 && version != 3)
        return s_fail(walk, "GGUF version %" PRIu64 " is not supported: 2 and 3 are", version);
    if (s_number(walk, 8, "the header", &tensors) || s_number(walk, 8, "the header", &values))
        return -1;
    self->version = (uint32_t) version;
    self->metadata = walk->at;
    if (s_read_values(walk, self, values))
        return -1;
    self->metadata_size = (size_t) (walk->at - self->metadata);
    return s_read_tensors(walk, self, tensors);
}

verl_gguf_t *
verl_gguf_open_memory(const void *bytes, size_t size, const char *name, char *error, size_t error_size)
{
    verl_gguf_t *self = calloc(1, sizeof *self);
    if (!self) {
        snprintf(error, error_size, "%s: no memory to read it", name);
        return NULL;
    }
    s_walk_t walk = {name, bytes, bytes, (const uint8_t *) bytes + size, error, error_size};
    if (s_read_file(&walk, self))
        verl_gguf_close(&self);
    return self;
}

verl_gguf_t *
verl_gguf_open(const char *path, char *error, size_t error_size)
{
    verl_mapped_t file;
    verl_gguf_t *self = NULL;
    if (verl_mapped_open(&file, path, error, error_size) == 0)
        self = verl_gguf_open_memory(file.bytes, file.size, path, error, error_size);
    if (self)
        self->file = file;
    else
        verl_mapped_close(&file);
    return self;
}

void
verl_gguf_close(verl_gguf_t **self_p)
{
    verl_gguf_t *self = *self_p;
    if (!self)
        return;
    for (int64_t i = 0; i < self->value_count; i++) {
        free(self->values[i].key);
        free(self->values[i].string_at);
    }
    free(self->values);
    free(self->by_key);
    free(self->tensors);
    free(self->by_name);
    verl_mapped_close(&self->file);
    free(self);
    *self_p = NULL;
}
