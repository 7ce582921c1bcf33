// spy_graph.h: the forms in which `verl-spy graph` writes a plan.
#ifndef VERL_SPY_GRAPH_H
#define VERL_SPY_GRAPH_H
#include <jansson.h>
#include "runtime/wire/buffer.h"

// plan, status: as a run answers them; status: NULL where nothing moves is to be shown. -1: no memory, or no plan.
int verl_graph_svg(verl_buffer_t *out, const json_t *plan, const json_t *status);
int verl_graph_dot(verl_buffer_t *out, const json_t *plan, const json_t *status);
int verl_graph_mermaid(verl_buffer_t *out, const json_t *plan, const json_t *status);

// Weights that stages of one actor share are no edge of a plan; this adds them to one: "weights, in place".
void verl_graph_add_in_place(json_t *plan);

// For all forms. What an edge brings: "prompt_ids, answer", "rows", "done", "weights, staleness 1"; what stands under a
// stage: "policy, 12.3 batches a second". Write at most size bytes; return text.
const char *verl_graph_brings(const json_t *edge, char *text, size_t size);
const char *verl_graph_under(const json_t *stage, const json_t *status, char *text, size_t size);
#endif
