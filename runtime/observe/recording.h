// recording.h: the file of a recorded trace: the frames as the actors sent them, one behind the other.
//
//     file    the 8 bytes "VERLREC\1", then items
//     item    kind (1 byte), size (u32, little-endian), that many bytes, the CRC-32C of kind, size and bytes (u32)
//     kinds   'I' a JSON object about the run, first of all; 'T' the topology as resolved (TOML); 'F' a frame
//             (trace.h); 'E' a JSON object with the closing counts, last of all
//
// A file without its 'E', or cut anywhere, is read up to where it is whole: the recorder was killed. A reader passes
// over kinds that it does not know. One thread; both wait for the disk.
#ifndef VERL_OBSERVE_RECORDING_H
#define VERL_OBSERVE_RECORDING_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "runtime/base/error.h"

#define VERL_RECORDING_ITEM_MOST (1u << 31) // bytes of an item

typedef enum {
    VERL_RECORDING_END = 0,                 // of the file: no item
    VERL_RECORDING_ABOUT = 'I',
    VERL_RECORDING_TOPOLOGY = 'T',
    VERL_RECORDING_FRAME = 'F',
    VERL_RECORDING_CLOSING = 'E',
} verl_recording_kind_t;

typedef struct verl_recording verl_recording_t;

// Makes the file; one that is there already is not written over. NULL with the reason.
verl_recording_t *verl_recording_create(const char *path, verl_error_t *error);
// Opens one for reading. NULL with the reason: it is none.
verl_recording_t *verl_recording_open(const char *path, verl_error_t *error);
// *recording_p may be NULL. -1 with a reason where what was written could not be kept; the file is closed in any case.
int verl_recording_close(verl_recording_t **recording_p, verl_error_t *error);

int verl_recording_write(verl_recording_t *recording, verl_recording_kind_t kind, const void *bytes, size_t size,
                         verl_error_t *error);
// The next item, its bytes valid until the next call. Returns its kind; END at the end, and where the file is cut short
// or damaged from there on: then there is a sentence in error.
verl_recording_kind_t verl_recording_read(verl_recording_t *recording, const char **ret_bytes, size_t *ret_size,
                                          verl_error_t *error);
#endif
