// found.h: which run lives, where it is, and how it is spoken to, as its directory says.
#ifndef VERL_CONTROL_FOUND_H
#define VERL_CONTROL_FOUND_H
#include <stdint.h>
#include <sys/types.h>
#include "runtime/base/error.h"
#include "runtime/control/names.h"

typedef struct verl_found {
    char    directory[4096];                // of the run
    pid_t   pid;                            // of verl-run
    int     pid_fd;                         // readable when that process is gone; closed by verl_found_done
    int64_t since;                          // when the run could first be spoken to, ns of the system's clock
    char    watch[VERL_CONTROL_BYTES], change[VERL_CONTROL_BYTES];
} verl_found_t;

// The run in `directory`. NULL: $VERL_RUN_DIR; where that is not set, the newest run of this user that lives, of those
// in runs/ here and those whose verl-run this user can see. Waits up to 2 s for a named one that is just starting.
// Returns 0, or -1 with what is there instead.
int  verl_found_open(verl_found_t *found, const char *directory, verl_error_t *error);
void verl_found_done(verl_found_t *found);
// A run that goes back to its last checkpoint has other sockets from then on. 1: it has, and `found` says them; 0: they
// are the same; -1: there are none at this moment.
int  verl_found_again(verl_found_t *found);
#endif
