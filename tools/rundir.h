// rundir.h: the directory of a run: made with mode 0700, locked while the run lives, holding the topology as resolved.
#ifndef VERL_RUNDIR_H
#define VERL_RUNDIR_H
#include <stdbool.h>
#include <sys/types.h>
#include "runtime/base/error.h"

typedef struct verl_rundir {
    char path[4000];                        // absolute
    int  lock_fd;
    bool made;                              // by us: removed again if the run never begins
    dev_t device;                           // which folder it is, whatever is called so later
    ino_t inode;
} verl_rundir_t;

// Makes it (NULL: runs/<name>-<time> in the current directory). One that holds a run already is refused; one that is
// empty, and this user's, becomes the run's own, with its mode. 0 or -1.
int  verl_rundir_open(verl_rundir_t *rundir, const char *path, const char *run_name, verl_error_t *error);
// One of a run that ended, or was ended, to go on in it. Refused while the run lives. 0 or -1.
int  verl_rundir_reopen(verl_rundir_t *rundir, const char *path, verl_error_t *error);
// Fails where the directory was removed, or another one put in its place, since it was opened. 0 or -1.
int  verl_rundir_check(const verl_rundir_t *rundir, verl_error_t *error);
void verl_rundir_close(verl_rundir_t *rundir);
#endif
