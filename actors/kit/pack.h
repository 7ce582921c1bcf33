// pack.h: rows of a batch as one packed ragged batch of a model, where a prompt stands once for all its samples.
//
// Rows that follow each other with the same prompt share its segment; each response is a child of it. Row r of a pack
// predicts the token after it, so the last token of a response is never computed, nor is what lies behind the last
// token that anybody asks for. Nothing here blocks; one caller at a time.
#ifndef VERL_KIT_PACK_H
#define VERL_KIT_PACK_H
#include <verl.h>
#include "actors/lm/model.h"

// What a batch says about tokens. Columns belong to the batch; starts to this.
typedef struct verl_rows {
    int64_t count;
    const verl_column_t *prompt_ids, *response_ids;
    const verl_column_t *mask;              // u8, i32 or i64, one a response token; NULL: all are the model's
    const verl_column_t *temperature;       // f32[n]; NULL: 1
    int64_t *starts;                        // [count + 1] response tokens before each row
} verl_rows_t;

// Reads prompt_ids, response_ids, response_mask and temperature of a batch, and checks each row: types, lengths that
// agree, ids inside the vocabulary, a prompt that is not empty, a context that the model has. 0, or verl_fail's -1
// naming the row. done accepts zeroed memory.
int  verl_rows_init(verl_rows_t *self, verl_stage_t *stage, const verl_batch_t *in, const verl_lm_config_t *config);
void verl_rows_done(verl_rows_t *self);

int64_t verl_rows_length(const verl_rows_t *self, int64_t row);                 // of the response
bool    verl_rows_is_masked_in(const verl_rows_t *self, int64_t row, int64_t t); // token t is the model's own
float   verl_rows_temperature(const verl_rows_t *self, int64_t row);
bool    verl_rows_same_prompt(const verl_rows_t *self, int64_t a, int64_t b);

// Checks that a column has one f32 for each response token. 0, or verl_fail's -1 naming the row.
int verl_rows_check_aligned(const verl_rows_t *self, verl_stage_t *stage, const verl_column_t *column);

typedef struct verl_pack {
    verl_lm_batch_t batch;                  // what verl_lm_forward takes
    verl_lm_pick_t *picks;
    int64_t        *places;                 // of each pick: token within the rows of the pack, see starts
    int64_t         pick_count;
    int64_t        *starts;                 // [rows + 1] response tokens before each row of the pack
    int32_t        *tokens;
    verl_lm_segment_t *segments;
    int64_t         token_room, segment_room, pick_room, row_room;
} verl_pack_t;

// How many of the rows order[0 … count) make the next micro-batch: whole runs of rows with one prompt as long as their
// tokens fit into max_tokens (0: any number). A run that alone is larger is cut, down to one row: that is always taken.
int64_t verl_pack_take(const verl_rows_t *rows, const int64_t *order, int64_t count, int64_t max_tokens, bool masked);

// Packs the rows order[0 … count). masked: only tokens that the mask lets in are picked; else all. 0, or -1 without
// memory, which is kept from one pack to the next. done accepts zeroed memory.
int  verl_pack_build(verl_pack_t *self, const verl_rows_t *rows, const int64_t *order, int64_t count, bool masked);
void verl_pack_done(verl_pack_t *self);
#endif
