// generate.c: generation over a ragged batch with a cache of keys and values.
//
// A prompt is computed once and its keys are shared by its samples. Each sample is a slot with cache rows of its own;
// finished slots leave the batch. All products are exact in their row alone, so that no row depends on its neighbours.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "actors/lm/model_private.h"
#include "kernels/embedding.h"
#include "kernels/rmsnorm.h"
#include "kernels/sampling.h"
#include "kernels/softmax.h"

enum { S_PREFILL_ROWS = 4096, S_LOGIT_FLOATS = 4 << 20, S_ROWS_A_THREAD = 16,
       S_MOST_SAMPLES = 1 << 20 };

// A wave: prompts [first, first + count) and all their samples.
typedef struct {
    verl_lm_t *lm;
    const verl_lm_prompts_t *prompts;
    const verl_lm_generate_options_t *options;
    const uint64_t *keys;
    const verl_lm_generated_t *out;
    int64_t first, count;
    int64_t prompt_rows;                    // of the cache; the slots' rows come after them
    int64_t cache_rows;
    int64_t *alive;                         // [alive_count] rows of out, ascending
    int64_t alive_count;
    int64_t step;                           // tokens that each living row has
    int64_t capacity;                       // rows that the arrays below hold
    float *x, *normed, *qkv, *attention, *gate_up, *h;
    verl_span_t (*spans)[2];
    int64_t *positions;
    int32_t *tokens;
    float *logits, *scratch;                // [logit_rows, vocab] each
    int64_t logit_rows;
    int64_t bad;                            // a row of out whose logits are not finite, or -1
    float bad_logit;
} s_wave_t;

// --- Checks ---

static int
s_check_options(const verl_lm_generate_options_t *o, char *error, size_t error_size)
{
    if (o->samples < 1 || o->samples > S_MOST_SAMPLES || o->max_new_tokens < 1)
        return verl_lm_fail(error, error_size,
                            "generate: samples %lld must be from 1 to 1048576, and max_new_tokens %lld at least 1",
                            (long long) o->samples, (long long) o->max_new_tokens);
    if (!(o->temperature >= 0) || !isfinite(o->temperature))
        return verl_lm_fail(error, error_size, "generate: temperature %g must be 0 (greedy) or positive",
                            o->temperature);
    if (!(o->top_p > 0 && o->top_p <= 1))
        return verl_lm_fail(error, error_size, "generate: top_p %g must be in (0, 1]", o->top_p);
    if (o->top_k < -1 || o->stop_count < 0 || (o->stop_count > 0 && !o->stop))
        return verl_lm_fail(error, error_size, "generate: top_k %lld must be at least 1, or 0 or -1 for off, and stop "
                            "must hold its %d ids", (long long) o->top_k, o->stop_count);
    return 0;
}

static int
s_check_prompts(const verl_lm_t *lm, const verl_lm_prompts_t *p, const verl_lm_generate_options_t *o, char *error,
                size_t error_size)
{
    if (!lm->params)
        return verl_lm_fail(error, error_size, "generate: the model has no parameters yet");
    for (int64_t i = 0; i < p->count; i++) {
        int64_t length = p->offsets[i + 1] - p->offsets[i];
        if (length < 1)
            return verl_lm_fail(error, error_size, "generate: prompt %lld has no tokens", (long long) i);
        if (length > lm->config.max_positions - o->max_new_tokens)
            return verl_lm_fail(error, error_size, "generate: prompt %lld has %lld tokens and may get %lld more, but "
                                "the model has %lld positions", (long long) i, (long long) length,
                                (long long) o->max_new_tokens, (long long) lm->config.max_positions);
        for (int64_t k = p->offsets[i]; k < p->offsets[i + 1]; k++)
            if (p->ids[k] < 0 || p->ids[k] >= lm->config.vocab_size)
                return verl_lm_fail(error, error_size, "generate: token %d of prompt %lld is not in the vocabulary of "
                                    "%lld", p->ids[k], (long long) i, (long long) lm->config.vocab_size);
    }
    return 0;
}

// --- Memory ---

static int64_t
s_cache_width(const verl_lm_config_t *c)
{
    return 2 * c->kv_heads * c->head_dim;
}

static int64_t
s_length(const s_wave_t *w, int64_t prompt)
{
    return w->prompts->offsets[prompt + 1] - w->prompts->offsets[prompt];
}

// How many prompts from first on fit into the cache's limit; at least one.
static int64_t
s_fitting(const s_wave_t *w, int64_t first)
{
    const verl_lm_config_t *c = &w->lm->config;
    int64_t limit = w->options->max_bytes > 0 ? w->options->max_bytes : (int64_t) 4 << 30;
    int64_t row_bytes = c->layers * s_cache_width(c) * 4, rows = 0, n = 0;
    while (first + n < w->prompts->count) {
        rows += s_length(w, first + n) + w->options->samples * w->options->max_new_tokens;
        if (n > 0 && rows > limit / row_bytes)
            break;
        n++;
    }
    return n;
}

// The cache is written before it is read, so that its pages come into being only as rows grow.
static int
s_reserve_cache(verl_lm_t *lm, int64_t floats)
{
    if (lm->cache_floats >= floats)
        return 0;
    free(lm->cache);
    lm->cache = malloc((size_t) floats * sizeof(float));
    lm->cache_floats = lm->cache ? floats : 0;
    return lm->cache ? 0 : -1;
}

static void
s_wave_done(s_wave_t *w)
{
    void *arrays[] = { w->alive, w->x, w->normed, w->qkv, w->attention, w->gate_up, w->h, w->spans, w->positions,
                       w->tokens, w->logits, w->scratch };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        free(arrays[i]);
}

static float *
s_floats(int64_t rows, int64_t width)
{
    return malloc((size_t) (rows * width) * sizeof(float));
}

static int
s_wave_init(s_wave_t *w)
{
    verl_lm_t *lm = w->lm;
    const verl_lm_config_t *c = &lm->config;
    int64_t rows = w->count * w->options->samples, width = s_cache_width(c);
    if ((double) rows * (double) w->options->max_new_tokens * (double) c->layers * (double) width > 0x1p45)
        return -1;
    w->prompt_rows = w->prompts->offsets[w->first + w->count] - w->prompts->offsets[w->first];
    w->cache_rows = w->prompt_rows + rows * w->options->max_new_tokens;
    w->capacity = rows;
    w->logit_rows = S_LOGIT_FLOATS / c->vocab_size < 1 ? 1 : S_LOGIT_FLOATS / c->vocab_size;
    w->logit_rows = (w->logit_rows > rows ? rows : w->logit_rows) + lm->threads;
    w->alive = malloc((size_t) rows * sizeof w->alive[0]);
    w->x = s_floats(rows, c->hidden_size);
    w->normed = s_floats(rows, c->hidden_size);
    w->qkv = s_floats(rows, verl_lm_qkv_width(c));
    w->attention = s_floats(rows, verl_lm_query_width(c));
    w->gate_up = s_floats(rows, 2 * c->intermediate_size);
    w->h = s_floats(rows, c->intermediate_size);
    w->spans = malloc((size_t) rows * sizeof w->spans[0]);
    w->positions = malloc((size_t) rows * sizeof w->positions[0]);
    w->tokens = malloc((size_t) rows * sizeof w->tokens[0]);
    w->logits = s_floats(w->logit_rows, c->vocab_size);
    w->scratch = s_floats(w->logit_rows, c->vocab_size);
    if (!lm->prefill)
        lm->prefill = verl_lm_tape_new();
    return w->alive && w->x && w->normed && w->qkv && w->attention && w->gate_up && w->h && w->spans && w->positions
        && w->tokens && w->logits && w->scratch && lm->prefill
        && !s_reserve_cache(lm, c->layers * w->cache_rows * width) ? 0 : -1;
}

static float *
s_cache(const s_wave_t *w, int64_t layer, int64_t row)
{
    return w->lm->cache + (layer * w->cache_rows + row) * s_cache_width(&w->lm->config);
}

// --- Sampling ---

// Draws the next token of row `row` of out. 0, or -1 where a logit is not finite.
static int
s_draw(const s_wave_t *w, int64_t row, const float *logits, float *scratch)
{
    const verl_lm_generate_options_t *o = w->options;
    verl_sampling_t how = { .temperature = o->temperature, .top_k = o->top_k, .top_p = o->top_p };
    double uniform = o->temperature > 0 ? verl_keyed_uniform(w->keys[row], (uint64_t) w->step) : 0;
    int64_t place = row * o->max_new_tokens + w->step;
    float logprob;
    if (verl_sample_token(&how, w->lm->config.vocab_size, logits, uniform, scratch, &w->out->ids[place], &logprob))
        return -1;
    if (w->out->logprobs)
        w->out->logprobs[place] = logprob;
    return 0;
}

static void
s_note_bad(s_wave_t *w, int64_t row, const float *logits)
{
    int64_t id = verl_softmax_not_finite(w->lm->config.vocab_size, logits);
    #pragma omp critical(verl_lm_generate)
    if (w->bad < 0 || row < w->bad) {
        w->bad = row;
        w->bad_logit = id < 0 ? 0 : logits[id];
    }
}

static void
s_logits(const s_wave_t *w, int64_t rows, float *hidden, float *logits, int threads)
{
    const verl_lm_t *lm = w->lm;
    int64_t n = lm->config.hidden_size, vocab = lm->config.vocab_size;
    verl_lm_round(lm, rows * n, hidden, threads);
    verl_linear_forward(rows, vocab, n, hidden, n, verl_lm_weight(lm, lm->layout.head, n), NULL, false, logits, vocab,
                        threads);
}

static bool
s_is_stop(const verl_lm_generate_options_t *o, int32_t id)
{
    for (int i = 0; i < o->stop_count; i++)
        if (o->stop[i] == id)
            return true;
    return false;
}

// After a step: finished rows leave. Returns what progress returned.
static int
s_settle(s_wave_t *w)
{
    const verl_lm_generate_options_t *o = w->options;
    int64_t kept = 0;
    w->step++;
    for (int64_t i = 0; i < w->alive_count; i++) {
        int64_t row = w->alive[i];
        bool stopped = s_is_stop(o, w->out->ids[row * o->max_new_tokens + w->step - 1]);
        w->out->lengths[row] = w->step;
        if (w->out->truncated)
            w->out->truncated[row] = !stopped && w->step == o->max_new_tokens;
        if (!stopped && w->step < o->max_new_tokens)
            w->alive[kept++] = row;
    }
    w->alive_count = kept;
    return o->progress ? o->progress(o->context, w->step, kept) : 0;
}

// --- Prompts ---

typedef struct {
    const s_wave_t *wave;
    int64_t row;                            // of the cache, of the chunk's first row
} s_prefill_t;

static void
s_store_keys(void *context, int64_t layer, const verl_lm_tape_t *tape, const verl_lm_chunk_t *chunk)
{
    const s_prefill_t *p = context;
    const verl_lm_config_t *c = &p->wave->lm->config;
    int64_t width = s_cache_width(c), ld = verl_lm_qkv_width(c);
    const float *keys = tape->records[layer].qkv + verl_lm_query_width(c);
    for (int64_t row = chunk->row; row < chunk->row + chunk->rows; row++)
        memcpy(s_cache(p->wave, layer, p->row + row), keys + row * ld, (size_t) width * sizeof(float));
}

// The first token of every sample of prompts [first, first + count), whose last rows' hidden states are in x.
static void
s_first_tokens(s_wave_t *w, int64_t first, int64_t count)
{
    int64_t n = w->lm->config.hidden_size, vocab = w->lm->config.vocab_size, samples = w->options->samples;
    for (int64_t done = 0; done < count;) {
        int64_t rows = count - done < w->logit_rows ? count - done : w->logit_rows;
        s_logits(w, rows, w->x + done * n, w->logits, w->lm->threads);
        #pragma omp parallel for num_threads(w->lm->threads) schedule(static) if(rows * samples * vocab > 20000)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t s = 0; s < samples; s++) {
                int64_t row = (first + done + i) * samples + s;
                if (s_draw(w, row, w->logits + i * vocab, w->scratch + i * vocab))
                    s_note_bad(w, row, w->logits + i * vocab);
            }
        done += rows;
    }
}

static int
s_prefill_chunk(s_wave_t *w, int64_t first, int64_t count, char *error, size_t error_size)
{
    verl_lm_t *lm = w->lm;
    const int64_t *offsets = w->prompts->offsets;
    int64_t base = offsets[first], n = lm->config.hidden_size;
    verl_segment_t *segments = malloc((size_t) count * sizeof *segments);
    if (!segments)
        return verl_lm_fail(error, error_size, "generate: no memory for %lld prompts", (long long) count);
    for (int64_t i = 0; i < count; i++)
        segments[i] = (verl_segment_t){ offsets[first + i] - base, s_length(w, first + i), -1 };
    verl_lm_batch_t batch = { .tokens = w->prompts->ids + base, .rows = offsets[first + count] - base,
                              .segments = segments, .segment_count = count };
    s_prefill_t context = { .wave = w, .row = base - offsets[w->first] };
    int rc = verl_lm_run(lm, lm->prefill, VERL_LM_SCORE, &batch, true, s_store_keys, &context, error, error_size);
    for (int64_t i = 0; i < count && rc == 0; i++)
        memcpy(w->x + i * n, lm->prefill->hidden + (segments[i].start + segments[i].length - 1) * n,
               (size_t) n * sizeof(float));
    free(segments);
    if (rc == 0)
        s_first_tokens(w, first, count);
    return rc;
}

// Prompts in chunks of bounded rows; each ends with the first token of its samples.
static int
s_prefill(s_wave_t *w, char *error, size_t error_size)
{
    for (int64_t done = 0; done < w->count;) {
        int64_t first = w->first + done, count = 1, rows = s_length(w, first);
        while (done + count < w->count && rows + s_length(w, first + count) <= S_PREFILL_ROWS)
            rows += s_length(w, first + count++);
        if (s_prefill_chunk(w, first, count, error, error_size))
            return -1;
        done += count;
    }
    for (int64_t i = 0; i < w->capacity; i++)
        w->alive[i] = w->first * w->options->samples + i;
    w->alive_count = w->capacity;
    return 0;
}

// --- Steps ---

// Where the i'th living row stands: its last token, its position, the cache rows that it attends to.
static void
s_place(s_wave_t *w, int64_t i)
{
    const verl_lm_generate_options_t *o = w->options;
    int64_t row = w->alive[i], prompt = row / o->samples, slot = row - w->first * o->samples;
    int64_t own = w->prompt_rows + slot * o->max_new_tokens, length = s_length(w, prompt);
    w->tokens[i] = w->out->ids[row * o->max_new_tokens + w->step - 1];
    w->positions[i] = length + w->step - 1;
    w->spans[i][0] = (verl_span_t){ w->prompts->offsets[prompt] - w->prompts->offsets[w->first], length };
    w->spans[i][1] = (verl_span_t){ own, w->step };
}

// One layer on living rows [begin, begin + rows).
static void
s_layer(s_wave_t *w, int64_t layer, int64_t begin, int64_t rows, int threads)
{
    const verl_lm_t *lm = w->lm;
    const verl_lm_config_t *c = &lm->config;
    const verl_attention_t shape = verl_lm_attention_shape(c);
    int64_t n = c->hidden_size, query = verl_lm_query_width(c), ld = verl_lm_qkv_width(c), inner = c->intermediate_size;
    float *x = w->x + begin * n, *normed = w->normed + begin * n, *qkv = w->qkv + begin * ld;
    float *attention = w->attention + begin * query;
    verl_lm_layer_head(lm, layer, rows, x, normed, qkv, threads);
    verl_lm_rotate(lm, layer, rows, w->positions + begin, qkv, threads);
    for (int64_t i = 0; i < rows; i++) {
        const verl_span_t *own = &w->spans[begin + i][1];
        memcpy(s_cache(w, layer, own->start + own->length - 1), qkv + i * ld + query,
               (size_t) s_cache_width(c) * sizeof(float));
    }
    verl_attention_decode(&shape, rows, qkv, ld, (const verl_span_t (*)[2])(w->spans + begin), s_cache(w, layer, 0),
                          attention, threads);
    verl_lm_round(lm, rows * query, attention, threads);
    verl_lm_project(lm, layer, VERL_LM_OUT, rows, attention, true, x, threads);
    verl_lm_layer_tail(lm, layer, rows, x, normed, w->gate_up + begin * 2 * inner, w->h + begin * inner, x, threads);
}

// Tokens of living rows [begin, end), with logits in rows [room, room + room_rows) of the shared arrays.
static void
s_rows(s_wave_t *w, int64_t begin, int64_t end, int64_t room, int64_t room_rows, int threads)
{
    const verl_lm_t *lm = w->lm;
    int64_t n = lm->config.hidden_size, vocab = lm->config.vocab_size, rows = end - begin;
    float *x = w->x + begin * n, *normed = w->normed + begin * n;
    verl_embedding_forward(rows, n, w->tokens + begin, lm->params + lm->layout.embedding, x);
    for (int64_t layer = 0; layer < lm->config.layers; layer++)
        s_layer(w, layer, begin, rows, threads);
    verl_rmsnorm_forward(rows, 1, n, lm->config.norm_eps, x, n, lm->params + lm->layout.final_norm, normed, n, threads);
    for (int64_t done = 0; done < rows;) {
        int64_t some = rows - done < room_rows ? rows - done : room_rows;
        s_logits(w, some, normed + done * n, w->logits + room * vocab, threads);
        #pragma omp parallel for num_threads(threads) schedule(static) if(threads > 1 && some * vocab > 20000)
        for (int64_t i = 0; i < some; i++) {
            float *logits = w->logits + (room + i) * vocab;
            if (s_draw(w, w->alive[begin + done + i], logits, w->scratch + (room + i) * vocab))
                s_note_bad(w, w->alive[begin + done + i], logits);
        }
        done += some;
    }
}

// Many rows are cut among threads, each of which goes through all layers alone; few rows share the threads.
static void
s_step(s_wave_t *w)
{
    int threads = w->lm->threads;
    for (int64_t i = 0; i < w->alive_count; i++)
        s_place(w, i);
    if (threads <= 1 || w->alive_count < S_ROWS_A_THREAD * threads) {
        s_rows(w, 0, w->alive_count, 0, w->logit_rows, threads);
        return;
    }
    int64_t share = (w->alive_count + threads - 1) / threads, room = w->logit_rows / threads;
    #pragma omp parallel for num_threads(threads) schedule(static)
    for (int t = 0; t < threads; t++) {
        int64_t begin = t * share, end = begin + share < w->alive_count ? begin + share : w->alive_count;
        if (begin < end)
            s_rows(w, begin, end, t * room, room, 1);
    }
}

static int
s_fail_bad(const s_wave_t *w, char *error, size_t error_size)
{
    return verl_lm_fail(error, error_size, "generate: a logit of prompt %lld, sample %lld, token %lld is %g: the "
                        "weights are broken or too large", (long long) (w->bad / w->options->samples),
                        (long long) (w->bad % w->options->samples), (long long) w->step, (double) w->bad_logit);
}

static int
s_wave_run(s_wave_t *w, char *error, size_t error_size)
{
    w->step = 0;
    w->bad = -1;
    if (s_prefill(w, error, error_size))
        return -1;
    int64_t longest = 0;
    for (int64_t i = w->first; i < w->first + w->count; i++)
        longest = s_length(w, i) > longest ? s_length(w, i) : longest;
    if (verl_lm_need_positions(w->lm, longest + w->options->max_new_tokens))
        return verl_lm_fail(error, error_size, "generate: no memory for rotations of %lld positions",
                            (long long) (longest + w->options->max_new_tokens));
    for (;;) {
        if (w->bad >= 0)
            return s_fail_bad(w, error, error_size);
        if (s_settle(w))
            return VERL_LM_CANCELLED;
        if (w->alive_count == 0)
            return 0;
        s_step(w);
    }
}

static void
s_clear(const verl_lm_generated_t *out, int64_t rows, int64_t width)
{
    memset(out->ids, 0, (size_t) (rows * width) * sizeof out->ids[0]);
    memset(out->lengths, 0, (size_t) rows * sizeof out->lengths[0]);
    if (out->logprobs)
        memset(out->logprobs, 0, (size_t) (rows * width) * sizeof out->logprobs[0]);
    if (out->truncated)
        memset(out->truncated, 0, (size_t) rows);
}

int
verl_lm_generate(verl_lm_t *lm, const verl_lm_prompts_t *prompts, const verl_lm_generate_options_t *options,
                 const uint64_t *keys, const verl_lm_generated_t *ret_generated, char *error, size_t error_size)
{
    if (s_check_options(options, error, error_size) || s_check_prompts(lm, prompts, options, error, error_size))
        return -1;
    s_clear(ret_generated, prompts->count * options->samples, options->max_new_tokens);
    int rc = 0;
    for (int64_t first = 0; first < prompts->count && rc == 0;) {
        s_wave_t w = { .lm = lm, .prompts = prompts, .options = options, .keys = keys, .out = ret_generated,
                       .first = first };
        w.count = s_fitting(&w, first);
        if (s_wave_init(&w))
            rc = verl_lm_fail(error, error_size, "generate: no memory for %lld cache rows (%lld MiB)",
                              (long long) w.cache_rows,
                              (long long) (lm->config.layers * w.cache_rows * s_cache_width(&lm->config) * 4) >> 20);
        else
            rc = s_wave_run(&w, error, error_size);
        s_wave_done(&w);
        first += w.count;
    }
    return rc;
}
