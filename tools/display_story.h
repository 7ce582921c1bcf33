// display_story.h: what a run has told so far, as far as people are told it again: the reward, the held-out figures,
// and a few examples from its beginning and its end.
#ifndef VERL_DISPLAY_STORY_H
#define VERL_DISPLAY_STORY_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "runtime/topology/plan.h"

#define VERL_STORY_TRACKS   16              // held-out figures that are followed
#define VERL_STORY_EXAMPLES 8               // kept of a batch

// One held-out figure: what it was first, and last.
typedef struct verl_track {
    char   *name;
    double  first, last;
    int64_t first_step, last_step;
} verl_track_t;

typedef struct verl_example {
    char   *prompt, *response;
    double  score;
} verl_example_t;

// The examples of one batch.
typedef struct verl_examples {
    int64_t        batch;                   // -1: none yet
    int            count;
    verl_example_t items[VERL_STORY_EXAMPLES];
} verl_examples_t;

typedef struct verl_story {
    const verl_plan_t *plan;
    int                tracks_count;
    verl_track_t       tracks[VERL_STORY_TRACKS];
    int                rewards_count, rewards_room;
    double            *rewards;             // one a step that had one
    verl_examples_t    first[2], last[2];   // [1]: of held-out stages, [0]: of the others
    verl_example_t     latest;              // of any stage; prompt NULL: none
} verl_story_t;

void verl_story_init(verl_story_t *story, const verl_plan_t *plan);
void verl_story_done(verl_story_t *story);
// What memory does not suffice for is left out.
void verl_story_step(verl_story_t *story, const json_t *metrics);
void verl_story_sample(verl_story_t *story, const char *stage, int64_t batch, const char *prompt, const char *response,
                       double score);

// The reward of a step: what its reward stage says, "critic/score/mean", or else what the advantages were made of,
// "critic/rewards/mean". NULL: neither is there, or it is no number. It belongs to `metrics`.
const json_t *verl_story_reward(const json_t *metrics);

bool verl_story_is_held_out(const char *metric);
// "openai/gsm8k" of "val-core/openai/gsm8k/mean@1": the part that tells one held-out figure from another.
const char *verl_story_short(const char *metric, char *text, size_t size);

// Up to `most` prompts that the first and the last batch share, those that got better first: pairs[i][0] before,
// pairs[i][1] after. Held-out prompts where there are any, else the first example of each batch. Returns how many.
int verl_story_pairs(const verl_story_t *story, const verl_example_t *pairs[][2], int most);
#endif
