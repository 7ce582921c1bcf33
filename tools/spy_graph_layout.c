// spy_graph_layout.c: see spy_graph_layout.h. Layers by longest path; rows by the mean of the neighbours', to and fro.
#include "tools/spy_graph_layout.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "tools/spy_views.h"

#define STAGES_MOST 4096
#define EDGES_MOST  65536
#define SWEEPS      8

static int
s_index(const json_t *stages, const char *name)
{
    for (size_t i = 0; i < json_array_size(stages); i++)
        if (strcmp(verl_spy_text(json_array_get(stages, i), "name"), name) == 0)
            return (int) i;
    return -1;
}

static bool
s_is_weights(const json_t *plan, int edge)
{
    return verl_spy_flag(json_array_get(verl_spy_list(plan, "edges"), (size_t) edge), "weights");
}

static int
s_read(verl_graph_layout_t *self, const json_t *plan)
{
    const json_t *stages = verl_spy_list(plan, "stages"), *edges = verl_spy_list(plan, "edges");
    size_t stages_count = json_array_size(stages), edges_count = json_array_size(edges);
    if (stages_count < 1 || stages_count > STAGES_MOST || edges_count > EDGES_MOST)
        return -1;
    self->edges = calloc(edges_count + 1, sizeof *self->edges);
    self->places = calloc(stages_count, sizeof *self->places);
    if (!self->edges || !self->places)
        return -1;
    self->stages_count = self->places_count = (int) stages_count;
    for (int i = 0; i < self->stages_count; i++)
        self->places[i].stage = i;
    for (size_t i = 0; i < edges_count; i++) {
        const json_t *edge = json_array_get(edges, i);
        self->edges[i].from = s_index(stages, verl_spy_text(edge, "maker"));
        self->edges[i].to = s_index(stages, verl_spy_text(edge, "reader"));
        if (self->edges[i].from < 0 || self->edges[i].to < 0)
            return -1;
        self->edges_count++;
    }
    return 0;
}

// Longest paths. Bounded, whatever the edges say.
static void
s_layers(verl_graph_layout_t *self, const json_t *plan)
{
    bool moved = true;
    for (int turn = 0; turn < self->stages_count && moved; turn++) {
        moved = false;
        for (int i = 0; i < self->edges_count; i++) {
            verl_graph_place_t *from = &self->places[self->edges[i].from], *to = &self->places[self->edges[i].to];
            if (s_is_weights(plan, i) || to->layer > from->layer || from == to)
                continue;
            to->layer = from->layer + 1;
            moved = true;
        }
    }
    for (int i = 0; i < self->places_count; i++)
        self->layers_count =
            self->places[i].layer + 1 > self->layers_count ? self->places[i].layer + 1 : self->layers_count;
}

// The places that edges over several layers pass.
static int
s_passes(verl_graph_layout_t *self, const json_t *plan)
{
    for (int i = 0; i < self->edges_count; i++) {
        verl_graph_edge_t *edge = &self->edges[i];
        int first = self->places[edge->from].layer + 1, end = self->places[edge->to].layer;
        if (s_is_weights(plan, i) || end <= first)
            continue;
        edge->passes = calloc((size_t) (end - first), sizeof *edge->passes);
        verl_graph_place_t *places =
            realloc(self->places, (size_t) (self->places_count + end - first) * sizeof *places);
        if (places)
            self->places = places;
        if (!places || !edge->passes)
            return -1;
        for (int layer = first; layer < end; layer++) {
            places[self->places_count] = (verl_graph_place_t) { .layer = layer, .stage = -1 };
            edge->passes[edge->count++] = self->places_count++;
        }
    }
    return 0;
}

// --- rows ---------------------------------------------------------------------------------------------------------

static int
s_compare(const void *a, const void *b)
{
    const verl_graph_place_t *x = *(verl_graph_place_t *const *) a, *y = *(verl_graph_place_t *const *) b;
    if (x->weight < y->weight || x->weight > y->weight)
        return x->weight < y->weight ? -1 : 1;
    return x->row - y->row;
}

// One layer, by the weights of its places.
static void
s_order(verl_graph_layout_t *self, int layer, verl_graph_place_t **work)
{
    int count = 0;
    for (int i = 0; i < self->places_count; i++)
        if (self->places[i].layer == layer)
            work[count++] = &self->places[i];
    qsort(work, (size_t) count, sizeof *work, s_compare);
    for (int i = 0; i < count; i++)
        work[i]->row = i;
    self->rows[layer] = count;
    self->rows_most = count > self->rows_most ? count : self->rows_most;
}

// The place at step `at` of an edge's way: its maker, what it passes, its reader.
static int
s_way(const verl_graph_edge_t *edge, int at)
{
    return at == 0 ? edge->from : at > edge->count ? edge->to : edge->passes[at - 1];
}

// Places of a layer get the mean row of what they hang together with in the layer before (or after) it.
static void
s_weigh(verl_graph_layout_t *self, const json_t *plan, int layer, bool after, int *counts)
{
    memset(counts, 0, (size_t) self->places_count * sizeof *counts);
    for (int i = 0; i < self->places_count; i++)
        if (self->places[i].layer == layer)
            self->places[i].weight = 0;
    for (int i = 0; i < self->edges_count; i++) {
        const verl_graph_edge_t *edge = &self->edges[i];
        for (int at = 0; at <= edge->count && !s_is_weights(plan, i); at++) {
            int left = s_way(edge, at), right = s_way(edge, at + 1), mine = after ? left : right;
            if (self->places[mine].layer != layer)
                continue;
            self->places[mine].weight += self->places[after ? right : left].row;
            counts[mine]++;
        }
    }
    for (int i = 0; i < self->places_count; i++)
        if (self->places[i].layer == layer)
            self->places[i].weight = counts[i] ? self->places[i].weight / counts[i] : self->places[i].row;
}

static int
s_rows(verl_graph_layout_t *self, const json_t *plan)
{
    verl_graph_place_t **work = calloc((size_t) self->places_count, sizeof *work);
    int *counts = calloc((size_t) self->places_count, sizeof *counts);
    self->rows = calloc((size_t) self->layers_count, sizeof *self->rows);
    bool failed = !work || !counts || !self->rows;
    for (int layer = 0; layer < self->layers_count && !failed; layer++)
        s_order(self, layer, work);
    for (int sweep = 0; sweep < SWEEPS && !failed; sweep++)
        for (int i = 1; i < self->layers_count; i++) {
            int layer = sweep % 2 ? self->layers_count - 1 - i : i;
            s_weigh(self, plan, layer, sweep % 2, counts);
            s_order(self, layer, work);
        }
    free(work);
    free(counts);
    return failed ? -1 : 0;
}

int
verl_graph_layout(verl_graph_layout_t *self, const json_t *plan)
{
    *self = (verl_graph_layout_t) { 0 };
    if (s_read(self, plan))
        return -1;
    s_layers(self, plan);
    return s_passes(self, plan) || s_rows(self, plan) ? -1 : 0;
}

void
verl_graph_done(verl_graph_layout_t *self)
{
    for (int i = 0; i < self->edges_count; i++)
        free(self->edges[i].passes);
    free(self->edges);
    free(self->places);
    free(self->rows);
    *self = (verl_graph_layout_t) { 0 };
}
