// display.h: what a person, or a program, sees of a run: a block that lives on a terminal, a line a step elsewhere,
// JSON lines, or nothing but the end. Feeds on the director's observer; the run does not depend on it.
//
// Not safe from several threads: the director calls its observer from one, and the rest is called before and after.
#ifndef VERL_DISPLAY_H
#define VERL_DISPLAY_H
#include <stdio.h>
#include "runtime/director/director.h"

enum {
    VERL_DISPLAY_AUTO,                      // TERMINAL where `out` is one that can move its cursor, else PLAIN
    VERL_DISPLAY_PLAIN,                     // a line a step, a paragraph at the end
    VERL_DISPLAY_TERMINAL,                  // a block that is drawn again in place, a paragraph at the end
    VERL_DISPLAY_JSON,                      // one object a line: "event" is start, step, sample, log, end
    VERL_DISPLAY_QUIET,                     // the paragraph at the end
};

typedef struct verl_display verl_display_t;

// Writes to `out`; both are borrowed until it is destroyed. NULL without memory.
verl_display_t *verl_display_new(const verl_plan_t *plan, int mode, FILE *out);
void            verl_display_destroy(verl_display_t **display_p);

// The size that is drawn for, in place of that of the terminal or of COLUMNS (0: theirs); whether in colour, and
// whether characters beyond ASCII may be used for drawing (both else as the environment says: NO_COLOR, TERM, LC_ALL
// …).
void verl_display_set_size(verl_display_t *display, int columns, int lines);
void verl_display_set_style(verl_display_t *display, bool colour, bool unicode);

// Options were set beside the file of the topology: it alone would not lead to this run.
void verl_display_set_overridden(verl_display_t *display, bool overridden);

// Says where the run is, and how long anything may stand still in it. To be called once, first.
void verl_display_start(verl_display_t *display, const char *run_directory);

verl_observer_t verl_display_observer(verl_display_t *display);

// The end: what was learned, where the time went, where the checkpoint is. run_directory: NULL where nothing is left of
// it. error: why the run failed, on standard error; NULL: it did not. display may be NULL: then only the error is said.
void verl_display_finish(verl_display_t *display, const verl_run_result_t *result, const char *run_directory,
                         const char *error);
#endif
