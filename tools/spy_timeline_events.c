// spy_timeline_events.c: see spy_timeline_events.h.
#include "tools/spy_timeline_events.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct place {                      // a stage in an actor: a thread of the timeline
    char *party, *stage;
    int   process;                          // number of the actor, from 1
} place_t;

typedef struct run {
    int     place;
    int64_t revision, batch, part, parts, begin, end;
} run_t;

typedef struct message {
    int     from, to;                       // places
    int64_t revision, batch, part, parts, t;
} message_t;

struct verl_timeline {
    int        places_count, places_room;
    place_t   *places;
    int64_t    runs_count, runs_room, messages_count, messages_room;
    run_t     *runs;
    message_t *messages;
    bool       full;
};

verl_timeline_t *
verl_timeline_new(void)
{
    return calloc(1, sizeof(verl_timeline_t));
}

void
verl_timeline_destroy(verl_timeline_t **self_p)
{
    verl_timeline_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    for (int i = 0; i < self->places_count; i++) {
        free(self->places[i].party);
        free(self->places[i].stage);
    }
    free(self->places);
    free(self->runs);
    free(self->messages);
    free(self);
}

// --- what was seen ------------------------------------------------------------------------------------------------

// Room for one more of `size` bytes. NULL without memory.
static void *
s_room(void *list, int64_t count, int64_t *room, size_t size)
{
    if (count < *room)
        return list;
    void *more = realloc(list, (size_t) (2 * *room + 64) * size);
    if (more)
        *room = 2 * *room + 64;
    return more;
}

// Of a stage in an actor, made when it is first heard of. -1 without memory.
static int
s_place(verl_timeline_t *self, const char *party, const char *stage)
{
    int process = 0, most = 0;              // of this actor; of all of them
    for (int i = 0; i < self->places_count; i++) {
        bool same = strcmp(self->places[i].party, party) == 0;
        if (same && strcmp(self->places[i].stage, stage) == 0)
            return i;
        process = same ? self->places[i].process : process;
        most = self->places[i].process > most ? self->places[i].process : most;
    }
    int64_t room = self->places_room;
    place_t *places = s_room(self->places, self->places_count, &room, sizeof *places);
    if (!places)
        return -1;
    self->places = places;
    self->places_room = (int) room;
    place_t place = { .party = strdup(party), .stage = strdup(stage), .process = process ? process : most + 1 };
    if (!place.party || !place.stage) {
        free(place.party);
        free(place.stage);
        return -1;
    }
    self->places[self->places_count] = place;
    return self->places_count++;
}

static bool
s_add_run(verl_timeline_t *self, const verl_trace_record_t *record)
{
    int place = s_place(self, record->from, record->stage);
    run_t *runs = place < 0 ? NULL : s_room(self->runs, self->runs_count, &self->runs_room, sizeof *runs);
    if (!runs)
        return false;
    self->runs = runs;
    runs[self->runs_count++] = (run_t) { .place = place, .revision = record->message.revision,
                                         .batch = record->message.batch, .part = record->message.part,
                                         .parts = record->message.parts, .begin = record->begin, .end = record->end };
    return true;
}

static bool
s_add_message(verl_timeline_t *self, const verl_trace_record_t *record)
{
    int from = s_place(self, record->from, record->stage), to = s_place(self, record->to, record->reader);
    message_t *messages = from < 0 || to < 0 ? NULL : s_room(self->messages, self->messages_count, &self->messages_room,
                                                             sizeof *messages);
    if (!messages)
        return false;
    self->messages = messages;
    messages[self->messages_count++] = (message_t) { .from = from, .to = to, .revision = record->message.revision,
                                                     .batch = record->message.batch, .part = record->message.part,
                                                     .parts = record->message.parts, .t = record->t };
    return true;
}

bool
verl_timeline_add(verl_timeline_t *self, const verl_trace_record_t *record)
{
    if (record->kind != VERL_TRACE_RAN && record->kind != VERL_TRACE_DATA)
        return true;
    if (self->full || self->runs_count + self->messages_count >= VERL_TIMELINE_MOST) {
        self->full = true;
        return false;
    }
    if (record->kind == VERL_TRACE_RAN && record->end < record->begin)
        return true;                        // no clock of ours says that
    return record->kind == VERL_TRACE_RAN ? s_add_run(self, record) : s_add_message(self, record);
}

// --- finding runs -------------------------------------------------------------------------------------------------

static int
s_compare_numbers(int64_t x, int64_t y)
{
    return (x > y) - (x < y);
}

static int
s_compare_runs(const void *a, const void *b)
{
    const run_t *x = a, *y = b;
    int order = s_compare_numbers(x->place, y->place);
    order = order ? order : s_compare_numbers(x->batch, y->batch);
    order = order ? order : s_compare_numbers(x->revision, y->revision);
    return order ? order : s_compare_numbers(x->part, y->part);
}

// The run of a part of a batch in a place, or the run of the batch as a whole where there is no such part.
static const run_t *
s_find(const verl_timeline_t *self, int place, const message_t *message, int64_t part)
{
    if (!self->runs_count)
        return NULL;
    run_t key = { .place = place, .batch = message->batch, .revision = message->revision, .part = part };
    const run_t *found = bsearch(&key, self->runs, (size_t) self->runs_count, sizeof key, s_compare_runs);
    if (found || part == 0)
        return found;
    key.part = 0;
    found = bsearch(&key, self->runs, (size_t) self->runs_count, sizeof key, s_compare_runs);
    return found && found->parts == 1 ? found : NULL;
}

// --- writing ------------------------------------------------------------------------------------------------------

typedef struct writer {
    FILE   *out;
    bool    failed, any;
    int64_t base;                           // ns that are 0 on the timeline
} writer_t;

// Takes the event.
static void
s_event(writer_t *writer, json_t *event)
{
    char *text = event ? json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    if (!text || fprintf(writer->out, "%s%s", writer->any ? ",\n" : "", text) < 0)
        writer->failed = true;
    writer->any = true;
    free(text);
    json_decref(event);
}

static double
s_us(const writer_t *writer, int64_t t)
{
    return (double) (t - writer->base) / 1e3;
}

static void
s_names(const verl_timeline_t *self, writer_t *writer)
{
    for (int i = 0; i < self->places_count; i++) {
        const place_t *place = &self->places[i];
        s_event(writer, json_pack("{s:s, s:s, s:i, s:{s:s}}", "ph", "M", "name", "process_name", "pid", place->process,
                                  "args", "name", place->party));
        s_event(writer, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", "thread_name", "pid",
                                  place->process, "tid", i + 1, "args", "name", place->stage));
    }
}

static void
s_runs(const verl_timeline_t *self, writer_t *writer)
{
    for (int64_t i = 0; i < self->runs_count; i++) {
        const run_t *run = &self->runs[i];
        char name[64];
        int length = snprintf(name, sizeof name, "batch %" PRId64, run->batch);
        if (run->parts > 1)
            snprintf(name + length, sizeof name - (size_t) length, ", part %" PRId64 " of %" PRId64, run->part + 1,
                     run->parts);
        s_event(writer, json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:{s:I, s:I, s:I, s:I}}", "ph", "X", "cat",
                                  "handler", "name", name, "pid", self->places[run->place].process, "tid",
                                  run->place + 1, "ts", s_us(writer, run->begin), "dur",
                                  (double) (run->end - run->begin) / 1e3, "args", "batch", (json_int_t) run->batch,
                                  "part", (json_int_t) run->part, "parts", (json_int_t) run->parts, "revision",
                                  (json_int_t) run->revision));
    }
}

// From inside the run that sent to the beginning of the one that took.
static bool
s_flow(const verl_timeline_t *self, writer_t *writer, const message_t *message, int64_t id)
{
    const run_t *made = s_find(self, message->from, message, message->part);
    const run_t *took = s_find(self, message->to, message, message->part);
    if (!made || !took || took->begin < made->begin)
        return false;
    int64_t sent = message->t < made->begin ? made->begin : message->t > made->end ? made->end : message->t;
    s_event(writer, json_pack("{s:s, s:s, s:s, s:I, s:i, s:i, s:f}", "ph", "s", "cat", "data", "name", "data", "id",
                              (json_int_t) id, "pid", self->places[message->from].process, "tid", message->from + 1,
                              "ts", s_us(writer, sent)));
    s_event(writer, json_pack("{s:s, s:s, s:s, s:s, s:I, s:i, s:i, s:f}", "ph", "f", "bp", "e", "cat", "data", "name",
                              "data", "id", (json_int_t) id, "pid", self->places[message->to].process, "tid",
                              message->to + 1, "ts", s_us(writer, took->begin > sent ? took->begin : sent)));
    return true;
}

// --- queues -------------------------------------------------------------------------------------------------------

typedef struct change {                     // of the number of batches that wait for a stage
    int64_t t;
    int     place, by;
} change_t;

static int
s_compare_arrivals(const void *a, const void *b)
{
    const message_t *x = a, *y = b;
    int order = s_compare_numbers(x->to, y->to);
    order = order ? order : s_compare_numbers(x->batch, y->batch);
    order = order ? order : s_compare_numbers(x->revision, y->revision);
    return order ? order : s_compare_numbers(x->t, y->t);
}

static int
s_compare_changes(const void *a, const void *b)
{
    const change_t *x = a, *y = b;
    int order = s_compare_numbers(x->t, y->t);
    return order ? order : y->by - x->by;   // it came before it was taken
}

// A batch waits from the first message that brings something of it until its run begins. One whose run was not seen is
// left out: it may have been taken before anybody looked.
static int64_t
s_changes(verl_timeline_t *self, change_t *changes)
{
    int64_t count = 0;
    if (self->messages_count)
        qsort(self->messages, (size_t) self->messages_count, sizeof *self->messages, s_compare_arrivals);
    for (int64_t i = 0; i < self->messages_count; i++) {
        const message_t *message = &self->messages[i], *before = i ? message - 1 : NULL;
        const run_t *run = s_find(self, message->to, message, 0);
        if ((before && before->to == message->to && before->batch == message->batch &&
             before->revision == message->revision) || !run || run->begin < message->t)
            continue;
        changes[count++] = (change_t) { .t = message->t, .place = message->to, .by = 1 };
        changes[count++] = (change_t) { .t = run->begin, .place = message->to, .by = -1 };
    }
    qsort(changes, (size_t) count, sizeof *changes, s_compare_changes);
    return count;
}

static int
s_queues(verl_timeline_t *self, writer_t *writer)
{
    change_t *changes = calloc((size_t) (2 * self->messages_count) + 1, sizeof *changes);
    int *waiting = calloc((size_t) self->places_count + 1, sizeof *waiting);
    int64_t count = changes && waiting ? s_changes(self, changes) : 0;
    for (int64_t i = 0; i < count; i++) {
        const place_t *place = &self->places[changes[i].place];
        char name[VERL_TRACE_NAME + 20];
        waiting[changes[i].place] += changes[i].by;
        snprintf(name, sizeof name, "queue of %s", place->stage);
        s_event(writer, json_pack("{s:s, s:s, s:i, s:f, s:{s:i}}", "ph", "C", "name", name, "pid", place->process, "ts",
                                  s_us(writer, changes[i].t), "args", "batches", waiting[changes[i].place]));
    }
    int failed = !changes || !waiting;
    free(changes);
    free(waiting);
    return failed ? -1 : 0;
}

static int64_t
s_base(const verl_timeline_t *self)
{
    int64_t base = INT64_MAX;
    for (int64_t i = 0; i < self->runs_count; i++)
        base = self->runs[i].begin < base ? self->runs[i].begin : base;
    for (int64_t i = 0; i < self->messages_count; i++)
        base = self->messages[i].t < base ? self->messages[i].t : base;
    return base;
}

int
verl_timeline_write(verl_timeline_t *self, FILE *out, const char *title, verl_timeline_counts_t *ret_counts)
{
    writer_t writer = { .out = out, .base = s_base(self) };
    *ret_counts = (verl_timeline_counts_t) { .runs = self->runs_count, .messages = self->messages_count,
                                             .full = self->full };
    json_t *about = json_pack("{s:s}", "run", title);
    char *text = about ? json_dumps(about, JSON_COMPACT) : NULL;
    bool failed = !text || fprintf(out, "{\"displayTimeUnit\":\"ms\",\"otherData\":%s,\"traceEvents\":[\n", text) < 0;
    free(text);
    json_decref(about);
    if (self->runs_count)
        qsort(self->runs, (size_t) self->runs_count, sizeof *self->runs, s_compare_runs);
    s_names(self, &writer);
    s_runs(self, &writer);
    for (int64_t i = 0; i < self->messages_count; i++)
        if (s_flow(self, &writer, &self->messages[i], i + 1))
            ret_counts->flows++;
    failed |= s_queues(self, &writer) != 0;
    ret_counts->open = ret_counts->messages - ret_counts->flows;
    failed |= fprintf(out, "\n]}\n") < 0 || fflush(out);
    return failed || writer.failed ? -1 : 0;
}
