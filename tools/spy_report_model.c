// spy_report_model.c: see spy_report_model.h. Each turn starts what can start, then goes to the next end.
#include "tools/spy_report_model.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tools/spy_views.h"

#define BATCHES_LEAST 64                    // that are played …
#define BATCHES_MOST  1024
#define REPLICAS_MOST 4096

typedef struct worker {                     // of a replica of an actor
    int     stage;                          // -1: idle
    int64_t batch;
    double  end;
} worker_t;

typedef struct play {
    const verl_model_t *model;
    int64_t             batches;            // 0 … batches - 1 are played
    int64_t             done_all;           // batches before it are done everywhere
    double              now, quarter;       // quarter: when the first quarter was done
    bool               *done;               // [stage][batch]
    int64_t            *next;               // [stage][replica]
    worker_t           *workers;            // [actor][replica]
    int                 width;              // the most replicas
    int                *replicas;           // [actor]
} play_t;

// --- making one ---------------------------------------------------------------------------------------------------

int
verl_model_stage(const verl_model_t *model, const char *name)
{
    for (int i = 0; i < model->stages_count; i++)
        if (strcmp(model->stages[i].name, name) == 0)
            return i;
    return -1;
}

static int
s_make_stage(verl_model_t *model, const json_t *profile, const json_t *stage)
{
    const json_t *actors = verl_spy_list(profile, "actors"), *seconds = json_object_get(stage, "seconds");
    double batches = verl_spy_number(stage, "batches"), replicas = 1;
    int actor = -1;
    for (size_t i = 0; i < json_array_size(actors); i++)
        if (strcmp(verl_spy_text(json_array_get(actors, i), "name"), verl_spy_text(stage, "actor")) == 0) {
            actor = (int) i;
            replicas = verl_spy_number(json_array_get(actors, i), "replicas");
        }
    if (actor < 0 || !(replicas >= 1 && replicas <= REPLICAS_MOST) || !*verl_spy_text(stage, "name"))
        return -1;
    double busy = verl_spy_number(seconds, "busy") + verl_spy_number(seconds, "moving");
    double period = verl_spy_number(stage, "period"), begin = verl_spy_number(stage, "begin");
    model->stages[model->stages_count++] = (verl_model_stage_t) {
        .name = verl_spy_text(stage, "name"), .seconds = batches > 0 && busy > 0 ? busy / batches : 0, .actor = actor,
        .replicas = (int) replicas, .period = period >= 1 && period < 1e15 ? (int64_t) period : 1,
        .begin = begin >= 0 && begin < 1e15 ? (int64_t) begin : 0, .source = verl_spy_flag(stage, "source"),
        .writes = verl_spy_flag(stage, "writes_weights"), .writer = -1, .first_in = -1 };
    return 0;
}

void
verl_model_add_edge(verl_model_t *model, verl_model_edge_t edge)
{
    if (model->edges_count == VERL_MODEL_EDGES)
        return;
    edge.next_in = model->stages[edge.reader].first_in;
    model->stages[edge.reader].first_in = model->edges_count;
    model->edges[model->edges_count++] = edge;
}

static int
s_make_edge(verl_model_t *model, const json_t *edge)
{
    int maker = verl_model_stage(model, verl_spy_text(edge, "maker"));
    int reader = verl_model_stage(model, verl_spy_text(edge, "reader"));
    double staleness = verl_spy_number(edge, "staleness");
    bool weights = verl_spy_flag(edge, "weights");
    if (maker < 0 || reader < 0 || !(staleness >= 0 && staleness < 1e9))
        return -1;
    bool empty = !weights && !verl_spy_flag(edge, "map") && json_array_size(verl_spy_list(edge, "columns")) == 0;
    verl_model_add_edge(model, (verl_model_edge_t) { .maker = maker, .reader = reader, .weights = weights,
                                                     .staleness = (int64_t) staleness, .empty = empty });
    return 0;
}

int
verl_model_make(verl_model_t *model, const json_t *profile)
{
    const json_t *stages = verl_spy_list(profile, "stages"), *edges = verl_spy_list(profile, "edges");
    double in_flight = verl_spy_number(profile, "max_in_flight");
    *model = (verl_model_t) { .max_in_flight = in_flight >= 1 && in_flight < 1e9 ? (int64_t) in_flight : 1,
                              .actors_count = (int) json_array_size(verl_spy_list(profile, "actors")) };
    if (json_array_size(stages) == 0 || json_array_size(stages) > VERL_MODEL_STAGES ||
        json_array_size(edges) > VERL_MODEL_EDGES || model->actors_count > VERL_MODEL_STAGES)
        return -1;
    for (size_t i = 0; i < json_array_size(stages); i++)
        if (s_make_stage(model, profile, json_array_get(stages, i)))
            return -1;
    for (int i = 0; i < model->stages_count; i++)
        model->stages[i].writer = verl_model_stage(model, verl_spy_text(json_array_get(stages, (size_t) i),
                                                                        "in_place_of"));
    for (size_t i = 0; i < json_array_size(edges); i++)
        if (s_make_edge(model, json_array_get(edges, i)))
            return -1;
    return 0;
}

// --- playing it ---------------------------------------------------------------------------------------------------

static bool
s_has(const verl_model_stage_t *stage, int64_t batch)
{
    return batch >= stage->begin && batch % stage->period == 0;
}

// Of a stage that does not work on the batch, too.
static bool
s_done(const play_t *play, int stage, int64_t batch)
{
    return batch < 0 || !s_has(&play->model->stages[stage], batch) || play->done[stage * play->batches + batch];
}

static int64_t
s_turn_of(const verl_model_stage_t *stage, int64_t batch)
{
    return batch / stage->period % stage->replicas;
}

// The next batch of a replica, behind `batch`.
static int64_t
s_after(const play_t *play, const verl_model_stage_t *stage, int replica, int64_t batch)
{
    do
        batch++;
    while (batch < play->batches && (!s_has(stage, batch) || s_turn_of(stage, batch) != replica));
    return batch;
}

// The last update before max(batch - staleness, 0), if the writer makes one.
static bool
s_version(const play_t *play, int writer, int64_t staleness, int64_t batch)
{
    int64_t update = batch - staleness - 1;
    while (update >= 0 && !s_has(&play->model->stages[writer], update))
        update--;
    return s_done(play, writer, update);
}

static bool
s_ready(const play_t *play, int index, int64_t batch)
{
    const verl_model_t *model = play->model;
    const verl_model_stage_t *stage = &model->stages[index];
    bool fed = false;
    for (int i = stage->first_in; i >= 0; i = model->edges[i].next_in) {
        const verl_model_edge_t *edge = &model->edges[i];
        if (edge->gone)
            continue;
        fed |= !edge->weights;
        if (edge->weights ? !s_version(play, edge->maker, edge->staleness, batch) : !s_done(play, edge->maker, batch))
            return false;
    }
    if (!fed && batch >= play->done_all + model->max_in_flight)
        return false;
    if (stage->writer >= 0 && !s_version(play, stage->writer, 0, batch))
        return false;
    for (int i = 0; i < model->stages_count && stage->writes; i++)
        if (model->stages[i].writer == index && !s_done(play, i, batch))
            return false;
    return true;
}

// The oldest ready batch of a place goes first.
static bool
s_start(play_t *play, int actor, int replica)
{
    const verl_model_t *model = play->model;
    worker_t *worker = &play->workers[actor * play->width + replica];
    int64_t oldest = play->batches;
    int best = -1;
    for (int i = 0; i < model->stages_count && worker->stage < 0; i++) {
        if (model->stages[i].actor != actor || replica >= model->stages[i].replicas)
            continue;
        int64_t batch = play->next[i * play->width + replica];
        if (batch < oldest && s_ready(play, i, batch)) {
            oldest = batch;
            best = i;
        }
    }
    if (best < 0)
        return false;
    *worker = (worker_t) { .stage = best, .batch = oldest, .end = play->now + model->stages[best].seconds };
    return true;
}

static void
s_end(play_t *play, int actor, int replica)
{
    worker_t *worker = &play->workers[actor * play->width + replica];
    int stage = worker->stage;
    play->done[stage * play->batches + worker->batch] = true;
    play->next[stage * play->width + replica] = s_after(play, &play->model->stages[stage], replica, worker->batch);
    worker->stage = -1;
}

static void
s_count(play_t *play)
{
    for (; play->done_all < play->batches; play->done_all++) {
        for (int i = 0; i < play->model->stages_count; i++)
            if (!s_done(play, i, play->done_all))
                return;
        if (play->done_all + 1 == play->batches / 4)
            play->quarter = play->now;
    }
}

// One moment: what can start starts, and the clock goes to the next end. False: nothing runs any more.
static bool
s_moment(play_t *play)
{
    double end = INFINITY;
    for (int i = 0; i < play->model->actors_count; i++)
        for (int j = 0; j < play->replicas[i]; j++) {
            const worker_t *worker = &play->workers[i * play->width + j];
            s_start(play, i, j);
            if (worker->stage >= 0 && worker->end < end)
                end = worker->end;
        }
    if (!isfinite(end))
        return false;
    play->now = end;
    for (int i = 0; i < play->model->actors_count; i++)
        for (int j = 0; j < play->replicas[i]; j++)
            if (play->workers[i * play->width + j].stage >= 0 && play->workers[i * play->width + j].end <= end)
                s_end(play, i, j);
    s_count(play);
    return true;
}

static double
s_play(play_t *play)
{
    for (int i = 0; i < play->model->actors_count * play->width; i++)
        play->workers[i].stage = -1;
    for (int i = 0; i < play->model->stages_count; i++)
        for (int j = 0; j < play->width; j++)
            play->next[i * play->width + j] = s_after(play, &play->model->stages[i], j, -1);
    while (play->done_all < play->batches)
        if (!s_moment(play))
            return 0;
    double seconds = play->now - play->quarter;
    return seconds > 0 ? (double) (play->batches - play->batches / 4) / seconds : INFINITY;
}

double
verl_model_rate(const verl_model_t *model)
{
    play_t play = { .model = model, .width = 1 };
    play.replicas = calloc((size_t) model->actors_count + 1, sizeof *play.replicas);
    for (int i = 0; play.replicas && i < model->stages_count; i++) {
        int replicas = model->stages[i].replicas, *most = &play.replicas[model->stages[i].actor];
        play.width = replicas > play.width ? replicas : play.width;
        *most = replicas > *most ? replicas : *most;
    }
    int64_t wanted = 4 * (play.width > model->max_in_flight ? play.width : model->max_in_flight);
    play.batches = wanted < BATCHES_LEAST ? BATCHES_LEAST : wanted > BATCHES_MOST ? BATCHES_MOST : wanted;
    play.done = calloc((size_t) model->stages_count * (size_t) play.batches, sizeof *play.done);
    play.next = calloc((size_t) model->stages_count * (size_t) play.width, sizeof *play.next);
    play.workers = calloc((size_t) model->actors_count * (size_t) play.width + 1, sizeof *play.workers);
    double rate = play.done && play.next && play.workers && play.replicas ? s_play(&play) : 0;
    free(play.replicas);
    free(play.done);
    free(play.next);
    free(play.workers);
    return rate;
}
