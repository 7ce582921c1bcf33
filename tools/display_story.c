// display_story.c: see display_story.h.
#include "tools/display_story.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
verl_story_init(verl_story_t *story, const verl_plan_t *plan)
{
    *story = (verl_story_t) { .plan = plan };
    for (int i = 0; i < 2; i++)
        story->first[i].batch = story->last[i].batch = -1;
}

static void
s_example_done(verl_example_t *example)
{
    free(example->prompt);
    free(example->response);
    *example = (verl_example_t) { 0 };
}

static void
s_examples_clear(verl_examples_t *examples)
{
    for (int i = 0; i < examples->count; i++)
        s_example_done(&examples->items[i]);
    examples->count = 0;
}

void
verl_story_done(verl_story_t *story)
{
    for (int i = 0; i < story->tracks_count; i++)
        free(story->tracks[i].name);
    for (int i = 0; i < 2; i++) {
        s_examples_clear(&story->first[i]);
        s_examples_clear(&story->last[i]);
    }
    s_example_done(&story->latest);
    free(story->rewards);
    *story = (verl_story_t) { 0 };
}

// --- figures ------------------------------------------------------------------------------------------------------

const json_t *
verl_story_reward(const json_t *metrics)
{
    const json_t *score = json_object_get(metrics, "critic/score/mean");
    const json_t *reward = json_is_number(score) ? score : json_object_get(metrics, "critic/rewards/mean");
    return json_is_number(reward) ? reward : NULL;
}

bool
verl_story_is_held_out(const char *metric)
{
    return strncmp(metric, "val-core/", 9) == 0 || strcmp(metric, "val/critic/score/mean") == 0;
}

const char *
verl_story_short(const char *metric, char *text, size_t size)
{
    const char *from = strncmp(metric, "val-core/", 9) == 0 ? metric + 9 : metric, *at = strrchr(from, '@');
    const char *slash = at ? memrchr(from, '/', (size_t) (at - from)) : strchr(from, '/');
    snprintf(text, size, "%.*s", (int) (slash ? slash - from : (long) strlen(from)), from);
    return text;
}

static void
s_track(verl_story_t *story, const char *name, int64_t step, double value)
{
    int i = 0;
    while (i < story->tracks_count && strcmp(story->tracks[i].name, name) != 0)
        i++;
    if (i == VERL_STORY_TRACKS)
        return;
    verl_track_t *track = &story->tracks[i];
    if (i == story->tracks_count) {
        *track = (verl_track_t) { .name = strdup(name), .first = value, .first_step = step };
        if (!track->name)
            return;
        story->tracks_count++;
    }
    track->last = value;
    track->last_step = step;
}

static void
s_reward(verl_story_t *story, double value)
{
    if (story->rewards_count == story->rewards_room) {
        int room = story->rewards_room ? 2 * story->rewards_room : 256;
        double *more = realloc(story->rewards, (size_t) room * sizeof *more);
        if (!more)
            return;
        story->rewards = more;
        story->rewards_room = room;
    }
    story->rewards[story->rewards_count++] = value;
}

void
verl_story_step(verl_story_t *story, const json_t *metrics)
{
    int64_t step = json_integer_value(json_object_get(metrics, "step"));
    const json_t *reward = verl_story_reward(metrics);
    if (reward)
        s_reward(story, json_number_value(reward));
    void *at = json_object_iter((json_t *) (uintptr_t) metrics);
    for (; at; at = json_object_iter_next((json_t *) (uintptr_t) metrics, at))
        if (verl_story_is_held_out(json_object_iter_key(at)) && json_is_number(json_object_iter_value(at)))
            s_track(story, json_object_iter_key(at), step, json_number_value(json_object_iter_value(at)));
}

// --- examples -----------------------------------------------------------------------------------------------------

static bool
s_example_set(verl_example_t *example, const char *prompt, const char *response, double score)
{
    verl_example_t made = { strdup(prompt), strdup(response), score };
    if (!made.prompt || !made.response) {
        s_example_done(&made);
        return false;
    }
    s_example_done(example);
    *example = made;
    return true;
}

static void
s_keep(verl_examples_t *examples, int64_t batch, const char *prompt, const char *response, double score)
{
    if (examples->batch != batch) {
        s_examples_clear(examples);
        examples->batch = batch;
    }
    if (examples->count < VERL_STORY_EXAMPLES &&
        s_example_set(&examples->items[examples->count], prompt, response, score))
        examples->count++;
}

// A stage that sees the closing batch looks at a held-out set.
static int
s_held_out(const verl_story_t *story, const char *stage)
{
    for (int i = 0; i < story->plan->stages_count; i++)
        if (strcmp(story->plan->stages[i].name, stage) == 0)
            return story->plan->stages[i].span.closing;
    return 0;
}

void
verl_story_sample(verl_story_t *story, const char *stage, int64_t batch, const char *prompt, const char *response,
                  double score)
{
    int held = s_held_out(story, stage);
    verl_examples_t *first = &story->first[held], *last = &story->last[held];
    if (first->batch < 0 || batch <= first->batch)
        s_keep(first, batch, prompt, response, score);
    if (batch >= last->batch)
        s_keep(last, batch, prompt, response, score);
    s_example_set(&story->latest, prompt, response, score);
}

static const verl_example_t *
s_find(const verl_examples_t *examples, const char *prompt)
{
    for (int i = 0; i < examples->count; i++)
        if (strcmp(examples->items[i].prompt, prompt) == 0)
            return &examples->items[i];
    return NULL;
}

int
verl_story_pairs(const verl_story_t *story, const verl_example_t *pairs[][2], int most)
{
    int count = 0, held = story->last[1].batch > story->first[1].batch;
    const verl_examples_t *first = &story->first[held], *last = &story->last[held];
    if (last->batch <= first->batch || most < 1)
        return 0;
    for (int better = 1; better >= 0; better--)
        for (int i = 0; i < last->count && count < most; i++) {
            const verl_example_t *before = s_find(first, last->items[i].prompt);
            if (!before || (last->items[i].score > before->score) != better)
                continue;
            pairs[count][0] = before;
            pairs[count++][1] = &last->items[i];
        }
    if (count == 0 && first->count > 0 && last->count > 0) {
        pairs[0][0] = &first->items[0];
        pairs[0][1] = &last->items[0];
        count = 1;
    }
    return count;
}
