// node.c: see node.h.
#include "runtime/director/node.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/actor/host.h"
#include "runtime/bulk/server.h"

#define NODE_FD 3                           // in the actor's process

extern char **environ;

typedef struct member {
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

verl_node_t *
verl_node_new(const char *run_id, const char *run_directory, const char *actor_program, void *zmq, int epoll_fd,
              verl_error_t *error)
{
    verl_node_t *self = calloc(1, sizeof *self);
    if (!self) {
        verl_error_set(error, "out of memory");
        return NULL;
    }
    *self = (verl_node_t) { .run_id = run_id, .run_directory = run_directory, .actor_program = actor_program,
                            .zmq = zmq, .epoll_fd = epoll_fd };
    self->bulk = verl_bulk_server_new(0, error);
    if (!self->bulk)
        verl_node_destroy(&self);
    return self;
}

// --- starting -----------------------------------------------------------------------------------------------------

static int
s_open_log(const verl_node_t *self, const verl_instance_t *instance, char *path, size_t size)
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

static int
s_start_process(verl_node_t *self, member_t *member, int node_fd, verl_error_t *error)
{
    char path[4096];
    int log = s_open_log(self, &member->instance, path, sizeof path);
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

static int
s_start_thread(verl_node_t *self, member_t *member, int node_fd, verl_error_t *error)
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
static int
s_take_words(member_t *member, const verl_plan_actor_t *actor, verl_error_t *error)
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

verl_instance_t *
verl_node_start(verl_node_t *self, const verl_plan_actor_t *actor, int64_t replica, uint64_t incarnation,
                verl_error_t *error)
{
    member_t *member = calloc(1, sizeof *member);
    char *name = strdup(actor->name);
    if (!member || !name) {
        free(member);
        free(name);
        verl_error_set(error, "out of memory");
        return NULL;
    }
    member->instance = (verl_instance_t) { .name = name, .replica = replica, .replicas = actor->replicas,
                                           .incarnation = incarnation };
    member->pidfd = -1;
    member->next = self->members;
    self->members = member;
    int node_fd = verl_bulk_server_add(self->bulk, incarnation, error);
    int failed = node_fd < 0 || s_take_words(member, actor, error);
    bool thread = actor->place == VERL_PLACE_THREAD && !member->words_count;
    if (!failed)
        failed = thread ? s_start_thread(self, member, node_fd, error) : s_start_process(self, member, node_fd, error);
    if (node_fd >= 0 && (failed || !thread))
        close(node_fd);                     // a thread has it, and a process a copy
    if (!failed)
        return &member->instance;
    verl_node_forget(self, &member->instance);
    return NULL;
}

// --- ends ---------------------------------------------------------------------------------------------------------

// The last lines of a log, as one line.
static void
s_tail(const char *path, char *tail, size_t size)
{
    char buffer[2048];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    tail[0] = 0;
    if (fd < 0)
        return;
    off_t end = lseek(fd, 0, SEEK_END), from = end > (off_t) (size - 1) ? end - (off_t) (size - 1) : 0;
    ssize_t got = pread(fd, buffer, sizeof buffer < size - 1 ? sizeof buffer : size - 1, from);
    close(fd);
    while (got > 0 && (buffer[got - 1] == '\n' || buffer[got - 1] == ' '))
        got--;
    if (got <= 0)
        return;
    memcpy(tail, buffer, (size_t) got);
    tail[got] = 0;
    char *lines = tail;
    int count = 0;
    for (char *c = tail + got; c > tail; c--)
        if (c[-1] == '\n' && ++count == 3) {
            lines = c;
            break;
        }
    memmove(tail, lines, strlen(lines) + 1);
    for (char *c = tail; *c; c++)
        if ((unsigned char) *c < ' ')
            *c = *c == '\n' ? '|' : ' ';
}

static bool
s_reap_process(verl_node_t *self, member_t *member, verl_death_t *death)
{
    struct rusage usage;
    if (wait4(member->instance.pid, &death->status, WNOHANG, &usage) != member->instance.pid)
        return false;
    int log = s_open_log(self, &member->instance, death->log, sizeof death->log);
    if (log >= 0)
        close(log);
    if (member->words_count)
        kill(-member->instance.pid, SIGKILL);   // children that outlive it
    death->peak_kb = usage.ru_maxrss;
    s_tail(death->log, death->tail, sizeof death->tail);
    epoll_ctl(self->epoll_fd, EPOLL_CTL_DEL, member->pidfd, NULL);
    close(member->pidfd);
    member->pidfd = -1;
    return true;
}

static bool
s_reap_thread(member_t *member, verl_death_t *death)
{
    if (!atomic_load(&member->thread_ended))
        return false;
    pthread_join(member->thread, NULL);
    snprintf(death->tail, sizeof death->tail, "%.590s", member->error.text);
    return true;
}

verl_instance_t *
verl_node_reap(verl_node_t *self, verl_death_t *ret_death)
{
    for (member_t *member = self->members; member; member = member->next) {
        if (!member->instance.alive)
            continue;
        *ret_death = (verl_death_t) { 0 };
        if (!(member->instance.thread ? s_reap_thread(member, ret_death) : s_reap_process(self, member, ret_death)))
            continue;
        member->instance.alive = false;     // what it had committed stays readable: its slabs go with the run
        return &member->instance;
    }
    return NULL;
}

int
verl_node_alive(const verl_node_t *self)
{
    int count = 0;
    for (const member_t *member = self->members; member; member = member->next)
        count += member->instance.alive;
    return count;
}

void
verl_node_kill_one(verl_node_t *self, verl_instance_t *instance)
{
    (void) self;
    if (!instance->alive || instance->thread)
        return;
    kill(-instance->pid, SIGKILL);          // its session's group: a command's children too
    kill(instance->pid, SIGKILL);
}

void
verl_node_kill(verl_node_t *self)
{
    for (member_t *member = self->members; member; member = member->next)
        verl_node_kill_one(self, &member->instance);
}

static void
s_free(member_t *member)
{
    if (member->pidfd >= 0)
        close(member->pidfd);
    for (int i = 0; i < member->words_count; i++)
        free(member->words[i]);
    free(member->words);
    free(member->instance.name);
    free(member);
}

void
verl_node_forget(verl_node_t *self, verl_instance_t *instance)
{
    member_t **link = &self->members;
    while (*link && &(*link)->instance != instance)
        link = &(*link)->next;
    member_t *member = *link;
    if (!member || instance->alive)
        return;
    *link = member->next;
    verl_bulk_server_gone(self->bulk, instance->incarnation);
    s_free(member);
}

void
verl_node_destroy(verl_node_t **node_p)
{
    verl_node_t *self = *node_p;
    if (!self)
        return;
    *node_p = NULL;
    verl_node_kill(self);
    for (member_t *member = self->members, *next; member; member = next) {
        next = member->next;
        if (member->instance.alive && !member->instance.thread)
            waitpid(member->instance.pid, NULL, 0);
        // A thread that never returns from its handler is left: the process is about to end.
        if (!member->instance.alive || !member->instance.thread)
            s_free(member);
    }
    verl_bulk_server_destroy(&self->bulk);
    free(self);
}
