// spy_report_causes.c: where each of the three diseases may be in a run. See spy_report_causes.h.
#include "tools/spy_report_impl.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/spy_views.h"

#define UNSEEN_LEAST (1 << 20)              // bytes a batch that are worth a note
#define COPY_SPEED 8e9                      // bytes a second at which a copy is taken to go where nobody timed it

const char *const verl_disease_names[VERL_DISEASES] = {
    "synchronous trap", "transfer tax", "repeated loading",
};

static verl_cause_t *
s_add(search_t *self, verl_disease_t disease, const char *stage)
{
    if (self->found->count == VERL_CAUSES_MOST)
        return NULL;
    verl_cause_t *cause = &self->found->causes[self->found->count++];
    *cause = (verl_cause_t) { .disease = disease, .edge = -1, .stage_index = -1 };
    snprintf(cause->stage, sizeof cause->stage, "%s", stage);
    return cause;
}

static const json_t *
s_stage(const search_t *self, int index)
{
    return json_array_get(verl_spy_list(self->profile, "stages"), (size_t) index);
}

// --- the synchronous trap -----------------------------------------------------------------------------------------

static bool
s_has_other_data(const verl_model_t *model, int edge)
{
    for (int i = 0; i < model->edges_count; i++)
        if (i != edge && model->edges[i].reader == model->edges[edge].reader && !model->edges[i].weights)
            return true;
    return false;
}

// depends_on names a stage of which nothing is needed.
static void
s_find_empty(search_t *self)
{
    const verl_model_t *model = &self->base;
    for (int i = 0; i < model->edges_count; i++) {
        const verl_model_edge_t *edge = &model->edges[i];
        const char *reader = model->stages[edge->reader].name, *maker = model->stages[edge->maker].name;
        verl_cause_t *cause = edge->empty && s_has_other_data(model, i)
                                  ? s_add(self, VERL_DISEASE_SYNCHRONOUS, reader) : NULL;
        if (!cause)
            continue;
        cause->edge = i;
        char takes[32];
        verl_spy_seconds(model->stages[edge->maker].seconds, takes, sizeof takes);
        snprintf(cause->text, sizeof cause->text, "`%s` waits for `%s`, which takes %s a batch, and needs none of its "
                 "columns", reader, maker, takes);
        snprintf(cause->help, sizeof cause->help, "take \"%s\" out of its depends_on", maker);
    }
}

// Weights of the very last update, where older ones would let both work at once.
static void
s_find_strict(search_t *self)
{
    const verl_model_t *model = &self->base;
    for (int i = 0; i < model->edges_count; i++) {
        const verl_model_edge_t *edge = &model->edges[i];
        verl_cause_t *cause = edge->weights && edge->staleness == 0
                                  ? s_add(self, VERL_DISEASE_SYNCHRONOUS, model->stages[edge->reader].name) : NULL;
        if (!cause)
            continue;
        cause->edge = i;
        snprintf(cause->text, sizeof cause->text,
                 "`%s` and `%s` take turns: staleness = 0 makes each batch wait for the "
                 "weights that the one before it makes",
                 model->stages[edge->reader].name, model->stages[edge->maker].name);
        snprintf(cause->help, sizeof cause->help, "staleness = 1, where the training may be one step off policy");
    }
    for (int i = 0; i < model->stages_count; i++) {
        const verl_model_stage_t *stage = &model->stages[i];
        verl_cause_t *cause = stage->writer >= 0 ? s_add(self, VERL_DISEASE_SYNCHRONOUS, stage->name) : NULL;
        if (!cause)
            continue;
        cause->stage_index = i;
        snprintf(cause->text, sizeof cause->text, "`%s` and `%s` take turns: they share one copy of the weights "
                 "(staleness = 0)", stage->name, model->stages[stage->writer].name);
        snprintf(cause->help, sizeof cause->help,
                 "staleness = 1 gives it an actor of its own, where the training may be "
                 "one step off policy");
    }
}

// Too few batches alive at once for all stages to have work. The fewest that do nearly as well as many are proposed.
static void
s_find_in_flight(search_t *self, verl_model_t *work)
{
    verl_cause_t *cause = s_add(self, VERL_DISEASE_SYNCHRONOUS, "");
    int64_t now = self->base.max_in_flight, places = self->base.stages_count;
    for (int i = 0; i < self->base.stages_count; i++)
        places += self->base.stages[i].replicas - 1;
    int64_t many = 2 * places > now ? 2 * places : now;
    if (!cause)
        return;
    cause->in_flight = many;
    double best = verl_rate_without(self, work, -1);
    for (int64_t few = now; few + 1 < many;) {
        cause->in_flight = (few + many) / 2;
        if (verl_rate_without(self, work, -1) >= 0.97 * best)
            many = cause->in_flight;
        else
            few = cause->in_flight;
    }
    cause->in_flight = many;
    char before[80] = "the one before it is";
    if (now == 2)
        snprintf(before, sizeof before, "all but the last one before it are");
    else if (now > 2)
        snprintf(before, sizeof before, "all but the last %lld before it are", (long long) now - 1);
    snprintf(cause->text, sizeof cause->text,
             "max_in_flight = %lld: a batch may begin only when %s done everywhere, so that stages stand idle while "
             "another works", (long long) now, before);
    snprintf(cause->help, sizeof cause->help, "max_in_flight = %lld, or leave it out", (long long) cause->in_flight);
}

// --- the transfer tax ---------------------------------------------------------------------------------------------

// The stage that a column comes from in truth: behind all that only hand it on.
static const char *
s_origin(const search_t *self, const char *from, const char *column)
{
    for (int turn = 0; turn < self->base.stages_count; turn++) {
        const json_t *stage = verl_spy_named(verl_spy_list(self->profile, "stages"), from), *needs;
        const char *before = NULL;
        needs = verl_spy_list(stage, "needs");
        if (verl_spy_number(json_object_get(stage, "bytes"), "again") <= 0)
            break;
        for (size_t i = 0; i < json_array_size(needs); i++)
            if (strcmp(verl_spy_text(json_array_get(needs, i), "column"), column) == 0)
                before = verl_spy_text(json_array_get(needs, i), "from");
        if (!before)
            break;
        from = before;
    }
    return from;
}

// The names of columns that a stage both needs and gives, for a sentence; "" where it calls them differently.
static const char *
s_again_names(const search_t *self, const json_t *stage, char *text, size_t size, const char **ret_from)
{
    const json_t *needs = verl_spy_list(stage, "needs"), *gives = verl_spy_list(stage, "gives");
    size_t length = 0;
    text[0] = 0;
    *ret_from = NULL;
    for (size_t i = 0; i < json_array_size(needs); i++)
        for (size_t j = 0; j < json_array_size(gives); j++) {
            const char *column = verl_spy_text(json_array_get(needs, i), "column");
            const char *given = json_string_value(json_array_get(gives, j));
            if (!given || strcmp(column, given) != 0 || length >= size)
                continue;
            *ret_from = s_origin(self, verl_spy_text(json_array_get(needs, i), "from"), column);
            length += (size_t) snprintf(text + length, size - length, "%s`%s`", length ? ", " : "", column);
        }
    return text;
}

static void
s_find_again(search_t *self, int index)
{
    const json_t *stage = s_stage(self, index);
    const verl_model_stage_t *model = &self->base.stages[index];
    double batches = verl_spy_number(stage, "batches"),
           bytes = verl_spy_number(json_object_get(stage, "bytes"), "again");
    double moving = verl_spy_number(json_object_get(stage, "seconds"), "moving");
    char names[300], size[32], part[32], whole[32];
    const char *from;
    verl_cause_t *cause = batches > 0 && bytes > 0 ? s_add(self, VERL_DISEASE_TRANSFER, model->name) : NULL;
    if (!cause)
        return;
    double timed = moving / batches, guessed = bytes / batches / COPY_SPEED;
    cause->stage_index = index;
    cause->saved = fmin(timed > guessed ? timed : guessed, model->seconds);
    s_again_names(self, stage, names, sizeof names, &from);
    verl_spy_size(bytes / batches, size, sizeof size);
    snprintf(cause->text, sizeof cause->text, "`%s` copies what it got and gives it again: %s%s%s a batch, %s of its "
             "%s", model->name, names, *names ? ", " : "", size, verl_spy_seconds(cause->saved, part, sizeof part),
             verl_spy_seconds(model->seconds, whole, sizeof whole));
    if (from)
        snprintf(cause->help, sizeof cause->help,
                 "do not give %s again: a stage behind it gets the column straight from "
                 "`%s`",
                 names, from);
    else
        snprintf(cause->help, sizeof cause->help,
                 "do not give it again: a stage behind it gets a column straight from its "
                 "maker");
}

// Much time for bytes, though nothing was given again: parts that are joined, or big columns that are packed.
static void
s_find_moving(search_t *self, int index)
{
    const json_t *stage = s_stage(self, index), *bytes = json_object_get(stage, "bytes");
    const verl_model_stage_t *model = &self->base.stages[index];
    double batches = verl_spy_number(stage, "batches"), share = 0;
    char part[32];
    double moving = verl_spy_number(json_object_get(stage, "seconds"), "moving");
    if (batches <= 0 || model->seconds <= 0 || verl_spy_number(bytes, "again") > 0)
        return;
    share = moving / batches / model->seconds;
    verl_cause_t *cause = share > 0.1 ? s_add(self, VERL_DISEASE_TRANSFER, model->name) : NULL;
    if (!cause)
        return;
    cause->stage_index = index;
    cause->saved = moving / batches;
    snprintf(cause->text, sizeof cause->text, "`%s` spends %.0f %% of its time moving bytes, %s a batch", model->name,
             100 * share, verl_spy_seconds(cause->saved, part, sizeof part));
    snprintf(cause->help, sizeof cause->help, "fewer parts, or fewer and smaller columns in its needs");
}

// Columns that came and that the handler never asked for: they cost nothing where memory is shared.
static void
s_note_unseen(search_t *self, int index)
{
    const json_t *stage = s_stage(self, index), *needs = verl_spy_list(stage, "needs");
    double batches = verl_spy_number(stage, "batches");
    double bytes = verl_spy_number(json_object_get(stage, "bytes"), "unseen");
    char size[32], *note = self->found->notes[self->found->notes_count];
    if (batches <= 0 || bytes / batches < UNSEEN_LEAST || self->found->notes_count == VERL_NOTES_MOST)
        return;
    int length = snprintf(note, sizeof self->found->notes[0], "`%s` is sent %s a batch that it never looks at, of ",
                          verl_spy_text(stage, "name"), verl_spy_size(bytes / batches, size, sizeof size));
    for (size_t i = 0; i < json_array_size(needs) && length < (int) sizeof self->found->notes[0]; i++)
        length += snprintf(note + length, sizeof self->found->notes[0] - (size_t) length, "%s`%s`", i ? ", " : "",
                           verl_spy_text(json_array_get(needs, i), "column"));
    self->found->notes_count++;
}

// --- repeated loading ---------------------------------------------------------------------------------------------

static void
s_find_loads(search_t *self)
{
    const json_t *loads = verl_spy_list(self->profile, "loads");
    for (size_t i = 0; i < json_array_size(loads); i++) {
        const json_t *load = json_array_get(loads, i);
        int index = verl_model_stage(&self->base, verl_spy_text(load, "stage"));
        double times = verl_spy_number(load, "in_batches"), seconds = verl_spy_number(load, "batch_seconds");
        double batches = index >= 0 ? verl_spy_number(s_stage(self, index), "batches") : 0;
        verl_cause_t *cause = times >= 3 && times >= batches / 4 && batches > 0
                                  ? s_add(self, VERL_DISEASE_LOADING, verl_spy_text(load, "stage")) : NULL;
        if (!cause)
            continue;
        char part[32], whole[32];
        cause->stage_index = index;
        cause->saved = fmin(seconds / batches, self->base.stages[index].seconds);
        snprintf(cause->text, sizeof cause->text, "`%s` loaded its %s %.0f times in %.0f batches, %s of its %s a batch",
                 cause->stage, verl_spy_text(load, "what"), times, batches,
                 verl_spy_seconds(cause->saved, part, sizeof part),
                 verl_spy_seconds(self->base.stages[index].seconds, whole, sizeof whole));
        snprintf(cause->help, sizeof cause->help, "load it once, before the first batch");
    }
}

void
verl_find_causes(search_t *self, verl_model_t *work)
{
    s_find_empty(self);
    s_find_strict(self);
    for (int i = 0; i < self->base.stages_count; i++) {
        s_find_again(self, i);
        s_find_moving(self, i);
        s_note_unseen(self, i);
    }
    s_find_loads(self);
    s_find_in_flight(self, work);
}
