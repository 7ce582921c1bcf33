// record.h: what a run leaves in its directory: metrics.jsonl, run.log, checkpoints.
#ifndef VERL_RECORD_H
#define VERL_RECORD_H
#include <jansson.h>
#include <stdint.h>
#include "runtime/base/error.h"

typedef struct verl_record verl_record_t;

// Opens the files of a run directory that exists, and makes logs/ and checkpoints/ in it.
verl_record_t *verl_record_new(const char *directory, verl_error_t *error);
void           verl_record_destroy(verl_record_t **record_p);

// One line of metrics.jsonl; whole lines only, whatever happens. -1 with the reason (a full disk).
int  verl_record_metrics(verl_record_t *record, const json_t *line, verl_error_t *error);
// One line of run.log: {"t": seconds since the epoch, "event": event, …fields}. fields is taken, may be NULL.
void verl_record_event(verl_record_t *record, const char *event, json_t *fields);
// The same of what something follows from: the line is on disk, or it is not there at all and -1 with the reason.
// fields NULL is no memory for them.
int  verl_record_commit(verl_record_t *record, const char *event, json_t *fields, verl_error_t *error);

// A revision's topology as resolved: topology-REVISION.toml, whole and on disk, or not at all and -1 with the reason.
int  verl_record_topology(verl_record_t *record, int64_t revision, const char *text, size_t size, verl_error_t *error);
// It goes again: the revision does not come into force.
void verl_record_drop_topology(verl_record_t *record, int64_t revision);
// Takes away the lines of metrics.jsonl of step `first` and later, and half a line at its end: they are written again.
int  verl_record_cut(verl_record_t *record, int64_t first, verl_error_t *error);
// The directory handover-REVISION, by which state went from one actor to its successor, goes.
void verl_record_drop_handover(verl_record_t *record, int64_t revision);

// A checkpoint of so many batches: the directory that actors write to (made), then, when all have: synced, renamed from
// step-N.tmp to step-N with a manifest, and all but the last `keep` (0: all stay) removed. path: the final place.
// A whole checkpoint is there at every moment, also of a step that is saved again.
int  verl_record_begin_checkpoint(verl_record_t *record, int64_t step, verl_error_t *error);
int  verl_record_end_checkpoint(verl_record_t *record, int64_t step, json_t *manifest, int64_t keep, char *path,
                                size_t path_size, verl_error_t *error);
// Checkpoints and handovers that were begun and not ended go. Not while an actor lives.
void verl_record_drop_unfinished(verl_record_t *record);
#endif
