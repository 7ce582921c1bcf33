// spy_graph_layout.h: where the stages of a plan go on paper: layers from left to right, in each from top to bottom.
//
// A stage stands right of all that feed it. An edge over several layers passes each in a place of its own, so that it
// crosses no stage. Weights edges, which may lead back, have no say.
#ifndef VERL_SPY_GRAPH_LAYOUT_H
#define VERL_SPY_GRAPH_LAYOUT_H
#include <jansson.h>

typedef struct verl_graph_edge {
    int  from, to;                          // stages
    int  count;                             // of the places that it passes on its way, from left to right
    int *passes;
} verl_graph_edge_t;

typedef struct verl_graph_place {           // of a stage, or of an edge that passes
    int    layer, row;                      // row: in the layer
    int    stage;                           // -1: an edge passes
    double weight;                          // while rows are decided
} verl_graph_place_t;

typedef struct verl_graph_layout {
    int                 stages_count, places_count, layers_count, rows_most;
    verl_graph_place_t *places;             // those of stages first, by their index
    int                 edges_count;        // by their index in the plan; weights edges pass nothing
    verl_graph_edge_t  *edges;
    int                *rows;               // of each layer
} verl_graph_layout_t;

// plan: as a run answers "plan". -1: no memory, or it is none. verl_graph_done in any case.
int  verl_graph_layout(verl_graph_layout_t *layout, const json_t *plan);
void verl_graph_done(verl_graph_layout_t *layout);
#endif
