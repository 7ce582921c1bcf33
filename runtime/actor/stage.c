// stage.c: see stage.h, and the section on the stage that runs in verl.h.
#include "runtime/actor/stage.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/clock.h"
#include "runtime/base/utf8.h"

// FNV-1a over the name, then mixed with the seed (the finalizer of splitmix64), so that streams of stages are unrelated.
static uint64_t
s_seed(uint64_t run_seed, const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *c = name; *c; c++)
        hash = (hash ^ (uint8_t) *c) * 0x100000001b3u;
    hash ^= run_seed + 0x9e3779b97f4a7c15u;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
    return hash ^ (hash >> 31);
}

int
verl_stage_init(verl_stage_t *stage, const char *name, const verl_kind_t *kind, const verl_stage_kind_t *handler,
                void *state, const verl_value_t *options, uint64_t run_seed, int64_t steps, verl_error_t *error)
{
    static const atomic_bool never = false;
    *stage = (verl_stage_t) { .name = name, .kind = kind, .handler = handler, .state = state, .steps = steps,
                              .seed = s_seed(run_seed, name), .batch = -1, .span = { .period = 1 },
                              .stopping = &never };
    size_t bytes = verl_options_bytes(handler->options, handler->options_size);
    if (!bytes)
        return 0;
    stage->options = calloc(1, bytes);
    if (!stage->options)
        return verl_error_set(error, "out of memory");
    return handler->options ? verl_options_fill(handler->options, options, stage->options, error) : 0;
}

void
verl_stage_done(verl_stage_t *stage)
{
    if (stage->options && stage->handler->options)
        verl_options_done(stage->handler->options, stage->options);
    free(stage->options);
    stage->options = NULL;
    verl_stage_forget_metrics(stage);
    free(stage->metrics);
    stage->metrics = NULL;
    stage->metrics_room = 0;
}

const char *
verl_stage_reason(const verl_stage_t *stage, const char *fallback)
{
    return stage->error.text[0] ? stage->error.text : fallback;
}

void *
verl_stage_state(const verl_stage_t *stage)
{
    return stage->state;
}

const void *
verl_stage_options(const verl_stage_t *stage)
{
    return stage->options;
}

const char *
verl_stage_name(const verl_stage_t *stage)
{
    return stage->name;
}

int64_t
verl_stage_version(const verl_stage_t *stage)
{
    return stage->version;
}

uint64_t
verl_stage_seed(const verl_stage_t *stage)
{
    return stage->seed;
}

int64_t
verl_stage_steps(const verl_stage_t *stage)
{
    return stage->steps;
}

int64_t
verl_stage_batches(const verl_stage_t *stage)
{
    return verl_span_ordinal(&stage->span, stage->steps, stage->steps + 1);
}

int64_t
verl_stage_ordinal(const verl_stage_t *stage)
{
    return verl_span_ordinal(&stage->span, stage->steps, stage->batch);
}

int
verl_fail(verl_stage_t *stage, const char *format, ...)
{
    char text[sizeof stage->error.text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    verl_utf8_trim(text);
    return verl_error_set(&stage->error, "%s", text);
}

bool
verl_progress(verl_stage_t *stage, double done)
{
    atomic_store_explicit(&stage->progress, done, memory_order_relaxed);
    return atomic_load_explicit(stage->stopping, memory_order_relaxed);
}

bool
verl_sleep(verl_stage_t *stage, double seconds)
{
    int64_t until = verl_now() + (int64_t) (seconds * 1e9);
    struct timespec time = { .tv_sec = until / VERL_S, .tv_nsec = until % VERL_S };
    if (!stage->stop_signal) {
        while (!atomic_load(stage->stopping) && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
            ;
        return atomic_load(stage->stopping);
    }
    pthread_mutex_lock(stage->stop_lock);
    while (!atomic_load(stage->stopping) &&
           pthread_cond_timedwait(stage->stop_signal, stage->stop_lock, &time) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(stage->stop_lock);
    return atomic_load(stage->stopping);
}

void
verl_log(verl_stage_t *stage, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    verl_utf8_trim(text);
    if (stage->reporter.log)
        stage->reporter.log(stage->reporter.context, stage, text);
}

void
verl_sample(verl_stage_t *stage, const char *prompt, const char *response, double score)
{
    if (stage->reporter.sample)
        stage->reporter.sample(stage->reporter.context, stage, prompt, response, score);
}

double
verl_clock(void)
{
    return (double) verl_now() / 1e9;
}

void
verl_loaded(verl_stage_t *stage, const char *what, double seconds)
{
    char text[VERL_REPORT_NAME];
    snprintf(text, sizeof text, "%s", what);
    verl_utf8_trim(text);
    if (stage->reporter.loaded)
        stage->reporter.loaded(stage->reporter.context, stage, text, seconds >= 0 ? seconds : 0);
}

void
verl_moved(verl_stage_t *stage, double seconds)
{
    if (seconds > 0 && seconds < 1e9)
        stage->moved += (int64_t) (seconds * 1e9);
}

// --- metrics ------------------------------------------------------------------------------------------------------

verl_reduce_t
verl_reduce_of(const char *metric)
{
    const char *slash = strrchr(metric, '/');
    const char *last = slash ? slash + 1 : metric;
    return strcmp(last, "max") == 0   ? VERL_REDUCE_MAX
           : strcmp(last, "min") == 0 ? VERL_REDUCE_MIN
           : strcmp(last, "sum") == 0 ? VERL_REDUCE_SUM
                                      : VERL_REDUCE_MEAN;
}

void
verl_stage_forget_metrics(verl_stage_t *stage)
{
    for (int i = 0; i < stage->metrics_count; i++)
        free(stage->metrics[i].name);
    stage->metrics_count = 0;
}

static verl_metric_value_t *
s_metric(verl_stage_t *stage, const char *name)
{
    for (int i = 0; i < stage->metrics_count; i++)
        if (strcmp(stage->metrics[i].name, name) == 0)
            return &stage->metrics[i];
    if (stage->metrics_count == stage->metrics_room) {
        int room = stage->metrics_room ? 2 * stage->metrics_room : 16;
        verl_metric_value_t *metrics = realloc(stage->metrics, (size_t) room * sizeof *metrics);
        if (!metrics)
            return NULL;
        stage->metrics = metrics;
        stage->metrics_room = room;
    }
    char *copy = strdup(name);
    if (!copy)
        return NULL;
    stage->metrics[stage->metrics_count] = (verl_metric_value_t) { .name = copy };
    return &stage->metrics[stage->metrics_count++];
}

static void
s_refuse_metric(verl_stage_t *stage, const char *name)
{
    char begins[81] = "";
    memcpy(begins, name, sizeof begins - 1);
    verl_utf8_trim(begins);
    verl_fail(stage, "stage %s gives the metric %s…, whose name has %zu bytes: it may have %d", stage->name, begins,
              strlen(name), VERL_REPORT_NAME - 1);
}

void
verl_metric_weighted(verl_stage_t *stage, const char *name, double value, double weight)
{
    if (strlen(name) >= VERL_REPORT_NAME) {
        s_refuse_metric(stage, name);
        return;
    }
    verl_metric_value_t *metric = s_metric(stage, name);
    if (!metric) {
        verl_fail(stage, "out of memory for metric %s", name);
        return;
    }
    bool first = metric->weight == 0;
    switch (verl_reduce_of(name)) {
    case VERL_REDUCE_MEAN:
        metric->value += value * weight;
        metric->weight += weight;
        return;
    case VERL_REDUCE_SUM:
        metric->value += value;
        break;
    case VERL_REDUCE_MAX:
        metric->value = first || isnan(value) || value > metric->value ? value : metric->value;
        break;
    case VERL_REDUCE_MIN:
        metric->value = first || isnan(value) || value < metric->value ? value : metric->value;
        break;
    }
    metric->weight = 1;
}

void
verl_metric(verl_stage_t *stage, const char *name, double value)
{
    verl_metric_weighted(stage, name, value, 1);
}

double
verl_metric_reduced(const verl_metric_value_t *metric)
{
    bool mean = verl_reduce_of(metric->name) == VERL_REDUCE_MEAN;
    return mean ? (metric->weight > 0 ? metric->value / metric->weight : NAN) : metric->value;
}
