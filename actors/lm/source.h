// source.h: a model on disk as a set of stored tensors, looked up by Hugging Face names, whichever file they come from.
//
// Once open it is never written to: any number of threads may read it. What it gives points into mapped files and lives
// until verl_lm_source_close.
#ifndef VERL_LM_SOURCE_H
#define VERL_LM_SOURCE_H
#include "actors/lm/config.h"
#include "actors/lm/gguf.h"
#include "actors/lm/shards.h"

typedef struct {
    const char    *path;                    // as the caller gave it
    verl_gguf_t   *gguf;                    // one of the two
    verl_shards_t *shards;
    char          *error;
    size_t         error_size;
} verl_lm_source_t;

// A tensor as a file holds it; rows and cols as in verl_lm_tensor_t.
typedef struct {
    int            type;                    // verl_quant_type_t, or -1
    const char    *type_name;
    int            dims;
    int64_t        rows, cols;
    const uint8_t *data;
} verl_lm_stored_t;

// Opens the files of a model; path, and error for the sentences of all that follows, must outlive it. Returns 0, or -1
// with one sentence in error. verl_lm_source_close closes it, also after a failure.
int  verl_lm_source_open(verl_lm_source_t *self, const char *path, char *error, size_t error_size);
void verl_lm_source_close(verl_lm_source_t *self);

// The tensor of that Hugging Face name, in whatever shape. Returns whether it is there.
bool verl_lm_source_find(const verl_lm_source_t *self, const char *name, verl_lm_stored_t *ret_stored);

// That name as these files write it, for sentences.
#define VERL_LM_STORED_NAME 96
void verl_lm_source_name(const verl_lm_source_t *self, const char *name, char ret_name[VERL_LM_STORED_NAME]);

// The tensor of that name and shape, in a type that holds weights. Returns 0, or -1 with one sentence.
int  verl_lm_source_need(const verl_lm_source_t *self, const verl_lm_tensor_t *tensor, verl_lm_stored_t *ret_stored);

// Whether every tensor of the decoder that is stored is one of this configuration, and none is there under two names.
// Returns 0, or -1 with one sentence.
int  verl_lm_source_check_names(const verl_lm_source_t *self, const verl_lm_config_t *config,
                                const verl_lm_layout_t *layout);
#endif
