// pack.c: a thin layer over msgpack-c's packer. The packer is made anew for every item: its constant callback lets the
// compiler write straight into the buffer.
#include "runtime/wire/pack.h"
#include <msgpack/pack.h>

static inline int
s_write(void *data, const char *bytes, size_t size)
{
    return verl_buffer_append(data, bytes, size);
}

#define S_PACKER(buffer) (&(msgpack_packer) {.data = (buffer), .callback = s_write})

int
verl_pack_array(verl_buffer_t *buffer, uint32_t count)
{
    return msgpack_pack_array(S_PACKER(buffer), count);
}

int
verl_pack_map(verl_buffer_t *buffer, uint32_t count)
{
    return msgpack_pack_map(S_PACKER(buffer), count);
}

int
verl_pack_int(verl_buffer_t *buffer, int64_t value)
{
    return msgpack_pack_int64(S_PACKER(buffer), value);
}

int
verl_pack_uint(verl_buffer_t *buffer, uint64_t value)
{
    return msgpack_pack_uint64(S_PACKER(buffer), value);
}

int
verl_pack_real(verl_buffer_t *buffer, double value)
{
    return msgpack_pack_double(S_PACKER(buffer), value);
}

int
verl_pack_bool(verl_buffer_t *buffer, bool value)
{
    return value ? msgpack_pack_true(S_PACKER(buffer)) : msgpack_pack_false(S_PACKER(buffer));
}

int
verl_pack_nil(verl_buffer_t *buffer)
{
    return msgpack_pack_nil(S_PACKER(buffer));
}

// Refuses what a 32-bit length cannot say, so that no length is ever cut.
static int
s_check_size(verl_buffer_t *buffer, size_t size)
{
    if (size <= UINT32_MAX)
        return 0;
    buffer->failed = true;
    return -1;
}

int
verl_pack_str(verl_buffer_t *buffer, const char *bytes, size_t size)
{
    if (s_check_size(buffer, size) || msgpack_pack_str(S_PACKER(buffer), size))
        return -1;
    return verl_buffer_append(buffer, bytes, size);
}

int
verl_pack_cstr(verl_buffer_t *buffer, const char *text)
{
    return text ? verl_pack_str(buffer, text, strlen(text)) : verl_pack_nil(buffer);
}

int
verl_pack_bin_head(verl_buffer_t *buffer, size_t size)
{
    return s_check_size(buffer, size) || msgpack_pack_bin(S_PACKER(buffer), size) ? -1 : 0;
}

int
verl_pack_bin(verl_buffer_t *buffer, const void *bytes, size_t size)
{
    if (verl_pack_bin_head(buffer, size))
        return -1;
    return verl_buffer_append(buffer, bytes, size);
}
