// node.c: see node.h.
#include "runtime/director/node_impl.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/base/machine.h"

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
    self->bulk = verl_bulk_server_new((uint64_t) verl_machine_memory_swap(), error);
    if (!self->bulk)
        verl_node_destroy(&self);
    return self;
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
    int failed = node_fd < 0 || verl_member_words(member, actor, error);
    bool thread = actor->place == VERL_PLACE_THREAD && !member->words_count;
    if (!failed)
        failed = thread ? verl_member_thread(self, member, node_fd, error) : verl_member_process(self, member, node_fd, error);
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
    int log = verl_member_log(self, &member->instance, death->log, sizeof death->log);
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

static bool
s_is_guarded(const verl_node_t *self, const verl_instance_t *instance)
{
    const member_t *member = self->members;
    while (member && &member->instance != instance)
        member = member->next;
    return member && member->words_count > 0;
}

// The guard of a command ends its children too, those that left its group among them; then itself.
void
verl_node_kill_one(verl_node_t *self, verl_instance_t *instance)
{
    if (!instance->alive || instance->thread)
        return;
    if (s_is_guarded(self, instance)) {
        kill(instance->pid, SIGTERM);
        kill(instance->pid, SIGCONT);       // to one that was stopped
        return;
    }
    kill(-instance->pid, SIGKILL);          // its session's group
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
