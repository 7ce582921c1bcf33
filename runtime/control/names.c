// names.c: see names.h.
#include "runtime/control/names.h"
#include <stdio.h>
#include <unistd.h>

void
verl_control_address(char address[VERL_CONTROL_BYTES], const char *run_id, const char *which)
{
    snprintf(address, VERL_CONTROL_BYTES, "ipc://@verl-%u-%.32s-%.8s", (unsigned) getuid(), run_id, which);
}
