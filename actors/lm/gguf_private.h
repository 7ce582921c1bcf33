// gguf_private.h: a GGUF file in memory, for who reads it (gguf.c) and who looks it up (gguf_lookup.c).
#ifndef VERL_LM_GGUF_PRIVATE_H
#define VERL_LM_GGUF_PRIVATE_H
#include "actors/lm/gguf.h"
#include "actors/lm/mapped.h"

struct verl_gguf_value {
    char            *key;
    verl_gguf_type_t type, element_type;
    int64_t          count;
    const uint8_t   *data;                  // of the first element; unaligned
    size_t          *string_at;             // arrays of strings: where in data each string's length stands
};

struct verl_gguf {
    verl_mapped_t       file;               // empty where the caller owns the bytes
    uint32_t            version;
    const uint8_t      *metadata;
    size_t              metadata_size;
    verl_gguf_value_t  *values;
    int64_t             value_count;
    verl_gguf_value_t **by_key;             // sorted
    verl_gguf_tensor_t *tensors;
    int64_t             tensor_count;
    verl_gguf_tensor_t **by_name;           // sorted
};

static inline uint64_t
verl_gguf_little(const uint8_t *bytes, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t) bytes[i] << (8 * i);
    return value;
}

static inline size_t
verl_gguf_type_size(uint64_t type)
{
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < sizeof sizes ? sizes[type] : 0;
}
#endif
