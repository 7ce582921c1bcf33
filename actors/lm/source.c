// source.c: the tensors of a model on disk: which are there, under which names, in which shape.
#include "actors/lm/source.h"
#include "actors/lm/config_gguf.h"
#include "actors/lm/load.h"
#include "actors/lm/refuse.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define s_fail(source, ...) verl_lm_refuse((source)->path, (source)->error, (source)->error_size, __VA_ARGS__)

int
verl_lm_source_open(verl_lm_source_t *self, const char *path, char *error, size_t error_size)
{
    char gguf_path[PATH_MAX];
    *self = (verl_lm_source_t) {path, NULL, NULL, error, error_size};
    if (verl_lm_find_gguf(path, gguf_path, sizeof gguf_path)) {
        self->gguf = verl_gguf_open(gguf_path, error, error_size);
        return self->gguf ? 0 : -1;
    }
    if (!verl_shards_exist(path))
        return s_fail(self, "it has no weights: model.safetensors, model.safetensors.index.json or one .gguf file");
    self->shards = verl_shards_open(path, error, error_size);
    return self->shards ? 0 : -1;
}

void
verl_lm_source_close(verl_lm_source_t *self)
{
    verl_gguf_close(&self->gguf);
    verl_shards_close(&self->shards);
}

static bool
s_find_in_gguf(const verl_lm_source_t *source, const char *name, verl_lm_stored_t *ret)
{
    char                      gguf_name[VERL_LM_STORED_NAME];
    const verl_gguf_tensor_t *tensor = NULL;
    if (verl_lm_gguf_name(name, gguf_name, sizeof gguf_name))
        tensor = verl_gguf_tensor(source->gguf, gguf_name);
    if (!tensor)
        return false;
    bool matrix = tensor->dims > 1;                                     // dim[0] is the fastest
    *ret = (verl_lm_stored_t) {(int) tensor->type, verl_quant_format((int64_t) tensor->type).name, tensor->dims,
                               matrix ? tensor->dim[1] : tensor->dim[0], matrix ? tensor->dim[0] : 1, tensor->data};
    return true;
}

// Names without "model." are those of a decoder that was saved without its head.
static bool
s_find_in_shards(const verl_lm_source_t *source, const char *name, verl_lm_stored_t *ret)
{
    const verl_safetensor_t *tensor = verl_shards_find(source->shards, name);
    if (!tensor && strncmp(name, "model.", 6) == 0)
        tensor = verl_shards_find(source->shards, name + 6);
    if (!tensor)
        return false;
    int64_t rows = tensor->dims > 0 ? tensor->dim[0] : 1, cols = tensor->dims > 1 ? tensor->dim[1] : 1;
    *ret = (verl_lm_stored_t) {verl_safetensor_quant(tensor), tensor->dtype, tensor->dims, rows, cols, tensor->data};
    return true;
}

bool
verl_lm_source_find(const verl_lm_source_t *self, const char *name, verl_lm_stored_t *ret_stored)
{
    return self->gguf ? s_find_in_gguf(self, name, ret_stored) : s_find_in_shards(self, name, ret_stored);
}

void
verl_lm_source_name(const verl_lm_source_t *self, const char *name, char ret_name[VERL_LM_STORED_NAME])
{
    if (!self->gguf || !verl_lm_gguf_name(name, ret_name, VERL_LM_STORED_NAME))
        snprintf(ret_name, VERL_LM_STORED_NAME, "%s", name);
}

static int
s_check_stored(const verl_lm_source_t *source, const verl_lm_tensor_t *tensor, const verl_lm_stored_t *stored)
{
    char name[VERL_LM_STORED_NAME];
    int  dims = tensor->cols > 1 ? 2 : 1;
    verl_lm_source_name(source, tensor->name, name);
    if (stored->type < 0)
        return s_fail(source, "tensor %s has dtype %s: F32, F16 and BF16 are supported", name, stored->type_name);
    if (stored->dims <= 2 && stored->dims >= dims && stored->rows == tensor->rows && stored->cols == tensor->cols)
        return 0;
    return s_fail(source, "tensor %s has %d dimension%s, %" PRId64 " x %" PRId64 ": the configuration needs %" PRId64
                  " x %" PRId64, name, stored->dims, stored->dims == 1 ? "" : "s", stored->rows, stored->cols,
                  tensor->rows, tensor->cols);
}

int
verl_lm_source_need(const verl_lm_source_t *self, const verl_lm_tensor_t *tensor, verl_lm_stored_t *ret_stored)
{
    char name[VERL_LM_STORED_NAME];
    verl_lm_source_name(self, tensor->name, name);
    if (!verl_lm_source_find(self, tensor->name, ret_stored))
        return s_fail(self, "tensor %s is missing", name);
    return s_check_stored(self, tensor, ret_stored);
}

static bool
s_ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), tail = strlen(end);
    return size >= tail && strcmp(text + size - tail, end) == 0;
}

static int
s_compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static bool
s_starts_with(const char *name, const char *const *starts)
{
    while (*starts && strncmp(name, *starts, strlen(*starts)) != 0)
        starts++;
    return *starts != NULL;
}

// Whether a tensor may be there although no configuration knows it: frequencies of RoPE, which the configuration gives
// too; heads of others beside a decoder in safetensors; a tied head, which has a check of its own.
static bool
s_may_be_there(const verl_lm_source_t *source, const char *name)
{
    static const char *const decoder[] = {"model.", "layers.", "norm.", "embed_tokens.", "lm_head.", NULL};
    if (source->gguf)
        return strcmp(name, "rope_freqs.weight") == 0;
    return !s_starts_with(name, decoder) || s_ends_with(name, "rotary_emb.inv_freq")
           || strcmp(name, "lm_head.weight") == 0;
}

// A tensor of the decoder that the configuration does not know would be left out of the computation without a word.
static int
s_check_name(const verl_lm_source_t *source, const char *known, int64_t count, const char *name)
{
    static const char *const bare[] = {"layers.", "norm.", "embed_tokens.", NULL};
    char                     full[640];
    bool                     is_bare = source->shards && s_starts_with(name, bare);
    snprintf(full, sizeof full, "%s%s", is_bare ? "model." : "", name);
    if (is_bare && verl_shards_find(source->shards, full))
        return s_fail(source, "tensors %s and %s are both there: one of them would be ignored", name, full);
    if (bsearch(full, known, (size_t) count, 96, s_compare_names) || s_may_be_there(source, name))
        return 0;
    return s_fail(source, "the configuration does not know tensor %s", name);
}

static int
s_check_names(const verl_lm_source_t *source, const char *known, int64_t count)
{
    for (int64_t i = 0; source->gguf && i < verl_gguf_tensor_count(source->gguf); i++)
        if (s_check_name(source, known, count, verl_gguf_tensor_at(source->gguf, i)->name))
            return -1;
    for (int64_t f = 0; source->shards && f < verl_shards_file_count(source->shards); f++) {
        const verl_safetensors_t *file = verl_shards_file(source->shards, f);
        for (int64_t i = 0; i < verl_safetensors_count(file); i++)
            if (s_check_name(source, known, count, verl_safetensors_at(file, i)->name))
                return -1;
    }
    return 0;
}

int
verl_lm_source_check_names(const verl_lm_source_t *self, const verl_lm_config_t *config,
                           const verl_lm_layout_t *layout)
{
    verl_lm_tensor_t tensor;
    int64_t          count = verl_lm_tensor_count(config);
    char(*known)[96] = calloc((size_t) count, sizeof *known);
    if (!known)
        return s_fail(self, "no memory for the names of %" PRId64 " tensors", count);
    for (int64_t i = 0; i < count; i++) {
        verl_lm_tensor_at(config, layout, i, &tensor);
        if (!self->gguf || !verl_lm_gguf_name(tensor.name, known[i], sizeof *known))
            snprintf(known[i], sizeof *known, "%s", tensor.name);
    }
    qsort(known, (size_t) count, sizeof *known, s_compare_names);
    int result = s_check_names(self, known[0], count);
    free(known);
    return result;
}
