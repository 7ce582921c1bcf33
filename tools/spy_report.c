// spy_report.c: verl-spy report: where the time of a run goes, what holds it up and what would help.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tools/display_text.h"
#include "tools/spy.h"
#include "tools/spy_ask.h"
#include "tools/spy_report_causes.h"
#include "tools/spy_views.h"

#define NAME "verl-spy report"
#define WIDE  100                           // columns of the sentences
#define STEPS 1e7                           // are looked at, at most

typedef struct report {
    json_t           *profile;
    char              directory[4096];
    bool              live, unicode;
    double            tokens;               // a second, by the metric tokens/sum; 0: nobody counts them
    double            under_way;            // batches a second without the beginning
    double            window;               // seconds that are looked at; 0: the whole run
    verl_diagnosis_t *found;
    verl_buffer_t     text;
} report_t;

static int
s_help(void)
{
    printf(
        "usage: verl-spy report [--seconds S] [--run DIR] [--json]\n"
        "\n"
        "Says where the time of a run goes, live or after its end (--run): each stage's shares, the stage that holds "
        "the\n"
        "run up and why, and the three diseases: a stage that waits in step with another though nothing makes it\n"
        "(synchronous trap), data that moves by a detour (transfer tax), work that happens for every batch though "
        "once\n"
        "would do (repeated loading). What a cure would bring is computed: the plan is played through with the times\n"
        "that were measured.\n"
        "\n"
        "  --seconds S   of a live run: of what happens in the next S seconds only, not since its beginning\n");
    return verl_spy_written(NAME);
}

// --- steps --------------------------------------------------------------------------------------------------------

// The number behind a name in a line of metrics; 0: it has none. The lines are many, and only two names count.
static double
s_figure(const char *line, const char *name)
{
    const char *at = strstr(line, name);
    double value = at ? strtod(at + strlen(name), NULL) : 0;
    return isfinite(value) ? value : 0;
}

typedef struct step {
    double seconds, tokens;
} step_t;

// The steps of the last `wanted` lines of metrics.jsonl, as many as there are: those before are of earlier lives of a
// run that was resumed. Freed by the caller; NULL: none.
static step_t *
s_read_steps(const char *directory, size_t wanted, size_t *ret_count)
{
    char path[4200], *line = NULL;
    size_t room = 0, lines = 0;
    step_t *steps = wanted ? calloc(wanted, sizeof *steps) : NULL;
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    FILE *file = steps ? fopen(path, "re") : NULL;
    while (file && getline(&line, &room, file) > 0)
        steps[lines++ % wanted] = (step_t) { s_figure(line, "\"timing_s/step\":"), s_figure(line, "\"tokens/sum\":") };
    free(line);
    if (file)
        fclose(file);
    *ret_count = lines < wanted ? lines : wanted;
    if (lines > wanted) {         // the oldest first
        step_t *turned = calloc(wanted, sizeof *turned);
        for (size_t i = 0; turned && i < wanted; i++)
            turned[i] = steps[(lines + i) % wanted];
        free(steps);
        return turned;
    }
    return steps;
}

// Tokens a second, and batches a second once the run was under way, which is behind the first quarter of its steps.
static void
s_pace(report_t *self)
{
    double tokens = 0, late = 0, seconds = verl_spy_number(self->profile, "seconds");
    double done = fmin(fmax(verl_spy_number(self->profile, "done"), 0), STEPS);
    size_t count = 0;
    step_t *steps = s_read_steps(self->directory, (size_t) done, &count);
    for (size_t i = 0; steps && i < count; i++) {
        tokens += steps[i].tokens;
        late += i >= count / 4 ? steps[i].seconds : 0;
    }
    free(steps);
    self->tokens = seconds > 0 ? tokens / seconds : 0;
    self->under_way = self->window <= 0 && count >= 8 && late > 0 ? (double) (count - count / 4) / late
                                                                  : self->found->measured;
}

// --- for people ---------------------------------------------------------------------------------------------------

static void
s_table(report_t *self)
{
    static const char *const keys[] = { "busy", "moving", "data", "weights", "room", "worker" };
    static const char *const heads[] = { "busy", "moving", "data", "weights", "full", "worker" };
    const json_t *stages = verl_spy_list(self->profile, "stages");
    int widest = 5;
    for (size_t i = 0; i < json_array_size(stages); i++) {
        int width = verl_text_width(verl_spy_text(json_array_get(stages, i), "name"));
        widest = width > widest ? width : widest;
    }
    widest = widest < 32 ? widest : 32;
    verl_text_format(&self->text, "%*s                    share of the time               waiting for\n", widest, "");
    verl_text_cell(&self->text, "stage", widest, false, true);
    verl_display_text_add(&self->text, "  batches  a batch");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        verl_text_cell(&self->text, heads[i], 9, true, true);
    verl_display_text_add(&self->text, "\n");
    for (size_t i = 0; i < json_array_size(stages); i++) {
        const json_t *stage = json_array_get(stages, i), *seconds = json_object_get(stage, "seconds");
        double batches = verl_spy_number(stage, "batches");
        char text[32];
        verl_text_cell(&self->text, verl_spy_text(stage, "name"), widest, false, self->unicode);
        verl_text_format(&self->text, "  %7.0f", batches);
        double work = verl_spy_number(seconds, "busy") + verl_spy_number(seconds, "moving");
        verl_text_cell(&self->text, batches > 0 ? verl_spy_seconds(work / batches, text, sizeof text) : "-", 9, true,
                       true);
        for (size_t j = 0; j < sizeof keys / sizeof *keys; j++)
            verl_text_cell(
                &self->text,
                verl_spy_percent(verl_spy_number(json_object_get(stage, "shares"), keys[j]), text, sizeof text), 9,
                true, true);
        verl_display_text_add(&self->text, "\n");
    }
}

// Bytes of the first word; a number and its unit are one.
static int
s_word(const char *words)
{
    int length = (int) strcspn(words, " ");
    int unit = words[length] ? (int) strcspn(words + length + 1, " ") : 0;
    return length && words[length - 1] >= '0' && words[length - 1] <= '9' && unit > 0 && unit <= 4 ? length + 1 + unit
                                                                                                   : length;
}

// A paragraph of words, each line after `indent` blanks.
static void
s_words(report_t *self, const char *words, int indent)
{
    int at = indent;
    verl_text_format(&self->text, "%*s", indent, "");
    for (bool first = true; *words; first = false) {
        int length = s_word(words);
        if (at + length + 1 > WIDE) {
            verl_text_format(&self->text, "\n%*s", indent, "");
            at = indent;
        } else if (!first) {
            verl_display_text_add(&self->text, " ");
            at++;
        }
        verl_text_format(&self->text, "%.*s", length, words);
        at += length;
        words += length + (words[length] == ' ');
    }
    verl_display_text_add(&self->text, "\n");
}

static void
s_head(report_t *self)
{
    char rate[32], tokens[32], late[32];
    double seconds = verl_spy_number(self->profile, "seconds");
    verl_text_shown(&self->text, verl_spy_text(self->profile, "run"), 60, self->unicode);
    verl_text_format(&self->text, "%s: %.0f batches in %.1f s, %s a second", self->live ? ", which lives" : "",
                     verl_spy_number(self->profile, "done"), seconds,
                     verl_spy_rate(self->found->measured, rate, sizeof rate));
    if (self->under_way > 1.1 * self->found->measured)
        verl_text_format(&self->text, " (%s once under way)", verl_spy_rate(self->under_way, late, sizeof late));
    if (self->tokens > 0)
        verl_text_format(&self->text, ", %s tokens a second", verl_spy_rate(self->tokens, tokens, sizeof tokens));
    verl_display_text_add(&self->text, "\n\n");
}

static void
s_bottleneck(report_t *self)
{
    char line[1300];
    verl_display_text_add(&self->text, "\n");
    if (!self->found->bottleneck[0]) {
        verl_display_text_add(&self->text,
                              "bottleneck\n    no stage: none of them, made faster, would speed the run up\n");
        return;
    }
    verl_display_text_add(&self->text, "bottleneck\n");
    snprintf(line, sizeof line, "`%s`: %s.", self->found->bottleneck, self->found->reason);
    s_words(self, line, 4);
    snprintf(line, sizeof line, "%s %s (in half the time: the run %.2f times as fast)", self->unicode ? "→" : "->",
             self->found->help, self->found->faster);
    s_words(self, line, 4);
}

static void
s_causes(report_t *self)
{
    char line[1300];
    const verl_diagnosis_t *found = self->found;
    if (!found->count) {
        verl_display_text_add(&self->text,
                              "\nNo stage waits without need, no data moves twice, nothing is loaded again.\n");
        return;
    }
    for (int d = 0; d < VERL_DISEASES; d++) {
        bool named = false;
        for (int i = 0; i < found->count; i++) {
            const verl_cause_t *cause = &found->causes[i];
            if ((int) cause->disease != d)
                continue;
            if (!named)
                verl_text_format(&self->text, "\n%s\n", verl_disease_names[d]);
            named = true;
            snprintf(line, sizeof line, "%s.", cause->text);
            s_words(self, line, 4);
            snprintf(line, sizeof line, "%s %s: up to %.2f times as fast", self->unicode ? "→" : "->", cause->help,
                     cause->gain);
            s_words(self, line, 4);
        }
    }
    verl_text_format(&self->text, "\nWithout %s: %.1f times as fast, %.3g batches a second.\n",
                     found->count > 1 ? "all of these" : "this", found->cured / found->rate, found->cured);
}

static void
s_notes(report_t *self)
{
    for (int i = 0; i < self->found->notes_count; i++) {
        char line[600];
        snprintf(line, sizeof line, "%s%s.", i ? "" : "(Without cost where memory is shared: ", self->found->notes[i]);
        verl_display_text_add(&self->text, i ? "" : "\n");
        s_words(self, line, 0);
    }
    if (self->found->notes_count) {
        self->text.size--;                  // the end of the line
        verl_display_text_add(&self->text, ")\n");
    }
}

// A model that is far from what happened is no judge: says so.
static void
s_doubt(report_t *self)
{
    const verl_diagnosis_t *found = self->found;
    double ratio = self->under_way > 0 ? found->rate / self->under_way : 1;
    if (verl_spy_number(self->profile, "done") < 8)
        verl_text_format(&self->text, "\nOnly %.0f batches are done: times are still uncertain.\n",
                         verl_spy_number(self->profile, "done"));
    else if (ratio > 1.3 || ratio < 1 / 1.3)
        verl_text_format(&self->text,
                         "\n(By the times of its stages the run would do %.3g batches a second; it did %.3g: what "
                         "is between\nthem, such as room for outputs or a busy machine, is not in the estimates.)\n",
                         found->rate, self->under_way);
}

// --- for programs -------------------------------------------------------------------------------------------------

static json_t *
s_json(const report_t *self)
{
    const verl_diagnosis_t *found = self->found;
    json_t *causes = json_array(), *notes = json_array();
    for (int i = 0; i < found->notes_count; i++)
        json_array_append_new(notes, json_string(found->notes[i]));
    for (int i = 0; i < found->count; i++) {
        const verl_cause_t *cause = &found->causes[i];
        json_array_append_new(causes, json_pack("{s:s, s:s, s:s, s:s, s:f}", "disease",
                                                verl_disease_names[cause->disease], "stage", cause->stage, "text",
                                                cause->text, "help", cause->help, "gain", cause->gain));
    }
    json_t *object =
        json_pack("{s:s, s:s, s:b, s:f, s:f, s:f, s:f, s:f, s:o, s:O}", "run", verl_spy_text(self->profile, "run"),
                  "directory", self->directory, "live", self->live, "done", verl_spy_number(self->profile, "done"),
                  "seconds", verl_spy_number(self->profile, "seconds"), "batches_per_second", found->measured,
                  "model_batches_per_second", found->rate, "without_causes", found->cured, "causes", causes, "stages",
                  json_object_get(self->profile, "stages"));
    json_object_set_new(object, "notes", notes);
    json_object_set_new(object, "batches_per_second_under_way", json_real(self->under_way));
    if (self->tokens > 0)
        json_object_set_new(object, "tokens_per_second", json_real(self->tokens));
    if (found->bottleneck[0])
        json_object_set_new(object, "bottleneck",
                            json_pack("{s:s, s:s, s:s, s:f}", "stage", found->bottleneck, "reason", found->reason,
                                      "help", found->help, "in_half_the_time", found->faster));
    return object;
}

// --- a window -----------------------------------------------------------------------------------------------------

// The profile that is there is that of the window's beginning; the one of its end less that takes its place.
static int
s_take_window(report_t *self, const verl_spy_options_t *options)
{
    struct timespec wait = { .tv_sec = (time_t) self->window, .tv_nsec = (long) (fmod(self->window, 1) * 1e9) };
    json_t *before = self->profile;
    if (!self->live) {
        fprintf(stderr, NAME ": --seconds is about a run that lives, and that in %s has ended\n", self->directory);
        return -1;
    }
    nanosleep(&wait, NULL);
    self->profile = verl_spy_profile(options, NAME, self->directory, sizeof self->directory, &self->live);
    if (self->profile)
        verl_profile_narrow(self->profile, before);
    json_decref(before);
    return self->profile ? 0 : -1;
}

static int
s_report(report_t *self, const verl_spy_options_t *options)
{
    self->profile = verl_spy_profile(options, NAME, self->directory, sizeof self->directory, &self->live);
    if (!self->profile || (self->window > 0 && s_take_window(self, options)))
        return 1;
    if (verl_diagnose(self->profile, self->found)) {
        fprintf(stderr, NAME ": %s has no batch behind it yet: nothing can be said\n",
                verl_spy_text(self->profile, "run"));
        return 1;
    }
    s_pace(self);
    if (options->json)
        return verl_spy_print_json(s_json(self));
    s_head(self);
    s_table(self);
    s_bottleneck(self);
    s_causes(self);
    s_notes(self);
    s_doubt(self);
    return verl_spy_print(&self->text);
}

// Returns -1 to go on, else the exit code.
static int
s_parse(int argc, char **argv, report_t *self)
{
    for (int i = 1; i < argc; i++) {
        bool missing = false;
        const char *value, *word = argv[i];
        char *end;
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
            return s_help();
        if (!(value = verl_spy_value(argc, argv, &i, "--seconds", &missing)))
            return missing ? verl_spy_usage(NAME, "%s needs a value", word)
                           : verl_spy_usage(NAME, "'%s' is not understood", word);
        self->window = strtod(value, &end);
        if (end == value || *end || !(self->window > 0 && self->window <= 86400))
            return verl_spy_usage(NAME, "--seconds is a number above 0, at most 86400, not '%s'", value);
    }
    return -1;
}

int
verl_spy_report(int argc, char **argv, const verl_spy_options_t *options)
{
    report_t *self = calloc(1, sizeof *self);
    int code = 1;
    if (!self || !(self->found = calloc(1, sizeof *self->found))) {
        verl_spy_no_memory(NAME);
    } else {
        self->unicode = verl_text_unicode();
        code = s_parse(argc, argv, self);
        if (code < 0)
            code = s_report(self, options);
        json_decref(self->profile);
        verl_buffer_done(&self->text);
        free(self->found);
    }
    free(self);
    return code;
}
