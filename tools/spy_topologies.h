// spy_topologies.h: the topologies of a run as a recording keeps them: an item for each revision.
//
// The one of a revision behind the first begins with a line that says so, a comment of TOML.
#ifndef VERL_SPY_TOPOLOGIES_H
#define VERL_SPY_TOPOLOGIES_H
#include "runtime/observe/recording.h"

// Adds to a recording what the directory of a run holds of revisions above *newest, as far as it can be read, and moves
// *newest. -1 with a reason where the recording could not be written.
int verl_spy_topologies_write(verl_recording_t *recording, const char *directory, int64_t *newest, verl_error_t *error);

// Which revision the text of an item is about.
int64_t verl_spy_topology_revision(const char *text);
#endif
