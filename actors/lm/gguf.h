// gguf.h: reads GGUF files (versions 2 and 3, little-endian): typed metadata, and tensors with their block formats.
//
// The whole file is mapped and checked once, when it is opened: header, counts, lengths, offsets, overlaps, duplicate
// names. After that every accessor is a look-up that cannot fail on the file's account. A reader is never written to
// after it is opened, so that any number of threads may use it; no accessor blocks. What accessors return points into
// the reader and lives until verl_gguf_close. The file must not be truncated while it is open.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#ifndef VERL_LM_GGUF_H
#define VERL_LM_GGUF_H
#include "actors/lm/quants.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct verl_gguf verl_gguf_t;
typedef struct verl_gguf_value verl_gguf_value_t;       // one entry of the metadata

// Types of metadata; the numbers are the format's.
typedef enum {
    VERL_GGUF_U8, VERL_GGUF_I8, VERL_GGUF_U16, VERL_GGUF_I16, VERL_GGUF_U32, VERL_GGUF_I32, VERL_GGUF_F32,
    VERL_GGUF_BOOL, VERL_GGUF_STRING, VERL_GGUF_ARRAY, VERL_GGUF_U64, VERL_GGUF_I64, VERL_GGUF_F64
} verl_gguf_type_t;

// Bytes inside the file, not terminated; they may hold anything, zeros too.
typedef struct {
    const char *data;
    size_t      size;
} verl_gguf_string_t;

typedef struct {
    char              name[128];
    int               dims;                 // 1 to 4
    int64_t           dim[4];               // dim[0] is the fastest (a row's length); 1 beyond dims
    int64_t           count;                // elements
    verl_quant_type_t type;
    const uint8_t    *data;                 // in the mapping, alignment of the file's own (general.alignment)
    size_t            size;                 // bytes
} verl_gguf_tensor_t;

// Opens a file. Returns a reader that the caller closes, or NULL with one sentence in error (the path is in it).
verl_gguf_t *verl_gguf_open(const char *path, char *error, size_t error_size);
// The same for a file that is in memory, which must outlive the reader; name stands for the path in errors.
verl_gguf_t *verl_gguf_open_memory(const void *bytes, size_t size, const char *name, char *error, size_t error_size);
// Closes *self_p, if any, and nulls it.
void verl_gguf_close(verl_gguf_t **self_p);

// The metadata entry of that key, or NULL. For enumeration: entries are 0 to count less one, in the file's order.
const verl_gguf_value_t *verl_gguf_get(const verl_gguf_t *self, const char *key);
int64_t                  verl_gguf_value_count(const verl_gguf_t *self);
const verl_gguf_value_t *verl_gguf_value_at(const verl_gguf_t *self, int64_t index);

// The key (terminated), the type, and for an array the type and number of its elements (else the type itself and 1).
const char      *verl_gguf_value_key(const verl_gguf_value_t *value);
verl_gguf_type_t verl_gguf_value_type(const verl_gguf_value_t *value);
verl_gguf_type_t verl_gguf_element_type(const verl_gguf_value_t *value);
int64_t          verl_gguf_element_count(const verl_gguf_value_t *value);

// The index-th element of a value (0 for one that is no array), in constant time. Each returns false, and leaves *ret
// alone, where value is NULL, index is out of range, or the type does not fit: an integer is any integer type or a
// boolean (a u64 above INT64_MAX does not fit), a real is f32, f64 or an integer.
bool verl_gguf_element_int(const verl_gguf_value_t *value, int64_t index, int64_t *ret);
bool verl_gguf_element_real(const verl_gguf_value_t *value, int64_t index, double *ret);
bool verl_gguf_element_string(const verl_gguf_value_t *value, int64_t index, verl_gguf_string_t *ret);

// The same for the single value of a key; false also where the key is absent or an array.
bool verl_gguf_int(const verl_gguf_t *self, const char *key, int64_t *ret);
bool verl_gguf_real(const verl_gguf_t *self, const char *key, double *ret);
bool verl_gguf_string(const verl_gguf_t *self, const char *key, verl_gguf_string_t *ret);

// The metadata as the file has it: the bytes after the counts of the header, verl_gguf_value_count entries in the
// format of this version.
const void *verl_gguf_metadata(const verl_gguf_t *self, size_t *ret_size, uint32_t *ret_version);

// Tensors, in the file's order; by name NULL where there is none.
int64_t                   verl_gguf_tensor_count(const verl_gguf_t *self);
const verl_gguf_tensor_t *verl_gguf_tensor_at(const verl_gguf_t *self, int64_t index);
const verl_gguf_tensor_t *verl_gguf_tensor(const verl_gguf_t *self, const char *name);
#endif
