// devices.h: what a topology may say about devices, and what of it this machine has.
#ifndef VERL_TOPOLOGY_DEVICES_H
#define VERL_TOPOLOGY_DEVICES_H
#include <stdbool.h>
#include <stddef.h>
#include "runtime/base/error.h"

// CUDA devices of this machine; 0 without a driver. Asked once, at the first call, which may take the driver's time.
int verl_device_count(void);
// Cores of this machine.
int verl_core_count(void);

// "cpu", "cpu:0-3", "cuda", "cuda:0,2-3", "0,2-3" (of CUDA), "auto" -> "cpu", "cpu:0-3", "cuda:0,2-3" as this machine
// has them, in the order given. Returns 0, or -1 with what is wrong: malformed, twice the same, or not there.
int verl_devices_resolve(const char *text, char *ret, size_t size, verl_error_t *error);
// Does a text begin like devices (rather than like the name of a role)?
bool verl_devices_looks_like(const char *text);
#endif
