// metrics.c: named means and extremes; see metrics.h.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "actors/rl/metrics.h"

// Where a name stands; count where it does not.
static size_t
s_place(const verl_metrics_t *self, const char *name)
{
    size_t i = 0;
    while (i < self->count && strcmp(self->items[i].name, name) != 0)
        i++;
    return i;
}

const verl_metric_t *
verl_metrics_find(const verl_metrics_t *self, const char *name)
{
    size_t place = s_place(self, name);
    return place < self->count ? &self->items[place] : NULL;
}

// The entry of a name, new where there was none; NULL where it cannot be had. *fresh says whether it is new.
static verl_metric_t *
s_entry(verl_metrics_t *self, const char *name, verl_metric_kind_t kind, int *fresh)
{
    size_t place = s_place(self, name);
    *fresh = place == self->count;
    if (!*fresh)
        return self->items[place].kind == kind ? &self->items[place] : NULL;
    size_t bytes = strlen(name) + 1;
    if (self->count == VERL_METRICS_MOST || bytes > VERL_METRIC_NAME)
        return NULL;
    verl_metric_t *entry = &self->items[self->count++];
    *entry = (verl_metric_t){ .kind = kind };
    memcpy(entry->name, name, bytes);
    return entry;
}

int
verl_metrics_add(verl_metrics_t *self, const char *name, double sum, double weight)
{
    int fresh;
    if (!self || weight == 0)
        return 0;
    verl_metric_t *entry = s_entry(self, name, VERL_METRIC_MEAN, &fresh);
    if (!entry)
        return -1;
    entry->sum += sum;
    entry->weight += weight;
    return 0;
}

static int
s_extreme(verl_metrics_t *self, const char *name, verl_metric_kind_t kind, double value)
{
    int fresh;
    if (!self)
        return 0;
    verl_metric_t *entry = s_entry(self, name, kind, &fresh);
    if (!entry)
        return -1;
    if (fresh || isnan(value) || (kind == VERL_METRIC_MAX ? value > entry->sum : value < entry->sum))
        entry->sum = value;
    entry->weight = 1;
    return 0;
}

int
verl_metrics_max(verl_metrics_t *self, const char *name, double value)
{
    return s_extreme(self, name, VERL_METRIC_MAX, value);
}

int
verl_metrics_min(verl_metrics_t *self, const char *name, double value)
{
    return s_extreme(self, name, VERL_METRIC_MIN, value);
}

int
verl_metrics_merge(verl_metrics_t *self, const verl_metrics_t *other)
{
    int status = 0;
    for (size_t i = 0; i < other->count; i++) {
        const verl_metric_t *item = &other->items[i];
        if (item->kind == VERL_METRIC_MEAN)
            status |= verl_metrics_add(self, item->name, item->sum, item->weight);
        else
            status |= s_extreme(self, item->name, item->kind, item->sum);
    }
    return status;
}

double
verl_metric_value(const verl_metric_t *metric)
{
    return metric->kind == VERL_METRIC_MEAN ? metric->sum / metric->weight : metric->sum;
}

// Mean, maximum and minimum while they are gathered.
typedef struct spread {
    double sum, most, least;
    int64_t count;
} spread_t;

static void
s_take(spread_t *spread, double value)
{
    spread->sum += value;
    if (spread->count == 0 || isnan(value) || value > spread->most)
        spread->most = value;
    if (spread->count == 0 || isnan(value) || value < spread->least)
        spread->least = value;
    spread->count++;
}

static int
s_put(verl_metrics_t *self, const char *prefix, const spread_t *spread)
{
    char name[VERL_METRIC_NAME + 8];
    if (spread->count == 0)
        return 0;
    snprintf(name, sizeof name, "%s/mean", prefix);
    int status = verl_metrics_add(self, name, spread->sum, (double) spread->count);
    snprintf(name, sizeof name, "%s/max", prefix);
    status |= verl_metrics_max(self, name, spread->most);
    snprintf(name, sizeof name, "%s/min", prefix);
    return status | verl_metrics_min(self, name, spread->least);
}

int
verl_metrics_of_values(verl_metrics_t *self, const char *prefix, const float *values, int64_t count)
{
    spread_t spread = { 0 };
    for (int64_t i = 0; i < count; i++)
        s_take(&spread, (double) values[i]);
    return s_put(self, prefix, &spread);
}

int
verl_metrics_of_tokens(verl_metrics_t *self, const char *prefix, const verl_ragged_t *rows, const float *values)
{
    spread_t spread = { 0 };
    for (int64_t t = 0; t < verl_ragged_tokens(rows); t++)
        if (verl_ragged_counts(rows, t))
            s_take(&spread, (double) values[t]);
    return s_put(self, prefix, &spread);
}

int
verl_metrics_of_lengths(verl_metrics_t *self, const char *prefix, const verl_ragged_t *rows, const uint8_t *truncated)
{
    char name[VERL_METRIC_NAME + 16];
    spread_t spread = { 0 };
    double clipped = 0;
    for (int64_t row = 0; row < rows->rows; row++) {
        s_take(&spread, (double) (rows->offsets[row + 1] - rows->offsets[row]));
        clipped += truncated && truncated[row];
    }
    int status = s_put(self, prefix, &spread);
    snprintf(name, sizeof name, "%s/clip_ratio", prefix);
    return truncated ? status | verl_metrics_add(self, name, clipped, (double) rows->rows) : status;
}

double
verl_explained_variance(const verl_ragged_t *rows, const float *values, const float *returns)
{
    double count = 0, mean = 0, error_mean = 0, spread = 0, error_spread = 0;
    for (int64_t t = 0; t < verl_ragged_tokens(rows); t++) {
        if (!verl_ragged_counts(rows, t))
            continue;
        double target = (double) returns[t], wrong = target - (double) values[t];
        count++;
        double step = target - mean, error_step = wrong - error_mean; // Welford's running variances
        mean += step / count;
        error_mean += error_step / count;
        spread += step * (target - mean);
        error_spread += error_step * (wrong - error_mean);
    }
    return count > 0 ? 1 - error_spread / count / (spread / count + 1e-5) : 0;
}
