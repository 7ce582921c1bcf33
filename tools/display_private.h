// display_private.h: what the files of the display share.
#ifndef VERL_DISPLAY_PRIVATE_H
#define VERL_DISPLAY_PRIVATE_H
#include "runtime/wire/buffer.h"
#include "tools/display.h"
#include "tools/display_story.h"

#define VERL_BLOCK_LINES 128                // drawn at most

typedef enum { VERL_STYLE_PLAIN, VERL_STYLE_BOLD, VERL_STYLE_DIM, VERL_STYLE_ACTIVE, VERL_STYLE_BUSY } verl_style_t;

// The block on a terminal, as it was drawn last.
typedef struct verl_block {
    int           count;
    int           widths[VERL_BLOCK_LINES]; // of its lines: where the terminal has become narrower they take more rows
    verl_buffer_t said;                     // lines for above the block, since then
} verl_block_t;

struct verl_display {
    const verl_plan_t *plan;
    FILE              *out;
    int                mode;                // never VERL_DISPLAY_AUTO
    bool               colour, unicode, overridden;
    int                columns, lines;      // set by hand; 0: the terminal's
    verl_story_t       story;
    verl_block_t       block;
    verl_example_t     shown;               // the example in the block, which stands a while
    double             shown_at, flushed_at;  // seconds, of the monotonic clock
};

double verl_display_now(void);
// Size to draw for now.
void verl_display_size(const verl_display_t *display, int *ret_columns, int *ret_lines);

// The block: drawn again in place; taken away.
void verl_block_draw(verl_display_t *display, const verl_run_view_t *view);
void verl_block_say(verl_display_t *display, const char *text);
void verl_block_erase(verl_display_t *display);

// A path as a person in this folder would write it: the end of it, or all.
const char *verl_display_near(const char *path);

// The closing paragraph, for people; and the last object, for programs.
void verl_closing_print(verl_display_t *display, const verl_run_result_t *result, const char *run_directory,
                        const char *error);
void verl_closing_json(verl_display_t *display, const verl_run_result_t *result, const char *run_directory,
                       const char *error);
#endif
