// save.h: writes a model as a Hugging Face directory that transformers loads.
//
// A save is all or nothing: everything is written to a directory beside the target ("TARGET.saving"), synced, and
// renamed, or exchanged with a target that is there. A kill at any moment leaves the old model or the new one; what it
// leaves beside the target, the next save to it removes.
#ifndef VERL_LM_SAVE_H
#define VERL_LM_SAVE_H
#include "actors/lm/config.h"

typedef enum { VERL_SAVE_F32, VERL_SAVE_BF16 } verl_save_dtype_t;   // BF16: rounded to nearest even

// A tensor besides the decoder's, such as a value head: rows * cols floats; cols 1 and vector: shape [rows].
typedef struct {
    const char  *name;
    const float *data;
    int64_t      rows, cols;
    bool         vector;
} verl_save_extra_t;

typedef struct {
    verl_save_dtype_t        dtype;
    const char              *tokenizer_dir; // a model whose tokenizer goes along; NULL: none. May be the target
    const verl_save_extra_t *extras;
    int                      extra_count;
} verl_save_options_t;

// Writes config.json, generation_config.json, model.safetensors and the tokenizer files to dir, whose parent must
// exist. A dir that is there is replaced as a whole: it must be empty or hold one model (config.json and files only).
// The tokenizer files of a Hugging Face directory are copied; the metadata of a GGUF model become tokenizer.gguf, a
// GGUF file without tensors, which our tokenizers read (transformers does not). options may be NULL: F32, no more.
// Blocks until all is on the disk. One saver a target at a time: a second one fails. Returns 0, or -1 with one sentence
// in error; the target is then as it was (where only the last sync of its parent failed: as it was, or new).
int verl_lm_save(const char *dir, const verl_lm_config_t *config, const verl_lm_layout_t *layout,
                 const float *parameters, const verl_save_options_t *options, char *error, size_t error_size);
#endif
