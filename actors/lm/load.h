// load.h: a model on disk -> its configuration and its parameters as one vector of floats.
//
// A model is a Hugging Face directory (config.json with model.safetensors, or model.safetensors.index.json and its
// shards), a .gguf file, or a directory without config.json that holds exactly one .gguf file. Files are mapped and
// checked in full before anything is believed. All functions block on the disk, keep no state, and may run in several
// threads at once; parameters are converted with OpenMP threads.
#ifndef VERL_LM_LOAD_H
#define VERL_LM_LOAD_H
#include "actors/lm/config.h"

// Reads and checks the configuration alone (config.json with the stop tokens of generation_config.json, or of
// tokenizer_config.json where neither names one; or the metadata of a GGUF file); weights need not be there.
// Returns 0, or -1 with one sentence in error: which file, which key, what would be right.
int verl_lm_config_load(const char *path, verl_lm_config_t *ret_config, char *error, size_t error_size);

// Whether weights are there (a directory with config.json alone is a model to be initialised at random).
bool verl_lm_has_weights(const char *path);

// Whether verl_lm_parameters_load would find every tensor, in its shape and in files that are whole: looks at headers
// and reads no weight. Returns 0, or -1 with one sentence in error.
int verl_lm_parameters_check(const char *path, const verl_lm_config_t *config, char *error, size_t error_size);

// Fills parameters (layout->total floats, owned by the caller) with the weights, gaps with zeros. config and layout are
// those of this model. q and k of a Llama GGUF come back in Hugging Face's order of rows. Returns 0, or -1 with one
// sentence in error: a missing or unknown tensor, a wrong shape or type, a NaN or infinity (tensor and index), a
// head that differs from a tied embedding, a damaged file; parameters are then unspecified.
int verl_lm_parameters_load(const char *path, const verl_lm_config_t *config, const verl_lm_layout_t *layout,
                            float *parameters, char *error, size_t error_size);

// Fills out (rows * cols floats) with a tensor that the decoder does not know, such as a value head "score.weight".
// Returns 1, 0 where the model has no such tensor (always so for GGUF), or -1 with one sentence in error.
int verl_lm_extra_load(const char *path, const char *name, int64_t rows, int64_t cols, float *out, char *error,
                       size_t error_size);

// Whether path is a GGUF model; if so, the path of its file goes to ret_path (size bytes).
bool verl_lm_find_gguf(const char *path, char *ret_path, size_t size);
#endif
