// test_pack.c: rows as packed segments: what is shared, what is left out, where micro-batches are cut.
#include "actors/kit/pack.h"
#include "actors/rig.h"

// Four rows: two samples of prompt (1 2 3), one of (4 5), and one of (4 5) with an empty response.
static const int64_t s_prompt_lengths[] = { 3, 3, 2, 2 }, s_lengths[] = { 2, 3, 1, 0 };
static const int32_t s_prompts[] = { 1, 2, 3, 1, 2, 3, 4, 5, 4, 5 }, s_responses[] = { 6, 7, 8, 9, 10, 11 };
static const int64_t s_order[] = { 0, 1, 2, 3 };

typedef struct {
    verl_batch_t    *made, *in;
    verl_stage_t     stage;
    verl_lm_config_t config;
    verl_rows_t      rows;
    verl_pack_t      pack;
} bed_t;

static int
s_open(bed_t *self, const uint8_t *mask)
{
    *self = (bed_t) { .config = { .vocab_size = 16, .max_positions = 8 }, .made = rig_made(0, 4) };
    rig_add_ragged(self->made, "prompt_ids", VERL_I32, s_prompt_lengths, s_prompts);
    rig_add_ragged(self->made, "response_ids", VERL_I32, s_lengths, s_responses);
    if (mask)
        rig_add_ragged(self->made, "response_mask", VERL_U8, s_lengths, mask);
    self->in = rig_see(self->made);
    return verl_rows_init(&self->rows, &self->stage, self->in, &self->config);
}

static void
s_close(bed_t *self)
{
    verl_rows_done(&self->rows);
    verl_pack_done(&self->pack);
    verl_batch_destroy(&self->in);
    verl_batch_destroy(&self->made);
}

Test(pack, a_prompt_stands_once_for_all_its_samples)
{
    bed_t bed;
    cr_assert_eq(s_open(&bed, NULL), 0, "%s", bed.stage.error.text);
    cr_assert_eq(verl_pack_build(&bed.pack, &bed.rows, s_order, 4, false), 0);
    const int32_t tokens[] = { 1, 2, 3, 6, 8, 9, 4, 5 };      // the last token of a response is never computed
    const verl_lm_segment_t segments[] = { { 0, 3, -1 }, { 3, 1, 0 }, { 4, 2, 0 }, { 6, 2, -1 } };
    cr_assert_eq(bed.pack.batch.rows, 8);
    cr_assert_arr_eq(bed.pack.tokens, tokens, sizeof tokens);
    cr_assert_eq(bed.pack.batch.segment_count, 4);
    cr_assert_arr_eq(bed.pack.segments, segments, sizeof segments);
    const int64_t at[] = { 2, 2, 3, 4, 5, 7 }, places[] = { 0, 2, 1, 3, 4, 5 };
    const int32_t targets[] = { 6, 8, 7, 9, 10, 11 };
    cr_assert_eq(bed.pack.pick_count, 6);
    for (int i = 0; i < 6; i++) {
        cr_assert_eq(bed.pack.picks[i].row, at[i]);
        cr_assert_eq(bed.pack.picks[i].target, targets[i]);
        cr_assert_eq(bed.pack.picks[i].temperature, 1.0f);
        cr_assert_eq(bed.pack.places[i], places[i]);
    }
    s_close(&bed);
}

Test(pack, what_the_mask_leaves_out_is_not_picked_and_what_nobody_needs_not_packed)
{
    bed_t bed;
    const uint8_t mask[] = { 0, 0, 0, 1, 0, 1 };
    cr_assert_eq(s_open(&bed, mask), 0, "%s", bed.stage.error.text);
    cr_assert_eq(verl_pack_build(&bed.pack, &bed.rows, s_order, 4, true), 0);
    const int32_t tokens[] = { 1, 2, 3, 8, 4, 5 };
    cr_assert_eq(bed.pack.batch.rows, 6);
    cr_assert_arr_eq(bed.pack.tokens, tokens, sizeof tokens);
    cr_assert_eq(bed.pack.pick_count, 2);
    cr_assert_eq(bed.pack.picks[0].target, 9);
    cr_assert_eq(bed.pack.picks[0].row, 3);
    cr_assert_eq(bed.pack.places[0], 3);
    cr_assert_eq(bed.pack.picks[1].target, 11);
    s_close(&bed);
}

Test(pack, micro_batches_keep_runs_whole_unless_a_run_alone_is_too_large)
{
    bed_t bed;
    cr_assert_eq(s_open(&bed, NULL), 0, "%s", bed.stage.error.text);
    cr_assert_eq(verl_pack_take(&bed.rows, s_order, 4, 0, false), 4);
    cr_assert_eq(verl_pack_take(&bed.rows, s_order, 4, 8, false), 4);
    cr_assert_eq(verl_pack_take(&bed.rows, s_order, 4, 7, false), 2);
    cr_assert_eq(verl_pack_take(&bed.rows, s_order, 4, 5, false), 1);
    cr_assert_eq(verl_pack_take(&bed.rows, s_order, 4, 1, false), 1);
    s_close(&bed);
}

static void
s_check_refused(const char *word, int64_t max_positions, int64_t vocab, bool empty_prompt, bool short_mask)
{
    static const int64_t mask_lengths[] = { 2, 2, 1, 0 }, none[] = { 3, 3, 0, 2 };
    static const uint8_t mask[] = { 1, 1, 1, 1, 1 };
    bed_t bed = { .config = { .vocab_size = vocab, .max_positions = max_positions }, .made = rig_made(0, 4) };
    rig_add_ragged(bed.made, "prompt_ids", VERL_I32, empty_prompt ? none : s_prompt_lengths, s_prompts);
    rig_add_ragged(bed.made, "response_ids", VERL_I32, s_lengths, s_responses);
    if (short_mask)
        rig_add_ragged(bed.made, "response_mask", VERL_U8, mask_lengths, mask);
    bed.in = rig_see(bed.made);
    cr_assert_eq(verl_rows_init(&bed.rows, &bed.stage, bed.in, &bed.config), -1);
    cr_assert(strstr(bed.stage.error.text, word), "\"%s\" does not say %s", bed.stage.error.text, word);
    s_close(&bed);
}

Test(pack, a_row_that_cannot_be_computed_is_named)
{
    s_check_refused("row 1: a prompt of 3 and a response of 3", 5, 16, false, false);
    s_check_refused("row 2: response_ids has the id 11", 8, 11, false, false);
    s_check_refused("row 2: its prompt has no tokens", 8, 16, true, false);
    s_check_refused("row 1: response_mask has 2 places", 8, 16, false, true);
}
