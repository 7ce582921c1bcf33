// node_start.c: an incarnation begins: as a process in a session of its own, with its log, as a thread, or as a program
// of somebody else's. See node_impl.h.
#include "runtime/director/node_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NODE_FD 3                           // in the actor's process

extern char **environ;

int
verl_member_log(const verl_node_t *self, const verl_instance_t *instance, char *path, size_t size)
{
    if (instance->replicas > 1)
        snprintf(path, size, "%s/logs/%s.%lld.log", self->run_directory, instance->name,
                 (long long) instance->replica);
    else
        snprintf(path, size, "%s/logs/%s.log", self->run_directory, instance->name);
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

// The environment of an actor: of a program that is not ours too, which has no arguments of ours.
enum { ENVIRONMENT = 7 };

typedef struct environment {
    char   texts[ENVIRONMENT][4200];
    char **all;
} environment_t;

static int
s_describe(const verl_node_t *self, const verl_instance_t *instance, environment_t *environment)
{
    size_t count = 0, size = sizeof environment->texts[0];
    char(*texts)[4200] = environment->texts;
    snprintf(texts[0], size, "VERL_ACTOR=%s", instance->name);
    snprintf(texts[1], size, "VERL_INCARNATION=%llu", (unsigned long long) instance->incarnation);
    snprintf(texts[2], size, "VERL_REPLICA=%lld", (long long) instance->replica);
    snprintf(texts[3], size, "VERL_RUN_ID=%s", self->run_id);
    snprintf(texts[4], size, "VERL_PARENT=%d", getpid());
    snprintf(texts[5], size, "VERL_RUN_DIR=%s", self->run_directory);
    snprintf(texts[6], size, "VERL_REPLICAS=%lld", (long long) instance->replicas);
    while (environ[count])
        count++;
    environment->all = calloc(count + ENVIRONMENT + 1, sizeof *environment->all);
    if (!environment->all)
        return -1;
    for (int i = 0; i < ENVIRONMENT; i++)
        environment->all[i] = texts[i];
    size_t kept = ENVIRONMENT;
    for (size_t i = 0; i < count; i++) {
        bool ours = false;
        for (int j = 0; j < ENVIRONMENT; j++)
            ours |= strncmp(environ[i], texts[j], strcspn(texts[j], "=") + 1) == 0;
        if (!ours)
            environment->all[kept++] = environ[i];
    }
    return 0;
}

static int
s_spawn_words(member_t *member, const char *program, char **words, char **environment, int log, int node_fd)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, log, 1);
    posix_spawn_file_actions_adddup2(&actions, log, 2);
    posix_spawn_file_actions_adddup2(&actions, node_fd, NODE_FD);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    int failed = posix_spawnp(&member->instance.pid, program, &actions, &attributes, words, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return failed;
}

static int
s_spawn(verl_node_t *self, member_t *member, int log, int node_fd)
{
    char label[300], replica[24], replicas[24], parent[24];
    const verl_instance_t *instance = &member->instance;
    environment_t environment;
    snprintf(label, sizeof label, "%s#%llu", instance->name, (unsigned long long) instance->incarnation);
    snprintf(replica, sizeof replica, "%lld", (long long) instance->replica);
    snprintf(replicas, sizeof replicas, "%lld", (long long) instance->replicas);
    snprintf(parent, sizeof parent, "%d", getpid());
    char *arguments[] = { (char *) "verl-actor", label, (char *) "--replica", replica, (char *) "--replicas", replicas,
                          (char *) "--run-id", (char *) self->run_id, (char *) "--run-dir",
                          (char *) self->run_directory, (char *) "--parent", parent, NULL };
    if (s_describe(self, instance, &environment)) {
        errno = ENOMEM;
        return -1;
    }
    if (member->words_count)
        member->words[2] = label;
    int failed = member->words_count
                     ? s_spawn_words(member, self->actor_program, member->words, environment.all, log, node_fd)
                     : s_spawn_words(member, self->actor_program, arguments, environ, log, node_fd);
    if (member->words_count)
        member->words[2] = NULL;
    free(environment.all);
    errno = failed;
    return failed ? -1 : 0;
}

int
verl_member_process(verl_node_t *self, member_t *member, int node_fd, verl_error_t *error)
{
    char path[4096];
    int log = verl_member_log(self, &member->instance, path, sizeof path);
    if (log < 0)
        return verl_error_errno(error, "cannot write %s", path);
    int failed = s_spawn(self, member, log, node_fd)
                     ? verl_error_errno(error, "cannot start %s", self->actor_program) : 0;
    close(log);
    if (failed)
        return -1;
    member->pidfd = (int) syscall(SYS_pidfd_open, member->instance.pid, 0);
    struct epoll_event event = { .events = EPOLLIN };
    member->instance.alive = member->pidfd >= 0 &&
                             epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, member->pidfd, &event) == 0;
    if (member->instance.alive)
        return 0;
    verl_error_errno(error, "cannot watch actor %s", member->instance.name);
    kill(member->instance.pid, SIGKILL);    // whose end nobody would see
    waitpid(member->instance.pid, NULL, 0);
    return -1;
}

static void *
s_thread(void *argument)
{
    member_t *member = argument;
    char name[16];
    snprintf(name, sizeof name, "%.15s", member->host.actor);
    pthread_setname_np(pthread_self(), name);
    verl_host_run(&member->host, &member->error);
    atomic_store(&member->thread_ended, true);
    return NULL;
}

int
verl_member_thread(verl_node_t *self, member_t *member, int node_fd, verl_error_t *error)
{
    member->host = (verl_host_config_t) { .actor = member->instance.name,
                                          .replica = member->instance.replica,
                                          .replicas = member->instance.replicas,
                                          .incarnation = member->instance.incarnation, .run_id = self->run_id,
                                          .run_directory = self->run_directory, .node_fd = node_fd,
                                          .zmq = self->zmq };
    member->instance.thread = true;
    if (pthread_create(&member->thread, NULL, s_thread, member))
        return verl_error_set(error, "cannot start a thread for actor %s", member->host.actor);
    member->instance.alive = true;
    return 0;
}

// The command of an actor that is a program of its own: verl-actor --guard LABEL WORD …, which ends its children too.
int
verl_member_words(member_t *member, const verl_plan_actor_t *actor, verl_error_t *error)
{
    const verl_value_t *command = NULL;
    for (int i = 0; actor->kind && actor->kind->external && i < actor->options.count; i++)
        if (strcmp(actor->options.keys[i], "command") == 0)
            command = &actor->options.items[i];
    if (!command)
        return 0;
    if (!(member->words = calloc((size_t) command->count + 4, sizeof *member->words)))
        return verl_error_set(error, "out of memory");
    member->words_count = command->count + 3;
    member->words[0] = strdup("verl-actor");
    member->words[1] = strdup("--guard");   // and the label, when it is started
    bool whole = member->words[0] && member->words[1];
    for (int i = 0; i < command->count && whole; i++)
        whole = (member->words[3 + i] = strdup(command->items[i].string)) != NULL;
    if (!whole)
        return verl_error_set(error, "out of memory");
    return command->count ? 0 : verl_error_set(error, "the command of actor %s is empty", actor->name);
}
