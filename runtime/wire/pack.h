// pack.h: writes msgpack behind the end of a buffer, every number in its shortest form.
//
// All functions return 0, or -1 when memory ran out; the buffer remembers that (verl_buffer_t.failed), so that a
// message of many items may be checked once, after its last one. None blocks; a buffer belongs to one thread at a time.
#ifndef VERL_WIRE_PACK_H
#define VERL_WIRE_PACK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/wire/buffer.h"

int verl_pack_array(verl_buffer_t *buffer, uint32_t count);            // then count items
int verl_pack_map(verl_buffer_t *buffer, uint32_t count);              // then count pairs of key and value
int verl_pack_int(verl_buffer_t *buffer, int64_t value);
int verl_pack_uint(verl_buffer_t *buffer, uint64_t value);
int verl_pack_real(verl_buffer_t *buffer, double value);
int verl_pack_bool(verl_buffer_t *buffer, bool value);
int verl_pack_nil(verl_buffer_t *buffer);
int verl_pack_str(verl_buffer_t *buffer, const char *bytes, size_t size);   // -1 also where size is above 2^32 - 1
int verl_pack_cstr(verl_buffer_t *buffer, const char *text);                // NULL is written as nil
int verl_pack_bin(verl_buffer_t *buffer, const void *bytes, size_t size);   // -1 also where size is above 2^32 - 1
int verl_pack_bin_head(verl_buffer_t *buffer, size_t size);                 // then size bytes with verl_buffer_append
#endif
