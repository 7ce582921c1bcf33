// ledger.c: see ledger.h.
#include "runtime/director/ledger_impl.h"
#include <stdlib.h>
#include <string.h>
#include "runtime/base/clock.h"

#define HANDOFFS     1024
#define WAYS         64                     // of past batches
#define METRICS_MOST 65536                  // of a stage and a batch
#define NAME_MOST    255                    // bytes of a metric's name

typedef struct stage_sum {
    struct stage_sum *next;
    char             *name;
    int64_t           done, last;
    int64_t           handoffs[HANDOFFS];
    int64_t           handoffs_seen;
} stage_sum_t;

typedef struct ignored {                    // a stage that nobody waits for
    struct ignored    *next;
    const verl_plan_t *plan;
    int                stage;
} ignored_t;

struct verl_ledger {
    int64_t      granted, taken, done_at;
    record_t    *records, *newest;          // alive ones, by rising batch
    stage_sum_t *stages;
    ignored_t   *ignored;
    json_t      *ways[WAYS];                // of the last batches that were done, by number
    json_t      *owners;                    // of names of metrics: {name: {"stage", "since": the batch}}
};

verl_ledger_t *
verl_ledger_new(int64_t first)
{
    verl_ledger_t *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->owners = json_object();
    self->granted = first - 1;
    self->taken = first;
    return self;
}

static void
s_record_free(record_t *record)
{
    for (int i = 0; i < record->plan->stages_count; i++) {
        for (int j = 0; j < record->entries[i].count; j++)
            free(record->entries[i].metrics[j].name);
        free(record->entries[i].metrics);
    }
    free(record->entries);
    free(record);
}

void
verl_ledger_destroy(verl_ledger_t **ledger_p)
{
    verl_ledger_t *self = *ledger_p;
    if (!self)
        return;
    *ledger_p = NULL;
    for (record_t *record = self->records, *next; record; record = next) {
        next = record->next;
        s_record_free(record);
    }
    for (stage_sum_t *sum = self->stages, *next; sum; sum = next) {
        next = sum->next;
        free(sum->name);
        free(sum);
    }
    for (ignored_t *ignored = self->ignored, *next; ignored; ignored = next) {
        next = ignored->next;
        free(ignored);
    }
    for (int i = 0; i < WAYS; i++)
        json_decref(self->ways[i]);
    json_decref(self->owners);
    free(self);
}

static record_t *
s_record(const verl_ledger_t *self, int64_t batch)
{
    record_t *record = self->records;
    while (record && record->batch != batch)
        record = record->next;
    return record;
}

// Of a stage's name, made at its first report. NULL: there was none, or no memory.
static stage_sum_t *
s_sum(const verl_ledger_t *self, const char *stage)
{
    stage_sum_t *sum = self->stages;
    while (sum && strcmp(sum->name, stage) != 0)
        sum = sum->next;
    return sum;
}

static stage_sum_t *
s_sum_of(verl_ledger_t *self, const char *stage)
{
    stage_sum_t *sum = s_sum(self, stage);
    if (sum || !(sum = calloc(1, sizeof *sum)))
        return sum;
    if (!(sum->name = strdup(stage))) {
        free(sum);
        return NULL;
    }
    sum->last = -1;
    sum->next = self->stages;
    self->stages = sum;
    return sum;
}

// --- permits ------------------------------------------------------------------------------------------------------

int64_t
verl_ledger_grantable(const verl_ledger_t *self, const verl_plan_t *plan)
{
    int64_t done = self->taken;
    for (const record_t *record = self->records; record && !record->pending; record = record->next)
        done++;
    int64_t last = verl_plan_last(plan), most = done + plan->max_in_flight - 1;
    return most < last ? most : last;
}

static bool
s_ignores(const verl_ledger_t *self, const verl_plan_t *plan, int stage)
{
    const ignored_t *ignored = self->ignored;
    while (ignored && (ignored->plan != plan || ignored->stage != stage))
        ignored = ignored->next;
    return ignored;
}

static record_t *
s_record_new(const verl_ledger_t *self, const verl_plan_t *plan, int64_t batch)
{
    record_t *record = calloc(1, sizeof *record);
    if (record && !(record->entries = calloc((size_t) plan->stages_count, sizeof *record->entries))) {
        free(record);
        return NULL;
    }
    if (!record)
        return NULL;
    record->plan = plan;
    record->batch = batch;
    record->granted_at = verl_now();
    for (int i = 0; i < plan->stages_count; i++)
        record->pending += verl_span_has(&plan->stages[i].span, plan->steps, batch) && !s_ignores(self, plan, i);
    return record;
}

void
verl_ledger_grant(verl_ledger_t *self, int64_t last, const verl_plan_t *plan)
{
    while (self->granted < last) {
        record_t *record = s_record_new(self, plan, self->granted + 1);
        if (!record)
            return;                         // tried again with the next batch that is done
        if (self->records)
            self->newest->next = record;
        else
            self->records = record;
        self->newest = record;
        self->granted++;
    }
}

int64_t
verl_ledger_granted(const verl_ledger_t *self)
{
    return self->granted;
}

int64_t
verl_ledger_done(const verl_ledger_t *self)
{
    return self->taken;
}

int64_t
verl_ledger_stage_done(const verl_ledger_t *self, const char *stage)
{
    const stage_sum_t *sum = s_sum(self, stage);
    return sum ? sum->done : 0;
}

int64_t
verl_ledger_stage_last(const verl_ledger_t *self, const char *stage)
{
    const stage_sum_t *sum = s_sum(self, stage);
    return sum ? sum->last : -1;
}

const verl_plan_t *
verl_ledger_plan(const verl_ledger_t *self, int64_t batch)
{
    const record_t *record = s_record(self, batch);
    return record ? record->plan : NULL;
}

// Of a stage that does not work on the batch, or is ignored: yes.
static bool
s_done(const verl_ledger_t *self, const record_t *record, int stage)
{
    const verl_plan_t *plan = record->plan;
    return record->entries[stage].done || !verl_span_has(&plan->stages[stage].span, plan->steps, record->batch) ||
           s_ignores(self, plan, stage);
}

bool
verl_ledger_has_done(const verl_ledger_t *self, int64_t batch, int stage)
{
    const record_t *record = s_record(self, batch);
    return !record || s_done(self, record, stage);
}

void
verl_ledger_ignore(verl_ledger_t *self, const verl_plan_t *plan, int stage)
{
    ignored_t *ignored = malloc(sizeof *ignored);
    if (!ignored || s_ignores(self, plan, stage)) {
        free(ignored);
        return;
    }
    for (record_t *record = self->records; record; record = record->next)
        if (record->plan == plan && !s_done(self, record, stage))
            record->pending--;
    *ignored = (ignored_t) { .next = self->ignored, .plan = plan, .stage = stage };
    self->ignored = ignored;
}

void
verl_ledger_forget(verl_ledger_t *self, const verl_plan_t *plan)
{
    for (ignored_t **link = &self->ignored; *link;) {
        ignored_t *ignored = *link;
        if (ignored->plan != plan) {
            link = &ignored->next;
            continue;
        }
        *link = ignored->next;
        free(ignored);
    }
}

// --- entering -----------------------------------------------------------------------------------------------------

static int
s_read_metrics(entry_t *entry, const char *stage, verl_reader_t *reader, verl_error_t *error)
{
    uint32_t count, fields;
    const char *said;
    size_t size;
    if (verl_read_array(reader, &count) || count > METRICS_MOST)
        return verl_error_set(error, "the metrics of stage %s are no list of at most %d", stage, METRICS_MOST);
    entry->metrics = calloc(count ? count : 1, sizeof *entry->metrics);
    if (!entry->metrics)
        return verl_error_set(error, "out of memory");
    for (uint32_t i = 0; i < count; i++) {
        verl_metric_value_t *metric = &entry->metrics[i];
        if (verl_read_array(reader, &fields) || fields != 3 || verl_read_str(reader, &said, &size) ||
            verl_read_real(reader, &metric->value) || verl_read_real(reader, &metric->weight))
            return verl_error_set(error, "metric %u of stage %s is not [name, value, weight]", i, stage);
        if (size > NAME_MOST || memchr(said, 0, size))
            return verl_error_set(error, "metric \"%.*s\" of stage %s: a name has at most %d bytes, none of them 0",
                                  (int) (size < 60 ? size : 60), said, stage, NAME_MOST);
        if (!(metric->name = strndup(said, size)))
            return verl_error_set(error, "out of memory");
        entry->count++;
    }
    return 0;
}

int
verl_ledger_enter(verl_ledger_t *self, const verl_plan_t *plan, int stage, int64_t batch, bool skipped,
                  int64_t busy_ns, int64_t handoff_ns, verl_reader_t *metrics, verl_error_t *error)
{
    record_t *record = s_record(self, batch);
    const char *name = plan->stages[stage].name;
    if (!record && batch >= 0 && batch < self->taken)
        return 0;
    if (!record || record->plan != plan || !verl_span_has(&plan->stages[stage].span, plan->steps, batch))
        return verl_error_set(error, "stage %s reports batch %lld, which it was not given", name, (long long) batch);
    entry_t *entry = &record->entries[stage];
    if (s_done(self, record, stage))
        return 0;
    stage_sum_t *sum = s_sum_of(self, name);
    if (!sum)
        return verl_error_set(error, "out of memory");
    if (s_read_metrics(entry, name, metrics, error))
        return -1;
    entry->done = true;
    entry->busy_ns = busy_ns;
    entry->done_at = verl_now();
    record->pending--;
    record->skipped |= skipped;
    sum->done++;
    sum->last = batch > sum->last ? batch : sum->last;
    if (handoff_ns > 0)
        sum->handoffs[sum->handoffs_seen++ % HANDOFFS] = handoff_ns;
    return 0;
}

static int
s_compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;
    return (x > y) - (x < y);
}

double
verl_ledger_handoff(const verl_ledger_t *self, const char *stage)
{
    const stage_sum_t *sum = s_sum(self, stage);
    int64_t sorted[HANDOFFS], count = !sum ? 0 : sum->handoffs_seen < HANDOFFS ? sum->handoffs_seen : HANDOFFS;
    if (!count)
        return 0;
    memcpy(sorted, sum->handoffs, (size_t) count * sizeof *sorted);
    qsort(sorted, (size_t) count, sizeof *sorted, s_compare);
    return (double) sorted[count / 2] / 1e3;
}

// --- taking -------------------------------------------------------------------------------------------------------

json_t *
verl_ledger_way(const verl_ledger_t *self, int64_t batch)
{
    const record_t *record = s_record(self, batch);
    json_t *past = batch >= 0 ? self->ways[batch % WAYS] : NULL;
    if (record)
        return verl_ledger_record_way(record);
    return json_integer_value(json_object_get(past, "batch")) == batch ? json_deep_copy(past) : NULL;
}

json_t *
verl_ledger_take(verl_ledger_t *self, bool *ret_skipped)
{
    record_t *record = self->records;
    if (!record || record->pending)
        return NULL;
    int64_t now = verl_now();
    json_t *line = verl_ledger_line(record, self->owners, self->done_at, now), **way = &self->ways[record->batch % WAYS];
    json_decref(*way);
    *way = verl_ledger_record_way(record);
    self->done_at = now;
    self->records = record->next;
    *ret_skipped = record->skipped;
    self->taken++;
    s_record_free(record);
    return line;
}

// --- whose a metric's name is --------------------------------------------------------------------------------------

json_t *
verl_ledger_owners(const verl_ledger_t *self, int64_t before)
{
    json_t *owners = json_object(), *owner;
    const char *name;
    json_object_foreach(self->owners, name, owner)
        if (json_integer_value(json_object_get(owner, "since")) < before)
            json_object_set(owners, name, json_object_get(owner, "stage"));
    return owners;
}

void
verl_ledger_own(verl_ledger_t *self, json_t *owners)
{
    json_t *stage;
    const char *name;
    json_object_foreach(owners, name, stage)
        if (json_is_string(stage))
            json_object_set_new(self->owners, name, json_pack("{s:O, s:i}", "stage", stage, "since", -1));
}
