// address.c: see address.h.
#include "runtime/mailbox/address.h"
#include <stdio.h>
#include <unistd.h>

void
verl_address(char address[VERL_ADDRESS_BYTES], const char *run_id, uint64_t incarnation)
{
    snprintf(address, VERL_ADDRESS_BYTES, "ipc://@verl-%u-%.32s-%llu", (unsigned) getuid(), run_id,
             (unsigned long long) incarnation);
}
