// describe.h: what the command line says about topologies and kinds: --plan, --kinds, --help KIND.
//
// Functions write text for people and return 0, or -1 where the stream has an error. None changes anything.
#ifndef VERL_TOPOLOGY_DESCRIBE_H
#define VERL_TOPOLOGY_DESCRIBE_H
#include <stdio.h>
#include "runtime/topology/plan.h"

// --plan: the stages in order with their actors, devices, batches and rows; each edge with its columns, route and
// estimated bytes; who waits for whose weights; and what is worth a warning.
int verl_describe_plan(const verl_plan_t *plan, FILE *out);

// --kinds: the kinds that are registered, one a line.
int verl_describe_kinds(FILE *out);

// --help KIND: its options, columns and defaults. KIND may also be "run", "actor" or "stage", for the keys that each of
// these has. -1 with a reason that proposes the nearest name where there is no such kind.
int verl_describe_help(const char *kind, FILE *out, verl_error_t *error);

// The bytes that an edge moves for one batch, as far as options tell: rows from an option `rows` of the source and
// `samples` of stages that make rows; VERL_DESCRIBE_POSITIONS positions where a row is ragged. -1: the rows are not
// known.
int64_t verl_describe_bytes(const verl_plan_t *plan, int edge);
// "inline", "arena": how such an edge's columns travel on one host.
const char *verl_describe_route(const verl_plan_t *plan, int edge);

// Bytes of one row of "f32[n]", "i32[n,*]", "u8[n,8]", "text", where a ragged one has so many positions.
double verl_describe_row_bytes(const char *type, double positions);

#define VERL_DESCRIBE_POSITIONS 128
#endif
