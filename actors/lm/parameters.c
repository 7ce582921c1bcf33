// parameters.c: turns the tensors of a model on disk into the flat vector.
//
// A model is opened as a source: a set of stored tensors that can be looked up by Hugging Face names, whichever file
// they come from. Invariant: a load that succeeds has written every float of the vector, and every one is finite.
#include "actors/lm/config_gguf.h"
#include "actors/lm/gguf.h"
#include "actors/lm/load.h"
#include "actors/lm/refuse.h"
#include "actors/lm/shards.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

#define s_fail(source, ...) verl_lm_refuse((source)->path, (source)->error, (source)->error_size, __VA_ARGS__)

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

// One tensor to be converted: from a file, to a place in the vector.
typedef struct {
    verl_lm_tensor_t tensor;
    s_stored_t       stored;
    float           *out;
    int64_t          first_piece;           // of all pieces of all jobs
} s_job_t;

enum { PIECE = 1 << 16 };                   // floats converted at a time: a cacheful, a multiple of every block
enum { STRIDE = 1 << 10 };                  // floats compared at a time: what a stack holds, such a multiple too

static int64_t
s_count(const s_job_t *job)
{
    return job->tensor.rows * job->tensor.cols;
}

static int
s_prepare_job(const s_source_t *source, s_job_t *job)
{
    if (!s_find(source, job->tensor.name, &job->stored))
        return s_fail(source, "tensor %s is missing", job->tensor.name);
    return s_check_stored(source, &job->tensor, &job->stored);
}

static const s_job_t *
s_job_of_piece(const s_job_t *jobs, int64_t count, int64_t piece)
{
    int64_t low = 0, high = count - 1;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if (jobs[middle].first_piece <= piece)
            low = middle;
        else
            high = middle - 1;
    }
    return &jobs[low];
}

// Converts one piece. Returns whether all its floats are finite.
static bool
s_convert_piece(const s_job_t *job, int64_t piece)
{
    verl_quant_format_t format = verl_quant_format(job->stored.type);
    int64_t             at = (piece - job->first_piece) * PIECE, left = s_count(job) - at;
    int64_t             size = left < PIECE ? left : PIECE;
    verl_dequantize((verl_quant_type_t) job->stored.type,
                    job->stored.data + (size_t) (at / format.block_count) * format.block_size, size, job->out + at);
    return s_all_finite(job->out + at, size);
}

static int
s_say_not_finite(const s_source_t *source, const s_job_t *job, int64_t piece)
{
    int64_t at = (piece - job->first_piece) * PIECE;
    while (s_all_finite(job->out + at, 1))
        at++;
    return s_fail(source, "tensor %s holds %s at row %" PRId64 ", column %" PRId64 ": weights must be finite",
                  job->tensor.name, job->out[at] == job->out[at] ? "an infinity" : "a NaN", at / job->tensor.cols,
                  at % job->tensor.cols);
}

// Converts all jobs in one parallel loop over their pieces: threads meet once, however many tensors there are. The
// first float that is not finite, in the order of the jobs, is the error.
static int
s_convert(const s_source_t *source, s_job_t *jobs, int64_t count)
{
    int64_t pieces = 0, bad = INT64_MAX;
    for (int64_t i = 0; i < count; i++) {
        jobs[i].first_piece = pieces;
        pieces += (s_count(&jobs[i]) + PIECE - 1) / PIECE;
    }
#pragma omp parallel for schedule(dynamic) reduction(min : bad) if(pieces > 64)
    for (int64_t piece = 0; piece < pieces; piece++)
        if (!s_convert_piece(s_job_of_piece(jobs, count, piece), piece) && piece < bad)
            bad = piece;
    return bad == INT64_MAX ? 0 : s_say_not_finite(source, s_job_of_piece(jobs, count, bad), bad);
}

// Whether a stored matrix holds the floats of the vector from *values on.
static bool
s_equals(const s_job_t *job, const float *values)
{
    verl_quant_format_t format = verl_quant_format(job->stored.type);
    int64_t             count = s_count(job);
    int                 differs = 0;
#pragma omp parallel for schedule(static) reduction(| : differs) if(count > PIECE)
    for (int64_t at = 0; at < count; at += STRIDE) {
        float   floats[STRIDE];
        int64_t size = count - at < STRIDE ? count - at : STRIDE;
        verl_dequantize((verl_quant_type_t) job->stored.type,
                        job->stored.data + (size_t) (at / format.block_count) * format.block_size, size, floats);
        differs |= memcmp(floats, values + at, (size_t) size * sizeof *floats) != 0;
    }
    return !differs;
}

// A head that is stored beside a tied embedding must be it: transformers computes with a head that differs. Without
// values the headers are checked alone.
static int
s_check_tied_head(const s_source_t *source, const verl_lm_config_t *config, const float *embedding)
{
    s_job_t job = {.tensor = {.name = "lm_head.weight", .rows = config->vocab_size, .cols = config->hidden_size}};
    if (!config->tied || !s_find(source, job.tensor.name, &job.stored))
        return 0;
    if (s_check_stored(source, &job.tensor, &job.stored))
        return -1;
    return !embedding || s_equals(&job, embedding)
               ? 0
               : s_fail(source, "tie_word_embeddings is true, and lm_head.weight differs from "
                        "model.embed_tokens.weight: leave it out, or set tie_word_embeddings to false");
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
s_restore_rows(const s_job_t *job, int64_t dim)
{
    size_t size = (size_t) job->tensor.cols;
    float *head = malloc((size_t) dim * size * sizeof *head);
    if (!head)
        return -1;
    for (int64_t first = 0; first < job->tensor.rows; first += dim) {
        float *to = job->out + (size_t) first * size;
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
s_may_be_there(const s_source_t *source, const char *name)
{
    static const char *const decoder[] = {"model.", "layers.", "norm.", "embed_tokens.", "lm_head.", NULL};
    if (source->gguf)
        return strcmp(name, "rope_freqs.weight") == 0;
    return !s_starts_with(name, decoder) || s_ends_with(name, "rotary_emb.inv_freq")
           || strcmp(name, "lm_head.weight") == 0;
}

// A tensor of the decoder that the configuration does not know would be left out of the computation without a word.
static int
s_check_name(const s_source_t *source, const char *known, int64_t count, const char *name)
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
s_restore_all(const s_source_t *source, const verl_lm_config_t *config, const s_job_t *jobs, int64_t count)
{
    int failed = 0;
#pragma omp parallel for schedule(dynamic) reduction(| : failed) if(count > 64)
    for (int64_t i = 0; i < count; i++)
        if (s_has_swapped_rows(source, config, jobs[i].tensor.name))
            failed |= s_restore_rows(&jobs[i], config->head_dim) != 0;
    return failed ? s_fail(source, "no memory to put rows of q and k in order") : 0;
}

// Finds and checks all tensors, and reads none.
static int
s_check_all(const s_source_t *source, const verl_lm_config_t *config, const verl_lm_layout_t *layout)
{
    for (int64_t i = 0; i < verl_lm_tensor_count(config); i++) {
        s_job_t job = {.out = NULL};
        verl_lm_tensor_at(config, layout, i, &job.tensor);
        if (s_prepare_job(source, &job))
            return -1;
    }
    return s_check_tied_head(source, config, NULL) || s_check_unknown(source, config, layout) ? -1 : 0;
}

// Finds and checks all tensors before the first is converted, and clears the gaps between them.
static int
s_prepare_all(const s_source_t *source, const verl_lm_config_t *config, const verl_lm_layout_t *layout,
              float *parameters, s_job_t *jobs)
{
    int64_t written = 0, count = verl_lm_tensor_count(config);
    for (int64_t i = 0; i < count; i++) {
        verl_lm_tensor_at(config, layout, i, &jobs[i].tensor);
        if (s_prepare_job(source, &jobs[i]))
            return -1;
        int64_t offset = jobs[i].tensor.offset;
        jobs[i].out = parameters + offset;
        memset(parameters + written, 0, (size_t) (offset - written) * sizeof *parameters);
        written = offset + s_count(&jobs[i]);
    }
    memset(parameters + written, 0, (size_t) (layout->total - written) * sizeof *parameters);
    return 0;
}

static int
s_fill_all(const s_source_t *source, const verl_lm_config_t *config, const verl_lm_layout_t *layout, float *parameters)
{
    int64_t  count = verl_lm_tensor_count(config);
    s_job_t *jobs = calloc((size_t) count, sizeof *jobs);
    if (!jobs)
        return s_fail(source, "no memory for the list of %" PRId64 " tensors", count);
    int result = s_prepare_all(source, config, layout, parameters, jobs);
    if (result == 0)
        result = s_convert(source, jobs, count);
    if (result == 0)
        result = s_check_tied_head(source, config, parameters + layout->embedding);
    if (result == 0)
        result = s_restore_all(source, config, jobs, count);
    free(jobs);
    return result;
}

int
verl_lm_parameters_check(const char *path, const verl_lm_config_t *config, char *error, size_t error_size)
{
    char             gguf_path[PATH_MAX];
    verl_lm_layout_t layout = {0};
    s_source_t       source = {path, NULL, NULL, error, error_size};
    if (s_open_source(&source, gguf_path, sizeof gguf_path))
        return -1;
    int result = verl_lm_layout_init(&layout, config) ? s_fail(&source, "no memory for its layout")
                                                      : s_check_all(&source, config, &layout);
    verl_lm_layout_done(&layout);
    s_close_source(&source);
    return result;
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
    char       gguf_path[PATH_MAX];
    s_source_t source = {path, NULL, NULL, error, error_size};
    s_job_t    job = {.tensor = {.rows = rows, .cols = cols}, .out = out};
    snprintf(job.tensor.name, sizeof job.tensor.name, "%s", name);
    if (s_open_source(&source, gguf_path, sizeof gguf_path))
        return -1;
    int result = 0;
    if (source.shards && s_find(&source, job.tensor.name, &job.stored))
        result = s_prepare_job(&source, &job) || s_convert(&source, &job, 1) ? -1 : 1;
    s_close_source(&source);
    return result;
}
