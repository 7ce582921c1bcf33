// names.h: where a run is spoken to: two abstract sockets, which leave no file behind, and the file that names them.
#ifndef VERL_CONTROL_NAMES_H
#define VERL_CONTROL_NAMES_H

#define VERL_CONTROL_BYTES 108
#define VERL_CONTROL_FILE  "control.json"   // in the run directory: {"run_id", "pid", "watch", "change"}

// "ipc://@verl-UID-RUN-WHICH"; run_id is at most 32 bytes, which is "watch" or "change".
void verl_control_address(char address[VERL_CONTROL_BYTES], const char *run_id, const char *which);
#endif
