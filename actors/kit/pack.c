// pack.c: see pack.h.
#include "actors/kit/pack.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---------------------------------------------------------------------------------------------------------------
// Rows

int64_t
verl_rows_length(const verl_rows_t *self, int64_t row)
{
    return self->starts[row + 1] - self->starts[row];
}

bool
verl_rows_is_masked_in(const verl_rows_t *self, int64_t row, int64_t t)
{
    if (!self->mask)
        return true;
    const void *data = verl_column_at(self->mask, row);
    if (self->mask->dtype == VERL_U8)
        return ((const uint8_t *) data)[t] != 0;
    return self->mask->dtype == VERL_I32 ? ((const int32_t *) data)[t] != 0 : ((const int64_t *) data)[t] != 0;
}

// Greedy samples are recorded with the temperature 1 that their log-probabilities have; 0 is taken for the same.
float
verl_rows_temperature(const verl_rows_t *self, int64_t row)
{
    float value = self->temperature ? *verl_column_f32(self->temperature, row) : 1.0f;
    return value == 0.0f ? 1.0f : value;
}

bool
verl_rows_same_prompt(const verl_rows_t *self, int64_t a, int64_t b)
{
    const verl_column_t *ids = self->prompt_ids;
    if (verl_column_stored(ids, a) == verl_column_stored(ids, b))
        return true;
    int64_t length = verl_column_length(ids, a);
    return length == verl_column_length(ids, b) &&
           memcmp(verl_column_i32(ids, a), verl_column_i32(ids, b), (size_t) length * sizeof(int32_t)) == 0;
}

static int
s_check_ids(verl_stage_t *stage, const verl_column_t *ids, int64_t row, int64_t vocab)
{
    const int32_t *id = verl_column_i32(ids, row);
    int64_t length = verl_column_length(ids, row);
    for (int64_t i = 0; i < length; i++)
        if (id[i] < 0 || id[i] >= vocab)
            return verl_fail(stage, "row %lld: %s has the id %d at place %lld, and the model's vocabulary ends at %lld",
                             (long long) row, ids->name, (int) id[i], (long long) i, (long long) vocab - 1);
    return 0;
}

static int
s_check_row(const verl_rows_t *self, verl_stage_t *stage, int64_t row, const verl_lm_config_t *config)
{
    int64_t prompt = verl_column_length(self->prompt_ids, row);
    int64_t response = verl_column_length(self->response_ids, row);
    if (prompt == 0)
        return verl_fail(stage, "row %lld: its prompt has no tokens; one at least is what a response can follow",
                         (long long) row);
    if (prompt + response > config->max_positions)
        return verl_fail(stage, "row %lld: a prompt of %lld and a response of %lld tokens are longer than the model's "
                         "context of %lld", (long long) row, (long long) prompt, (long long) response,
                         (long long) config->max_positions);
    if (self->mask && verl_column_length(self->mask, row) != response)
        return verl_fail(stage, "row %lld: response_mask has %lld places, and the response %lld tokens",
                         (long long) row, (long long) verl_column_length(self->mask, row), (long long) response);
    float temperature = verl_rows_temperature(self, row);
    if (!(temperature > 0 && isfinite(temperature)))
        return verl_fail(stage, "row %lld: a temperature of %g; a positive number would be right", (long long) row,
                         (double) temperature);
    return s_check_ids(stage, self->prompt_ids, row, config->vocab_size) ||
                   s_check_ids(stage, self->response_ids, row, config->vocab_size)
               ? -1
               : 0;
}

static bool
s_is_ragged(const verl_column_t *column, verl_dtype_t dtype)
{
    return column->ragged && column->width == 1 && column->dtype == dtype;
}

static int
s_check_types(const verl_rows_t *self, verl_stage_t *stage)
{
    const verl_column_t *ids[] = { self->prompt_ids, self->response_ids };
    for (int i = 0; i < 2; i++)
        if (!s_is_ragged(ids[i], VERL_I32))
            return verl_fail(stage, "column %s is not i32[n,*]", ids[i]->name);
    if (self->mask && !s_is_ragged(self->mask, VERL_U8) && !s_is_ragged(self->mask, VERL_I32) &&
        !s_is_ragged(self->mask, VERL_I64))
        return verl_fail(stage, "column response_mask is not u8[n,*]");
    const verl_column_t *temperature = self->temperature;
    if (temperature && (temperature->ragged || temperature->width != 1 || temperature->dtype != VERL_F32))
        return verl_fail(stage, "column temperature is not f32[n]");
    return 0;
}

int
verl_rows_init(verl_rows_t *self, verl_stage_t *stage, const verl_batch_t *in, const verl_lm_config_t *config)
{
    *self = (verl_rows_t) { .count = verl_batch_rows(in) };
    self->prompt_ids = verl_batch_column(in, "prompt_ids");
    self->response_ids = verl_batch_column(in, "response_ids");
    self->mask = verl_batch_column(in, "response_mask");
    self->temperature = verl_batch_column(in, "temperature");
    if (!self->prompt_ids || !self->response_ids)
        return verl_fail(stage, "there is no column %s", self->prompt_ids ? "response_ids" : "prompt_ids");
    if (s_check_types(self, stage) != 0)
        return -1;
    self->starts = malloc((size_t) (self->count + 1) * sizeof *self->starts);
    if (!self->starts)
        return verl_fail(stage, "no memory for %lld rows", (long long) self->count);
    self->starts[0] = 0;
    for (int64_t row = 0; row < self->count; row++) {
        if (s_check_row(self, stage, row, config) != 0)
            return -1;
        self->starts[row + 1] = self->starts[row] + verl_column_length(self->response_ids, row);
    }
    return 0;
}

void
verl_rows_done(verl_rows_t *self)
{
    free(self->starts);
    *self = (verl_rows_t) { 0 };
}

int
verl_rows_check_aligned(const verl_rows_t *self, verl_stage_t *stage, const verl_column_t *column)
{
    if (!s_is_ragged(column, VERL_F32))
        return verl_fail(stage, "column %s is not f32[n,*]", column->name);
    for (int64_t row = 0; row < self->count; row++)
        if (verl_column_length(column, row) != verl_rows_length(self, row))
            return verl_fail(stage, "row %lld: %s has %lld places, and the response %lld tokens", (long long) row,
                             column->name, (long long) verl_column_length(column, row),
                             (long long) verl_rows_length(self, row));
    return 0;
}

// ---------------------------------------------------------------------------------------------------------------
// Packs

// Response tokens of a row up to the last one that is picked.
static int64_t
s_needed(const verl_rows_t *rows, int64_t row, bool masked)
{
    int64_t length = verl_rows_length(rows, row);
    while (masked && length > 0 && !verl_rows_is_masked_in(rows, row, length - 1))
        length--;
    return length;
}

// The rows from order[0] on that have its prompt.
static int64_t
s_run(const verl_rows_t *rows, const int64_t *order, int64_t count)
{
    int64_t run = 1;
    while (run < count && verl_rows_same_prompt(rows, order[0], order[run]))
        run++;
    return run;
}

// Tokens that a row adds to a pack that has its prompt already.
static int64_t
s_cost(const verl_rows_t *rows, int64_t row, bool masked)
{
    int64_t needed = s_needed(rows, row, masked);
    return needed > 0 ? needed - 1 : 0;
}

int64_t
verl_pack_take(const verl_rows_t *rows, const int64_t *order, int64_t count, int64_t max_tokens, bool masked)
{
    int64_t taken = 0, tokens = 0;
    if (max_tokens <= 0)
        return count;
    while (taken < count) {
        int64_t run = s_run(rows, order + taken, count - taken);
        int64_t cost = verl_column_length(rows->prompt_ids, order[taken]), fits = 0;
        for (; fits < run; fits++) {
            int64_t more = s_cost(rows, order[taken + fits], masked);
            if (tokens + cost + more > max_tokens)
                break;
            cost += more;
        }
        if (fits < run)                     // a run is cut only where nothing is before it
            return taken > 0 ? taken : fits > 0 ? fits : 1;
        taken += run;
        tokens += cost;
    }
    return taken;
}

// An array with room for `count` items: itself, or a larger one with the same contents; NULL without memory, and then
// the old one stays.
static void *
s_grown(void *array, int64_t *room, int64_t count, size_t item)
{
    if (array && count <= *room)
        return array;
    void *memory = realloc(array, (size_t) (count > 0 ? count : 1) * item);
    if (memory)
        *room = count;
    return memory;
}

#define S_GROW(field, room, count)                                                    \
    do {                                                                              \
        void *memory_ = s_grown(self->field, &(room), count, sizeof *self->field);    \
        if (!memory_)                                                                 \
            return -1;                                                                \
        self->field = memory_;                                                        \
    } while (0)

static int
s_reserve(verl_pack_t *self, const verl_rows_t *rows, const int64_t *order, int64_t count)
{
    int64_t tokens = 0, picks = 0, place_room = self->pick_room;
    for (int64_t i = 0; i < count; i++) {
        int64_t length = verl_rows_length(rows, order[i]);
        picks += length;
        tokens += length;
        if (i == 0 || !verl_rows_same_prompt(rows, order[i - 1], order[i]))
            tokens += verl_column_length(rows->prompt_ids, order[i]);
    }
    S_GROW(tokens, self->token_room, tokens);
    S_GROW(segments, self->segment_room, 2 * count);
    S_GROW(starts, self->row_room, count + 1);
    S_GROW(places, place_room, picks);
    S_GROW(picks, self->pick_room, picks);
    return 0;
}

static int64_t
s_add_segment(verl_pack_t *self, const int32_t *tokens, int64_t length, int64_t parent)
{
    int64_t start = self->batch.rows;
    memcpy(self->tokens + start, tokens, (size_t) length * sizeof *tokens);
    self->segments[self->batch.segment_count] = (verl_lm_segment_t) { start, length, parent };
    self->batch.rows += length;
    return self->batch.segment_count++;
}

static void
s_pick(verl_pack_t *self, const verl_rows_t *rows, int64_t row, int64_t index, int64_t t, int64_t at)
{
    self->places[self->pick_count] = self->starts[index] + t;
    self->picks[self->pick_count++] = (verl_lm_pick_t){
        .row = at,
        .target = verl_column_i32(rows->response_ids, row)[t],
        .temperature = verl_rows_temperature(rows, row),
    };
}

// Adds the rows order[from … to), which share a prompt. All first tokens are read at the prompt's last row, and picked
// side by side, so that its logits are computed once.
static void
s_add_run(verl_pack_t *self, const verl_rows_t *rows, const int64_t *order, int64_t from, int64_t to, bool masked)
{
    bool any = false;
    for (int64_t i = from; i < to && !any; i++)
        any = s_needed(rows, order[i], masked) > 0;
    if (!any)
        return;
    int64_t prompt = s_add_segment(self, verl_column_i32(rows->prompt_ids, order[from]),
                                   verl_column_length(rows->prompt_ids, order[from]), -1);
    int64_t last = self->batch.rows - 1;
    for (int64_t i = from; i < to; i++)
        if (s_needed(rows, order[i], masked) > 0 && (!masked || verl_rows_is_masked_in(rows, order[i], 0)))
            s_pick(self, rows, order[i], i, 0, last);
    for (int64_t i = from; i < to; i++) {
        int64_t needed = s_needed(rows, order[i], masked);
        if (needed < 2)
            continue;
        int64_t start = self->batch.rows;
        s_add_segment(self, verl_column_i32(rows->response_ids, order[i]), needed - 1, prompt);
        for (int64_t t = 1; t < needed; t++)
            if (!masked || verl_rows_is_masked_in(rows, order[i], t))
                s_pick(self, rows, order[i], i, t, start + t - 1);
    }
}

int
verl_pack_build(verl_pack_t *self, const verl_rows_t *rows, const int64_t *order, int64_t count, bool masked)
{
    if (s_reserve(self, rows, order, count) != 0)
        return -1;
    self->batch = (verl_lm_batch_t) { .tokens = self->tokens, .segments = self->segments };
    self->pick_count = 0;
    self->starts[0] = 0;
    for (int64_t i = 0; i < count; i++)
        self->starts[i + 1] = self->starts[i] + verl_rows_length(rows, order[i]);
    for (int64_t from = 0; from < count;) {
        int64_t to = from + s_run(rows, order + from, count - from);
        s_add_run(self, rows, order, from, to, masked);
        from = to;
    }
    return 0;
}

void
verl_pack_done(verl_pack_t *self)
{
    free(self->tokens);
    free(self->segments);
    free(self->starts);
    free(self->places);
    free(self->picks);
    *self = (verl_pack_t) { 0 };
}
