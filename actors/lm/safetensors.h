// safetensors.h: reads safetensors files: a JSON header that says where each tensor lies, then the bytes.
//
// The file is mapped and checked once, when it is opened: header length, dtypes, shape x dtype against each range,
// ranges inside the file, no overlap, no hole, no name twice. A reader is never written to after that: any number of
// threads may use it; no accessor blocks. Pointers live until verl_safetensors_close.
// Format: https://huggingface.co/docs/safetensors/index#format
#ifndef VERL_LM_SAFETENSORS_H
#define VERL_LM_SAFETENSORS_H
#include "actors/lm/quants.h"

#include <stddef.h>
#include <stdint.h>

#define VERL_SAFETENSORS_DIMS 8

typedef struct verl_safetensors verl_safetensors_t;

typedef struct {
    char          *name;
    char           dtype[12];               // as written: "F32", "BF16", "I64", …
    int            dims;                    // 0 for a scalar
    int64_t        dim[VERL_SAFETENSORS_DIMS];
    int64_t        count;                   // elements
    const uint8_t *data;                    // no alignment is promised
    size_t         size;                    // bytes
} verl_safetensor_t;

// Opens a file. Returns a reader that the caller closes, or NULL with one sentence in error (the path is in it).
verl_safetensors_t *verl_safetensors_open(const char *path, char *error, size_t error_size);
// The same for a file that is in memory, which must outlive the reader; name stands for the path in errors.
verl_safetensors_t *verl_safetensors_open_memory(const void *bytes, size_t size, const char *name, char *error,
                                                 size_t error_size);
// Closes *self_p, if any, and nulls it.
void verl_safetensors_close(verl_safetensors_t **self_p);

// Tensors in the order of their names; by name NULL where there is none.
int64_t                  verl_safetensors_count(const verl_safetensors_t *self);
const verl_safetensor_t *verl_safetensors_at(const verl_safetensors_t *self, int64_t index);
const verl_safetensor_t *verl_safetensors_find(const verl_safetensors_t *self, const char *name);

// The stored format as verl_dequantize knows it (F32, F16, BF16), or -1 for one that holds no weights of ours.
int verl_safetensor_quant(const verl_safetensor_t *tensor);
#endif
