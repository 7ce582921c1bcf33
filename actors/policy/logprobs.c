// logprobs.c: what the model thinks of responses that are there: one log-probability a response token.
#include <stdlib.h>
#include <string.h>
#include "actors/policy/policy.h"

// The row of a pack that a token within its rows belongs to.
static int64_t
s_row_of(const verl_pack_t *pack, int64_t rows, int64_t place)
{
    int64_t low = 0, high = rows;           // starts[low] <= place < starts[high]
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        *(pack->starts[middle] <= place ? &low : &high) = middle;
    }
    return low;
}

// The entropy of each pick is measured where the mask lets its token in.
static void
s_measure(verl_stage_t *stage, const verl_rows_t *rows, const verl_pack_t *pack, const int64_t *order,
          int64_t count, const float *entropy)
{
    for (int64_t i = 0; i < pack->pick_count; i++) {
        int64_t row = s_row_of(pack, count, pack->places[i]);
        if (verl_rows_is_masked_in(rows, order[row], pack->places[i] - pack->starts[row]))
            verl_metric(stage, "actor/entropy", (double) entropy[i]);
    }
}

// Scores `count` rows from `first` on and writes the log-probabilities of their tokens to `to`.
static int
s_score(verl_stage_t *stage, const verl_rows_t *rows, const int64_t *order, int64_t count, float *to)
{
    verl_policy_t *self = verl_stage_state(stage);
    const verl_policy_logprobs_t *options = verl_stage_options(stage);
    verl_pack_t *pack = &self->pack;
    char error[1024];
    if (verl_pack_build(pack, rows, order, count, false) != 0)
        return verl_fail(stage, "no memory to pack rows %lld to %lld", (long long) order[0],
                         (long long) order[count - 1]);
    if (pack->pick_count == 0)
        return 0;
    size_t picks = (size_t) pack->pick_count;
    float *logprobs = malloc(2 * picks * sizeof *logprobs), *entropy = logprobs + picks;
    if (!logprobs)
        return verl_fail(stage, "no memory for %zu log-probabilities", picks);
    int rc = verl_lm_forward(self->lm, self->tape, VERL_LM_SCORE, &pack->batch, error, sizeof error);
    if (rc == 0)
        rc = verl_lm_logprobs(self->lm, self->tape, pack->picks, pack->pick_count, logprobs,
                              options->entropy ? entropy : NULL, error, sizeof error);
    if (rc != 0)
        rc = verl_fail(stage, "rows %lld to %lld: %s", (long long) order[0], (long long) order[count - 1], error);
    for (size_t i = 0; rc == 0 && i < picks; i++)
        to[pack->places[i]] = logprobs[i];
    if (rc == 0 && options->entropy)
        s_measure(stage, rows, pack, order, count, entropy);
    free(logprobs);
    return rc;
}

static int
s_score_all(verl_stage_t *stage, const verl_rows_t *rows, const int64_t *order, float *to)
{
    const verl_policy_logprobs_t *options = verl_stage_options(stage);
    for (int64_t from = 0; from < rows->count;) {
        int64_t count = verl_pack_take(rows, order + from, rows->count - from, options->max_tokens, false);
        if (s_score(stage, rows, order + from, count, to + rows->starts[from]) != 0)
            return -1;
        from += count;
        if (from < rows->count && verl_progress(stage, (double) from / (double) rows->count))
            return -1;
    }
    return 0;
}

int
verl_policy_run_logprobs(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out)
{
    const verl_policy_t *self = verl_stage_state(stage);
    verl_rows_t rows;
    int64_t *order = NULL, *lengths = NULL;
    float *to = NULL;
    int rc = verl_rows_init(&rows, stage, in, &self->config);
    if (rc == 0) {
        order = calloc((size_t) rows.count + 1, sizeof *order);
        lengths = calloc((size_t) rows.count + 1, sizeof *lengths);
        rc = order && lengths ? 0 : verl_fail(stage, "no memory for %lld rows", (long long) rows.count);
    }
    for (int64_t row = 0; rc == 0 && row < rows.count; row++) {
        order[row] = row;
        lengths[row] = verl_rows_length(&rows, row);
    }
    if (rc == 0) {
        to = verl_batch_add_ragged(out, "logprobs", VERL_F32, 1, lengths);
        rc = to ? s_score_all(stage, &rows, order, to) : -1;
    }
    free(order);
    free(lengths);
    verl_rows_done(&rows);
    return rc;
}
