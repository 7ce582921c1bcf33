// channel.h: one packet and at most one descriptor over a SOCK_SEQPACKET pair. For the files of runtime/bulk alone.
#ifndef VERL_BULK_CHANNEL_H
#define VERL_BULK_CHANNEL_H
#include <stddef.h>
#include <sys/types.h>

// Sends one packet without waiting, with descriptor `passed` unless that is -1. Returns 0, or -1 and errno; EAGAIN: the
// other side does not read.
int verl_channel_send(int fd, const void *message, size_t size, int passed);

// Receives one packet without waiting. Returns its bytes (more than `size` are reported as size + 1), 0 at the end of
// the connection, or -1 and errno. *ret_passed: the descriptor that came along, close-on-exec and the caller's, or -1.
ssize_t verl_channel_receive(int fd, void *message, size_t size, int *ret_passed);
#endif
