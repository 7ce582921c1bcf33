// ragged.h: rows of different lengths in one flat array, as all of this folder takes them.
//
// Row b holds the tokens offsets[b] .. offsets[b + 1] - 1; offsets has rows + 1 entries and begins with 0. A row may be
// empty. A mask has one byte a token: 0 leaves the token out, anything else counts it; NULL counts all.
#ifndef VERL_RL_RAGGED_H
#define VERL_RL_RAGGED_H
#include <stddef.h>
#include <stdint.h>

typedef struct verl_ragged {
    int64_t rows;
    const int64_t *offsets; // [rows + 1]
    const uint8_t *mask;    // [tokens], or NULL
} verl_ragged_t;

// 0 where offsets begin with 0 and never fall; else -1 and one sentence that names the row.
int verl_ragged_check(const verl_ragged_t *self, char *error, size_t error_size);

// 0 where every counted value is finite; else -1 and a sentence with `name`, row and token. values NULL: 0.
int
verl_ragged_finite(const verl_ragged_t *self, const char *name, const float *values, char *error, size_t error_size);

// Number of tokens, counted or not.
static inline int64_t
verl_ragged_tokens(const verl_ragged_t *self)
{
    return self->rows > 0 ? self->offsets[self->rows] : 0;
}

// Whether the mask counts a token.
static inline int
verl_ragged_counts(const verl_ragged_t *self, int64_t token)
{
    return !self->mask || self->mask[token];
}

// How many tokens of row b are counted.
int64_t verl_ragged_length(const verl_ragged_t *self, int64_t row);

#endif
