// rule_reward.c: scores responses by a rule: a right answer that is known, a pattern, or chance (a control).
//
// A score is a function of the row alone (and of its place, for chance), so that a batch may come in parts.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <verl.h>
#include "actors/kit/measure.h"
#include "actors/rl/rules.h"
#include "actors/text/utf8.h"

#define S_RULES "exact|regex|gsm8k|gsm8k_flexible|math|dapo|random"

enum { METRICS_TRAIN, METRICS_VAL, METRICS_NONE };

typedef struct {
    int         rule, metrics;
    const char *pattern;
    bool        trim;
    double      format_score, overlong_penalty;
    int64_t     match_limit, max_length, overlong_buffer;
} rule_reward_t;

static const verl_option_t s_options[] = {
    VERL_CHOICE(rule_reward_t, rule, "exact", S_RULES, "how a response is judged",
                .also = "verl:reward_model.reward_manager"),
    VERL_STRING(rule_reward_t, pattern, NULL,
                "regex: PCRE2 pattern; its first group, or all of it, is the answer that was given", .optional = true),
    VERL_BOOL(rule_reward_t, trim, true, "exact: white space around response and answer does not count"),
    VERL_REAL(rule_reward_t, format_score, 0, -1e6, 1e6, "",
              "gsm8k, regex: of an answer that is wrong but in the right form"),
    VERL_INT(rule_reward_t, match_limit, 10000000, 1, 4000000000, "steps", "regex: what one response may cost"),
    VERL_INT(rule_reward_t, max_length, 0, 0, 1e9, "tokens",
             "responses near this length lose overlong_penalty by and by",
             .also = "verl:reward_model.overlong_buffer.max_resp_len"),
    VERL_INT(rule_reward_t, overlong_buffer, 0, 0, 1e9, "tokens", "before max_length where that begins; 0: not at all",
             .also = "verl:reward_model.overlong_buffer.len"),
    VERL_REAL(rule_reward_t, overlong_penalty, 1, 0, 1e6, "", "lost at max_length",
              .also = "verl:reward_model.overlong_buffer.penalty_factor"),
    VERL_CHOICE(rule_reward_t, metrics, "train", "train|val|none",
                "critic/score of training, val-core of a held-out set, or nothing"),
    VERL_OPTIONS_END
};

// What one batch is judged with.
typedef struct {
    const verl_rule_kind_t *kind;
    verl_rule_t            *rule;
    const verl_column_t    *response, *answer, *ids;
    float                  *score, *correct, *format;
} work_t;

static const verl_rule_kind_t *
s_kind(const rule_reward_t *self)
{
    const char *list = S_RULES;
    char name[32] = "";
    for (int i = 0; i < self->rule; i++)
        list = strchr(list, '|') + 1;
    snprintf(name, sizeof name, "%.*s", (int) strcspn(list, "|"), list);
    return verl_rule_find(name);
}

static verl_rule_t *
s_new_rule(const rule_reward_t *self, uint64_t seed, char *error, size_t error_size)
{
    verl_rule_options_t options = verl_rule_defaults();
    options.pattern = self->pattern && *self->pattern ? self->pattern : NULL;
    options.match_limit = self->match_limit;
    options.trim = self->trim;
    options.format_score = self->format_score;
    options.seed = seed;
    return verl_rule_new(s_kind(self), &options, error, error_size);
}

static int
s_declare(verl_declaration_t *declaration, const void *state, const void *options)
{
    (void) state;
    const rule_reward_t *self = options;
    char error[1024];
    if (verl_rule_needs(s_kind(self)) & VERL_RULE_NEEDS_ANSWER)
        verl_declare_need(declaration, "answer");
    if (self->metrics == METRICS_VAL) {
        verl_declare_need(declaration, "source?");
        verl_declare_need(declaration, "group?");
    }
    verl_rule_t *rule = s_new_rule(self, 0, error, sizeof error);
    if (!rule)
        verl_declare_error(declaration, verl_rule_needs(s_kind(self)) & VERL_RULE_NEEDS_PATTERN ? "pattern" : "rule",
                           "%s", error);
    verl_rule_destroy(&rule);
    if (self->overlong_buffer > self->max_length)
        verl_declare_error(declaration, "overlong_buffer",
                           "is %lld tokens, more than max_length = %lld: at most that would "
                           "be right",
                           (long long) self->overlong_buffer, (long long) self->max_length);
    return 0;
}

// ---------------------------------------------------------------------------------------------------------------
// Judging

// The right answer of a row: text, or a number written as text in `room`.
static const char *
s_answer(const verl_column_t *answer, int64_t row, char room[32], size_t *ret_bytes)
{
    *ret_bytes = 0;
    if (!answer)
        return "";
    if (answer->dtype == VERL_TEXT)
        return verl_column_text(answer, row, ret_bytes);
    double value = verl_column_number(answer, row);
    int bytes = answer->dtype == VERL_I64 ? snprintf(room, 32, "%lld", (long long) *verl_column_i64(answer, row))
                                          : snprintf(room, 32, "%.9g", value);
    *ret_bytes = (size_t) bytes;
    return room;
}

static int
s_judge(verl_stage_t *stage, const verl_batch_t *in, const work_t *work, int64_t row)
{
    const rule_reward_t *self = verl_stage_options(stage);
    char error[1024], room[32];
    verl_rule_input_t input = { .batch = verl_batch_id(in), .row = verl_batch_first_row(in) + row };
    verl_rule_result_t result;
    input.response = verl_column_text(work->response, row, &input.response_bytes);
    input.answer = s_answer(work->answer, row, room, &input.answer_bytes);
    if (verl_rule_judge(work->rule, &input, &result, error, sizeof error) != 0)
        return verl_fail(stage, "%s", error);
    work->score[row] = result.score;
    work->correct[row] = result.correct;
    work->format[row] = result.format;
    if (work->ids)
        work->score[row] += (float) verl_overlong_penalty(verl_column_length(work->ids, row), self->max_length,
                                                          self->overlong_buffer, self->overlong_penalty);
    return 0;
}

static int
s_begin_work(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out, work_t *work)
{
    const rule_reward_t *self = verl_stage_options(stage);
    char error[1024];
    *work = (work_t) { .kind = s_kind(self), .response = verl_batch_column(in, "response") };
    if (verl_rule_needs(work->kind) & VERL_RULE_NEEDS_ANSWER)
        work->answer = verl_batch_column(in, "answer");
    if (self->overlong_buffer > 0)
        work->ids = verl_batch_column(in, "response_ids");
    if (work->response->dtype != VERL_TEXT)
        return verl_fail(stage, "column response is not text");
    if (work->answer && work->answer->dtype != VERL_TEXT && !verl_column_is_number(work->answer))
        return verl_fail(stage, "column answer is neither text nor one number a row");
    work->rule = s_new_rule(self, verl_stage_seed(stage), error, sizeof error);
    if (!work->rule)
        return verl_fail(stage, "%s", error);
    work->score = verl_batch_add_f32(out, "score");
    work->correct = work->score ? verl_batch_add_f32(out, "correct") : NULL;
    work->format = work->correct ? verl_batch_add_f32(out, "format") : NULL;
    return work->format ? 0 : -1;
}

// ---------------------------------------------------------------------------------------------------------------
// Figures

// One value under KIND/SOURCE/VALUENAME: value is empty for correctness, else "format/" and the like.
static void
s_measure_row(verl_stage_t *stage, const char *kind, const verl_column_t *source, int64_t row, const char *value,
              const char *name, float figure)
{
    char metric[256], set[151];
    size_t bytes = 7;
    const char *text = source && source->dtype == VERL_TEXT ? verl_column_text(source, row, &bytes) : "unknown";
    snprintf(set, sizeof set, "%.*s", (int) (bytes < sizeof set ? bytes : sizeof set - 1), text);
    set[verl_utf8_valid((const uint8_t *) set, strlen(set))] = 0;
    snprintf(metric, sizeof metric, "%s/%s/%s%s", kind, set, value, name);
    verl_metric(stage, metric, (double) figure);
}

// Rows of the first group: how many samples there are to a prompt.
static int64_t
s_samples(const verl_column_t *group, int64_t rows)
{
    int64_t samples = 1;
    while (group && samples < rows && verl_column_number(group, samples) == verl_column_number(group, 0))
        samples++;
    return samples;
}

// The mean over rows, and, where a prompt has several, the mean over prompts of the best.
static void
s_measure_held_out(verl_stage_t *stage, const verl_batch_t *in, const work_t *work)
{
    const verl_column_t *source = verl_batch_column(in, "source"), *group = verl_batch_column(in, "group");
    int64_t rows = verl_batch_rows(in), samples = s_samples(group && verl_column_is_number(group) ? group : NULL, rows);
    bool formats =
        (verl_rule_needs(work->kind) & VERL_RULE_NEEDS_PATTERN) || strcmp(verl_rule_name(work->kind), "exact");
    char mean[32], best[32];
    snprintf(mean, sizeof mean, "mean@%lld", (long long) samples);
    snprintf(best, sizeof best, "best@%lld/mean", (long long) samples);
    for (int64_t row = 0; row < rows; row++) {
        s_measure_row(stage, "val-core", source, row, "", mean, work->correct[row]);
        s_measure_row(stage, "val-aux", source, row, "reward/", mean, work->score[row]);
        if (formats)
            s_measure_row(stage, "val-aux", source, row, "format/", mean, work->format[row]);
    }
    for (int64_t from = 0; samples > 1 && from + samples <= rows; from += samples) {
        float most = work->correct[from];
        for (int64_t row = from; row < from + samples; row++)
            most = work->correct[row] > most ? work->correct[row] : most;
        s_measure_row(stage, "val-aux", source, from, "", best, most);
    }
}

static int
s_measure(verl_stage_t *stage, const verl_batch_t *in, const work_t *work)
{
    const rule_reward_t *self = verl_stage_options(stage);
    if (self->metrics == METRICS_VAL)
        s_measure_held_out(stage, in, work);
    if (self->metrics != METRICS_TRAIN)
        return 0;
    verl_metrics_t *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return verl_fail(stage, "no memory for figures");
    verl_metrics_of_values(metrics, "critic/score", work->score, verl_batch_rows(in));
    verl_measure_report(stage, metrics);
    free(metrics);
    return 0;
}

static char *
s_copy(const verl_column_t *column, int64_t row)
{
    size_t bytes;
    const char *text = verl_column_text(column, row, &bytes);
    char *copy = malloc(bytes + 1);
    if (copy) {
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
    }
    return copy;
}

static void
s_show_row(verl_stage_t *stage, const verl_column_t *prompt, const work_t *work, int64_t row)
{
    char *question = s_copy(prompt, row), *response = s_copy(work->response, row);
    if (question && response)
        verl_sample(stage, question, response, (double) work->score[row]);
    free(question);
    free(response);
}

// The first row whose prompt is another one than that of row 0, or -1.
static int64_t
s_other_prompt(const verl_column_t *prompt, int64_t rows)
{
    size_t first_bytes, bytes;
    const char *first = verl_column_text(prompt, 0, &first_bytes);
    for (int64_t row = 1; row < rows; row++) {
        const char *text = verl_column_text(prompt, row, &bytes);
        if (bytes != first_bytes || memcmp(text, first, bytes) != 0)
            return row;
    }
    return -1;
}

// For people: the first row of a batch, and of a held-out one, which the end of a run compares with what it was before,
// two.
static void
s_show(verl_stage_t *stage, const verl_batch_t *in, const work_t *work)
{
    const rule_reward_t *self = verl_stage_options(stage);
    const verl_column_t *prompt = verl_batch_column(in, "prompt");
    if (verl_batch_first_row(in) > 0 || verl_batch_rows(in) == 0 || !prompt || prompt->dtype != VERL_TEXT)
        return;
    int64_t other = self->metrics == METRICS_VAL ? s_other_prompt(prompt, verl_batch_rows(in)) : -1;
    if (other >= 0)
        s_show_row(stage, prompt, work, other);
    s_show_row(stage, prompt, work, 0);     // the latest is what is shown while the run goes on
}

static int
s_score(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out)
{
    work_t work;
    int rc = s_begin_work(stage, in, out, &work);
    for (int64_t row = 0; rc == 0 && row < verl_batch_rows(in); row++)
        rc = s_judge(stage, in, &work, row);
    if (rc == 0)
        rc = s_measure(stage, in, &work);
    if (rc == 0)
        s_show(stage, in, &work);
    verl_rule_destroy(&work.rule);
    return rc;
}

VERL_KIND(rule_reward,
    .about = "scores responses by a rule",
    .stages = { { "score", s_score, .about = "judges each response",
                  .options_size = sizeof(rule_reward_t), .options = s_options,
                  .needs = { "response", "prompt?", "response_ids if overlong_buffer > 0" },
                  .gives = { "score:f32[n]", "correct:f32[n]", "format:f32[n]" },
                  .by_row = true, .declare = s_declare } })
