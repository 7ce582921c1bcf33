// display.c: see display.h. Which mode, a line a step, JSON lines; the block and the closing paragraph have their
// files.
#include "tools/display.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "runtime/base/json.h"
#include "tools/display_private.h"
#include "tools/display_text.h"

#define FLUSH_S 0.1                         // a line waits so long at most for the next ones to go out with it

double
verl_display_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

// --- what the environment says ------------------------------------------------------------------------------------

static const char *
s_env(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static bool
s_moves_cursor(FILE *out)
{
    const char *terminal = s_env("TERM");
    return isatty(fileno(out)) && terminal && strcmp(terminal, "dumb") != 0;
}

static int
s_env_number(const char *name, int least, int most)
{
    const char *value = s_env(name);
    char *end;
    long number = value ? strtol(value, &end, 10) : 0;
    return value && !*end && number >= least && number <= most ? (int) number : 0;
}

void
verl_display_size(const verl_display_t *display, int *ret_columns, int *ret_lines)
{
    struct winsize size = { 0 };
    int fd = fileno(display->out);
    if (fd < 0 || ioctl(fd, TIOCGWINSZ, &size))
        size = (struct winsize) { 0 };
    int columns = display->columns ? display->columns : size.ws_col ? size.ws_col : s_env_number("COLUMNS", 1, 10000);
    int lines = display->lines ? display->lines : size.ws_row ? size.ws_row : s_env_number("LINES", 1, 10000);
    columns = columns ? columns : 100;
    lines = lines ? lines : 24;
    *ret_columns = columns < 20 ? 20 : columns > 400 ? 400 : columns;
    *ret_lines = lines < 4 ? 4 : lines;
}

// --- life ---------------------------------------------------------------------------------------------------------

static void
s_print_json(verl_display_t *self, json_t *line)
{
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    if (text)
        fprintf(self->out, "%s\n", text);
    fflush(self->out);
    free(text);
    json_decref(line);
}

static void
s_start_json(verl_display_t *self)
{
    json_t *stages = json_array();
    for (int i = 0; i < self->plan->stages_count; i++)
        json_array_append_new(stages, json_string(self->plan->stages[i].name));
    s_print_json(self, json_pack("{s:s, s:o, s:o, s:I, s:o}", "event", "start", "name",
                                 verl_json_text(self->plan->name), "topology", verl_json_text(self->plan->file),
                                 "steps", (json_int_t) self->plan->steps, "stages", stages));
}

verl_display_t *
verl_display_new(const verl_plan_t *plan, int mode, FILE *out)
{
    verl_display_t *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->plan = plan;
    self->out = out;
    self->mode = mode != VERL_DISPLAY_AUTO ? mode : s_moves_cursor(out) ? VERL_DISPLAY_TERMINAL : VERL_DISPLAY_PLAIN;
    self->unicode = verl_text_unicode();
    self->colour = s_moves_cursor(out) && !s_env("NO_COLOR");
    verl_story_init(&self->story, plan);
    if (self->mode == VERL_DISPLAY_JSON)
        s_start_json(self);
    return self;
}

void
verl_display_destroy(verl_display_t **display_p)
{
    verl_display_t *self = *display_p;
    if (!self)
        return;
    *display_p = NULL;
    verl_story_done(&self->story);
    verl_buffer_done(&self->block.said);
    free(self->shown.prompt);
    free(self->shown.response);
    free(self);
}

typedef struct limits {
    double least, most;                     // seconds; 0: none
} limits_t;

static void
s_widen(limits_t *limits, double seconds, bool first)
{
    limits->least = first || seconds < limits->least ? seconds : limits->least;
    limits->most = first || seconds > limits->most ? seconds : limits->most;
}

static void
s_print_limits(FILE *out, const char *before, limits_t limits)
{
    fprintf(out, "%s%g", before, limits.least);
    if (limits.most > limits.least)
        fprintf(out, " to %g", limits.most);
    fputs(limits.least > 0 ? " s" : " s (0: none)", out);
}

void
verl_display_start(verl_display_t *self, const char *run_directory)
{
    limits_t timeout = { 0 }, liveness = { 0 };
    if (!self || self->mode == VERL_DISPLAY_JSON || self->mode == VERL_DISPLAY_QUIET)
        return;
    for (int i = 0; i < self->plan->stages_count; i++)
        s_widen(&timeout, self->plan->stages[i].timeout, i == 0);
    for (int i = 0; i < self->plan->actors_count; i++)
        s_widen(&liveness, self->plan->actors[i].liveness, i == 0);
    fprintf(self->out, "%s: ", verl_display_near(run_directory));
    s_print_limits(self->out, "timeout of a handler ", timeout);
    s_print_limits(self->out, ", liveness of a mailbox ", liveness);
    fputc('\n', self->out);
    fflush(self->out);
}

void
verl_display_set_size(verl_display_t *self, int columns, int lines)
{
    self->columns = columns;
    self->lines = lines;
}

void
verl_display_set_style(verl_display_t *self, bool colour, bool unicode)
{
    self->colour = colour;
    self->unicode = unicode;
}

void
verl_display_set_overridden(verl_display_t *self, bool overridden)
{
    self->overridden = overridden;
}

// --- a line a step ------------------------------------------------------------------------------------------------

// "  name 0.123", where there is such a figure.
static void
s_figure(verl_buffer_t *line, const json_t *value, const char *name, const char *format)
{
    char text[40];
    if (!json_is_number(value))
        return;
    if (strcmp(format, "time") == 0)
        verl_text_duration(json_number_value(value), text, sizeof text);
    else
        snprintf(text, sizeof text, strcmp(format, ".1f") == 0 ? "%.1f" : strcmp(format, ".3f") == 0 ? "%.3f" : "%.3g",
                 json_number_value(value));
    verl_text_format(line, "  %s %s", name, text);
}

static void
s_held_out(verl_buffer_t *line, const json_t *metrics)
{
    int count = 0;
    void *at = json_object_iter((json_t *) (uintptr_t) metrics);
    for (; at; at = json_object_iter_next((json_t *) (uintptr_t) metrics, at)) {
        const char *name = json_object_iter_key(at);
        char part[100];
        if (!verl_story_is_held_out(name) || !json_is_number(json_object_iter_value(at)) || count == 4)
            continue;
        verl_display_text_add(line, count++ ? ", " : "  held-out ");
        verl_text_shown(line, verl_story_short(name, part, sizeof part), 40, true);
        verl_text_format(line, " %.3f", json_number_value(json_object_iter_value(at)));
    }
}

static void
s_print_step(verl_display_t *self, const json_t *metrics)
{
    verl_buffer_t line = { 0 };
    long long step = (long long) json_integer_value(json_object_get(metrics, "step"));
    int digits = snprintf(NULL, 0, "%lld", (long long) self->plan->steps);
    verl_text_format(&line, "step %*lld of %lld", digits, step, (long long) self->plan->steps);
    s_figure(&line, verl_story_reward(metrics), "reward", ".3f");
    s_figure(&line, json_object_get(metrics, "response_length/mean"), "length", ".1f");
    s_figure(&line, json_object_get(metrics, "actor/pg_loss"), "loss", ".3g");
    s_figure(&line, json_object_get(metrics, "actor/grad_norm"), "grad", ".3g");
    s_figure(&line, json_object_get(metrics, "timing_s/step"), "took", "time");
    s_held_out(&line, metrics);
    verl_display_text_add(&line, "\n");
    if (!line.failed)
        fwrite(line.data, 1, line.size, self->out);
    verl_buffer_done(&line);
    if (verl_display_now() - self->flushed_at >= FLUSH_S) {
        fflush(self->out);
        self->flushed_at = verl_display_now();
    }
}

// --- the observer -------------------------------------------------------------------------------------------------

static void
s_on_step(void *context, const json_t *metrics)
{
    verl_display_t *self = context;
    verl_story_step(&self->story, metrics);
    if (self->mode == VERL_DISPLAY_PLAIN)
        s_print_step(self, metrics);
    if (self->mode == VERL_DISPLAY_JSON) {
        json_t *line = json_pack("{s:s}", "event", "step");
        json_object_update(line, (json_t *) (uintptr_t) metrics);
        s_print_json(self, line);
    }
}

static void
s_on_sample(void *context, const char *stage, int64_t batch, const char *prompt, const char *response, double score)
{
    verl_display_t *self = context;
    verl_story_sample(&self->story, stage, batch, prompt, response, score);
    if (self->mode != VERL_DISPLAY_JSON)
        return;
    json_t *number = json_real(score);      // NULL where it is not finite, which JSON cannot say
    s_print_json(self, json_pack("{s:s, s:s, s:I, s:o, s:o, s:o}", "event", "sample", "stage", stage, "batch",
                                 (json_int_t) batch, "prompt", verl_json_text(prompt), "response",
                                 verl_json_text(response),
                                 "score", number ? number : json_null()));
}

static void
s_on_view(void *context, const verl_run_view_t *view)
{
    verl_display_t *self = context;
    if (self->mode == VERL_DISPLAY_TERMINAL)
        verl_block_draw(self, view);
    else
        fflush(self->out);
}

static void
s_on_log(void *context, const char *text)
{
    verl_display_t *self = context;
    verl_buffer_t shown = { 0 };
    if (self->mode == VERL_DISPLAY_JSON)
        s_print_json(self, json_pack("{s:s, s:o}", "event", "log", "text", verl_json_text(text)));
    else if (self->mode == VERL_DISPLAY_TERMINAL)
        verl_block_say(self, text);
    else if (self->mode == VERL_DISPLAY_PLAIN) {
        verl_text_shown(&shown, text, 4000, self->unicode);
        fprintf(self->out, "%.*s\n", (int) shown.size, shown.data ? shown.data : "");
        fflush(self->out);
        verl_buffer_done(&shown);
    }
}

// An error, which --quiet leaves.
static void
s_on_lost(void *context, const char *text)
{
    const verl_display_t *self = context;
    if (self->mode == VERL_DISPLAY_QUIET)
        verl_text_lines(stderr, "verl-run: ", text);
    else
        s_on_log(context, text);
}

verl_observer_t
verl_display_observer(verl_display_t *self)
{
    return (verl_observer_t) { .step = s_on_step, .sample = s_on_sample, .view = s_on_view, .log = s_on_log,
                               .lost = s_on_lost, .context = self };
}

void
verl_display_finish(verl_display_t *self, const verl_run_result_t *result, const char *run_directory,
                    const char *error)
{
    if (self && self->mode == VERL_DISPLAY_TERMINAL)
        verl_block_erase(self);
    if (self && self->mode == VERL_DISPLAY_JSON)
        verl_closing_json(self, result, run_directory, error);
    else if (self)
        verl_closing_print(self, result, run_directory, error);
    if (self)
        fflush(self->out);
    if (error)
        verl_text_lines(stderr, "verl-run: ", error);
}
