// host.h: runs one actor: its mailbox on the calling thread, its handlers on a worker thread of its own.
#ifndef VERL_HOST_H
#define VERL_HOST_H
#include <stdint.h>
#include "runtime/base/error.h"

// What a host says that it does beside running a stage (in the place of the stage's index).
enum { VERL_TASK_NONE = -1, VERL_TASK_PREPARE = -2, VERL_TASK_SAVE = -3 };

typedef struct verl_host_config {
    const char *actor;                      // its name in the topology
    int64_t     replica, replicas;          // which one of how many: 1, or 0, of one
    uint64_t    incarnation;
    const char *run_id;                     // of the run's addresses
    const char *run_directory;
    int         node_fd;                    // the socket by which it gets shared memory; taken over
    void       *zmq;                        // a libzmq context of this process, borrowed
} verl_host_config_t;

// Runs the actor until the director stops it. Returns 0, or -1 with the reason where it could not even begin; what
// fails later is reported to the director. Blocks.
int verl_host_run(const verl_host_config_t *config, verl_error_t *error);
#endif
