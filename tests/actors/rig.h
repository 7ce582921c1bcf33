// rig.h: one stage of a kind without a runtime around it: options from TOML, batches by hand, metrics and failures.
#ifndef VERL_TESTS_RIG_H
#define VERL_TESTS_RIG_H
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/actor/stage.h"
#include "runtime/tensor/batch.h"
#include "runtime/topology/toml.h"
#include "runtime/topology/value.h"

extern const verl_kind_t *const verl_kinds[];

typedef struct rig {
    verl_pool_t        pool;
    const verl_kind_t *kind;
    verl_value_t       state_values, work_values;
    const char        *state_text, *work_text;
    verl_error_t       error;
    void              *state;
    bool               owns_state;
    verl_stage_t       stage;
    verl_batch_t      *in, *out;            // of the last run
    char               failure[1024];
    int                samples;
} rig_t;

static inline const verl_kind_t *
rig_kind(const char *name)
{
    for (int i = 0; verl_kinds[i]; i++)
        if (strcmp(verl_kinds[i]->name, name) == 0)
            return verl_kinds[i];
    cr_assert_fail("there is no kind %s", name);
    return NULL;
}

static inline const verl_stage_kind_t *
rig_handler(const verl_kind_t *kind, const char *does)
{
    for (int i = 0; i < VERL_MAX_STAGES && kind->stages[i].name; i++)
        if (strcmp(kind->stages[i].name, does) == 0)
            return &kind->stages[i];
    cr_assert_fail("%s has no stage %s", kind->name, does);
    return NULL;
}

static inline void
rig_parse(void *rig)
{
    rig_t *self = rig;
    const char *texts[] = { self->state_text, self->work_text };
    verl_value_t *values[] = { &self->state_values, &self->work_values };
    for (int i = 0; i < 2; i++) {
        verl_toml_error_t error;
        verl_node_t *node = verl_toml_parse(texts[i], strlen(texts[i]), &self->pool, &error);
        cr_assert(node, "%s: %s", texts[i], error.text);
        *values[i] = verl_value_from_node(&self->pool, node);
    }
}

static inline void
rig_count_sample(void *context, const verl_stage_t *stage, const char *prompt, const char *response, double score)
{
    (void) stage;
    (void) score;
    cr_assert(prompt && response);
    ((rig_t *) context)->samples++;
}

// A stage named `name` of a kind, with options as TOML. shared: another rig whose actor it is a stage of, or NULL.
// Nothing is prepared yet.
static inline void
rig_init(rig_t *self, const char *kind, const char *does, const char *name, const char *state_text,
         const char *work_text, rig_t *shared)
{
    *self = (rig_t) { .kind = rig_kind(kind), .state_text = state_text, .work_text = work_text };
    cr_assert(verl_pool_run(&self->pool, rig_parse, self));
    self->owns_state = !shared;
    self->state = shared ? shared->state : calloc(1, self->kind->state_size + 1);
    if (!shared && self->kind->options)
        cr_assert_eq(verl_options_fill(self->kind->options, &self->state_values, self->state, &self->error), 0, "%s",
                     self->error.text);
    cr_assert_eq(verl_stage_init(&self->stage, name, self->kind, rig_handler(self->kind, does), self->state,
                                 &self->work_values, 7, 10, &self->error), 0, "%s", self->error.text);
    self->stage.reporter = (verl_reporter_t) { .sample = rig_count_sample, .context = self };
}

// 0, or what prepare or begin said in failure.
static inline int
rig_prepare(rig_t *self)
{
    int rc = self->owns_state && self->kind->prepare ? self->kind->prepare(&self->stage) : 0;
    if (rc == 0 && self->stage.handler->begin)
        rc = self->stage.handler->begin(&self->stage);
    snprintf(self->failure, sizeof self->failure, "%s", self->stage.error.text);
    return rc;
}

static inline void
rig_open(rig_t *self, const char *kind, const char *does, const char *name, const char *state_text,
         const char *work_text, rig_t *shared)
{
    rig_init(self, kind, does, name, state_text, work_text, shared);
    cr_assert_eq(rig_prepare(self), 0, "%s", self->failure);
}

// Runs the handler on `in` (borrowed; NULL: batch `id` of a source). The result is self->out until the next run.
static inline int
rig_run(rig_t *self, verl_batch_t *in, int64_t id)
{
    verl_batch_t *none = in ? NULL : verl_batch_new_given(id, 0, 0);
    verl_batch_t *given = in ? in : none;
    verl_batch_destroy(&self->out);
    verl_stage_forget_metrics(&self->stage);
    self->stage.error.text[0] = '\0';
    self->stage.batch = verl_batch_id(given);
    self->out = verl_batch_new_made(verl_batch_id(given), in ? verl_batch_rows(in) : -1, verl_batch_first_row(given),
                                    verl_heap_memory());
    int rc = self->stage.handler->handler(&self->stage, given, self->out);
    verl_error_t why = { "" };
    if (rc == 0)
        rc = verl_batch_seal(self->out, &why);
    snprintf(self->failure, sizeof self->failure, "%s",
             self->stage.error.text[0] ? self->stage.error.text
             : verl_batch_error(self->out) ? verl_batch_error(self->out)
                                           : why.text);
    verl_batch_destroy(&none);
    return rc;
}

static inline void
rig_close(rig_t *self)
{
    verl_batch_destroy(&self->out);
    if (self->owns_state) {
        if (self->kind->finish)
            self->kind->finish(&self->stage);
        verl_options_done(self->kind->options, self->state);
        free(self->state);
    }
    verl_stage_done(&self->stage);
    verl_pool_done(&self->pool);
}

static inline double
rig_metric(const rig_t *self, const char *name)
{
    for (int i = 0; i < self->stage.metrics_count; i++)
        if (strcmp(self->stage.metrics[i].name, name) == 0)
            return verl_metric_reduced(&self->stage.metrics[i]);
    cr_assert_fail("there is no metric %s", name);
    return 0;
}

static inline bool
rig_has_metric(const rig_t *self, const char *name)
{
    for (int i = 0; i < self->stage.metrics_count; i++)
        if (strcmp(self->stage.metrics[i].name, name) == 0)
            return true;
    return false;
}

// ---------------------------------------------------------------------------------------------------------------
// Batches by hand

// A batch to fill by the adders of verl.h, and to be seen afterwards by rig_see.
static inline verl_batch_t *
rig_made(int64_t id, int64_t rows)
{
    verl_batch_t *batch = verl_batch_new_made(id, -1, 0, verl_heap_memory());
    cr_assert(batch);
    cr_assert_eq(verl_batch_set_rows(batch, rows), 0);
    return batch;
}

// Adds all columns of a made batch to a given one, through its rows' map where map is not NULL.
static inline void
rig_put(verl_batch_t *given, const verl_batch_t *made, const int32_t *map)
{
    int64_t length = verl_batch_rows(given);
    verl_error_t why = { "" };
    for (int i = 0; i < verl_batch_columns(made); i++) {
        const verl_column_t *column = verl_batch_column_at(made, i);
        if (!verl_batch_column(given, column->name))
            cr_assert_eq(verl_batch_put(given, column->name, column, map ? &map : NULL, map ? &length : NULL,
                                        map ? 1 : 0, 0, &why),
                         0, "%s", why.text);
    }
}

// A given batch of the columns of a made one.
static inline verl_batch_t *
rig_see(const verl_batch_t *made)
{
    verl_batch_t *given = verl_batch_new_given(verl_batch_id(made), verl_batch_rows(made), verl_batch_first_row(made));
    cr_assert(given);
    rig_put(given, made, NULL);
    return given;
}

static inline void
rig_add_texts(verl_batch_t *batch, const char *name, const char *const *texts)
{
    size_t bytes[64];
    for (int64_t row = 0; row < verl_batch_rows(batch); row++)
        bytes[row] = strlen(texts[row]);
    cr_assert_eq(verl_batch_add_texts(batch, name, texts, bytes), 0);
}

static inline void
rig_add_reals(verl_batch_t *batch, const char *name, const float *values)
{
    float *to = verl_batch_add_f32(batch, name);
    cr_assert(to);
    memcpy(to, values, (size_t) verl_batch_rows(batch) * sizeof *to);
}

static inline void
rig_add_integers(verl_batch_t *batch, const char *name, const int64_t *values)
{
    int64_t *to = verl_batch_add_i64(batch, name);
    cr_assert(to);
    memcpy(to, values, (size_t) verl_batch_rows(batch) * sizeof *to);
}

// Four bytes an element: i32 or f32.
static inline void
rig_add_ragged(verl_batch_t *batch, const char *name, verl_dtype_t dtype, const int64_t *lengths, const void *values)
{
    size_t total = 0;
    for (int64_t row = 0; row < verl_batch_rows(batch); row++)
        total += (size_t) lengths[row];
    void *to = verl_batch_add_ragged(batch, name, dtype, 1, lengths);
    cr_assert(to);
    memcpy(to, values, total * verl_dtype_bytes(dtype));
}
#endif
