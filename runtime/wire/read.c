// read.c: see read.h. The format is the msgpack specification's: one lead byte, then a big-endian number where needed.
#include "runtime/wire/read.h"
#include <endian.h>
#include <string.h>

static inline uint8_t
s_lead(const verl_reader_t *reader)
{
    return (uint8_t) *reader->at;
}

// The big-endian number of 1 << log2_size bytes behind the lead byte. Returns -1 where it is cut short.
static inline int
s_number(const verl_reader_t *reader, unsigned log2_size, uint64_t *ret)
{
    size_t size = (size_t) 1 << log2_size;
    if (verl_reader_left(reader) <= size)
        return -1;
    uint16_t half;
    uint32_t word;
    switch (log2_size) {
    case 0:
        *ret = (uint8_t) reader->at[1];
        break;
    case 1:
        memcpy(&half, reader->at + 1, sizeof half);
        *ret = be16toh(half);
        break;
    case 2:
        memcpy(&word, reader->at + 1, sizeof word);
        *ret = be32toh(word);
        break;
    default:
        memcpy(ret, reader->at + 1, sizeof *ret);
        *ret = be64toh(*ret);
    }
    return 0;
}

verl_read_type_t
verl_read_peek(const verl_reader_t *reader)
{
    static const uint8_t types[32] = {      // of 0xc0 … 0xdf
        VERL_READ_NIL, VERL_READ_NONE, VERL_READ_BOOL, VERL_READ_BOOL, VERL_READ_BIN, VERL_READ_BIN, VERL_READ_BIN,
        VERL_READ_EXT, VERL_READ_EXT, VERL_READ_EXT, VERL_READ_REAL, VERL_READ_REAL, VERL_READ_INT, VERL_READ_INT,
        VERL_READ_INT, VERL_READ_INT, VERL_READ_INT, VERL_READ_INT, VERL_READ_INT, VERL_READ_INT, VERL_READ_EXT,
        VERL_READ_EXT, VERL_READ_EXT, VERL_READ_EXT, VERL_READ_EXT, VERL_READ_STR, VERL_READ_STR, VERL_READ_STR,
        VERL_READ_ARRAY, VERL_READ_ARRAY, VERL_READ_MAP, VERL_READ_MAP,
    };
    if (reader->at >= reader->end)
        return VERL_READ_NONE;
    uint8_t lead = s_lead(reader);
    if (lead < 0x80 || lead >= 0xe0)
        return VERL_READ_INT;
    if (lead < 0x90)
        return VERL_READ_MAP;
    if (lead < 0xa0)
        return VERL_READ_ARRAY;
    return lead < 0xc0 ? VERL_READ_STR : (verl_read_type_t) types[lead - 0xc0];
}

// A length: `fixed` in the lead byte's low bits (mask) or, from lead byte `first` on, in 1 << log2_size bytes behind
// it. Returns the bytes of lead and length, or 0.
static inline size_t
s_length(const verl_reader_t *reader, uint8_t fixed, uint8_t mask, uint8_t first, unsigned log2_size, uint64_t *ret)
{
    if (reader->at >= reader->end)
        return 0;
    uint8_t lead = s_lead(reader);
    if (mask && (lead & (uint8_t) ~mask) == fixed) {
        *ret = lead & mask;
        return 1;
    }
    if (lead < first || lead > first + (2 - log2_size))
        return 0;
    log2_size += (unsigned) (lead - first);
    return s_number(reader, log2_size, ret) ? 0 : 1 + ((size_t) 1 << log2_size);
}

static inline int
s_count(verl_reader_t *reader, size_t head, uint64_t count, unsigned items, uint32_t *ret)
{
    if (!head || count > (verl_reader_left(reader) - head) / items)
        return -1;
    reader->at += head;
    *ret = (uint32_t) count;
    return 0;
}

int
verl_read_array(verl_reader_t *reader, uint32_t *ret_count)
{
    uint64_t count = 0;
    size_t head = s_length(reader, 0x90, 0x0f, 0xdc, 1, &count);
    return s_count(reader, head, count, 1, ret_count);
}

int
verl_read_map(verl_reader_t *reader, uint32_t *ret_count)
{
    uint64_t count = 0;
    size_t head = s_length(reader, 0x80, 0x0f, 0xde, 1, &count);
    return s_count(reader, head, count, 2, ret_count);
}

static inline int
s_bytes(verl_reader_t *reader, size_t head, uint64_t size, const char **ret_bytes, size_t *ret_size)
{
    if (!head || size > verl_reader_left(reader) - head)
        return -1;
    *ret_bytes = reader->at + head;
    *ret_size = (size_t) size;
    reader->at += head + size;
    return 0;
}

int
verl_read_str(verl_reader_t *reader, const char **ret_bytes, size_t *ret_size)
{
    uint64_t size = 0;
    size_t head = s_length(reader, 0xa0, 0x1f, 0xd9, 0, &size);
    return s_bytes(reader, head, size, ret_bytes, ret_size);
}

int
verl_read_bin(verl_reader_t *reader, const char **ret_bytes, size_t *ret_size)
{
    uint64_t size = 0;
    size_t head = s_length(reader, 0, 0, 0xc4, 0, &size);
    return s_bytes(reader, head, size, ret_bytes, ret_size);
}

int
verl_read_cstr(verl_reader_t *reader, char *ret, size_t room)
{
    verl_reader_t probe = *reader;
    const char *bytes;
    size_t size;
    if (verl_read_str(&probe, &bytes, &size) || size >= room || memchr(bytes, 0, size))
        return -1;
    memcpy(ret, bytes, size);
    ret[size] = 0;
    *reader = probe;
    return 0;
}

// An integer as 64 bits in two's complement, and whether it is below zero. Returns its bytes, or 0.
static inline size_t
s_integer(const verl_reader_t *reader, uint64_t *ret, bool *ret_negative)
{
    if (reader->at >= reader->end)
        return 0;
    uint8_t lead = s_lead(reader);
    *ret_negative = false;
    if (lead < 0x80) {
        *ret = lead;
        return 1;
    }
    if (lead >= 0xe0) {
        *ret = (uint64_t) (int64_t) (int8_t) lead;
        *ret_negative = true;
        return 1;
    }
    if (lead < 0xcc || lead > 0xd3)
        return 0;
    unsigned log2_size = (unsigned) (lead - 0xcc) & 3;
    if (s_number(reader, log2_size, ret))
        return 0;
    if (lead >= 0xd0) {                     // signed: the highest bit read is the sign
        unsigned shift = 64 - (8u << log2_size);
        *ret_negative = (*ret << shift) >> 63;
        if (*ret_negative && shift)
            *ret |= ~(UINT64_MAX >> shift);
    }
    return 1 + ((size_t) 1 << log2_size);
}

int
verl_read_int(verl_reader_t *reader, int64_t *ret)
{
    uint64_t bits;
    bool negative;
    size_t size = s_integer(reader, &bits, &negative);
    if (!size || (!negative && bits > INT64_MAX))
        return -1;
    *ret = (int64_t) bits;
    reader->at += size;
    return 0;
}

int
verl_read_uint(verl_reader_t *reader, uint64_t *ret)
{
    uint64_t bits;
    bool negative;
    size_t size = s_integer(reader, &bits, &negative);
    if (!size || negative)
        return -1;
    *ret = bits;
    reader->at += size;
    return 0;
}

int
verl_read_real(verl_reader_t *reader, double *ret)
{
    uint64_t bits;
    bool negative;
    size_t size = s_integer(reader, &bits, &negative);
    if (size) {
        *ret = negative ? (double) (int64_t) bits : (double) bits;
        reader->at += size;
        return 0;
    }
    if (reader->at >= reader->end || (s_lead(reader) & 0xfe) != 0xca)
        return -1;
    unsigned log2_size = s_lead(reader) == 0xca ? 2 : 3;
    if (s_number(reader, log2_size, &bits))
        return -1;
    if (log2_size == 2) {
        uint32_t word = (uint32_t) bits;
        float value;
        memcpy(&value, &word, sizeof value);
        *ret = (double) value;
    } else {
        memcpy(ret, &bits, sizeof *ret);
    }
    reader->at += 1 + ((size_t) 1 << log2_size);
    return 0;
}

int
verl_read_bool(verl_reader_t *reader, bool *ret)
{
    if (reader->at >= reader->end || (s_lead(reader) & 0xfe) != 0xc2)
        return -1;
    *ret = s_lead(reader) & 1;
    reader->at++;
    return 0;
}

int
verl_read_nil(verl_reader_t *reader)
{
    if (reader->at >= reader->end || s_lead(reader) != 0xc0)
        return -1;
    reader->at++;
    return 0;
}

static int
s_skip_ext(verl_reader_t *reader)
{
    uint8_t lead = s_lead(reader);
    uint64_t size = 0;
    size_t head = 1;
    if (lead >= 0xd4) {                     // fixext: 1 << (lead - 0xd4) bytes
        size = (uint64_t) 1 << (lead - 0xd4);
    } else {
        head = s_length(reader, 0, 0, 0xc7, 0, &size);
    }
    const char *bytes;
    size_t ignored;
    return s_bytes(reader, head, head ? size + 1 : 0, &bytes, &ignored);     // one byte more says what type it is
}

// Moves past one item, or past the head of an array or a map whose items (pairs counted twice) are then in *ret_items.
static int
s_skip_head(verl_reader_t *reader, uint64_t *ret_items)
{
    uint32_t count = 0;
    uint64_t bits;
    double real;
    bool boolean;
    const char *bytes;
    size_t size;
    *ret_items = 0;
    switch (verl_read_peek(reader)) {
    case VERL_READ_NIL:
        return verl_read_nil(reader);
    case VERL_READ_BOOL:
        return verl_read_bool(reader, &boolean);
    case VERL_READ_INT:
        size = s_integer(reader, &bits, &boolean);
        reader->at += size;
        return size ? 0 : -1;
    case VERL_READ_REAL:
        return verl_read_real(reader, &real);
    case VERL_READ_STR:
        return verl_read_str(reader, &bytes, &size);
    case VERL_READ_BIN:
        return verl_read_bin(reader, &bytes, &size);
    case VERL_READ_EXT:
        return s_skip_ext(reader);
    case VERL_READ_ARRAY:
        if (verl_read_array(reader, &count))
            return -1;
        *ret_items = count;
        return 0;
    case VERL_READ_MAP:
        if (verl_read_map(reader, &count))
            return -1;
        *ret_items = 2 * (uint64_t) count;
        return 0;
    default:
        return -1;
    }
}

int
verl_read_skip(verl_reader_t *reader)
{
    uint64_t items[VERL_READ_DEPTH + 1] = {1};      // still to pass at each depth
    verl_reader_t probe = *reader;
    unsigned depth = 0;
    for (;;) {
        while (items[depth] == 0) {
            if (depth == 0) {
                *reader = probe;
                return 0;
            }
            depth--;
        }
        items[depth]--;
        uint64_t inside;
        if (s_skip_head(&probe, &inside))
            return -1;
        if (inside) {
            if (depth == VERL_READ_DEPTH)
                return -1;
            items[++depth] = inside;
        }
    }
}
