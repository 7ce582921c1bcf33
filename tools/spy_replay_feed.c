// spy_replay_feed.c: see spy_replay_feed.h.
#include "tools/spy_replay_feed.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/observe/filter.h"
#include "runtime/observe/recording.h"
#include "runtime/observe/trace.h"
#include "runtime/topology/topology.h"
#include "tools/spy_follow_batch.h"
#include "tools/spy_topologies.h"

typedef struct world {                      // a revision of the recorded run
    int64_t      revision;
    char        *text;                      // its topology
    size_t       size;
    verl_plan_t *plan;                      // made when it is first needed
} world_t;

typedef struct reading {
    verl_spy_feed_t     *feed;
    const char          *path, *actor;
    int64_t              wanted;            // revision; 0: the newest that sent the actor anything
    int                  count;
    world_t             *worlds;
    const verl_plan_t   *plan;              // of the revision that is fed
    verl_filter_t        filter;            // messages to or from the actor
    verl_trace_record_t *record;
} reading_t;

void
verl_spy_feed_done(verl_spy_feed_t *feed)
{
    for (size_t i = 0; i < feed->count; i++)
        free(feed->items[i].body);
    free(feed->items);
    *feed = (verl_spy_feed_t) { 0 };
}

// --- topologies ---------------------------------------------------------------------------------------------------

static int
s_add_world(reading_t *reading, const char *text, size_t size, verl_error_t *error)
{
    world_t *grown = realloc(reading->worlds, ((size_t) reading->count + 1) * sizeof *grown);
    char *copy = malloc(size + 1);
    if (grown)
        reading->worlds = grown;
    if (!grown || !copy) {
        free(copy);
        return verl_error_set(error, "out of memory");
    }
    memcpy(copy, text, size);
    copy[size] = 0;
    grown[reading->count++] = (world_t) { .revision = verl_spy_topology_revision(copy), .text = copy, .size = size };
    return 0;
}

// The plan of a revision; NULL with a reason. It is the reading's.
static verl_plan_t *
s_plan(reading_t *reading, int64_t revision, verl_error_t *error)
{
    verl_topology_errors_t errors = { 0 };
    world_t *world = reading->worlds;
    while (world && world < reading->worlds + reading->count && world->revision != revision)
        world++;
    if (!world || world == reading->worlds + reading->count) {
        verl_error_set(error, "%s has no topology of revision %" PRId64 ": it cannot be replayed to an actor",
                       reading->path, revision);
        return NULL;
    }
    if (world->plan)
        return world->plan;
    world->plan = verl_topology_load_text(world->text, world->size, "topology.toml", NULL, 0, &errors);
    if (world->plan) {
        world->plan->revision = revision;
        world->plan->save_every = 0;        // no run goes on from what the actor comes to here
    } else {
        verl_error_set(error, "the recorded topology of revision %" PRId64 " cannot be used here: %s", revision,
                       errors.count ? errors.items[0] : "no reason is known");
    }
    verl_topology_errors_done(&errors);
    return world->plan;
}

static bool
s_has_actor(const verl_plan_t *plan, const char *actor)
{
    for (int i = 0; i < plan->actors_count; i++)
        if (strcmp(plan->actors[i].name, actor) == 0)
            return true;
    return false;
}

// Why there is nothing for the actor.
static int
s_nothing(reading_t *reading, verl_error_t *error)
{
    int64_t revision = reading->wanted;
    for (int i = 0; i < reading->count && !reading->wanted; i++)
        revision = reading->worlds[i].revision > revision ? reading->worlds[i].revision : revision;
    if (!reading->count)
        return verl_error_set(error, "%s has no topology: it cannot be replayed to an actor", reading->path);
    const verl_plan_t *plan = s_plan(reading, revision, error);
    if (!plan)
        return -1;
    if (!s_has_actor(plan, reading->actor))
        return verl_error_set(error, "the recorded topology of revision %" PRId64 " has no actor %s", revision,
                              reading->actor);
    return verl_error_set(error, "%s has no batch%s that was sent to %s", reading->path,
                          reading->wanted ? " of that revision" : "", reading->actor);
}

// --- messages -----------------------------------------------------------------------------------------------------

// The edge between two stages, by their names: indices may differ between revisions.
static int
s_edge(const verl_plan_t *plan, const verl_trace_record_t *record)
{
    for (int i = 0; i < plan->edges_count; i++) {
        const verl_plan_edge_t *edge = &plan->edges[i];
        if (edge->weights == (record->kind == VERL_TRACE_WEIGHTS) &&
            strcmp(plan->stages[edge->maker].name, record->stage) == 0 &&
            strcmp(plan->stages[edge->reader].name, record->reader) == 0)
            return i;
    }
    return -1;
}

static bool
s_is_for(const reading_t *reading, const verl_plan_t *plan, int edge)
{
    return strcmp(plan->actors[plan->stages[plan->edges[edge].reader].actor].name, reading->actor) == 0;
}

// All its bytes have to be in it.
static int
s_check_whole(const verl_trace_record_t *record, verl_error_t *error)
{
    verl_spy_batch_t batch;
    bool whole = record->message.body_size > 0;
    if (!record->bytes)
        return 0;
    if (whole && verl_spy_batch_read(record, &batch, error))
        return -1;
    if (whole) {
        whole = !batch.shared;
        verl_spy_batch_done(&batch);
    }
    return whole ? 0
                 : verl_error_set(error,
                                  "batch %" PRId64 " for stage %s was recorded without its bytes: record with "
                                  "--values",
                                  record->message.batch, record->reader);
}

static int
s_keep(verl_spy_feed_t *feed, const verl_trace_record_t *record, int edge, verl_error_t *error)
{
    const verl_message_t *message = &record->message;
    if (feed->count == feed->room) {
        size_t room = feed->room ? feed->room * 2 : 64;
        verl_spy_morsel_t *grown = realloc(feed->items, room * sizeof *grown);
        if (!grown)
            return verl_error_set(error, "out of memory");
        feed->items = grown;
        feed->room = room;
    }
    char *body = malloc(message->body_size + 1);
    if (!body)
        return verl_error_set(error, "out of memory");
    if (message->body_size)
        memcpy(body, message->body, message->body_size);
    feed->items[feed->count++] = (verl_spy_morsel_t) { .edge = edge, .revision = message->revision,
                                                       .batch = message->batch, .part = message->part,
                                                       .parts = message->parts, .body = body,
                                                       .size = message->body_size };
    return 0;
}

static int
s_take(reading_t *reading, const verl_trace_record_t *record, verl_error_t *error)
{
    verl_filter_message_t message = { record->kind, record->from, record->to, record->stage, record->reader,
                                      record->message.batch };
    int64_t revision = record->message.revision;
    if (!verl_filter_matches(&reading->filter, &message) || (reading->wanted && revision != reading->wanted))
        return 0;
    if (!reading->count)
        return s_nothing(reading, error);
    const verl_plan_t *plan = s_plan(reading, revision, error);
    int edge = plan ? s_edge(plan, record) : -1;
    if (edge < 0 || !s_is_for(reading, plan, edge))
        return plan ? 0 : -1;
    return s_check_whole(record, error) || s_keep(reading->feed, record, edge, error) ? -1 : 0;
}

static int
s_take_frame(reading_t *reading, const char *bytes, size_t size, verl_error_t *error)
{
    verl_reader_t reader;
    verl_trace_head_t head;
    verl_reader_init(&reader, bytes, size);
    if (verl_trace_read_head(&reader, &head, error))
        return -1;
    while (verl_reader_left(&reader))
        if (verl_trace_read_record(&reader, reading->record, error) || s_take(reading, reading->record, error))
            return -1;
    return 0;
}

static int
s_compare(const void *a, const void *b)
{
    const verl_spy_morsel_t *left = a, *right = b;
    if (left->batch != right->batch)
        return left->batch < right->batch ? -1 : 1;
    return left->edge != right->edge ? left->edge - right->edge
                                     : (left->part > right->part) - (left->part < right->part);
}

typedef int (*take_t)(reading_t *reading, const char *bytes, size_t size, verl_error_t *error);

// Hands over all items of a kind.
static int
s_read(reading_t *reading, verl_recording_kind_t wanted, take_t take, verl_error_t *error)
{
    const char *bytes;
    size_t size;
    verl_recording_kind_t kind;
    verl_error_t cut = { "" };              // a file that is cut short is good up to there
    verl_recording_t *recording = verl_recording_open(reading->path, error);
    int failed = recording ? 0 : -1;
    while (!failed && (kind = verl_recording_read(recording, &bytes, &size, &cut)) != VERL_RECORDING_END)
        failed = kind == wanted ? take(reading, bytes, size, error) : 0;
    verl_recording_close(&recording, NULL);
    return failed;
}

// Keeps the messages of one revision: what another one gave was made by another topology.
static int
s_choose(reading_t *reading, verl_error_t *error)
{
    verl_spy_feed_t *feed = reading->feed;
    int64_t revision = reading->wanted;
    size_t kept = 0;
    for (size_t i = 0; i < feed->count && !reading->wanted; i++)
        revision = feed->items[i].revision > revision ? feed->items[i].revision : revision;
    reading->plan = feed->count ? s_plan(reading, revision, error) : NULL;
    if (!reading->plan)
        return feed->count ? -1 : s_nothing(reading, error);
    feed->last = -1;
    for (size_t i = 0; i < feed->count; i++) {
        const verl_spy_morsel_t *item = &feed->items[i];
        if (item->revision != revision) {
            free(item->body);
            continue;
        }
        if (!reading->plan->edges[item->edge].weights) {
            feed->first = feed->last < 0 || item->batch < feed->first ? item->batch : feed->first;
            feed->last = item->batch > feed->last ? item->batch : feed->last;
        }
        feed->items[kept++] = *item;
    }
    feed->count = kept;
    return feed->last < feed->first ? s_nothing(reading, error) : 0;
}

// In order; what was sent again, to a successor, once.
static void
s_sort(verl_spy_feed_t *feed)
{
    size_t kept = 0;
    if (feed->count)
        qsort(feed->items, feed->count, sizeof *feed->items, s_compare);
    for (size_t i = 0; i < feed->count; i++) {
        if (kept && s_compare(&feed->items[kept - 1], &feed->items[i]) == 0)
            free(feed->items[i].body);
        else
            feed->items[kept++] = feed->items[i];
    }
    feed->count = kept;
}

// Did all parts of a batch come over an edge?
static bool
s_has(const verl_spy_feed_t *feed, int edge, int64_t batch)
{
    int64_t parts = 0, came = 0;
    size_t low = 0, high = feed->count;
    while (low < high) {                    // the first item of the batch: they are sorted
        size_t middle = low + (high - low) / 2;
        if (feed->items[middle].batch < batch)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < feed->count && feed->items[low].batch == batch; low++) {
        if (feed->items[low].edge == edge) {
            parts = feed->items[low].parts;
            came++;
        }
    }
    return parts > 0 && came == parts;
}

// Has every stage of the actor that works on a batch all that it waits for?
static bool
s_is_whole(const reading_t *reading, int64_t batch)
{
    const verl_plan_t *plan = reading->plan;
    for (int i = 0; i < plan->edges_count; i++) {
        const verl_plan_edge_t *edge = &plan->edges[i];
        const verl_plan_stage_t *reader = &plan->stages[edge->reader];
        bool ours = strcmp(plan->actors[reader->actor].name, reading->actor) == 0;
        bool local = plan->stages[edge->maker].actor == reader->actor;
        if (ours && !local && !edge->weights && verl_span_has(&reader->span, plan->steps, batch) &&
            !s_has(reading->feed, i, batch))
            return false;
    }
    return true;
}

// Keeps the first stretch of batches that are whole: behind a gap the actor would wait for ever.
static int
s_trim(reading_t *reading, verl_error_t *error)
{
    verl_spy_feed_t *feed = reading->feed;
    int64_t first = feed->first, last;
    while (first <= feed->last && !s_is_whole(reading, first))
        first++;
    if (first > feed->last)
        return verl_error_set(error,
                              "%s has no batch for %s with all that it waits for: record for longer, and all edges",
                              reading->path, reading->actor);
    for (last = first; last < feed->last && s_is_whole(reading, last + 1); last++)
        ;
    size_t kept = 0;
    for (size_t i = 0; i < feed->count; i++) {
        const verl_spy_morsel_t *item = &feed->items[i];
        bool weights = reading->plan->edges[item->edge].weights;
        if (item->batch <= last && (weights || item->batch >= first))
            feed->items[kept++] = *item;
        else
            free(item->body);
    }
    feed->count = kept;
    feed->first = first;
    feed->last = last;
    return 0;
}

// The plan that was chosen goes to the caller, the others end.
static verl_plan_t *
s_leave(reading_t *reading)
{
    verl_plan_t *chosen = NULL;
    for (int i = 0; i < reading->count; i++) {
        if (reading->worlds[i].plan == reading->plan)
            chosen = reading->worlds[i].plan;
        else
            verl_plan_destroy(&reading->worlds[i].plan);
        free(reading->worlds[i].text);
    }
    free(reading->worlds);
    free(reading->record);
    return chosen;
}

int
verl_spy_feed_read(verl_spy_feed_t *feed, const char *path, const char *actor, int64_t revision, verl_plan_t **ret_plan,
                   verl_error_t *error)
{
    reading_t reading = { .feed = feed, .path = path, .actor = actor, .wanted = revision,
                          .record = malloc(sizeof *reading.record) };
    *feed = (verl_spy_feed_t) { .first = 0, .last = -1 };
    verl_filter_init(&reading.filter);
    reading.filter.kinds = 1u << VERL_TRACE_DATA | 1u << VERL_TRACE_WEIGHTS;
    reading.filter.actors.count = 1;
    snprintf(reading.filter.actors.items[0], VERL_FILTER_BYTES, "%s", actor);
    int failed = reading.record ? 0 : verl_error_set(error, "out of memory");
    // Topologies first: that of a change stands behind its first messages.
    if (!failed)
        failed = s_read(&reading, VERL_RECORDING_TOPOLOGY, s_add_world, error) ||
                 s_read(&reading, VERL_RECORDING_FRAME, s_take_frame, error) || s_choose(&reading, error);
    if (!failed) {
        s_sort(feed);
        failed = s_trim(&reading, error);
    }
    *ret_plan = s_leave(&reading);
    return failed ? -1 : 0;
}
