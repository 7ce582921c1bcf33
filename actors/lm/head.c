// head.c: log-probabilities and entropies from hidden states, and their gradients.
//
// Picks are sorted by row and temperature; equal neighbours are one distribution, whose logits are computed once.
// Distributions go in chunks, so that logits of all rows are never there together.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "actors/lm/model_private.h"
#include "kernels/softmax.h"

enum { S_CHUNK_FLOATS = 16 << 20, S_CHUNK_LEAST = 48, S_CHUNK_MOST = 1536 };

// A run of picks of one row and temperature, in the sorted order.
typedef struct {
    int64_t row, begin, end;
    float temperature, lse, entropy;
} s_distribution_t;

typedef struct {
    const verl_lm_pick_t *picks;
    int64_t count;
    int64_t *order;                         // [count] places in picks, sorted
    s_distribution_t *distributions;        // [chunk]
    int64_t chunk;                          // distributions at a time
    float *x, *d_x;                         // [chunk, hidden]
    float *logits;                          // [chunk, vocab]
} s_head_t;

static int
s_compare(const void *a, const void *b, void *context)
{
    const verl_lm_pick_t *picks = context;
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    const verl_lm_pick_t *x = &picks[i], *y = &picks[j];
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    if (x->temperature != y->temperature)
        return x->temperature < y->temperature ? -1 : 1;
    return i < j ? -1 : i > j;
}

static void
s_done(s_head_t *h)
{
    free(h->order);
    free(h->distributions);
    free(h->x);
    free(h->d_x);
    free(h->logits);
}

static int
s_init(s_head_t *h, const verl_lm_config_t *c, const verl_lm_pick_t *picks, int64_t count)
{
    int64_t chunk = S_CHUNK_FLOATS / c->vocab_size;
    chunk = chunk < S_CHUNK_LEAST ? S_CHUNK_LEAST : chunk > S_CHUNK_MOST ? S_CHUNK_MOST : chunk;
    *h = (s_head_t){ .picks = picks, .count = count, .chunk = chunk > count ? count : chunk };
    h->order = malloc((size_t) (count + 1) * sizeof h->order[0]);
    h->distributions = malloc((size_t) (h->chunk + 1) * sizeof h->distributions[0]);
    h->x = malloc((size_t) (h->chunk * c->hidden_size + 1) * sizeof(float));
    h->d_x = malloc((size_t) (h->chunk * c->hidden_size + 1) * sizeof(float));
    h->logits = malloc((size_t) (h->chunk * c->vocab_size + 1) * sizeof(float));
    if (!h->order || !h->distributions || !h->x || !h->d_x || !h->logits) {
        s_done(h);
        return -1;
    }
    for (int64_t i = 0; i < count; i++)
        h->order[i] = i;
    qsort_r(h->order, (size_t) count, sizeof h->order[0], s_compare, (void *) (uintptr_t) picks);
    return 0;
}

static int
s_check(const verl_lm_t *lm, const verl_lm_tape_t *tape, const verl_lm_pick_t *picks, int64_t count, char *error,
        size_t error_size)
{
    if (tape->rows == 0)
        return verl_lm_fail(error, error_size, "model: log-probabilities need a forward before them");
    for (int64_t i = 0; i < count; i++) {
        const verl_lm_pick_t *p = &picks[i];
        if (p->row < 0 || p->row >= tape->rows)
            return verl_lm_fail(error, error_size, "model: pick %lld is at row %lld, but the batch has %lld rows",
                                (long long) i, (long long) p->row, (long long) tape->rows);
        if (p->target < 0 || p->target >= lm->config.vocab_size)
            return verl_lm_fail(error, error_size, "model: pick %lld has target %d, which is not in the vocabulary "
                                "of %lld", (long long) i, p->target, (long long) lm->config.vocab_size);
        if (!(p->temperature > 0) || !isfinite(p->temperature))
            return verl_lm_fail(error, error_size, "model: pick %lld has temperature %g: it must be positive and "
                                "finite", (long long) i, (double) p->temperature);
    }
    return 0;
}

// The next distributions from *next on in the sorted order. Returns how many.
static int64_t
s_gather(const s_head_t *h, int64_t *next)
{
    int64_t n = 0, i = *next;
    while (i < h->count && n < h->chunk) {
        const verl_lm_pick_t *first = &h->picks[h->order[i]];
        s_distribution_t *d = &h->distributions[n++];
        *d = (s_distribution_t){ .row = first->row, .begin = i, .temperature = first->temperature };
        while (i < h->count && h->picks[h->order[i]].row == first->row
               && h->picks[h->order[i]].temperature == first->temperature)
            i++;
        d->end = i;
    }
    *next = i;
    return n;
}

// Logits of n distributions, and their normalisers. Returns the first with a logit that is not finite, or -1.
static int64_t
s_logits(const verl_lm_t *lm, const verl_lm_tape_t *tape, const s_head_t *h, int64_t n)
{
    int64_t hidden = lm->config.hidden_size, vocab = lm->config.vocab_size, bad = -1;
    for (int64_t i = 0; i < n; i++)
        memcpy(h->x + i * hidden, tape->hidden + h->distributions[i].row * hidden, (size_t) hidden * sizeof(float));
    verl_lm_round(lm, n * hidden, h->x, lm->threads);
    verl_linear_forward(n, vocab, hidden, h->x, hidden, verl_lm_weight(lm, lm->layout.head, hidden), NULL, false,
                        h->logits, vocab, lm->threads);
    #pragma omp parallel for num_threads(lm->threads) schedule(static) if(n * vocab > 20000)
    for (int64_t i = 0; i < n; i++) {
        s_distribution_t *d = &h->distributions[i];
        if (verl_softmax_measure(vocab, h->logits + i * vocab, 1 / d->temperature, &d->lse, &d->entropy))
            d->lse = NAN;
    }
    for (int64_t i = n - 1; i >= 0; i--)
        bad = isnan(h->distributions[i].lse) ? i : bad;
    return bad;
}

static int
s_not_finite(const verl_lm_t *lm, const verl_lm_tape_t *tape, const s_head_t *h, int64_t bad, char *error,
             size_t error_size)
{
    int64_t vocab = lm->config.vocab_size, row = h->distributions[bad].row;
    int64_t id = verl_softmax_not_finite(vocab, h->logits + bad * vocab);
    return verl_lm_fail(error, error_size, "model: the logit of token %lld at row %lld (position %lld) is %g: the "
                        "weights are broken or too large", (long long) id, (long long) row,
                        (long long) tape->positions[row], id < 0 ? 0.0 : (double) h->logits[bad * vocab + id]);
}

int
verl_lm_logprobs(verl_lm_t *lm, verl_lm_tape_t *tape, const verl_lm_pick_t *picks, int64_t count, float *logprobs,
                 float *entropy, char *error, size_t error_size)
{
    s_head_t h;
    int64_t bad = -1, vocab = lm->config.vocab_size;
    if (s_check(lm, tape, picks, count, error, error_size))
        return -1;
    if (s_init(&h, &lm->config, picks, count))
        return verl_lm_fail(error, error_size, "model: no memory for logits of %lld tokens", (long long) vocab);
    for (int64_t next = 0; next < count && bad < 0;) {
        int64_t n = s_gather(&h, &next);
        bad = s_logits(lm, tape, &h, n);
        for (int64_t i = 0; i < n && bad < 0; i++) {
            const s_distribution_t *d = &h.distributions[i];
            for (int64_t k = d->begin; k < d->end; k++) {
                int64_t place = h.order[k];
                logprobs[place] = h.logits[i * vocab + picks[place].target] * (1 / d->temperature) - d->lse;
                if (entropy)
                    entropy[place] = d->entropy;
            }
        }
    }
    int rc = bad < 0 ? 0 : s_not_finite(lm, tape, &h, bad, error, error_size);
    s_done(&h);
    return rc;
}

// Logits of one distribution become their gradient.
static void
s_d_logits(const s_head_t *h, const s_distribution_t *d, int64_t vocab, const float *d_logprobs,
           const float *d_entropy, float *logits)
{
    float by_logprobs = 0, by_entropy = 0, inverse = 1 / d->temperature;
    for (int64_t k = d->begin; k < d->end; k++) {
        by_logprobs += d_logprobs ? d_logprobs[h->order[k]] : 0;
        by_entropy += d_entropy ? d_entropy[h->order[k]] : 0;
    }
    verl_softmax_backward(vocab, logits, inverse, d->lse, d->entropy, by_logprobs, by_entropy);
    for (int64_t k = d->begin; k < d->end && d_logprobs; k++)
        logits[h->picks[h->order[k]].target] += inverse * d_logprobs[h->order[k]];
}

static void
s_chunk_backward(const verl_lm_t *lm, verl_lm_tape_t *tape, const s_head_t *h, int64_t n, const float *d_logprobs,
                 const float *d_entropy, float *gradient)
{
    int64_t hidden = lm->config.hidden_size, vocab = lm->config.vocab_size;
    #pragma omp parallel for num_threads(lm->threads) schedule(static) if(n * vocab > 20000)
    for (int64_t i = 0; i < n; i++)
        s_d_logits(h, &h->distributions[i], vocab, d_logprobs, d_entropy, h->logits + i * vocab);
    verl_lm_round(lm, n * vocab, h->logits, lm->threads);
    verl_linear_backward_weight(n, vocab, hidden, h->logits, vocab, h->x, hidden, lm->dtype == VERL_LM_BF16,
                                gradient + lm->layout.head, hidden, lm->threads);
    verl_linear_backward_input(n, vocab, hidden, h->logits, vocab, verl_lm_weight(lm, lm->layout.head, hidden), false,
                               h->d_x, hidden, lm->threads);
    for (int64_t i = 0; i < n; i++) {
        float *to = tape->d_hidden + h->distributions[i].row * hidden;
        for (int64_t k = 0; k < hidden; k++)
            to[k] += h->d_x[i * hidden + k];
    }
}

int
verl_lm_logprobs_backward(verl_lm_t *lm, verl_lm_tape_t *tape, const verl_lm_pick_t *picks, int64_t count,
                          const float *d_logprobs, const float *d_entropy, float *gradient, char *error,
                          size_t error_size)
{
    s_head_t h;
    int64_t bad = -1;
    if (s_check(lm, tape, picks, count, error, error_size))
        return -1;
    if (!tape->d_hidden || tape->backward_done)
        return verl_lm_fail(error, error_size, "model: gradients of log-probabilities need a forward in a TRAIN mode, "
                            "and come before verl_lm_backward");
    if (s_init(&h, &lm->config, picks, count))
        return verl_lm_fail(error, error_size, "model: no memory for logits of %lld tokens",
                            (long long) lm->config.vocab_size);
    for (int64_t next = 0; next < count && bad < 0;) {
        int64_t n = s_gather(&h, &next);
        bad = s_logits(lm, tape, &h, n);
        if (bad < 0)
            s_chunk_backward(lm, tape, &h, n, d_logprobs, d_entropy, gradient);
    }
    int rc = bad < 0 ? 0 : s_not_finite(lm, tape, &h, bad, error, error_size);
    s_done(&h);
    return rc;
}
