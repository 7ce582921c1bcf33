// display_closing.c: the end of a run: what was learned, examples before and after, where the time went, how to go on.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/base/json.h"
#include "runtime/topology/value.h"
#include "tools/display_private.h"
#include "tools/display_text.h"

#define PAIRS 2
#define NAME_MOST 200                       // columns of a name

// --- what was learned ---------------------------------------------------------------------------------------------

static void
s_print_head(const verl_display_t *self, const verl_run_result_t *result, const char *error)
{
    char time[32];
    long long steps = (long long) self->plan->steps;
    long long done = (long long) result->done < steps ? (long long) result->done : steps;
    verl_buffer_t name = { 0 };
    verl_text_shown(&name, self->plan->name, NAME_MOST, self->unicode);
    fprintf(self->out, "%.*s: ", (int) name.size, name.data ? name.data : "");
    verl_buffer_done(&name);
    if (error && !result->interrupted)
        fprintf(self->out, "failed after %lld of %lld steps", done, steps);
    else if (result->interrupted)
        fprintf(self->out, "interrupted after %lld of %lld steps", done, steps);
    else
        fprintf(self->out, "%lld steps done", done);
    fprintf(self->out, " in %s.", verl_text_duration(result->seconds, time, sizeof time));
    if (result->skipped)
        fprintf(self->out, " %lld %s skipped: run.log says why.", (long long) result->skipped,
                result->skipped == 1 ? "batch was" : "batches were");
}

static double
s_mean(const double *values, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += values[i];
    return sum / count;
}

// The reward of the first and the last tenth of the steps.
static void
s_print_reward(const verl_display_t *self)
{
    const verl_story_t *story = &self->story;
    int count = story->rewards_count, part = count / 10 > 0 ? count / 10 : 1;
    if (count < 2)
        return;
    double first = s_mean(story->rewards, part), last = s_mean(story->rewards + count - part, part);
    if (part == 1)
        fprintf(self->out, " The mean reward went from %.3f in the first step to %.3f in the last.", first, last);
    else
        fprintf(self->out, " The mean reward went from %.3f in the first %d steps to %.3f in the last %d.", first, part,
                last, part);
}

static void
s_print_held_out(const verl_display_t *self)
{
    for (int i = 0; i < self->story.tracks_count; i++) {
        const verl_track_t *track = &self->story.tracks[i];
        verl_buffer_t line = { 0 };
        verl_display_text_add(&line, "\nHeld-out ");
        verl_text_shown(&line, track->name, NAME_MOST, self->unicode);
        if (track->last_step > track->first_step)
            verl_text_format(&line, ": %.3f before (step %lld), %.3f after (step %lld).", track->first,
                             (long long) track->first_step, track->last, (long long) track->last_step);
        else
            verl_text_format(&line, ": %.3f (step %lld).", track->first, (long long) track->first_step);
        fwrite(line.data, 1, line.size, self->out);
        verl_buffer_done(&line);
    }
    fputs("\n", self->out);
}

static void
s_print_example(const verl_display_t *self, const char *label, const verl_example_t *example, int columns)
{
    verl_buffer_t line = { 0 };
    int room = columns - 8 - 3 - 14, width = verl_text_width(example->response);
    int prompt = room - (width < 2 * room / 3 ? width : 2 * room / 3);
    verl_text_format(&line, "%-8s", label);
    prompt = verl_text_shown(&line, example->prompt, prompt, self->unicode);
    verl_display_text_add(&line, self->unicode ? " → " : " > ");
    verl_text_shown(&line, example->response, room - prompt, self->unicode);
    verl_text_format(&line, "  score %.3g\n", example->score);
    if (!line.failed)
        fwrite(line.data, 1, line.size, self->out);
    verl_buffer_done(&line);
}

static void
s_print_examples(const verl_display_t *self, int columns)
{
    const verl_example_t *pairs[PAIRS][2];
    int count = verl_story_pairs(&self->story, pairs, PAIRS);
    for (int i = 0; i < count; i++) {
        fputs(i == 0 ? "\n" : "", self->out);
        s_print_example(self, "before", pairs[i][0], columns);
        s_print_example(self, "after", pairs[i][1], columns);
    }
}

// --- where the time went ------------------------------------------------------------------------------------------

static const char *
s_percent(double share, char *text, size_t size)
{
    if (share > 0 && share < 0.005)
        snprintf(text, size, "<1 %%");
    else
        snprintf(text, size, "%.0f %%", share * 100);
    return text;
}

// Nothing, where no stage came to work.
static void
s_print_times(const verl_display_t *self, const verl_run_result_t *result)
{
    int names = 5;
    bool worked = false;
    for (int i = 0; i < result->stages_count; i++) {
        int width = verl_text_width(result->times[i].name);
        names = width > names ? width : names;
        worked |= result->times[i].batches > 0 || result->times[i].busy_seconds > 0;
    }
    if (!worked)
        return;
    names = names < 32 ? names : 32;
    fprintf(self->out, "\n%-*s  batches      busy           moving  waiting for data  weights   worker  blocked\n", names,
            "stage");
    for (int i = 0; i < result->stages_count; i++) {
        const verl_stage_times_t *times = &result->times[i];
        char spent[32], busy[16], moving[16], data[16], weights[16], worker[16], blocked[16];
        verl_buffer_t name = { 0 };
        verl_text_cell(&name, times->name, names, false, self->unicode);
        fprintf(self->out, "%.*s %8lld %9s %7s %8s %17s %8s %8s %8s\n", (int) name.size, name.data ? name.data : "",
                (long long) times->batches, verl_text_duration(times->busy_seconds, spent, sizeof spent),
                s_percent(times->busy, busy, sizeof busy), s_percent(times->moving, moving, sizeof moving),
                s_percent(times->waiting_data, data, sizeof data),
                s_percent(times->waiting_weights, weights, sizeof weights),
                s_percent(times->waiting_worker, worker, sizeof worker),
                s_percent(times->blocked, blocked, sizeof blocked));
        verl_buffer_done(&name);
    }
}

// --- how to go on -------------------------------------------------------------------------------------------------

const char *
verl_display_near(const char *path)
{
    static char here[4096];
    size_t length = getcwd(here, sizeof here) ? strlen(here) : 0;
    return length > 1 && strncmp(path, here, length) == 0 && path[length] == '/' ? path + length + 1 : path;
}

// The table in which a topology has the options of an actor: of an actor of a stage of its own the stage's.
static void
s_table_of(const verl_plan_t *plan, int actor, char *text, size_t size)
{
    const char *name = plan->actors[actor].name, *table = "actor";
    for (int i = 0; i < plan->stages_count; i++)
        if (plan->stages[i].actor == actor && strcmp(plan->stages[i].name, name) == 0)
            table = "stage";
    snprintf(text, size, "%s.%s", table, name);
}

static bool
s_learns(const verl_plan_t *plan, int actor)
{
    for (int i = 0; i < plan->stages_count; i++)
        if (plan->stages[i].actor == actor && plan->stages[i].handler && plan->stages[i].handler->writes_weights)
            return true;
    return false;
}

// The saved model of the first actor that learned one: a folder that others read too. Copied by the caller.
static int
s_saved_model(const verl_plan_t *plan, const char *checkpoint, char *path, size_t size)
{
    for (int i = 0; i < plan->actors_count; i++) {
        char file[8300];
        snprintf(file, sizeof file, "%s/%s/model/config.json", checkpoint, plan->actors[i].name);
        if (s_learns(plan, i) && access(file, R_OK) == 0 &&
            snprintf(path, size, "%s/%s/model", checkpoint, plan->actors[i].name) > 0)
            return i;
    }
    return -1;
}

// Does an actor begin with the model of another one, whose weights it works with? One that was made from that one for a
// stage ("policy.generate") has it from there.
static bool
s_begins_with(const verl_plan_t *plan, int actor, int writer)
{
    const verl_kind_t *kind = plan->actors[actor].kind;
    for (int i = 0; i < plan->edges_count && !strchr(plan->actors[actor].name, '.'); i++) {
        const verl_plan_edge_t *edge = &plan->edges[i];
        if (edge->weights && plan->stages[edge->reader].actor == actor && plan->stages[edge->maker].actor == writer)
            return kind && !kind->external;
    }
    return false;
}

// " WORD", as a shell wants it.
static void
s_print_word(FILE *out, const char *word)
{
    verl_buffer_t line = { 0 };
    verl_display_text_add(&line, " ");
    verl_text_shell(&line, word);
    fwrite(line.data, 1, line.size, out);
    verl_buffer_done(&line);
}

static void
s_print_set(FILE *out, const char *table, const char *key, const char *value)
{
    char *word = NULL;
    size_t size;
    FILE *text = open_memstream(&word, &size);
    if (!text)
        return;
    fprintf(text, "%s.%s=", table, key);
    verl_value_print_string(text, value);
    fclose(text);
    fputs(" --set", out);
    s_print_word(out, word);
    free(word);
}

static void
s_print_sets(const verl_display_t *self, const verl_plan_t *plan, int writer, const char *model)
{
    char table[600];
    for (int i = 0; i < plan->actors_count; i++) {
        if (i != writer && !s_begins_with(plan, i, writer))
            continue;
        s_table_of(plan, i, table, sizeof table);
        s_print_set(self->out, table, "model", model);
        const verl_value_t *init = verl_value_get(&plan->actors[i].options, "init");
        if (init && init->type == VERL_VALUE_STRING && strcmp(init->string, "random") == 0)
            s_print_set(self->out, table, "init", "load");
    }
}

// With the options of this run, whoever gave them, and as changes left it: its own topology has what its file does not
// say.
static void
s_print_go_on(const verl_display_t *self, const verl_run_result_t *result, const char *run_directory)
{
    char own[4300], model[8300];
    const verl_plan_t *plan = result->plan ? result->plan : self->plan;
    bool changed = result->revision > 1;
    snprintf(own, sizeof own, "%s/topology.toml", run_directory);
    if (changed)
        snprintf(own, sizeof own, "%s/topology-%lld.toml", run_directory, (long long) result->revision);
    int writer = s_saved_model(plan, result->checkpoint, model, sizeof model);
    if (writer < 0)
        return;
    bool whole = !changed && !self->overridden && access(self->plan->file, F_OK) == 0;  // and not from a pipe
    fputs("go on       verl-run", self->out);
    s_print_sets(self, plan, writer, model);
    s_print_word(self->out, verl_display_near(whole ? self->plan->file : own));
    fputs("\n", self->out);
}

static void
s_print_ways_on(const verl_display_t *self, const verl_run_result_t *result, const char *run_directory, bool failed)
{
    const char *checkpoint = result->checkpoint[0] ? result->checkpoint : NULL;
    if (!run_directory)
        return;                             // it was removed: nothing is left to go on with
    fprintf(self->out, "\nmetrics     %s/metrics.jsonl\n", verl_display_near(run_directory));
    if (failed)
        fprintf(self->out, "logs        %s/logs\n", verl_display_near(run_directory));
    if (checkpoint)
        fprintf(self->out, "checkpoint  %s\n", verl_display_near(checkpoint));
    if (failed || result->interrupted) {
        fputs("go on       verl-run --resume", self->out);
        s_print_word(self->out, verl_display_near(run_directory));
        fputs("\n", self->out);
        return;
    }
    if (checkpoint)
        s_print_go_on(self, result, run_directory);
}

void
verl_closing_print(verl_display_t *self, const verl_run_result_t *result, const char *run_directory, const char *error)
{
    int columns, lines;
    verl_display_size(self, &columns, &lines);
    if (self->mode != VERL_DISPLAY_QUIET)
        fputs("\n", self->out);
    s_print_head(self, result, error);
    s_print_reward(self);
    s_print_held_out(self);
    s_print_examples(self, columns);
    if (result->stages_count > 0 && result->seconds > 0)
        s_print_times(self, result);
    s_print_ways_on(self, result, run_directory, error != NULL);
}

// --- for programs -------------------------------------------------------------------------------------------------

// JSON has no NaN.
static json_t *
s_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *
s_times_json(const verl_run_result_t *result)
{
    json_t *list = json_array();
    for (int i = 0; i < result->stages_count; i++) {
        const verl_stage_times_t *times = &result->times[i];
        json_array_append_new(list, json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "stage",
            times->name, "batches", (json_int_t) times->batches, "busy", s_number(times->busy), "moving",
            s_number(times->moving),
            "waiting_data", s_number(times->waiting_data), "waiting_weights", s_number(times->waiting_weights),
            "waiting_worker", s_number(times->waiting_worker), "blocked", s_number(times->blocked),
            "busy_seconds", s_number(times->busy_seconds), "handoff_us", s_number(times->handoff_us)));
    }
    return list;
}

static json_t *
s_tracks_json(const verl_story_t *story)
{
    json_t *tracks = json_object();
    for (int i = 0; i < story->tracks_count; i++)
        json_object_set_new(tracks, story->tracks[i].name,
                            json_pack("{s:o, s:o}", "first", s_number(story->tracks[i].first), "last",
                                      s_number(story->tracks[i].last)));
    return tracks;
}

void
verl_closing_json(verl_display_t *self, const verl_run_result_t *result, const char *run_directory, const char *error)
{
    const char *outcome = result->interrupted ? "interrupted" : error ? "failed" : "done";
    json_t *line = json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "event", "end", "outcome", outcome,
                             "steps", (json_int_t) result->done, "skipped", (json_int_t) result->skipped, "seconds",
                             s_number(result->seconds), "run",
                             run_directory ? verl_json_text(run_directory) : json_null(), "held_out",
                             s_tracks_json(&self->story), "stages", s_times_json(result));
    if (line && error)
        json_object_set_new(line, "error", verl_json_text(error));
    if (line && result->checkpoint[0])
        json_object_set_new(line, "checkpoint", verl_json_text(result->checkpoint));
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    if (text)
        fprintf(self->out, "%s\n", text);
    free(text);
    json_decref(line);
}
