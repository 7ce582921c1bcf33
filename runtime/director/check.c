// check.c: see check.h. Until `over` is set all is the thread's; then the director's.
#include "runtime/director/director_impl.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DROP_MS 20                          // between looks at what a check that nobody wants still asks

struct verl_check {
    pthread_t              thread;
    atomic_int             tid;             // 0: it has not begun yet
    atomic_bool            over;
    int                    over_fd;         // an eventfd, written once
    char                  *text, *path;     // of the topology
    size_t                 size;
    char                  *fragment, *fragment_path;
    verl_plan_t           *plan;
    verl_topology_errors_t errors;
};

static void *
s_thread(void *argument)
{
    verl_check_t *self = argument;
    pthread_setname_np(pthread_self(), "verl check");
    atomic_store(&self->tid, (int) syscall(SYS_gettid));
    self->plan = verl_topology_load_change(self->text, self->size, self->path, self->fragment, strlen(self->fragment),
                                           self->fragment_path, &self->errors);
    atomic_store(&self->over, true);
    eventfd_write(self->over_fd, 1);
    return NULL;
}

static void
s_free(verl_check_t *self)
{
    if (self->over_fd >= 0)
        close(self->over_fd);
    free(self->text);
    free(self->path);
    free(self->fragment);
    free(self->fragment_path);
    free(self);
}

static int
s_copy(verl_check_t *self, const verl_plan_t *plan, const char *fragment, const char *fragment_path)
{
    self->text = verl_plan_text(plan, &self->size);
    self->path = strdup(plan->file);
    self->fragment = strdup(fragment);
    self->fragment_path = strdup(fragment_path);
    return !self->text || !self->path || !self->fragment || !self->fragment_path ? -1 : 0;
}

// Told of once: it may be over long before anybody takes it.
static int
s_begin(verl_check_t *self, int epoll_fd, verl_error_t *error)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLET };
    self->over_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->over_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, self->over_fd, &event))
        return verl_error_errno(error, "cannot make an eventfd for the check of a change");
    if (pthread_create(&self->thread, NULL, s_thread, self))
        return verl_error_set(error, "cannot start a thread for the check of a change");
    return 0;
}

verl_check_t *
verl_check_begin(const verl_plan_t *plan, const char *fragment, const char *fragment_path, int epoll_fd,
                 verl_error_t *error)
{
    verl_check_t *self = calloc(1, sizeof *self);
    if (self)
        self->over_fd = -1;
    if (!self || s_copy(self, plan, fragment, fragment_path))
        verl_error_set(error, "no memory to check the change");
    else if (s_begin(self, epoll_fd, error) == 0)
        return self;
    if (self)
        s_free(self);
    return NULL;
}

bool
verl_check_over(const verl_check_t *self)
{
    return atomic_load(&self->over);
}

verl_plan_t *
verl_check_end(verl_check_t **check_p, verl_topology_errors_t *ret_errors)
{
    verl_check_t *self = *check_p;
    *check_p = NULL;
    pthread_join(self->thread, NULL);
    verl_plan_t *plan = self->plan;
    *ret_errors = self->errors;
    s_free(self);
    return plan;
}

// What is asked is a child of the thread; one that hangs would be waited for. Where the system does not tell children,
// it is.
static void
s_end_children(const verl_check_t *self)
{
    char path[64];
    int child;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", atomic_load(&self->tid));
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%d", &child) == 1)
        kill(child, SIGKILL);
    if (file)
        fclose(file);
}

void
verl_check_drop(verl_check_t **check_p)
{
    if (!*check_p)
        return;
    struct pollfd over = { .fd = (*check_p)->over_fd, .events = POLLIN };
    while (!verl_check_over(*check_p)) {
        s_end_children(*check_p);
        poll(&over, 1, DROP_MS);
    }
    verl_topology_errors_t errors;
    verl_plan_t *plan = verl_check_end(check_p, &errors);
    verl_plan_destroy(&plan);
    verl_topology_errors_done(&errors);
}
