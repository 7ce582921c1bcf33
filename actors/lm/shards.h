// shards.h: the safetensors files of one Hugging Face directory as one set of tensors.
//
// Invariant: once open, every tensor that the index names is in the file that it names. The set is never written to
// after that: any number of threads may read it. Pointers live until verl_shards_close.
#ifndef VERL_LM_SHARDS_H
#define VERL_LM_SHARDS_H
#include "actors/lm/safetensors.h"

#include <stdbool.h>

typedef struct verl_shards verl_shards_t;

// Whether dir has model.safetensors or model.safetensors.index.json.
bool verl_shards_exist(const char *dir);

// Opens model.safetensors if it is there, else the shards that model.safetensors.index.json names. Returns a set that
// the caller closes, or NULL with one sentence in error. Blocks on the disk.
verl_shards_t *verl_shards_open(const char *dir, char *error, size_t error_size);
// Closes *self_p, if any, and nulls it.
void verl_shards_close(verl_shards_t **self_p);

// The tensor of that name, or NULL.
const verl_safetensor_t *verl_shards_find(const verl_shards_t *self, const char *name);

// The files, for a walk over all tensors: 0 to the number less one.
int64_t                   verl_shards_file_count(const verl_shards_t *self);
const verl_safetensors_t *verl_shards_file(const verl_shards_t *self, int64_t index);
#endif
