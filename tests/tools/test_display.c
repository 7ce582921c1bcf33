// What the display writes in each of its modes. The terminal is a small one of ours: it obeys what the block uses, and
// fails the test at any other control sequence.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>
#include "tools/display.h"

// --- a run that has no actors -------------------------------------------------------------------------------------

static verl_plan_actor_t s_actors[] = { { .name = (char *) "policy" } };
static verl_plan_stage_t s_stages[] = { { .name = (char *) "generate", .span = { .period = 1 } },
                                        { .name = (char *) "held", .span = { .period = 10, .closing = true } } };
static const verl_plan_t s_plan = { .name = (char *) "sums", .file = (char *) "/tmp/sums.toml", .steps = 20,
                                    .actors_count = 1, .actors = s_actors, .stages_count = 2, .stages = s_stages };

typedef struct screen_run {
    verl_display_t *display;
    verl_observer_t observer;
    FILE           *file;
    char           *text;
    size_t          size;
} run_t;

static run_t *
s_begin(int mode, int columns, int lines)
{
    run_t *run = calloc(1, sizeof *run);
    run->file = open_memstream(&run->text, &run->size);
    run->display = verl_display_new(&s_plan, mode, run->file);
    verl_display_set_size(run->display, columns, lines);
    verl_display_set_style(run->display, false, true);
    run->observer = verl_display_observer(run->display);
    return run;
}

static void
s_end(run_t *run)
{
    verl_display_destroy(&run->display);
    fclose(run->file);
    free(run->text);
    free(run);
}

static const char *
s_text(run_t *run)
{
    fflush(run->file);
    return run->text;
}

static void
s_step(run_t *run, int step, double reward, double held_out)
{
    json_t *metrics = json_pack("{s:i, s:f, s:f, s:f}", "step", step, "critic/score/mean", reward, "actor/pg_loss",
                                -0.5, "timing_s/step", 0.25);
    if (held_out >= 0)
        json_object_set_new(metrics, "val-core/addition/mean@1", json_real(held_out));
    run->observer.step(run->observer.context, metrics);
    json_decref(metrics);
}

static void
s_view(run_t *run, int done, const char *state)
{
    verl_stage_view_t stages[] = {
        { .name = "generate", .state = state, .batch = done, .done = done, .total = 20, .queue = 1, .age = 0.5 },
        { .name = "held", .state = "waiting", .batch = 0, .done = 1, .total = 3 },
    };
    verl_run_view_t view = { .stages_count = 2, .stages = stages, .done = done, .total = 21, .seconds = done * 0.25 };
    run->observer.view(run->observer.context, &view);
}

static void
s_sample_of(run_t *run, int batch, const char *prompt, const char *response, double score)
{
    run->observer.sample(run->observer.context, "held", batch, prompt, response, score);
}

static void
s_sample(run_t *run, int batch, const char *response, double score)
{
    s_sample_of(run, batch, "37+48=", response, score);
}

static void
s_learn(run_t *run)
{
    s_sample(run, 0, "715", 0);
    for (int i = 0; i < 20; i++)
        s_step(run, i, i / 20., i % 10 == 0 ? 0.25 + i / 40. : -1);
    s_sample(run, 20, "85", 1);
    s_step(run, 20, 1, 0.95);
}

static void
s_finish(run_t *run, bool interrupted, const char *error)
{
    verl_stage_times_t times[] = { { .name = "generate", .batches = 20, .busy = 0.75, .waiting_data = 0.25,
                                     .busy_seconds = 3.75, .handoff_us = 40 },
                                   { .name = "held", .batches = 3, .busy = 0.001, .waiting_worker = 0.999 } };
    verl_run_result_t result = { .interrupted = interrupted, .done = 21, .seconds = 5, .checkpoint = "/tmp/c/step-20",
                                 .stages_count = 2, .times = times };
    verl_display_finish(run->display, &result, "/tmp/run", error);
}

#define EXPECT_HAS(text, part) cr_expect(strstr(text, part) != NULL, "no \"%s\" in:\n%s", part, text)
#define EXPECT_NOT(text, part) cr_expect(strstr(text, part) == NULL, "\"%s\" in:\n%s", part, text)

static int
s_lines(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

// --- a line a step ------------------------------------------------------------------------------------------------

Test(display, plain_is_a_line_a_step)
{
    run_t *run = s_begin(VERL_DISPLAY_PLAIN, 100, 24);
    s_learn(run);
    s_view(run, 20, "done");
    cr_expect_eq(s_lines(s_text(run)), 21);
    EXPECT_HAS(s_text(run), "step  3 of 20  reward 0.150  loss -0.5  took 0.25 s\n");
    EXPECT_HAS(s_text(run), "step 10 of 20  reward 0.500  loss -0.5  took 0.25 s  held-out addition 0.500\n");
    EXPECT_NOT(s_text(run), "\x1b");
    s_end(run);
}

Test(display, a_step_without_figures_is_still_a_line)
{
    run_t *run = s_begin(VERL_DISPLAY_PLAIN, 100, 24);
    json_t *metrics = json_pack("{s:i, s:n}", "step", 7, "critic/score/mean");
    run->observer.step(run->observer.context, metrics);
    json_decref(metrics);
    cr_expect_str_eq(s_text(run), "step  7 of 20\n");
    s_end(run);
}

Test(display, rewards_that_no_stage_tells_are_those_of_the_advantages)
{
    run_t *run = s_begin(VERL_DISPLAY_PLAIN, 100, 24);
    json_t *first = json_pack("{s:i, s:f}", "step", 1, "critic/rewards/mean", 0.25);
    json_t *second = json_pack("{s:i, s:f, s:f}", "step", 2, "critic/rewards/mean", 0.5, "critic/score/mean", 0.75);
    run->observer.step(run->observer.context, first);
    run->observer.step(run->observer.context, second);
    s_finish(run, false, NULL);
    EXPECT_HAS(s_text(run), "step  1 of 20  reward 0.250\nstep  2 of 20  reward 0.750\n");
    EXPECT_HAS(s_text(run), "The mean reward went from 0.250 in the first step to 0.750 in the last.");
    json_decref(first);
    json_decref(second);
    s_end(run);
}

Test(display, the_closing_paragraph_says_what_was_learned)
{
    run_t *run = s_begin(VERL_DISPLAY_QUIET, 100, 24);
    s_learn(run);
    s_view(run, 20, "done");
    cr_expect_str_eq(s_text(run), "");
    s_finish(run, false, NULL);
    const char *text = s_text(run);
    EXPECT_HAS(text, "sums: 20 steps done in 5.00 s.");
    EXPECT_HAS(text, "Held-out val-core/addition/mean@1: 0.250 before (step 0), 0.950 after (step 20).");
    EXPECT_HAS(text, "before  37+48= → 715  score 0\nafter   37+48= → 85  score 1\n");
    EXPECT_HAS(text, "75 %");
    EXPECT_HAS(text, "checkpoint  /tmp/c/step-20\n");
    EXPECT_HAS(text, "metrics     /tmp/run/metrics.jsonl\n");
    EXPECT_NOT(text, "go on");                 // no model was saved there
    s_end(run);
}

// What was learned comes first.
Test(display, two_prompts_are_shown_before_and_after)
{
    run_t *run = s_begin(VERL_DISPLAY_QUIET, 100, 24);
    s_sample_of(run, 0, "9+9=", "18", 1);
    s_sample_of(run, 0, "37+48=", "715", 0);
    s_sample_of(run, 20, "9+9=", "18", 1);
    s_sample_of(run, 20, "37+48=", "85", 1);
    s_view(run, 20, "done");
    s_finish(run, false, NULL);
    EXPECT_HAS(s_text(run), "before  37+48= → 715  score 0\nafter   37+48= → 85  score 1\n"
                            "before  9+9= → 18  score 1\nafter   9+9= → 18  score 1\n");
    s_end(run);
}

Test(display, a_failed_and_an_interrupted_run_say_so)
{
    run_t *run = s_begin(VERL_DISPLAY_QUIET, 100, 24);
    s_finish(run, true, NULL);
    EXPECT_HAS(s_text(run), "interrupted after 20 of 20 steps");
    s_end(run);
    run = s_begin(VERL_DISPLAY_QUIET, 100, 24);
    s_finish(run, false, "the reward is on fire");
    EXPECT_HAS(s_text(run), "failed after 20 of 20 steps");
    EXPECT_HAS(s_text(run), "logs        /tmp/run/logs");
    s_end(run);
}

Test(display, samples_cannot_reach_the_terminal)
{
    run_t *run = s_begin(VERL_DISPLAY_QUIET, 60, 24);
    s_sample(run, 0, "\x1b[2J\x1b]0;title\x07\n\xff", 0);
    s_sample(run, 20, "a very long answer that does not fit into sixty columns, whatever is done about it", 1);
    s_finish(run, false, NULL);
    EXPECT_NOT(s_text(run), "\x1b");
    EXPECT_HAS(s_text(run), "\\x1b[2J\\x1b]0;title\\x07\\n\\xff");
    EXPECT_HAS(s_text(run), "…  score 1\n");
    s_end(run);
}

Test(display, a_held_out_figure_has_the_whole_name_of_its_source)
{
    run_t *run = s_begin(VERL_DISPLAY_PLAIN, 100, 24);
    json_t *metrics = json_pack("{s:i, s:f, s:f, s:f}", "step", 0, "val-core/openai/gsm8k/mean@1", 0.25,
                                "val-core/openai/math/best@4/mean", 0.5, "val/critic/score/mean", 0.75);
    run->observer.step(run->observer.context, metrics);
    json_decref(metrics);
    EXPECT_HAS(s_text(run), "openai/gsm8k 0.250");
    EXPECT_HAS(s_text(run), "openai/math 0.500");
    EXPECT_HAS(s_text(run), "val 0.750");
    s_end(run);
}

// The name of a data set, and what an actor said last.
Test(display, names_and_errors_cannot_reach_the_terminal)
{
    run_t *run = s_begin(VERL_DISPLAY_QUIET, 100, 24);
    json_t *metrics = json_pack("{s:i, s:f}", "step", 0, "val-core/a\x1b[2Jb/acc/mean@1", 0.25);
    run->observer.step(run->observer.context, metrics);
    json_decref(metrics);
    char errors[200];
    FILE *file = tmpfile();
    int ours = dup(STDERR_FILENO);
    cr_assert(file && ours >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    s_finish(run, false, "actor b#1: \x1b[2J\xff\nsecond");
    fflush(stderr);
    cr_assert(dup2(ours, STDERR_FILENO) >= 0);
    close(ours);
    rewind(file);
    errors[fread(errors, 1, sizeof errors - 1, file)] = 0;
    fclose(file);
    cr_expect_str_eq(errors, "verl-run: actor b#1: \\x1b[2J\\xff\nverl-run: second\n");
    EXPECT_NOT(s_text(run), "\x1b");
    EXPECT_HAS(s_text(run), "a\\x1b[2Jb");
    s_end(run);
}

// --- JSON ---------------------------------------------------------------------------------------------------------

Test(display, json_is_one_object_a_line)
{
    run_t *run = s_begin(VERL_DISPLAY_JSON, 100, 24);
    s_sample(run, 0, "\x1b\xff \"quoted\"", 0);
    s_step(run, 0, 0.5, 0.25);
    run->observer.log(run->observer.context, "a word");
    s_view(run, 1, "running");
    s_finish(run, false, "it broke: \xff");
    char *text = strdup(s_text(run)), *rest = text, *line;
    static const char *const events[] = { "start", "sample", "step", "log", "end" };
    size_t count = 0;
    for (; (line = strsep(&rest, "\n")) && *line; count++) {
        json_error_t error;
        json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &error);
        cr_assert_neq(object, NULL, "%s: %s", error.text, line);
        cr_assert_lt(count, 5);
        cr_expect_str_eq(json_string_value(json_object_get(object, "event")), events[count]);
        if (count == 2)
            cr_expect_eq(json_number_value(json_object_get(object, "critic/score/mean")), 0.5);
        if (count == 4) {
            cr_expect_str_eq(json_string_value(json_object_get(object, "outcome")), "failed");
            cr_expect_str_eq(json_string_value(json_object_get(object, "error")), "it broke: ?");
            const json_t *first = json_array_get(json_object_get(object, "stages"), 0);
            cr_expect_eq(json_number_value(json_object_get(first, "handoff_us")), 40);
        }
        json_decref(object);
    }
    cr_expect_eq(count, 5);
    free(text);
    s_end(run);
}

// --- a terminal ---------------------------------------------------------------------------------------------------

#define ROWS 40
#define COLUMNS 200

typedef struct screen {
    char cells[ROWS][COLUMNS + 1];          // one byte a character: what is not ASCII shows as '?'
    int  row, column, columns;
} screen_t;

static void
s_put(screen_t *screen, char c)
{
    if (screen->column == screen->columns) {
        screen->column = 0;
        screen->row++;
    }
    cr_assert_lt(screen->row, ROWS);
    screen->cells[screen->row][screen->column++] = c;
}

static void
s_clear(screen_t *screen, int row, int from)
{
    memset(screen->cells[row] + from, ' ', (size_t) (COLUMNS - from));
}

// CSI, from behind the bracket; returns where it ends.
static const char *
s_control(screen_t *screen, const char *at)
{
    bool private = *at == '?';
    char *end;
    long number = strtol(at + private, &end, 10);
    if (private)
        cr_expect((number == 25 || number == 7) && (*end == 'h' || *end == 'l'));
    else if (*end == 'A') {
        screen->row -= (int) number;
        cr_assert_geq(screen->row, 0, "the cursor left the screen");
    } else if (*end == 'K')
        s_clear(screen, screen->row, screen->column);
    else if (*end == 'J') {
        s_clear(screen, screen->row, screen->column);
        for (int row = screen->row + 1; row < ROWS; row++)
            s_clear(screen, row, 0);
    } else
        cr_expect_eq(*end, 'm', "a control sequence that is not expected: %c", *end);
    return end + 1;
}

static void
s_show(screen_t *screen, const char *text)
{
    while (*text) {
        unsigned char c = (unsigned char) *text++;
        if (c == '\x1b') {
            cr_assert_eq(*text, '[');
            text = s_control(screen, text + 1);
        } else if (c == '\r')
            screen->column = 0;
        else if (c == '\n') {
            screen->column = 0;
            screen->row++;
        } else if (c < 0x80 || c >= 0xC0)
            s_put(screen, c < 0x80 ? (char) c : '?');
    }
}

static screen_t *
s_screen(int columns)
{
    screen_t *screen = calloc(1, sizeof *screen);
    screen->columns = columns;
    for (int row = 0; row < ROWS; row++)
        s_clear(screen, row, 0);
    return screen;
}

// Rows that begin like this.
static int
s_count_rows(const screen_t *screen, const char *begin)
{
    int count = 0;
    for (int row = 0; row < ROWS; row++)
        count += strncmp(screen->cells[row], begin, strlen(begin)) == 0;
    return count;
}

static int
s_last_row(const screen_t *screen)
{
    int last = -1;
    for (int row = 0; row < ROWS; row++)
        if (strspn(screen->cells[row], " ") < COLUMNS)
            last = row;
    return last;
}

// What was written since the last time.
static const char *
s_fresh(run_t *run, size_t *from)
{
    const char *text = s_text(run) + *from;
    *from = run->size;
    return text;
}

Test(display, the_block_is_drawn_in_place)
{
    run_t *run = s_begin(VERL_DISPLAY_TERMINAL, 80, 24);
    screen_t *screen = s_screen(80);
    size_t from = 0;
    s_view(run, 0, "preparing");
    s_show(screen, s_fresh(run, &from));
    cr_expect_eq(s_last_row(screen), 3);          // progress, heads, two stages
    s_learn(run);
    for (int i = 1; i < 10; i++) {
        s_view(run, i, i % 2 ? "running" : "waiting");
        s_show(screen, s_fresh(run, &from));
    }
    cr_expect_eq(s_count_rows(screen, "sums  step 9 of 20"), 1);
    cr_expect_eq(s_count_rows(screen, "sums"), 1);
    cr_expect_eq(s_count_rows(screen, "  generate  running"), 1);
    cr_expect_eq(s_count_rows(screen, "  reward     1.000"), 1);
    cr_expect_eq(s_count_rows(screen, "  held-out   0.950  at step 20, 0.250 at 0  (addition)"), 1);
    cr_expect_eq(s_count_rows(screen, "  example   37+48= ? 85  score 1"), 1);
    cr_expect_eq(s_last_row(screen), 6);
    free(screen);
    s_end(run);
}

Test(display, a_narrower_terminal_leaves_nothing_behind)
{
    run_t *run = s_begin(VERL_DISPLAY_TERMINAL, 80, 24);
    size_t from = 0;
    s_view(run, 3, "running");
    s_fresh(run, &from);
    // What a terminal that wraps again makes of it: the same text, 40 wide.
    screen_t *screen = s_screen(40);
    s_show(screen, run->text);
    cr_expect_gt(screen->row, 4);
    verl_display_set_size(run->display, 40, 24);
    s_view(run, 4, "running");
    s_show(screen, s_fresh(run, &from));
    cr_expect_eq(s_count_rows(screen, "sums"), 1);
    cr_expect_eq(s_last_row(screen), 3);
    free(screen);
    s_end(run);
}

Test(display, a_line_of_log_stands_above_the_block)
{
    run_t *run = s_begin(VERL_DISPLAY_TERMINAL, 80, 24);
    screen_t *screen = s_screen(80);
    size_t from = 0;
    s_view(run, 0, "running");
    run->observer.log(run->observer.context, "interrupted: \x1b[2J saving");
    s_view(run, 1, "running");
    s_show(screen, s_fresh(run, &from));
    cr_expect_eq(s_count_rows(screen, "interrupted: \\x1b[2J saving"), 1);
    cr_expect_eq(strncmp(screen->cells[1], "sums", 4), 0);
    s_finish(run, false, NULL);
    s_show(screen, s_fresh(run, &from));
    cr_expect_eq(s_count_rows(screen, "interrupted"), 1);
    cr_expect_eq(s_count_rows(screen, "sums  step"), 0);
    cr_expect_eq(s_count_rows(screen, "sums: 20 steps done"), 1);
    free(screen);
    s_end(run);
}

Test(display, a_low_terminal_shows_what_runs)
{
    run_t *run = s_begin(VERL_DISPLAY_TERMINAL, 80, 4);
    screen_t *screen = s_screen(80);
    size_t from = 0;
    s_learn(run);
    for (int i = 0; i < 5; i++) {
        s_view(run, i, "running");
        s_show(screen, s_fresh(run, &from));
    }
    cr_expect_leq(s_last_row(screen), 2);
    cr_expect_eq(s_count_rows(screen, "sums"), 1);
    free(screen);
    s_end(run);
}

Test(display, colour_is_only_where_it_is_wanted)
{
    for (int colour = 0; colour < 2; colour++) {
        run_t *run = s_begin(VERL_DISPLAY_TERMINAL, 80, 24);
        verl_display_set_style(run->display, colour, false);
        s_view(run, 1, "running");
        cr_expect_eq(strstr(s_text(run), "\x1b[32m") != NULL, colour);
        EXPECT_NOT(s_text(run), "━");
        s_end(run);
    }
}
