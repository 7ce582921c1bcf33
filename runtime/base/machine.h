// machine.h: what this machine has.
#ifndef VERL_BASE_MACHINE_H
#define VERL_BASE_MACHINE_H
#include <stdint.h>

// Bytes of memory that processes here may have in all: the machine's, or less where control groups of this process have
// a limit. INT64_MAX: nobody says.
int64_t verl_machine_memory(void);
// The same with what can be swapped out: nothing can ever have more.
int64_t verl_machine_memory_swap(void);

// The lowest limit of the memory's control groups below `mounts` (/sys/fs/cgroup) of a process whose groups `list`
// (/proc/self/cgroup) names, of either version. INT64_MAX: there is none.
int64_t verl_machine_group_limit(const char *list, const char *mounts);
#endif
