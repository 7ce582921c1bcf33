// spy_report_model.h: how fast a run would be: its plan with the measured time of each stage, played through.
//
// The rules are those of the actors: a stage takes its batches in order when data, weights and a permit are there; the
// stages of one place share its worker, which takes the oldest ready batch; replicas take batches in turn. Left out:
// room, parts, jitter and the time of messages. A model is a plain value but for its lists; copies are cheap.
#ifndef VERL_SPY_REPORT_MODEL_H
#define VERL_SPY_REPORT_MODEL_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define VERL_MODEL_STAGES 256
#define VERL_MODEL_EDGES  2048

typedef struct verl_model_stage {
    const char *name;                       // of the profile that the model was made of
    double      seconds;                    // of a batch: busy and moving bytes
    int         actor;                      // index: stages of equal index share a worker a replica
    int         replicas;
    int64_t     period, begin;              // the batches that it works on
    bool        source, writes;             // writes: replaces the weights of its actor
    int         writer;                     // the stage whose weights it works with in place; -1: none
    int         first_in;                   // of the edges that it reads; -1: none
} verl_model_stage_t;

typedef struct verl_model_edge {
    int     maker, reader;
    bool    weights, empty, gone;           // empty: brings neither columns nor rows; gone: as if it were not there
    int64_t staleness;
    int     next_in;                        // of the same reader; -1: none
} verl_model_edge_t;

typedef struct verl_model {
    int                stages_count, edges_count, actors_count;
    verl_model_stage_t stages[VERL_MODEL_STAGES];
    verl_model_edge_t  edges[VERL_MODEL_EDGES];
    int64_t            max_in_flight;
} verl_model_t;

// From a profile, which must outlive the model. -1: it is not one, or too big.
int verl_model_make(verl_model_t *model, const json_t *profile);

// Batches a second in the long run; 0: it would stand still, or there is no memory.
double verl_model_rate(const verl_model_t *model);

// One more edge, while there is room.
void verl_model_add_edge(verl_model_t *model, verl_model_edge_t edge);
int verl_model_stage(const verl_model_t *model, const char *name);          // -1: none
#endif
