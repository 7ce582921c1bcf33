// limits.c: see limits.h.
#include "tools/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define SPARE       16                      // descriptors that a socket and the threads behind it take at most
#define STACK_BYTES (1 << 20)
#define STACK_LEAST (256 << 10)                // measured: 64 KiB end in the middle of reading a topology
#define FILES       32 // measured: 18 of the program itself, and shared memory in use
#define FILES_ACTOR 6  // and 5 for each actor

// A program that goes on would die without a word.
static void
s_refuse_stacks(rlim_t most)
{
    fprintf(stderr, "%s: this shell allows stacks of %llu KiB: a higher `ulimit -Hs`, of %d or more, would be right\n",
            program_invocation_short_name, (unsigned long long) most >> 10, STACK_LEAST >> 10);
    _exit(1);
}

// glibc read the limit for the stacks of threads before main began.
static void
s_widen_stacks(void)
{
    struct rlimit stack;
    pthread_attr_t attributes;
    size_t size;
    if (getrlimit(RLIMIT_STACK, &stack) || stack.rlim_cur >= STACK_BYTES)
        return;
    if (stack.rlim_max < STACK_LEAST)
        s_refuse_stacks(stack.rlim_max);
    stack.rlim_cur = stack.rlim_max < STACK_BYTES ? stack.rlim_max : STACK_BYTES;
    setrlimit(RLIMIT_STACK, &stack);
    if (pthread_getattr_default_np(&attributes))
        return;
    if (pthread_attr_getstacksize(&attributes, &size) == 0 && size < STACK_BYTES &&
        pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0)
        pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
}

// No file of ours gets the number of a stream that is closed, and what is printed there. What is printed is lost still:
// such a stream cannot be written to.
static void
s_fill_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd)
            _exit(1);                       // without /dev/null nothing of a program works
}

void
verl_limits_widen(void)
{
    struct rlimit files;
    s_fill_streams();
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    s_widen_stacks();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

int
verl_limits_check(int64_t actors, verl_error_t *error)
{
    struct rlimit files;
    rlim_t needed = (rlim_t) (FILES + FILES_ACTOR * actors);
    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= needed)
        return 0;
    return verl_error_set(error,
                          "%lld actors and their replicas need %llu open files, and this shell allows %llu: a "
                          "higher `ulimit -Hn`, or fewer replicas, would be right",
                          (long long) actors, (unsigned long long) needed, (unsigned long long) files.rlim_cur);
}

int
verl_limits_spare(verl_error_t *error)
{
    int spare[SPARE], count = 0;
    while (count < SPARE && (spare[count] = eventfd(0, EFD_CLOEXEC)) >= 0)
        count++;
    int failed = count < SPARE ? verl_error_errno(error, "cannot open what a conversation with a run needs") : 0;
    while (count > 0)
        close(spare[--count]);
    return failed;
}
