// ledger_line.c: what the account of a batch says: its line of metrics, and its way through the stages. See
// ledger_impl.h.
#include "runtime/director/ledger_impl.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/clock.h"
#include "runtime/base/json.h"

// Names of what is measured on held-out data.
static bool
s_says_held_out(const char *name)
{
    return strncmp(name, "val/", 4) == 0 || strncmp(name, "val-core/", 9) == 0 || strncmp(name, "val-aux/", 8) == 0;
}

// A name belongs to the stage that was the first of the run to have it, also on lines where that one has nothing to say.
static bool
s_owns(json_t *owners, const char *name, const char *stage, int64_t batch)
{
    const json_t *owner = json_object_get(owners, name);
    if (!owner)
        json_object_set_new(owners, name, json_pack("{s:s, s:I}", "stage", stage, "since", (json_int_t) batch));
    return !owner || strcmp(json_string_value(json_object_get(owner, "stage")), stage) == 0;
}

// Stages that see the closing batch work on held-out data: their metrics stand apart. A name that another stage owns gets
// its stage's name before it.
static void
s_add_metric(json_t *line, json_t *owners, int64_t batch, const verl_plan_stage_t *stage,
             const verl_metric_value_t *metric)
{
    char text[600];
    double value = verl_metric_reduced(metric);
    bool held_out = stage->span.closing && !s_says_held_out(metric->name);
    snprintf(text, sizeof text, "%s%s", held_out ? "val/" : "", metric->name);
    json_t *name = verl_json_text(text);
    if (!s_owns(owners, json_string_value(name), stage->name, batch)) {
        snprintf(text, sizeof text, "%s%s/%s", held_out ? "val/" : "", stage->name, metric->name);
        json_decref(name);
        name = verl_json_text(text);
    }
    // JSON has no NaN: null says that there was a value and that it was none.
    json_object_set_new(line, json_string_value(name), isfinite(value) ? json_real(value) : json_null());
    json_decref(name);
}

json_t *
verl_ledger_line(const record_t *record, json_t *owners, int64_t before, int64_t now)
{
    const verl_plan_t *plan = record->plan;
    json_t *line = json_object();
    json_object_set_new(line, "step", json_integer(record->batch));
    for (int i = 0; i < plan->stages_count; i++)
        for (int j = 0; j < record->entries[i].count; j++)
            s_add_metric(line, owners, record->batch, &plan->stages[i], &record->entries[i].metrics[j]);
    for (int i = 0; i < plan->stages_count; i++) {
        char name[300];
        snprintf(name, sizeof name, "timing_s/%s", plan->stages[i].name);
        if (record->entries[i].done)
            json_object_set_new(line, name, json_real((double) record->entries[i].busy_ns / 1e9));
    }
    json_object_set_new(line, "timing_s/step",
                        json_real((double) (now - (before ? before : record->granted_at)) / 1e9));
    json_object_set_new(line, "timing_s/in_flight", json_real((double) (now - record->granted_at) / 1e9));
    return line;
}

json_t *
verl_ledger_record_way(const record_t *record)
{
    json_t *stages = json_array();
    int64_t last = record->pending ? verl_now() : record->granted_at;
    for (int i = 0; i < record->plan->stages_count; i++) {
        const entry_t *entry = &record->entries[i];
        double to = (double) (entry->done_at - record->granted_at) / 1e9, from = to - (double) entry->busy_ns / 1e9;
        if (!entry->done)
            continue;
        json_array_append_new(stages, json_pack("{s:s, s:f, s:f}", "name", record->plan->stages[i].name, "from",
                                                from > 0 ? from : 0, "to", to));
        last = entry->done_at > last ? entry->done_at : last;
    }
    return json_pack("{s:I, s:f, s:I, s:o}", "batch", (json_int_t) record->batch, "seconds",
                     (double) (last - record->granted_at) / 1e9, "revision", (json_int_t) record->plan->revision,
                     "stages", stages);
}
