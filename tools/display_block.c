// display_block.c: the block on a terminal: a line of progress, a line a stage, the reward, held-out figures, an
// example.
//
// It is drawn again in place, in one write, each line over the old one and the rest of it cleared, so that nothing
// flickers. No line is wider than the terminal; where that has become narrower since, the rows that the old lines take
// now are counted, so that none of them stays behind.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/display_private.h"
#include "tools/display_text.h"

#define EXAMPLE_S 3.0                       // an example stands at least so long
#define NAME_MOST 24

typedef struct drawing {
    verl_display_t *display;
    verl_buffer_t   frame, line;
    int             columns, room;          // width; lines that may still be drawn
    int             count, widths[VERL_BLOCK_LINES];
} drawing_t;

// Ends a line: puts it into the frame, cut to the width, in its style.
static void
s_end_line(drawing_t *self, verl_style_t style)
{
    static const char *const codes[] = { "", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[33m" };
    bool styled = self->display->colour && style != VERL_STYLE_PLAIN;
    if (self->room > 0 && self->count < VERL_BLOCK_LINES && verl_buffer_append(&self->line, "", 1) == 0) {
        if (styled)
            verl_display_text_add(&self->frame, codes[style]);
        self->widths[self->count++] =
            verl_text_shown(&self->frame, self->line.data, self->columns - 1, self->display->unicode);
        verl_display_text_add(&self->frame, styled ? "\x1b[0m\x1b[K\n" : "\x1b[K\n");
        self->room--;
    }
    verl_buffer_clear(&self->line);
}

// --- the lines ----------------------------------------------------------------------------------------------------

static void
s_bar(drawing_t *self, double share, int columns)
{
    bool unicode = self->display->unicode;
    int full = (int) lround(fmin(fmax(share, 0), 1) * columns);
    for (int i = 0; i < columns; i++)
        verl_display_text_add(&self->line, i < full ? (unicode ? "━" : "#") : unicode ? "╌" : "-");
}

static void
s_draw_progress(drawing_t *self, const verl_run_view_t *view)
{
    char spent[32], left[32];
    const verl_plan_t *plan = self->display->plan;
    double share = view->total > 0 ? (double) view->done / (double) view->total : 0;
    long long shown = (long long) (view->done < plan->steps ? view->done : plan->steps);
    verl_text_shown(&self->line, plan->name, self->columns / 3, self->display->unicode);
    verl_text_format(&self->line, "  step %lld of %lld  ", shown, (long long) plan->steps);
    s_bar(self, share, self->columns >= 80 ? 20 : self->columns >= 60 ? 10 : 0);
    verl_text_format(&self->line, "  %.0f %%  %s", floor(share * 100),
                     verl_text_duration(view->seconds, spent, sizeof spent));
    if (view->done > 0 && view->done < view->total)
        verl_text_format(&self->line, ", %s left",
                         verl_text_duration(view->seconds * (1 - share) / share, left, sizeof left));
    s_end_line(self, VERL_STYLE_BOLD);
}

static int
s_name_columns(const drawing_t *self, const verl_run_view_t *view)
{
    int widest = 5, most = self->columns / 3 < NAME_MOST ? self->columns / 3 : NAME_MOST;
    for (int i = 0; i < view->stages_count; i++) {
        int width = verl_text_width(view->stages[i].name);
        widest = width > widest ? width : widest;
    }
    return widest < most ? widest : most;
}

static void
s_draw_stage(drawing_t *self, const verl_stage_view_t *stage, int name_columns)
{
    char batch[32] = "", age[32] = "", done[48];
    bool runs = strcmp(stage->state, "running") == 0, unicode = self->display->unicode;
    if (stage->batch >= 0)
        snprintf(batch, sizeof batch, "%lld", (long long) stage->batch);
    if (stage->age > 0)
        verl_text_duration(stage->age, age, sizeof age);
    snprintf(done, sizeof done, "%lld/%lld", (long long) stage->done, (long long) stage->total);
    verl_display_text_add(&self->line, "  ");
    verl_text_cell(&self->line, stage->name, name_columns, false, unicode);
    verl_display_text_add(&self->line, "  ");
    verl_text_cell(&self->line, stage->state, 9, false, unicode);
    verl_text_cell(&self->line, batch, 8, true, unicode);
    verl_text_cell(&self->line, done, 14, true, unicode);
    verl_text_format(&self->line, "%7lld", (long long) stage->queue);
    verl_text_cell(&self->line, age, 9, true, unicode);
    if (runs && stage->progress > 0 && stage->progress <= 1)
        verl_text_format(&self->line, "  %3.0f %%", floor(stage->progress * 100));
    s_end_line(self, runs ? VERL_STYLE_ACTIVE
                          : strcmp(stage->state, "waiting") == 0 || strcmp(stage->state, "done") == 0
                                ? VERL_STYLE_DIM : VERL_STYLE_BUSY);
}

// As many stages as there is room for, those that run first in line; the others are counted.
static void
s_draw_stages(drawing_t *self, const verl_run_view_t *view, int keep)
{
    int names = s_name_columns(self, view), room = self->room - keep - 1, left = 0;
    verl_display_text_add(&self->line, "  ");
    verl_text_cell(&self->line, "stage", names, false, true);
    verl_text_format(&self->line, "  state       batch          done  queue      age");
    s_end_line(self, VERL_STYLE_DIM);
    bool all = view->stages_count <= room;
    for (int i = 0; i < view->stages_count; i++) {
        bool rests = strcmp(view->stages[i].state, "waiting") == 0 || strcmp(view->stages[i].state, "done") == 0;
        if (!all && (rests || self->room <= keep + 1))
            left++;
        else
            s_draw_stage(self, &view->stages[i], names);
    }
    if (left) {
        verl_text_format(&self->line, "  and %d more", left);
        s_end_line(self, VERL_STYLE_DIM);
    }
}

static void
s_draw_reward(drawing_t *self)
{
    const verl_story_t *story = &self->display->story;
    if (!story->rewards_count)
        return;
    verl_text_format(&self->line, "  reward    %6.3f  ", story->rewards[story->rewards_count - 1]);
    int columns = self->columns - 24 < 60 ? self->columns - 24 : 60;
    verl_text_curve(&self->line, story->rewards, story->rewards_count, columns, self->display->unicode);
    s_end_line(self, VERL_STYLE_PLAIN);
}

static void
s_draw_held_out(drawing_t *self)
{
    const verl_story_t *story = &self->display->story;
    for (int i = 0; i < story->tracks_count && i < 3; i++) {
        const verl_track_t *track = &story->tracks[i];
        char part[100];
        verl_text_format(&self->line, "  held-out  %6.3f", track->last);
        if (track->last_step > track->first_step)
            verl_text_format(&self->line, "  at step %lld, %.3f at %lld", (long long) track->last_step, track->first,
                             (long long) track->first_step);
        verl_display_text_add(&self->line, "  (");
        verl_text_shown(&self->line, verl_story_short(track->name, part, sizeof part), self->columns / 2,
                        self->display->unicode);
        verl_display_text_add(&self->line, ")");
        s_end_line(self, VERL_STYLE_PLAIN);
    }
}

// The example of now, unless the one that stands is fresh.
static void
s_choose_example(verl_display_t *self)
{
    const verl_example_t *latest = &self->story.latest;
    if (!latest->prompt || (self->shown.prompt && verl_display_now() - self->shown_at < EXAMPLE_S))
        return;
    verl_example_t copy = { strdup(latest->prompt), strdup(latest->response), latest->score };
    free(self->shown.prompt);
    free(self->shown.response);
    self->shown = copy;
    self->shown_at = verl_display_now();
}

static void
s_draw_example(drawing_t *self)
{
    verl_display_t *display = self->display;
    s_choose_example(display);
    if (!display->shown.prompt || !display->shown.response)
        return;
    bool unicode = display->unicode;
    int room = self->columns - 12 - 15 - 3;         // what the label and the score leave
    int width = verl_text_width(display->shown.response), prompt = room - (width < room / 2 ? width : room / 2);
    verl_display_text_add(&self->line, "  example   ");
    prompt = verl_text_shown(&self->line, display->shown.prompt, prompt, unicode);
    verl_display_text_add(&self->line, unicode ? " → " : " > ");
    verl_text_shown(&self->line, display->shown.response, room - prompt, unicode);
    verl_text_format(&self->line, "  score %.3g", display->shown.score);
    s_end_line(self, VERL_STYLE_PLAIN);
}

// --- in place -----------------------------------------------------------------------------------------------------

// Rows of the terminal, as wide as it is now, that the last block takes.
static int
s_rows(const verl_block_t *block, int columns, int lines)
{
    int rows = 0;
    for (int i = 0; i < block->count; i++)
        rows += block->widths[i] > columns ? (block->widths[i] + columns - 1) / columns : 1;
    return rows < lines ? rows : lines - 1;
}

// To the first line of the last block.
static void
s_go_up(verl_buffer_t *frame, const verl_block_t *block, int columns, int lines)
{
    int rows = s_rows(block, columns, lines);
    verl_display_text_add(frame, "\r");
    if (rows)
        verl_text_format(frame, "\x1b[%dA", rows);
}

static void
s_write(verl_display_t *self, const verl_buffer_t *frame)
{
    if (!frame->failed && frame->size)
        fwrite(frame->data, 1, frame->size, self->out);
    fflush(self->out);
}

void
verl_block_draw(verl_display_t *display, const verl_run_view_t *view)
{
    int lines;
    drawing_t self = { .display = display };
    verl_display_size(display, &self.columns, &lines);
    self.room = lines - 1;
    verl_display_text_add(&self.frame, "\x1b[?25l");        // no cursor that runs over the block
    s_go_up(&self.frame, &display->block, self.columns, lines);
    if (display->block.said.size)
        verl_buffer_append(&self.frame, display->block.said.data, display->block.said.size);
    verl_buffer_clear(&display->block.said);
    const verl_story_t *story = &display->story;
    int keep = (story->rewards_count > 0) + (story->tracks_count < 3 ? story->tracks_count : 3) +
               (story->latest.prompt != NULL);
    s_draw_progress(&self, view);
    s_draw_stages(&self, view, keep);
    s_draw_reward(&self);
    s_draw_held_out(&self);
    s_draw_example(&self);
    verl_display_text_add(&self.frame, "\x1b[J\x1b[?7h\x1b[?25h");
    s_write(display, &self.frame);
    display->block.count = self.count;
    memcpy(display->block.widths, self.widths, sizeof self.widths);
    verl_buffer_done(&self.frame);
    verl_buffer_done(&self.line);
}

void
verl_block_say(verl_display_t *display, const char *text)
{
    int columns, lines;
    verl_display_size(display, &columns, &lines);
    verl_text_shown(&display->block.said, text, 20 * columns, display->unicode);
    verl_display_text_add(&display->block.said, "\x1b[K\n");
}

void
verl_block_erase(verl_display_t *display)
{
    int columns, lines;
    verl_buffer_t frame = { 0 };
    verl_display_size(display, &columns, &lines);
    s_go_up(&frame, &display->block, columns, lines);
    if (display->block.said.size)
        verl_buffer_append(&frame, display->block.said.data, display->block.said.size);
    verl_buffer_clear(&display->block.said);
    verl_display_text_add(&frame, "\x1b[J");
    s_write(display, &frame);
    display->block.count = 0;
    verl_buffer_done(&frame);
}
