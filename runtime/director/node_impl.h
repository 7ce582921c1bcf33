// node_impl.h: what the files of the node share. Not for others; one thread, as node.h says.
#ifndef VERL_NODE_IMPL_H
#define VERL_NODE_IMPL_H
#include <pthread.h>
#include <stdatomic.h>
#include "runtime/actor/host.h"
#include "runtime/bulk/server.h"
#include "runtime/director/node.h"

typedef struct member {                     // an instance, and what nobody else needs to know of it
    struct member     *next;
    verl_instance_t    instance;
    int                pidfd;
    pthread_t          thread;
    atomic_bool        thread_ended;
    verl_host_config_t host;
    verl_error_t       error;               // of a thread that could not begin
    int                words_count;         // of an external actor's command
    char             **words;
} member_t;

struct verl_node {
    const char         *run_id, *run_directory, *actor_program;
    void               *zmq;
    int                 epoll_fd;
    verl_bulk_server_t *bulk;
    member_t           *members;
};

// node_start.c: -1 with the reason: nothing runs. node_fd, the actor's connection to shared memory, is copied by a
// process and taken by a thread that runs.
int verl_member_words(member_t *member, const verl_plan_actor_t *actor, verl_error_t *error);      // of its command
int verl_member_process(verl_node_t *node, member_t *member, int node_fd, verl_error_t *error);
int verl_member_thread(verl_node_t *node, member_t *member, int node_fd, verl_error_t *error);
// Opens the log of an instance, to write at its end. -1: errno says why.
int verl_member_log(const verl_node_t *node, const verl_instance_t *instance, char *path, size_t size);
#endif
