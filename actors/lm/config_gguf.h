// config_gguf.h: the configuration of a model as the metadata of a GGUF file gives it.
//
// Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#llm
#ifndef VERL_LM_CONFIG_GGUF_H
#define VERL_LM_CONFIG_GGUF_H
#include "actors/lm/config.h"
#include "actors/lm/gguf.h"

// Fills *ret_config from the metadata and the tensors that are there: architecture llama, qwen2 or qwen3; a head that
// is absent is tied; rope_freqs of Llama 3 become the numbers of its scaling. name stands for the file in errors.
// Returns 0, or -1 with one sentence in error. Blocks on nothing.
int verl_lm_config_from_gguf(const verl_gguf_t *file, const char *name, verl_lm_config_t *ret_config, char *error,
                             size_t error_size);

// The GGUF name of a tensor that has this Hugging Face name ("model.layers.3.mlp.up_proj.weight" is
// "blk.3.ffn_up.weight"). Returns whether there is one; it fits in 96 bytes.
bool verl_lm_gguf_name(const char *name, char *ret_name, size_t size);
#endif
