// load.c: finds what kind of model a path is, and turns its tensors into the flat vector.
//
// A model is opened as a source: a set of stored tensors that can be looked up by Hugging Face names, whichever file
// they come from. Invariant: a load that succeeds has written every float of the vector, and every one is finite.
#include "actors/lm/load.h"
#include "actors/lm/config_gguf.h"
#include "actors/lm/config_json.h"
#include "actors/lm/gguf.h"
#include "actors/lm/mapped.h"
#include "actors/lm/shards.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const char    *path;                    // as the caller gave it
    verl_gguf_t   *gguf;                    // one of the two
    verl_shards_t *shards;
    char          *error;
    size_t         error_size;
} s_source_t;

// A tensor as a file holds it; rows and cols as in verl_lm_tensor_t.
typedef struct {
    int            type;                    // verl_quant_type_t, or -1
    const char    *type_name;
    int            dims;
    int64_t        rows, cols;
    const uint8_t *data;
} s_stored_t;

static int __attribute__((format(printf, 2, 3)))
s_fail(const s_source_t *source, const char *format, ...)
{
    char    what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(source->error, source->error_size, "%s: %s", source->path, what);
    return -1;
}

static bool
s_join(char *ret_path, size_t size, const char *dir, const char *name)
{
    return (size_t) snprintf(ret_path, size, "%s/%s", dir, name) < size;
}

static bool
s_has(const char *dir, const char *name)
{
    char path[PATH_MAX];
    return s_join(path, sizeof path, dir, name) && access(path, F_OK) == 0;
}

static bool
s_is_gguf_name(const char *name)
{
    size_t size = strlen(name);
    return size > 5 && strcmp(name + size - 5, ".gguf") == 0;
}

// The only .gguf file of a directory.
static bool
s_only_gguf(const char *dir, char *ret_path, size_t size)
{
    int            found = 0;
    struct dirent *entry;
    DIR           *listing = opendir(dir);
    if (!listing)
        return false;
    while ((entry = readdir(listing)))
        if (s_is_gguf_name(entry->d_name) && s_join(ret_path, size, dir, entry->d_name))
            found++;
    closedir(listing);
    return found == 1;
}

bool
verl_lm_find_gguf(const char *path, char *ret_path, size_t size)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return false;
    if (S_ISDIR(status.st_mode))
        return !s_has(path, "config.json") && s_only_gguf(path, ret_path, size);
    return S_ISREG(status.st_mode) && (size_t) snprintf(ret_path, size, "%s", path) < size;
}

bool
verl_lm_has_weights(const char *path)
{
    char gguf[PATH_MAX];
    return verl_lm_find_gguf(path, gguf, sizeof gguf) || verl_shards_exist(path);
}

typedef int (*s_parse_fn)(const char *text, size_t size, const char *name, verl_lm_config_t *config, char *error,
                          size_t error_size);

// Maps dir/name and hands it to parse. An absent file is no error where it is optional.
static int
s_read_json(const s_source_t *source, const char *name, bool optional, s_parse_fn parse, verl_lm_config_t *config)
{
    char          path[PATH_MAX];
    verl_mapped_t file;
    if (optional && !s_has(source->path, name))
        return 0;
    if (!s_join(path, sizeof path, source->path, name))
        return s_fail(source, "the path is too long");
    if (verl_mapped_open(&file, path, source->error, source->error_size))
        return -1;
    int result = parse((const char *) file.bytes, file.size, path, config, source->error, source->error_size);
    verl_mapped_close(&file);
    return result;
}

static int
s_load_gguf_config(const char *path, verl_lm_config_t *ret_config, char *error, size_t error_size)
{
    verl_gguf_t *gguf = verl_gguf_open(path, error, error_size);
    if (!gguf)
        return -1;
    int result = verl_lm_config_from_gguf(gguf, path, ret_config, error, error_size);
    verl_gguf_close(&gguf);
    return result;
}

int
verl_lm_config_load(const char *path, verl_lm_config_t *ret_config, char *error, size_t error_size)
{
    char        gguf[PATH_MAX];
    s_source_t  source = {path, NULL, NULL, error, error_size};
    struct stat status;
    if (verl_lm_find_gguf(path, gguf, sizeof gguf))
        return s_load_gguf_config(gguf, ret_config, error, error_size);
    if (stat(path, &status) != 0)
        return s_fail(&source, "there is no such model: it must be a Hugging Face directory or a .gguf file");
    if (!s_has(path, "config.json"))
        return s_fail(&source, "it has neither config.json nor exactly one .gguf file");
    if (s_read_json(&source, "config.json", false, verl_lm_config_from_json, ret_config)
        || s_read_json(&source, "generation_config.json", true, verl_lm_stops_from_generation, ret_config)
        || s_read_json(&source, "tokenizer_config.json", true, verl_lm_stops_from_tokenizer, ret_config))
        return -1;
    return 0;
}

static int
s_open_source(s_source_t *source, char *gguf_path, size_t size)
{
    if (verl_lm_find_gguf(source->path, gguf_path, size)) {
        source->gguf = verl_gguf_open(gguf_path, source->error, source->error_size);
        return source->gguf ? 0 : -1;
    }
    if (!verl_shards_exist(source->path))
        return s_fail(source, "it has no weights: model.safetensors, model.safetensors.index.json or one .gguf file");
    source->shards = verl_shards_open(source->path, source->error, source->error_size);
    return source->shards ? 0 : -1;
}

static void
s_close_source(s_source_t *source)
{
    verl_gguf_close(&source->gguf);
    verl_shards_close(&source->shards);
}

static bool
s_find_in_gguf(const s_source_t *source, const char *name, s_stored_t *ret)
{
    char                      gguf_name[96];
    const verl_gguf_tensor_t *tensor = NULL;
    if (verl_lm_gguf_name(name, gguf_name, sizeof gguf_name))
        tensor = verl_gguf_tensor(source->gguf, gguf_name);
    if (!tensor)
        return false;
    bool matrix = tensor->dims > 1;                                     // dim[0] is the fastest
    *ret = (s_stored_t) {(int) tensor->type, verl_quant_format((int64_t) tensor->type).name, tensor->dims,
                         matrix ? tensor->dim[1] : tensor->dim[0], matrix ? tensor->dim[0] : 1, tensor->data};
    return true;
}

// Names without "model." are those of a decoder that was saved without its head.
static bool
s_find_in_shards(const s_source_t *source, const char *name, s_stored_t *ret)
{
    const verl_safetensor_t *tensor = verl_shards_find(source->shards, name);
    if (!tensor && strncmp(name, "model.", 6) == 0)
        tensor = verl_shards_find(source->shards, name + 6);
    if (!tensor)
        return false;
    *ret = (s_stored_t) {verl_safetensor_quant(tensor), tensor->dtype, tensor->dims,
                         tensor->dims > 0 ? tensor->dim[0] : 1, tensor->dims > 1 ? tensor->dim[1] : 1, tensor->data};
    return true;
}

static bool
s_find(const s_source_t *source, const char *name, s_stored_t *ret)
{
    return source->gguf ? s_find_in_gguf(source, name, ret) : s_find_in_shards(source, name, ret);
}

static int
s_check_stored(const s_source_t *source, const verl_lm_tensor_t *tensor, const s_stored_t *stored)
{
    int dims = tensor->cols > 1 ? 2 : 1;
    if (stored->type < 0)
        return s_fail(source, "tensor %s has dtype %s: F32, F16 and BF16 are supported", tensor->name,
                      stored->type_name);
    if (stored->dims <= 2 && stored->dims >= dims && stored->rows == tensor->rows && stored->cols == tensor->cols)
        return 0;
    return s_fail(source, "tensor %s has %d dimension%s, %" PRId64 " x %" PRId64 ": the configuration needs %" PRId64
                  " x %" PRId64, tensor->name, stored->dims, stored->dims == 1 ? "" : "s", stored->rows, stored->cols,
                  tensor->rows, tensor->cols);
}

static bool
s_all_finite(const float *values, int64_t count)
{
    uint32_t worst = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits &= 0x7f800000u;
        worst = bits > worst ? bits : worst;
    }
    return worst < 0x7f800000u;
}

// Converts count floats in cache-sized pieces. Returns the index of a piece with a NaN or infinity, or -1.
static int64_t
s_convert(const s_stored_t *stored, int64_t count, float *out)
{
    verl_quant_format_t format = verl_quant_format(stored->type);
    const int64_t       step = 16384;                                   // a multiple of every block
    int64_t             bad = INT64_MAX;
#pragma omp parallel for schedule(static) reduction(min : bad) if(count > 4 * step)
    for (int64_t at = 0; at < count; at += step) {
        int64_t size = count - at < step ? count - at : step;
        verl_dequantize((verl_quant_type_t) stored->type,
                        stored->data + (size_t) (at / format.block_count) * format.block_size, size, out + at);
        if (at < bad && !s_all_finite(out + at, size))
            bad = at;
    }
    return bad == INT64_MAX ? -1 : bad;
}

static int
s_fill(const s_source_t *source, const verl_lm_tensor_t *tensor, float *out)
{
    s_stored_t stored;
    if (!s_find(source, tensor->name, &stored))
        return s_fail(source, "tensor %s is missing", tensor->name);
    if (s_check_stored(source, tensor, &stored))
        return -1;
    int64_t at = s_convert(&stored, tensor->rows * tensor->cols, out);
    if (at < 0)
        return 0;
    while (s_all_finite(out + at, 1))
        at++;
    return s_fail(source, "tensor %s holds %s at row %" PRId64 ", column %" PRId64 ": weights must be finite",
                  tensor->name, out[at] == out[at] ? "an infinity" : "a NaN", at / tensor->cols, at % tensor->cols);
}

static bool
s_ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), tail = strlen(end);
    return size >= tail && strcmp(text + size - tail, end) == 0;
}

// Llama converters to GGUF put the two halves of each RoPE pair side by side: row 2i + j of a head is row
// j * head_dim / 2 + i of Hugging Face's.
static int
s_restore_rows(const s_source_t *source, const verl_lm_config_t *config, const verl_lm_tensor_t *tensor, float *rows)
{
    size_t  size = (size_t) tensor->cols;
    int64_t dim = config->head_dim;
    float  *head = malloc((size_t) dim * size * sizeof *head);
    if (!head)
        return s_fail(source, "no memory for one head of tensor %s", tensor->name);
    for (int64_t first = 0; first < tensor->rows; first += dim) {
        float *to = rows + (size_t) first * size;
        memcpy(head, to, (size_t) dim * size * sizeof *head);
        for (int64_t row = 0; row < dim; row++)
            memcpy(to + (size_t) (row % 2 * (dim / 2) + row / 2) * size, head + (size_t) row * size, size * sizeof *to);
    }
    free(head);
    return 0;
}

static bool
s_has_swapped_rows(const s_source_t *source, const verl_lm_config_t *config, const char *name)
{
    return source->gguf && config->family == VERL_LM_LLAMA
           && (strstr(name, "self_attn.q_proj.") || strstr(name, "self_attn.k_proj."));
}

static int
s_compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

// A tensor of the decoder that the configuration does not know would be left out of the computation without a word.
static int
s_check_name(const s_source_t *source, const char *known, int64_t count, const char *name)
{
    char full[640];
    bool bare = strncmp(name, "layers.", 7) == 0;
    snprintf(full, sizeof full, "%s%s", bare ? "model." : "", name);
    if ((!bare && strncmp(name, "model.", 6) != 0 && strncmp(name, "blk.", 4) != 0)
        || s_ends_with(name, "rotary_emb.inv_freq") || bsearch(full, known, (size_t) count, 96, s_compare_names))
        return 0;
    return s_fail(source, "the configuration does not know tensor %s", name);
}

static int
s_check_names(const s_source_t *source, const char *known, int64_t count)
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

static int
s_check_unknown(const s_source_t *source, const verl_lm_config_t *config, const verl_lm_layout_t *layout)
{
    verl_lm_tensor_t tensor;
    int64_t          count = verl_lm_tensor_count(config);
    char(*known)[96] = calloc((size_t) count, sizeof *known);
    if (!known)
        return s_fail(source, "no memory for the names of %" PRId64 " tensors", count);
    for (int64_t i = 0; i < count; i++) {
        verl_lm_tensor_at(config, layout, i, &tensor);
        if (!source->gguf || !verl_lm_gguf_name(tensor.name, known[i], sizeof *known))
            snprintf(known[i], sizeof *known, "%s", tensor.name);
    }
    qsort(known, (size_t) count, sizeof *known, s_compare_names);
    int result = s_check_names(source, known[0], count);
    free(known);
    return result;
}

static int
s_fill_all(const s_source_t *source, const verl_lm_config_t *config, const verl_lm_layout_t *layout, float *parameters)
{
    verl_lm_tensor_t tensor;
    int64_t          written = 0;
    for (int64_t i = 0; i < verl_lm_tensor_count(config); i++) {
        verl_lm_tensor_at(config, layout, i, &tensor);
        memset(parameters + written, 0, (size_t) (tensor.offset - written) * sizeof *parameters);
        if (s_fill(source, &tensor, parameters + tensor.offset))
            return -1;
        if (s_has_swapped_rows(source, config, tensor.name)
            && s_restore_rows(source, config, &tensor, parameters + tensor.offset))
            return -1;
        written = tensor.offset + tensor.rows * tensor.cols;
    }
    memset(parameters + written, 0, (size_t) (layout->total - written) * sizeof *parameters);
    return 0;
}

int
verl_lm_parameters_load(const char *path, const verl_lm_config_t *config, const verl_lm_layout_t *layout,
                        float *parameters, char *error, size_t error_size)
{
    char       gguf_path[PATH_MAX];
    s_source_t source = {path, NULL, NULL, error, error_size};
    if (s_open_source(&source, gguf_path, sizeof gguf_path))
        return -1;
    int result = s_check_unknown(&source, config, layout);
    if (result == 0)
        result = s_fill_all(&source, config, layout, parameters);
    s_close_source(&source);
    return result;
}

int
verl_lm_extra_load(const char *path, const char *name, int64_t rows, int64_t cols, float *out, char *error,
                   size_t error_size)
{
    char             gguf_path[PATH_MAX];
    s_source_t       source = {path, NULL, NULL, error, error_size};
    s_stored_t       stored;
    verl_lm_tensor_t tensor = {.offset = 0, .rows = rows, .cols = cols};
    snprintf(tensor.name, sizeof tensor.name, "%s", name);
    if (s_open_source(&source, gguf_path, sizeof gguf_path))
        return -1;
    int result = 0;
    if (source.shards && s_find(&source, name, &stored))
        result = s_fill(&source, &tensor, out) ? -1 : 1;
    s_close_source(&source);
    return result;
}
