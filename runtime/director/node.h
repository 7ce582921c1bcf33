// node.h: the part of verl-run that starts actors on this host, owns their shared memory and sees them die.
//
// One thread uses it: the one that starts actors must live as long as they, because the kernel ends an actor with the
// thread that started it.
#ifndef VERL_NODE_H
#define VERL_NODE_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "runtime/base/error.h"
#include "runtime/topology/plan.h"

typedef struct verl_node verl_node_t;

typedef struct verl_instance {              // one incarnation of one replica
    char    *name;                          // of its actor
    int64_t  replica, replicas;
    uint64_t incarnation;
    bool     thread;
    pid_t    pid;
    bool     alive;
    void    *tag;                           // the director's
} verl_instance_t;

typedef struct verl_death {
    int  status;                            // as of waitpid
    long peak_kb;                           // most memory that it had
    char tail[600];                         // the last lines that it wrote, without their end
    char log[4096];                         // the file that has them all
} verl_death_t;

// epoll_fd: descriptors of deaths are added to it.
verl_node_t *verl_node_new(const char *run_id, const char *run_directory, const char *actor_program,
                           void *zmq, int epoll_fd, verl_error_t *error);
void         verl_node_destroy(verl_node_t **node_p);   // kills what is left

// Starts one incarnation. The instance belongs to the node, until verl_node_forget. NULL with the reason: nothing is left
// of it.
verl_instance_t *verl_node_start(verl_node_t *node, const verl_plan_actor_t *actor, int64_t replica,
                                 uint64_t incarnation, verl_error_t *error);
// Looks for deaths: returns one instance that died since, with how, or NULL.
verl_instance_t *verl_node_reap(verl_node_t *node, verl_death_t *ret_death);
int              verl_node_alive(const verl_node_t *node);          // processes and threads
void             verl_node_kill(verl_node_t *node);                 // SIGKILL to every process that lives
void             verl_node_kill_one(verl_node_t *node, verl_instance_t *instance);   // and its children; not a thread
// A dead one: nobody will ask for what it had in shared memory any more. The instance is freed.
void             verl_node_forget(verl_node_t *node, verl_instance_t *instance);
#endif
