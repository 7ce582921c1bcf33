// parameters.c: turns the tensors of a model on disk into the flat vector.
//
// Invariant: a load that succeeds has written every float of the vector, and every one is finite.
#include "actors/lm/load.h"
#include "actors/lm/refuse.h"
#include "actors/lm/source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define s_fail(source, ...) verl_lm_refuse((source)->path, (source)->error, (source)->error_size, __VA_ARGS__)

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
    verl_lm_stored_t stored;
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
s_say_not_finite(const verl_lm_source_t *source, const s_job_t *job, int64_t piece)
{
    int64_t at = (piece - job->first_piece) * PIECE;
    char    name[VERL_LM_STORED_NAME];
    while (s_all_finite(job->out + at, 1))
        at++;
    verl_lm_source_name(source, job->tensor.name, name);
    return s_fail(source, "tensor %s holds %s at row %" PRId64 ", column %" PRId64 ": weights must be finite",
                  name, job->out[at] == job->out[at] ? "an infinity" : "a NaN", at / job->tensor.cols,
                  at % job->tensor.cols);
}

// Converts all jobs in one parallel loop over their pieces: threads meet once, however many tensors there are. The
// first float that is not finite, in the order of the jobs, is the error.
static int
s_convert(const verl_lm_source_t *source, s_job_t *jobs, int64_t count)
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
s_check_tied_head(const verl_lm_source_t *source, const verl_lm_config_t *config, const float *embedding)
{
    s_job_t job = {.tensor = {.name = "lm_head.weight", .rows = config->vocab_size, .cols = config->hidden_size}};
    if (!config->tied || !verl_lm_source_find(source, job.tensor.name, &job.stored))
        return 0;
    if (verl_lm_source_need(source, &job.tensor, &job.stored))
        return -1;
    return !embedding || s_equals(&job, embedding)
               ? 0
               : s_fail(source, "tie_word_embeddings is true, and lm_head.weight differs from "
                        "model.embed_tokens.weight: leave it out, or set tie_word_embeddings to false");
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
s_has_swapped_rows(const verl_lm_source_t *source, const verl_lm_config_t *config, const char *name)
{
    return source->gguf && config->family == VERL_LM_LLAMA
           && (strstr(name, "self_attn.q_proj.") || strstr(name, "self_attn.k_proj."));
}

static int
s_restore_all(const verl_lm_source_t *source, const verl_lm_config_t *config, const s_job_t *jobs, int64_t count)
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
s_check_all(const verl_lm_source_t *source, const verl_lm_config_t *config, const verl_lm_layout_t *layout)
{
    for (int64_t i = 0; i < verl_lm_tensor_count(config); i++) {
        s_job_t job = {.out = NULL};
        verl_lm_tensor_at(config, layout, i, &job.tensor);
        if (verl_lm_source_need(source, &job.tensor, &job.stored))
            return -1;
    }
    return s_check_tied_head(source, config, NULL) || verl_lm_source_check_names(source, config, layout) ? -1 : 0;
}

// Finds and checks all tensors before the first is converted, and clears the gaps between them.
static int
s_prepare_all(const verl_lm_source_t *source, const verl_lm_config_t *config, const verl_lm_layout_t *layout,
              float *parameters, s_job_t *jobs)
{
    int64_t written = 0, count = verl_lm_tensor_count(config);
    for (int64_t i = 0; i < count; i++) {
        verl_lm_tensor_at(config, layout, i, &jobs[i].tensor);
        if (verl_lm_source_need(source, &jobs[i].tensor, &jobs[i].stored))
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
s_fill_all(const verl_lm_source_t *source, const verl_lm_config_t *config, const verl_lm_layout_t *layout,
           float *parameters)
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
    verl_lm_layout_t layout = {0};
    verl_lm_source_t source;
    if (verl_lm_source_open(&source, path, error, error_size))
        return -1;
    int result = verl_lm_layout_init(&layout, config) ? s_fail(&source, "no memory for its layout")
                                                      : s_check_all(&source, config, &layout);
    verl_lm_layout_done(&layout);
    verl_lm_source_close(&source);
    return result;
}

int
verl_lm_parameters_load(const char *path, const verl_lm_config_t *config, const verl_lm_layout_t *layout,
                        float *parameters, char *error, size_t error_size)
{
    verl_lm_source_t source;
    if (verl_lm_source_open(&source, path, error, error_size))
        return -1;
    int result = verl_lm_source_check_names(&source, config, layout);
    if (result == 0)
        result = s_fill_all(&source, config, layout, parameters);
    verl_lm_source_close(&source);
    return result;
}

int
verl_lm_extra_load(const char *path, const char *name, int64_t rows, int64_t cols, float *out, char *error,
                   size_t error_size)
{
    verl_lm_source_t source;
    s_job_t          job = {.tensor = {.rows = rows, .cols = cols}, .out = out};
    snprintf(job.tensor.name, sizeof job.tensor.name, "%s", name);
    if (verl_lm_source_open(&source, path, error, error_size))
        return -1;
    int result = 0;
    if (source.shards && verl_lm_source_find(&source, job.tensor.name, &job.stored))
        result = verl_lm_source_need(&source, &job.tensor, &job.stored) || s_convert(&source, &job, 1) ? -1 : 1;
    verl_lm_source_close(&source);
    return result;
}
