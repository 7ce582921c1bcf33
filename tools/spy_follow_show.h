// spy_follow_show.h: one record as one line: aligned for people, or an object of JSON.
//
// JSON: t (ns since 1970), kind, from, to ("actor#incarnation", "actor.replica#incarnation"), stage, reader, edge, seq,
// revision, batch, part, parts, bytes (of the body and of what it names in shared memory), each null where there is
// none; and by kind: columns (name → dtype, shape, route, bytes, elements, min, max, mean, nan, with --values head), rows and
// skipped of data and weights; words of orders, reports and pongs; received, limit and done of a status; begin and end
// (ns since 1970) of a handler's run.
#ifndef VERL_SPY_FOLLOW_SHOW_H
#define VERL_SPY_FOLLOW_SHOW_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "runtime/observe/trace.h"

typedef struct verl_spy_view {
    FILE   *out;
    bool    json;
    bool    values;                         // heads of columns too
    int64_t begin;                          // from which seconds are counted; 0: the first record sets it
    int64_t offset;                         // from CLOCK_MONOTONIC to ns since 1970
    int     who, way;                       // widths so far
} verl_spy_view_t;

// Writes the line. -1 where it could not be written.
int verl_spy_show(verl_spy_view_t *view, const verl_trace_record_t *record);

json_t *verl_spy_show_json(const verl_trace_record_t *record, int64_t offset, bool values);
#endif
