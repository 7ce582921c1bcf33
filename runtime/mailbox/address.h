// address.h: where the parties of a run are reached: abstract sockets, which leave no file behind.
#ifndef VERL_ADDRESS_H
#define VERL_ADDRESS_H
#include <stdint.h>

#define VERL_ADDRESS_BYTES 108
#define VERL_DIRECTOR      1u               // the director's incarnation; actors are numbered from 2

// "ipc://@verl-UID-RUN-INCARNATION"; run_id is at most 32 bytes.
void verl_address(char address[VERL_ADDRESS_BYTES], const char *run_id, uint64_t incarnation);
#endif
