// read.h: reads msgpack item by item from bytes that nobody vouches for.
//
// Invariant: a reader never looks behind end, allocates nothing, and moves only past what it has accepted: a function
// that returns -1 leaves the reader where it was, so a caller may try another type. All return 0 or -1; none blocks.
// A count that is returned is believable: every item takes at least one of the bytes that are left.
#ifndef VERL_WIRE_READ_H
#define VERL_WIRE_READ_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERL_READ_DEPTH 16                  // arrays and maps inside each other that verl_read_skip follows

typedef struct verl_reader {
    const char *at;                         // the next item
    const char *end;
} verl_reader_t;

typedef enum verl_read_type {
    VERL_READ_NONE,                         // no bytes left, or a byte that begins nothing (0xc1)
    VERL_READ_NIL,
    VERL_READ_BOOL,
    VERL_READ_INT,                          // any integer, signed or not
    VERL_READ_REAL,                         // f32 or f64
    VERL_READ_STR,
    VERL_READ_BIN,
    VERL_READ_ARRAY,
    VERL_READ_MAP,
    VERL_READ_EXT,                          // never ours; can be skipped
} verl_read_type_t;

static inline void
verl_reader_init(verl_reader_t *reader, const void *bytes, size_t size)
{
    reader->at = bytes;
    reader->end = reader->at + size;
}

static inline size_t
verl_reader_left(const verl_reader_t *reader)
{
    return (size_t) (reader->end - reader->at);
}

// The type of the next item, by its first byte alone: the item itself may still be cut short.
verl_read_type_t verl_read_peek(const verl_reader_t *reader);

int verl_read_array(verl_reader_t *reader, uint32_t *ret_count);       // then count items
int verl_read_map(verl_reader_t *reader, uint32_t *ret_count);         // then count pairs of key and value
int verl_read_int(verl_reader_t *reader, int64_t *ret);                // any integer that fits
int verl_read_uint(verl_reader_t *reader, uint64_t *ret);              // any integer that is not negative
int verl_read_real(verl_reader_t *reader, double *ret);                // f32, f64, or an integer
int verl_read_bool(verl_reader_t *reader, bool *ret);
int verl_read_nil(verl_reader_t *reader);
// The bytes stay where they are: they live as long as the memory that is read, and are not terminated. UTF-8 is not
// checked.
int verl_read_str(verl_reader_t *reader, const char **ret_bytes, size_t *ret_size);
int verl_read_bin(verl_reader_t *reader, const char **ret_bytes, size_t *ret_size);
// A string, copied and terminated: -1 too where it has `room` bytes or more, or holds a zero byte.
int verl_read_cstr(verl_reader_t *reader, char *ret, size_t room);
// Moves past one whole item of any type, or says -1: cut short, malformed, or nested deeper than VERL_READ_DEPTH.
int verl_read_skip(verl_reader_t *reader);
#endif
