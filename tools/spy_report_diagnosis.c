// spy_report_diagnosis.c: which of the causes cost anything, and which stage holds a run up. See spy_report_causes.h.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/spy_report_impl.h"
#include "tools/spy_views.h"

#define WORTH      1.05                     // a cause is one where the run would be so much faster without it
#define ADDS       1.005                    // … or so much, where all of its disease together are worth it

static const json_t *
s_stage(const search_t *self, int index)
{
    return json_array_get(verl_spy_list(self->profile, "stages"), (size_t) index);
}

// --- how one is taken away ----------------------------------------------------------------------------------------

// A stage that works with its actor's weights in place gets an actor of its own, one step behind.
static void
s_part(verl_model_t *model, int index)
{
    verl_model_stage_t *stage = &model->stages[index];
    if (model->actors_count == VERL_MODEL_STAGES || stage->writer < 0)
        return;
    verl_model_add_edge(model, (verl_model_edge_t) { .maker = stage->writer, .reader = index, .weights = true,
                                                     .staleness = 1 });
    stage->writer = -1;
    stage->actor = model->actors_count++;
}

static void
s_cure(verl_model_t *model, const verl_cause_t *cause)
{
    if (cause->edge >= 0 && model->edges[cause->edge].weights)
        model->edges[cause->edge].staleness = 1;
    else if (cause->edge >= 0)
        model->edges[cause->edge].gone = true;
    if (cause->in_flight)
        model->max_in_flight = cause->in_flight;
    if (cause->stage_index < 0)
        return;
    verl_model_stage_t *stage = &model->stages[cause->stage_index];
    if (cause->disease == VERL_DISEASE_SYNCHRONOUS)
        s_part(model, cause->stage_index);
    else
        stage->seconds = stage->seconds - cause->saved > 0 ? stage->seconds - cause->saved : 0;
}

// Without all causes but one (-1: without any).
double
verl_rate_without(const search_t *self, verl_model_t *work, int but)
{
    *work = self->base;
    for (int i = 0; i < self->found->count; i++)
        if (i != but)
            s_cure(work, &self->found->causes[i]);
    return verl_model_rate(work);
}

static double
s_ratio(double better, double worse)
{
    return worse > 0 && isfinite(better) && isfinite(worse) ? better / worse : 1;
}

// --- what is worth naming -----------------------------------------------------------------------------------------

static int
s_compare(const void *a, const void *b)
{
    double x = ((const verl_cause_t *) a)->gain, y = ((const verl_cause_t *) b)->gain;
    return (x < y) - (x > y);
}

// Of some causes: how many times as fast without them, alone or as the last ones.
static double
s_gain(const search_t *self, verl_model_t *work, const bool *chosen)
{
    const verl_diagnosis_t *found = self->found;
    double rates[3];                        // without the chosen ones, without the others, without any
    for (int way = 0; way < 3; way++) {
        *work = self->base;
        for (int i = 0; i < found->count; i++)
            if (way == 2 || chosen[i] == (way == 0))
                s_cure(work, &found->causes[i]);
        rates[way] = verl_model_rate(work);
    }
    double alone = s_ratio(rates[0], found->rate), last = s_ratio(rates[2], rates[1]);
    return alone > last ? alone : last;
}

// Many small copies, or loads, are one big disease: they are judged together, and each one that adds to it is named.
static void
s_weigh(search_t *self, verl_model_t *work)
{
    verl_diagnosis_t *found = self->found;
    double families[VERL_DISEASES];
    for (int d = 0; d < VERL_DISEASES; d++) {
        bool chosen[VERL_CAUSES_MOST];
        for (int i = 0; i < found->count; i++)
            chosen[i] = (int) found->causes[i].disease == d;
        families[d] = d == VERL_DISEASE_SYNCHRONOUS ? 0 : s_gain(self, work, chosen);
    }
    for (int i = 0; i < found->count; i++) {
        bool chosen[VERL_CAUSES_MOST] = { false };
        chosen[i] = true;
        found->causes[i].gain = s_gain(self, work, chosen);
    }
    int kept = 0;
    for (int i = 0; i < found->count; i++)
        if (found->causes[i].gain >= WORTH ||
            (families[found->causes[i].disease] >= WORTH && found->causes[i].gain >= ADDS))
            found->causes[kept++] = found->causes[i];
    found->count = kept;
    qsort(found->causes, (size_t) kept, sizeof *found->causes, s_compare);
    found->cured = verl_rate_without(self, work, -1);
}

// --- the bottleneck -----------------------------------------------------------------------------------------------

// How much of the time a stage's worker works, by the model.
static double
s_use(const search_t *self, int index)
{
    const verl_model_stage_t *stage = &self->base.stages[index];
    double seconds = 0;
    for (int i = 0; i < self->base.stages_count; i++)
        if (self->base.stages[i].actor == stage->actor)
            seconds += self->base.stages[i].seconds / (double) self->base.stages[i].period;
    return seconds * self->found->rate / stage->replicas;
}

static void
s_explain(search_t *self, int index)
{
    verl_diagnosis_t *found = self->found;
    const verl_model_stage_t *stage = &self->base.stages[index];
    const json_t *plan = s_stage(self, index);
    const json_t *actor = verl_spy_named(verl_spy_list(self->profile, "actors"), verl_spy_text(plan, "actor"));
    double use = s_use(self, index);
    char takes[32];
    verl_spy_seconds(stage->seconds, takes, sizeof takes);
    snprintf(found->bottleneck, sizeof found->bottleneck, "%s", stage->name);
    if (use >= 0.9)
        snprintf(found->reason, sizeof found->reason,
                 "it takes %s a batch, and once the run is under way its actor `%s` works "
                 "%.0f %% of the time: everything else waits for it",
                 takes, verl_spy_text(plan, "actor"), fmin(100 * use, 100));
    else
        snprintf(found->reason, sizeof found->reason,
                 "it takes %s a batch, the most of what happens in turn; its actor "
                 "`%s` itself works only %.0f %% of the time",
                 takes, verl_spy_text(plan, "actor"), 100 * use);
    if (found->count > 0)
        snprintf(found->help, sizeof found->help, "take away the causes below first");
    else if (use >= 0.9 && !verl_spy_flag(actor, "keeps_state"))
        snprintf(found->help, sizeof found->help, "replicas = %d on it, or less work a batch", stage->replicas + 1);
    else
        snprintf(found->help, sizeof found->help, "less work a batch in it, or a faster device");
}

static void
s_find_bottleneck(search_t *self, verl_model_t *work)
{
    int best = -1;
    double gain = 1.005;
    for (int i = 0; i < self->base.stages_count; i++) {
        if (self->base.stages[i].seconds <= 0)
            continue;
        *work = self->base;
        work->stages[i].seconds /= 2;
        double faster = s_ratio(verl_model_rate(work), self->found->rate);
        if (faster > gain) {
            gain = faster;
            best = i;
        }
    }
    self->found->faster = gain;
    if (best >= 0)
        s_explain(self, best);
}

int
verl_diagnose(const json_t *profile, verl_diagnosis_t *found)
{
    search_t *self = calloc(1, sizeof *self);
    verl_model_t *work = malloc(sizeof *work);
    double seconds = verl_spy_number(profile, "seconds");
    *found = (verl_diagnosis_t) { .measured = seconds > 0 ? verl_spy_number(profile, "done") / seconds : 0 };
    int failed = !self || !work || verl_model_make(&self->base, profile);
    if (!failed) {
        self->profile = profile;
        self->found = found;
        found->rate = verl_model_rate(&self->base);
        failed = !(found->rate > 0 && isfinite(found->rate));
    }
    if (!failed) {
        verl_find_causes(self, work);
        s_weigh(self, work);
        s_find_bottleneck(self, work);
    }
    free(self);
    free(work);
    return failed ? -1 : 0;
}
