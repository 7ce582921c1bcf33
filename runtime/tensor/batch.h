// batch.h: what the runtime does with batches beside what verl.h lets a handler do: make, pack, unpack, join, give.
//
// A batch is one of three: made (a handler fills it), unpacked (as it came off the wire, columns as they are stored),
// or given (columns of several unpacked batches, seen through row maps as one table). Invariants: rows is at most 2^31
// - 1; every column that can be looked up is whole, its offsets do not decrease and its data lie inside its memory; so
// a handler that stays within the lengths that it is told never reads beyond a block. The offsets of a column need not
// begin at 0: a part of a column is the same memory with shifted pointers. No function blocks, except that taking a
// block may wait for the memory's owner. A batch belongs to one thread at a time; reading one is safe from many.
#ifndef VERL_TENSOR_BATCH_H
#define VERL_TENSOR_BATCH_H
#include "runtime/include/verl.h"
#include "runtime/tensor/memory.h"
#include "runtime/wire/buffer.h"

#define VERL_BATCH_INLINE  1024             // bytes; a column up to this size travels inside the message
#define VERL_BATCH_FORMAT  1                // of a packed batch: its first item
#define VERL_BATCH_COLUMNS 4096             // at most, in one batch
#define VERL_BATCH_NAME    255              // bytes of a column's name, at most

// Frees a batch of any kind and sets the pointer to NULL: its heap, its blocks (through the memory's give), its hold on
// slabs. *batch may be NULL.
void verl_batch_destroy(verl_batch_t **batch);

// --- any batch

// Bytes of payload: of the data and the offsets of all columns and of the map. A column that is seen through a map
// counts as it is stored.
uint64_t verl_batch_bytes(const verl_batch_t *batch);

// The same of some of the columns of a made batch, by name, and of its map where with_map.
uint64_t verl_batch_bytes_of(const verl_batch_t *batch, const char *const *names, int count, bool with_map);
// What the profile says of a run of a handler. Bytes of the given batch's columns that nobody has asked for. / Bytes of
// the made batch's columns of 64 KiB and more that are, at 16 places spread over them, what a given column is: a stage
// that hands on what it got. Columns seen through a map and those that are the same everywhere are not looked at.
uint64_t verl_batch_unseen(const verl_batch_t *given);
uint64_t verl_batch_again(const verl_batch_t *given, const verl_batch_t *made);

// The map of a made or unpacked batch, verl_batch_rows entries: for each of its rows the row that it came from, counted
// in the whole batch that was given to its maker. NULL where the maker did not change rows.
const int32_t *verl_batch_map(const verl_batch_t *batch);

// --- made batches

// A batch for a handler to fill. rows: of the batch that the handler was given, -1 for a source. first_row: of that
// batch in the whole one; the made one begins there too unless verl_batch_set_first_row says otherwise. memory: where
// columns above VERL_BATCH_INLINE bytes go, one block each; copied, but its context must outlive the batch. NULL
// without memory. The adders of verl.h record what goes wrong, the first reason stays.
verl_batch_t *verl_batch_new_made(int64_t id, int64_t rows, int64_t first_row, const verl_memory_t *memory);
void          verl_batch_set_first_row(verl_batch_t *batch, int64_t first_row);

// The recorded failure as one sentence, or NULL.
const char *verl_batch_error(const verl_batch_t *batch);

// After the handler: -1 and the recorded failure, or that rows were never set, or that the map names a row that was not
// given. Then counts the map's entries in the whole given batch (adds its first row). Sealing again changes nothing.
int verl_batch_seal(verl_batch_t *batch, verl_error_t *error);

// How many blocks the batch owns; and hands them over: writes them to ret (room for all of them), returns how many. The
// caller then gives each back to the memory when nobody reads it any more; the batch itself may be destroyed before.
int verl_batch_blocks(const verl_batch_t *batch);
int verl_batch_release_blocks(verl_batch_t *batch, verl_block_t *ret);

// Writes the named columns behind the end of out, as the body of a data message. as: their names there, NULL: the same.
// with_map: the map too, where there is one. Returns -1 and the reason: no such column, or no memory.
//
// The format, msgpack: an array of 5
//     format   1
//     rows     0 … 2^31 - 1
//     first    row of the whole batch that row 0 is, >= 0
//     map      nil, or a place of rows entries of i32: the row of the whole given batch behind each row
//     columns  an array; each an array of 6
//         name     string, 1 … 255 bytes, no zero byte, once in a batch
//         dtype    string: u8, i32, i64, f32, bf16, text
//         ragged   boolean; text is ragged with width 1
//         width    elements of a row; of a position where ragged; >= 0
//         rows     stored rows: the batch's rows
//         place    of its memory
// A place is either a binary: the bytes themselves; or an array [slab, offset, bytes]: that many bytes in a slab of the
// host, offset a multiple of 64, all integers > 0 except the offset. The memory of a fixed column is rows x width
// elements. That of a ragged one is rows + 1 offsets of i64 (positions before each row: the first is 0, none is below
// the one before it), zeroes up to a multiple of 64 bytes, then offsets[rows] x width elements. `bytes`, or the
// binary's length, is exactly that. Numbers in the memory are little-endian.
int verl_batch_pack(const verl_batch_t *batch, const char *const *names, const char *const *as, int count,
                    bool with_map, verl_buffer_t *out, verl_error_t *error);
// The same with all bytes inside: for a file, or for a reader that shares no memory. Columns and maps of 4 GiB and more
// are refused.
int verl_batch_pack_inline(const verl_batch_t *batch, const char *const *names, const char *const *as, int count,
                           bool with_map, verl_buffer_t *out, verl_error_t *error);

// --- unpacked batches

// Reads what verl_batch_pack wrote. Everything is checked before it is believed. Data of inline columns, and the
// offsets of all, are copied; other data stay where they are, in slabs that are held until the batch is destroyed.
// slabs: copied; NULL: only inline columns are accepted. NULL and the reason on failure; bytes may then be anything.
verl_batch_t *verl_batch_unpack(int64_t id, const char *bytes, size_t size, const verl_slabs_t *slabs,
                                verl_error_t *error);

// The whole of n >= 1 unpacked parts: same id, same columns in the same order, each beginning where the one before it
// ends. Columns are copied to the heap, offsets and maps joined. The parts stay the caller's. NULL and the reason.
verl_batch_t *verl_batch_concat(const verl_batch_t *const *parts, int count, verl_error_t *error);

// --- given batches

verl_batch_t *verl_batch_new_given(int64_t id, int64_t rows, int64_t first_row);     // NULL without memory

// Adds a column under a name (borrowed, like all memory of `stored`: it must outlive the batch). Row i of the batch is
// the stored row maps[maps_count - 1][… maps[0][slice_first + i]]: maps lead from the stage's rows outwards to the
// column's; without any it is row slice_first + i, which is the same memory with shifted pointers. The composed map
// belongs to the batch; entries outside the next map or the column are refused. -1 and the reason.
int verl_batch_put(verl_batch_t *batch, const char *name, const verl_column_t *stored, const int32_t *const *maps,
                   const int64_t *map_lengths, int maps_count, int64_t slice_first, verl_error_t *error);
#endif
