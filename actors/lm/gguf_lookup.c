// gguf_lookup.c: what a GGUF file that was checked holds: no look-up can fail on its account.
#include "actors/lm/gguf_private.h"

#include <string.h>

const verl_gguf_value_t *
verl_gguf_get(const verl_gguf_t *self, const char *key)
{
    int64_t low = 0, high = self->value_count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        int     order = strcmp(self->by_key[middle]->key, key);
        if (order == 0)
            return self->by_key[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

int64_t
verl_gguf_value_count(const verl_gguf_t *self)
{
    return self->value_count;
}

const verl_gguf_value_t *
verl_gguf_value_at(const verl_gguf_t *self, int64_t index)
{
    return index >= 0 && index < self->value_count ? &self->values[index] : NULL;
}

const char *
verl_gguf_value_key(const verl_gguf_value_t *value)
{
    return value->key;
}

verl_gguf_type_t
verl_gguf_value_type(const verl_gguf_value_t *value)
{
    return value->type;
}

verl_gguf_type_t
verl_gguf_element_type(const verl_gguf_value_t *value)
{
    return value->element_type;
}

int64_t
verl_gguf_element_count(const verl_gguf_value_t *value)
{
    return value->count;
}

bool
verl_gguf_element_int(const verl_gguf_value_t *value, int64_t index, int64_t *ret)
{
    if (!value || index < 0 || index >= value->count)
        return false;
    size_t   size = verl_gguf_type_size(value->element_type);
    uint64_t bits = verl_gguf_little(value->data + (size_t) index * size, size);
    switch (value->element_type) {
    case VERL_GGUF_U8:
    case VERL_GGUF_U16:
    case VERL_GGUF_U32: *ret = (int64_t) bits; return true;
    case VERL_GGUF_BOOL: *ret = bits != 0; return true;
    case VERL_GGUF_I8:  *ret = (int8_t) bits; return true;
    case VERL_GGUF_I16: *ret = (int16_t) bits; return true;
    case VERL_GGUF_I32: *ret = (int32_t) bits; return true;
    case VERL_GGUF_I64: *ret = (int64_t) bits; return true;
    case VERL_GGUF_U64:
        if (bits > INT64_MAX)
            return false;
        *ret = (int64_t) bits;
        return true;
    default: return false;
    }
}

bool
verl_gguf_element_real(const verl_gguf_value_t *value, int64_t index, double *ret)
{
    int64_t whole;
    if (verl_gguf_element_int(value, index, &whole)) {
        *ret = (double) whole;
        return true;
    }
    if (!value || index < 0 || index >= value->count)
        return false;
    if (value->element_type == VERL_GGUF_F32) {
        float single;
        memcpy(&single, value->data + index * 4, sizeof single);
        *ret = (double) single;
        return true;
    }
    if (value->element_type != VERL_GGUF_F64)
        return false;
    memcpy(ret, value->data + index * 8, sizeof *ret);
    return true;
}

bool
verl_gguf_element_string(const verl_gguf_value_t *value, int64_t index, verl_gguf_string_t *ret)
{
    if (!value || index < 0 || index >= value->count || value->element_type != VERL_GGUF_STRING)
        return false;
    const uint8_t *at = value->data + (value->string_at ? value->string_at[index] : 0);
    *ret = (verl_gguf_string_t) {(const char *) at + 8, (size_t) verl_gguf_little(at, 8)};
    return true;
}

static const verl_gguf_value_t *
s_single(const verl_gguf_t *self, const char *key)
{
    const verl_gguf_value_t *value = verl_gguf_get(self, key);
    return value && value->type != VERL_GGUF_ARRAY ? value : NULL;
}

bool
verl_gguf_int(const verl_gguf_t *self, const char *key, int64_t *ret)
{
    return verl_gguf_element_int(s_single(self, key), 0, ret);
}

bool
verl_gguf_real(const verl_gguf_t *self, const char *key, double *ret)
{
    return verl_gguf_element_real(s_single(self, key), 0, ret);
}

bool
verl_gguf_string(const verl_gguf_t *self, const char *key, verl_gguf_string_t *ret)
{
    return verl_gguf_element_string(s_single(self, key), 0, ret);
}

const void *
verl_gguf_metadata(const verl_gguf_t *self, size_t *ret_size, uint32_t *ret_version)
{
    *ret_size = self->metadata_size;
    *ret_version = self->version;
    return self->metadata;
}

int64_t
verl_gguf_tensor_count(const verl_gguf_t *self)
{
    return self->tensor_count;
}

const verl_gguf_tensor_t *
verl_gguf_tensor_at(const verl_gguf_t *self, int64_t index)
{
    return index >= 0 && index < self->tensor_count ? &self->tensors[index] : NULL;
}

const verl_gguf_tensor_t *
verl_gguf_tensor(const verl_gguf_t *self, const char *name)
{
    int64_t low = 0, high = self->tensor_count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        int     order = strcmp(self->by_name[middle]->name, name);
        if (order == 0)
            return self->by_name[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
