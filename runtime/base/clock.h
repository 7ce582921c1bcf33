// clock.h: the one clock by which everything here is timed (CLOCK_MONOTONIC: the same for all processes of a host).
#ifndef VERL_CLOCK_H
#define VERL_CLOCK_H
#include <stdint.h>
#include <time.h>

#define VERL_MS 1000000LL                   // nanoseconds
#define VERL_S  1000000000LL

static inline int64_t
verl_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t) time.tv_sec * VERL_S + time.tv_nsec;
}
#endif
