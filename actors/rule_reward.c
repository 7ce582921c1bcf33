// rule_reward.c: scores responses by a rule: a right answer that is known, a pattern, or chance (a control).
//
// A score is a function of the row alone (and of its place, for chance), so that a batch may come in parts; the figures
// of a held-out set are of whole groups, so that its batches come whole.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <verl.h>
#include "actors/kit/groups.h"
#include "actors/kit/measure.h"
#include "actors/rl/rules.h"
#include "actors/text/utf8.h"

#define S_RULES "exact|regex|gsm8k|gsm8k_flexible|math|dapo|random"
#define SOURCE_MOST 200                     // bytes: the longest figure's name adds 38, and has room for 255

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
    if (self->metrics != METRICS_VAL)
        verl_declare_by_row(declaration);
    verl_rule_t *rule = s_new_rule(self, 0, error, sizeof error);
    if (!rule)
        verl_declare_error(declaration, verl_rule_needs(s_kind(self)) & VERL_RULE_NEEDS_PATTERN ? "pattern" : "rule",
                           "%s", error);
    verl_rule_destroy(&rule);
    if (self->overlong_buffer > 0 && self->max_length == 0)
        verl_declare_error(declaration, "overlong_buffer",
                           "is %lld tokens at the end of max_length, which is not given: max_length too would be right",
                           (long long) self->overlong_buffer);
    else if (self->overlong_buffer > self->max_length)
        verl_declare_error(declaration, "overlong_buffer",
                           "is %lld tokens, more than max_length = %lld: at most that would "
                           "be right",
                           (long long) self->overlong_buffer, (long long) self->max_length);
    return 0;
}

// ---------------------------------------------------------------------------------------------------------------
// Judging

// The shortest digits that read back as the same f32; with an exponent only from 1e16 on and below 1e-6.
static int
s_write_real(float value, char room[32])
{
    int digits = 0;
    do
        snprintf(room, 32, "%.*e", digits++, (double) value);
    while (digits < 9 && strtof(room, NULL) != value);
    const char *power = strchr(room, 'e');
    long exponent = power ? strtol(power + 1, NULL, 10) : 99;      // of what is not finite: none
    if (exponent < -6 || exponent > 15)
        return snprintf(room, 32, "%.*g", digits, (double) value);
    int decimals = digits - 1 - (int) exponent;
    return snprintf(room, 32, "%.*f", decimals > 0 ? decimals : 0, (double) value);
}

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
    bool real = answer->dtype == VERL_F32 || answer->dtype == VERL_BF16;
    int64_t integer = answer->dtype == VERL_I64 ? *verl_column_i64(answer, row) : real ? 0 : (int64_t) value;
    *ret_bytes = (size_t) (real ? s_write_real((float) value, room) : snprintf(room, 32, "%lld", (long long) integer));
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

// What the figures of a held-out set are named after.
typedef struct {
    const verl_column_t *source;            // or NULL
    verl_groups_t        groups;            // none where there is no column group
    int64_t              samples;           // of a prompt, at most
    char                 mean[32], best[40];
} held_out_t;

static const char *
s_source(const held_out_t *self, int64_t row, size_t *ret_bytes)
{
    static const char unknown[] = "unknown";
    *ret_bytes = sizeof unknown - 1;
    bool text = self->source && self->source->dtype == VERL_TEXT;
    return text ? verl_column_text(self->source, row, ret_bytes) : unknown;
}

static int
s_check_source(verl_stage_t *stage, const verl_batch_t *in, const held_out_t *self, int64_t row)
{
    size_t bytes;
    const char *text = s_source(self, row, &bytes);
    long long place = (long long) (verl_batch_first_row(in) + row);
    if (bytes > SOURCE_MOST)
        return verl_fail(stage, "row %lld: source has %zu bytes, and figures are named after it: at most %d would be "
                         "right", place, bytes, SOURCE_MOST);
    if (memchr(text, 0, bytes) || verl_utf8_valid((const uint8_t *) text, bytes) < bytes)
        return verl_fail(stage, "row %lld: source is not UTF-8 without zero bytes, and figures are named after it",
                         place);
    return 0;
}

static int
s_find_groups(verl_stage_t *stage, const verl_column_t *group, held_out_t *self)
{
    int64_t *keys = group ? verl_groups_keys(stage, group) : NULL;
    if (!keys)
        return group ? -1 : 0;
    int rc = verl_groups_find(keys, group->rows, &self->groups);
    free(keys);
    if (rc != 0)
        return verl_fail(stage, "no memory for the groups of %lld rows", (long long) group->rows);
    for (int64_t i = 0; i < self->groups.count; i++) {
        int64_t rows = self->groups.starts[i + 1] - self->groups.starts[i];
        self->samples = rows > self->samples ? rows : self->samples;
    }
    return 0;
}

static int
s_begin_held_out(verl_stage_t *stage, const verl_batch_t *in, held_out_t *self)
{
    *self = (held_out_t) { .source = verl_batch_column(in, "source"), .samples = 1 };
    int rc = s_find_groups(stage, verl_batch_column(in, "group"), self);
    for (int64_t row = 0; rc == 0 && row < verl_batch_rows(in); row++)
        rc = s_check_source(stage, in, self, row);
    snprintf(self->mean, sizeof self->mean, "mean@%lld", (long long) self->samples);
    snprintf(self->best, sizeof self->best, "best@%lld/mean", (long long) self->samples);
    return rc;
}

// One value under KIND/SOURCE/VALUENAME: value is empty for correctness, else "format/" and the like.
static void
s_measure_row(verl_stage_t *stage, const char *kind, const held_out_t *self, int64_t row, const char *value,
              const char *name, float figure)
{
    char metric[256];
    size_t bytes;
    const char *source = s_source(self, row, &bytes);
    snprintf(metric, sizeof metric, "%s/%.*s/%s%s", kind, (int) bytes, source, value, name);
    verl_metric(stage, metric, (double) figure);
}

// The mean over groups of the best of each.
static void
s_measure_best(verl_stage_t *stage, const held_out_t *self, const float *correct)
{
    const verl_groups_t *groups = &self->groups;
    for (int64_t i = 0; self->samples > 1 && i < groups->count; i++) {
        int64_t first = groups->order[groups->starts[i]];
        float most = correct[first];
        for (int64_t at = groups->starts[i]; at < groups->starts[i + 1]; at++)
            most = correct[groups->order[at]] > most ? correct[groups->order[at]] : most;
        s_measure_row(stage, "val-aux", self, first, "", self->best, most);
    }
}

// The mean over rows, and, where a prompt has several, the mean over prompts of the best.
static int
s_measure_held_out(verl_stage_t *stage, const verl_batch_t *in, const work_t *work)
{
    held_out_t set;
    int rc = s_begin_held_out(stage, in, &set);
    bool formats =
        (verl_rule_needs(work->kind) & VERL_RULE_NEEDS_PATTERN) || strcmp(verl_rule_name(work->kind), "exact");
    for (int64_t row = 0; rc == 0 && row < verl_batch_rows(in); row++) {
        s_measure_row(stage, "val-core", &set, row, "", set.mean, work->correct[row]);
        s_measure_row(stage, "val-aux", &set, row, "reward/", set.mean, work->score[row]);
        if (formats)
            s_measure_row(stage, "val-aux", &set, row, "format/", set.mean, work->format[row]);
    }
    if (rc == 0)
        s_measure_best(stage, &set, work->correct);
    verl_groups_done(&set.groups);
    return rc;
}

static int
s_measure(verl_stage_t *stage, const verl_batch_t *in, const work_t *work)
{
    const rule_reward_t *self = verl_stage_options(stage);
    if (self->metrics == METRICS_VAL)
        return s_measure_held_out(stage, in, work);
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
    .stages = { { "score", s_score, .about = "judges each response, part by part unless metrics is val",
                  .options_size = sizeof(rule_reward_t), .options = s_options,
                  .needs = { "response", "prompt?", "response_ids if overlong_buffer > 0" },
                  .gives = { "score:f32[n]", "correct:f32[n]", "format:f32[n]" },
                  .declare = s_declare } })
