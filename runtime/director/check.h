// check.h: a change is checked like a whole topology, which may take seconds (a program is asked what it needs and
// gives): by a thread of its own, so that the run goes on meanwhile. The director's thread uses this.
#ifndef VERL_CHECK_H
#define VERL_CHECK_H
#include <stdbool.h>
#include "runtime/base/error.h"
#include "runtime/topology/topology.h"

typedef struct verl_check verl_check_t;

// Begins: the topology of `plan`, with the fragment merged into it; fragment_path is what mistakes call it. All of them
// are copied. epoll_fd tells once when it is over. NULL with the reason.
verl_check_t *verl_check_begin(const verl_plan_t *plan, const char *fragment, const char *fragment_path, int epoll_fd,
                               verl_error_t *error);
bool          verl_check_over(const verl_check_t *check);
// Ends it: waits until it is over. The plan, the caller's; NULL with every mistake.
verl_plan_t  *verl_check_end(verl_check_t **check_p, verl_topology_errors_t *ret_errors);
// The same where nobody wants to know: programs that are being asked are killed, so that it does not wait for them.
// NULL: nothing.
void          verl_check_drop(verl_check_t **check_p);
#endif
