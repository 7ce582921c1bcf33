// spy_top.c: verl-spy top: the stages and actors of a live run, drawn again each second on a terminal, once elsewhere.
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <poll.h>
#include <unistd.h>
#include "runtime/base/clock.h"
#include "tools/display_text.h"
#include "tools/spy.h"
#include "tools/spy_ask.h"
#include "tools/spy_views.h"

#define NAME "verl-spy top"

typedef struct top {
    const verl_spy_options_t *options;
    bool           once, screen, unicode, colour;
    double         every;                   // seconds
    verl_client_t *client;
    int            signal_fd;
    json_t        *last;                    // the status before this one, for rates
    int64_t        last_at, now_at;
    int            columns, lines;
} top_t;

static int
s_help(void)
{
    printf("usage: verl-spy top [--once] [--every S] [--run DIR] [--json] [--timeout S]\n"
           "\n"
           "Shows the stages of a live run (state, batch, queue, credit, age, batches a second, and the share of\n"
           "the time that each is busy, moves bytes, waits for data, weights, a full consumer or its worker) and\n"
           "its actors (state, memory, what they work on). On a terminal it is drawn again each second until\n"
           "Ctrl-C; elsewhere, or with --once, it is printed once. With --json, an object a second, or one.\n"
           "\n"
           "The state of a stage that does not run says what it waits for: no data, no permit (a source), no\n"
           "weights, no worker (another stage of its actor runs), or full: there is no room for what it would\n"
           "give until its readers are done. Queue: batches that came and were not taken. Credit: messages that\n"
           "its readers would take from it now; 0: it is held up by them. What works once more after the last\n"
           "batch, such as a held-out set, makes one batch more than the run has steps.\n"
           "\n"
           "  --once      print it once\n"
           "  --every S   seconds between two looks (1)\n");
    return verl_spy_written(NAME);
}

// --- lines --------------------------------------------------------------------------------------------------------

// Batches a second of a stage since the last look; at the first, over the whole run.
static double
s_rate(const top_t *self, const json_t *status, const json_t *stage)
{
    const json_t *before = verl_spy_named(verl_spy_list(self->last, "stages"), verl_spy_text(stage, "name"));
    double seconds = before ? (double) (self->now_at - self->last_at) / 1e9 : verl_spy_number(status, "seconds");
    double since = before ? verl_spy_number(before, "done") : verl_spy_number(status, "first");
    return seconds > 0 ? (verl_spy_number(stage, "done") - since) / seconds : 0;
}

static int
s_widest(const json_t *list, const char *key)
{
    int widest = 5;
    for (size_t i = 0; i < json_array_size(list); i++) {
        int width = verl_text_width(verl_spy_text(json_array_get(list, i), key));
        widest = width > widest ? width : widest;
    }
    return widest < 32 ? widest : 32;
}

static void
s_head(verl_buffer_t *text, const json_t *status, bool unicode)
{
    char spent[32];
    double done = verl_spy_number(status, "done") - verl_spy_number(status, "first");
    double seconds = verl_spy_number(status, "seconds");
    verl_text_shown(text, verl_spy_text(status, "run"), 60, unicode);
    verl_text_format(text, "  %s%s  %.0f of %.0f batches done, %.0f under way, %.3g a second  %s  revision %.0f\n",
                     verl_spy_text(status, "phase"), verl_spy_flag(status, "draining") ? " (draining)" : "",
                     verl_spy_number(status, "done"), verl_spy_number(status, "total"),
                     verl_spy_number(status, "granted") + 1 - verl_spy_number(status, "done"),
                     seconds > 0 ? done / seconds : 0, verl_text_duration(seconds, spent, sizeof spent),
                     verl_spy_number(status, "revision"));
}

static const char *
s_state(const json_t *stage)
{
    static const char *const words[][2] = { { "data", "no data" }, { "permit", "no permit" },
                                            { "weights", "no weights" }, { "room", "full" },
                                            { "worker", "no worker" } };
    const char *waits = verl_spy_text(stage, "waits");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(waits, words[i][0]) == 0)
            return words[i][1];
    return verl_spy_text(stage, "state");
}

static void
s_stage(const top_t *self, verl_buffer_t *text, const json_t *status, const json_t *stage, int widest)
{
    static const char *const keys[] = { "busy", "moving", "data", "weights", "room", "worker" };
    char cell[64];
    double batch = verl_spy_number(stage, "batch"), age = verl_spy_number(stage, "age");
    verl_text_cell(text, verl_spy_text(stage, "name"), widest, false, self->unicode);
    verl_display_text_add(text, "  ");
    verl_text_cell(text, s_state(stage), 10, false, true);
    snprintf(cell, sizeof cell, batch >= 0 ? "%.0f" : "", batch);
    verl_text_cell(text, cell, 7, true, true);
    snprintf(cell, sizeof cell, "%.0f/%.0f", verl_spy_number(stage, "done"), verl_spy_number(stage, "total"));
    verl_text_cell(text, cell, 13, true, true);
    verl_text_format(text, "%7.0f", verl_spy_number(stage, "queue"));
    const json_t *credit = json_object_get(stage, "credit");
    snprintf(cell, sizeof cell, json_is_integer(credit) ? "%.0f" : "", verl_spy_number(stage, "credit"));
    verl_text_cell(text, cell, 8, true, true);
    verl_text_cell(text, age > 0 ? verl_text_duration(age, cell, sizeof cell) : "", 9, true, true);
    verl_text_cell(text, verl_spy_rate(s_rate(self, status, stage), cell, sizeof cell), 8, true, true);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        verl_text_cell(text, verl_spy_percent(verl_spy_number(json_object_get(stage, "shares"), keys[i]), cell,
                                              sizeof cell), 9, true, true);
    double handoff = verl_spy_number(stage, "handoff_us");
    snprintf(cell, sizeof cell, handoff > 0 ? "%.0f us" : "", handoff);
    verl_text_cell(text, cell, 10, true, true);
    verl_display_text_add(text, "\n");
}

static void
s_stages(const top_t *self, verl_buffer_t *text, const json_t *status)
{
    static const char *const heads[] = { "rate/s", "busy", "moving", "data", "weights", "full", "worker" };
    const json_t *stages = verl_spy_list(status, "stages");
    int widest = s_widest(stages, "name");
    verl_display_text_add(text, "\n");
    verl_text_cell(text, "stage", widest, false, true);
    verl_display_text_add(text, "  state       batch         done  queue  credit      age");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        verl_text_cell(text, heads[i], i ? 9 : 8, true, true);
    verl_display_text_add(text, "  hand-off\n");
    for (size_t i = 0; i < json_array_size(stages); i++)
        s_stage(self, text, status, json_array_get(stages, i), widest);
}

static void
s_actor(const top_t *self, verl_buffer_t *text, const json_t *actor, int widest)
{
    char cell[64];
    const json_t *paused = json_object_get(actor, "paused"), *running = json_object_get(actor, "running");
    double memory = verl_spy_number(actor, "memory"), progress = verl_spy_number(running, "progress");
    verl_text_cell(text, verl_spy_text(actor, "label"), widest, false, self->unicode);
    verl_text_format(text, "%9.0f  ", verl_spy_number(actor, json_object_get(actor, "program") ? "program" : "pid"));
    verl_text_cell(text, verl_spy_text(actor, "state"), 9, false, true);
    verl_text_cell(text, memory > 0 ? verl_spy_size(memory, cell, sizeof cell) : "", 10, true, true);
    verl_display_text_add(text, "  ");
    if (running) {
        verl_text_shown(text, verl_spy_text(running, "stage"), 40, self->unicode);
        verl_text_format(text, " of batch %.0f for %s", verl_spy_number(running, "batch"),
                         verl_text_duration(verl_spy_number(running, "seconds"), cell, sizeof cell));
        if (progress > 0 && progress <= 1)
            verl_text_format(text, ", %.0f %%", 100 * progress);
    }
    if (paused) {
        verl_text_format(text, "%spaused for %s by ", running ? "; " : "",
                         verl_text_duration(verl_spy_number(paused, "seconds"), cell, sizeof cell));
        verl_text_shown(text, *verl_spy_text(paused, "who") ? verl_spy_text(paused, "who") : "somebody", 60,
                        self->unicode);
    }
    verl_display_text_add(text, "\n");
}

static void
s_actors(const top_t *self, verl_buffer_t *text, const json_t *status)
{
    const json_t *actors = verl_spy_list(status, "actors");
    int widest = s_widest(actors, "label");
    verl_display_text_add(text, "\n");
    verl_text_cell(text, "actor", widest, false, true);
    verl_display_text_add(text, "      pid  state        memory  works on\n");
    for (size_t i = 0; i < json_array_size(actors); i++)
        s_actor(self, text, json_array_get(actors, i), widest);
}

// --- drawing ------------------------------------------------------------------------------------------------------

static void
s_size(top_t *self)
{
    struct winsize size = { 0 };
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
        size = (struct winsize) { 0 };
    self->columns = size.ws_col >= 20 ? size.ws_col : 100;
    self->lines = size.ws_row >= 4 ? size.ws_row : 24;
}

// The lines that fit, each cut to the width, over what was there.
static int
s_draw(top_t *self, const verl_buffer_t *text)
{
    verl_buffer_t frame = { 0 };
    const char *at = text->data, *end = text->data ? text->data + text->size : NULL;
    s_size(self);
    verl_display_text_add(&frame, "\x1b[H");
    for (int line = 0; at < end && line < self->lines - 1; line++) {
        const char *stop = memchr(at, '\n', (size_t) (end - at));
        char *copy = strndup(at, (size_t) ((stop ? stop : end) - at));
        if (self->colour && (line == 0 || (copy && strncmp(copy, "stage ", 6) == 0)))
            verl_display_text_add(&frame, "\x1b[1m");
        verl_text_shown(&frame, copy ? copy : "", self->columns - 1, self->unicode);
        verl_display_text_add(&frame, self->colour ? "\x1b[0m\x1b[K\n" : "\x1b[K\n");
        free(copy);
        at = stop ? stop + 1 : end;
    }
    verl_display_text_add(&frame, "\x1b[J");
    return verl_spy_print(&frame);
}

static int
s_show(top_t *self, json_t *status)
{
    verl_buffer_t text = { 0 };
    if (self->options->json)
        return verl_spy_print_json(json_incref(status));
    s_head(&text, status, self->unicode);
    s_stages(self, &text, status);
    s_actors(self, &text, status);
    if (!self->screen)
        return verl_spy_print(&text);
    int code = s_draw(self, &text);
    verl_buffer_done(&text);
    return code;
}

// --- looking ------------------------------------------------------------------------------------------------------

// Until the next look. False: somebody wants it to end.
static bool
s_wait(const top_t *self, double seconds)
{
    struct pollfd polled[] = { { .fd = self->signal_fd, .events = POLLIN },
                               { .fd = verl_client_pid_fd(self->client), .events = POLLIN } };
    return poll(polled, 2, (int) (seconds * 1000)) >= 0 && !(polled[0].revents & POLLIN);
}

static int
s_loop(top_t *self)
{
    int64_t end = self->options->timeout > 0 ? verl_now() + (int64_t) (self->options->timeout * 1e9) : INT64_MAX;
    int code = 0;
    while (code == 0) {
        json_t *status = verl_spy_ask(self->client, json_pack("{s:s}", "do", "status"), NAME);
        if (!status)
            return verl_client_why(self->client) == VERL_CLIENT_INTERRUPTED ? 0 : 1;
        self->now_at = verl_now();
        code = s_show(self, status);
        json_decref(self->last);
        self->last = status;
        self->last_at = self->now_at;
        double left = (double) (end - verl_now()) / 1e9;
        if (self->once || left <= 0 || !s_wait(self, left < self->every ? left : self->every))
            break;
    }
    return code;
}

// What actors do is known a moment after somebody began to ask.
static int
s_look_once(top_t *self)
{
    json_t *first = verl_spy_ask(self->client, json_pack("{s:s}", "do", "status"), NAME);
    if (!first)
        return 1;
    json_decref(first);
    return s_wait(self, 0.3) ? s_loop(self) : 0;
}

static int
s_top(top_t *self)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    self->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    self->client = verl_spy_open(self->options, NAME);
    if (!self->client)
        return 1;
    verl_client_interrupt_by(self->client, self->signal_fd);
    const char *terminal = getenv("TERM"), *plain = getenv("NO_COLOR");
    self->screen = !self->once && !self->options->json && isatty(STDOUT_FILENO) && terminal &&
                   strcmp(terminal, "dumb") != 0;
    self->colour = self->screen && !(plain && *plain);
    self->once |= !self->screen && !self->options->json;
    if (self->screen)
        fputs("\x1b[?1049h\x1b[?25l", stdout);
    int code = self->once ? s_look_once(self) : s_loop(self);
    if (self->screen) {
        fputs("\x1b[?25h\x1b[?1049l", stdout);
        fflush(stdout);
        if (code)                           // what was said before went with the screen
            fprintf(stderr, NAME ": the run in %s is over\n", verl_client_directory(self->client));
    }
    return code;
}

int
verl_spy_top(int argc, char **argv, const verl_spy_options_t *options)
{
    top_t self = { .options = options, .every = 1, .unicode = verl_text_unicode(), .signal_fd = -1 };
    for (int i = 1; i < argc; i++) {
        bool missing = false;
        const char *value, *word = argv[i];
        char *end;
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
            return s_help();
        if (strcmp(word, "--once") == 0) {
            self.once = true;
        } else if ((value = verl_spy_value(argc, argv, &i, "--every", &missing))) {
            self.every = strtod(value, &end);
            if (end == value || *end || !(self.every >= 0.05 && self.every <= 3600))
                return verl_spy_usage(NAME, "--every is a number of seconds from 0.05 to 3600, not '%s'", value);
        } else {
            return missing ? verl_spy_usage(NAME, "%s needs a value", word)
                           : verl_spy_usage(NAME, "'%s' is not understood", word);
        }
    }
    int code = s_top(&self);
    verl_client_close(&self.client);
    json_decref(self.last);
    if (self.signal_fd >= 0)
        close(self.signal_fd);
    return code;
}
