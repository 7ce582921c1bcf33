// channel.c: see channel.h.
#include "runtime/bulk/channel.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef union s_control {
    char           bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
} s_control_t;

int
verl_channel_send(int fd, const void *message, size_t size, int passed)
{
    s_control_t control = {0};
    struct iovec piece = {.iov_base = (void *) (size_t) message, .iov_len = size};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};
    if (passed >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof control.bytes;
        struct cmsghdr *item = CMSG_FIRSTHDR(&header);
        item->cmsg_level = SOL_SOCKET;
        item->cmsg_type = SCM_RIGHTS;
        item->cmsg_len = CMSG_LEN(sizeof passed);
        memcpy(CMSG_DATA(item), &passed, sizeof passed);
    }
    ssize_t sent;
    do
        sent = sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t) size ? 0 : -1;
}

ssize_t
verl_channel_receive(int fd, void *message, size_t size, int *ret_passed)
{
    s_control_t control = {0};
    struct iovec piece = {.iov_base = message, .iov_len = size};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    *ret_passed = -1;
    ssize_t got;
    do
        got = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -1;
    struct cmsghdr *item = CMSG_FIRSTHDR(&header);        // there is room for one; the kernel closes what does not fit
    if (item && item->cmsg_level == SOL_SOCKET && item->cmsg_type == SCM_RIGHTS &&
        item->cmsg_len == CMSG_LEN(sizeof *ret_passed))
        memcpy(ret_passed, CMSG_DATA(item), sizeof *ret_passed);
    return header.msg_flags & MSG_TRUNC ? (ssize_t) size + 1 : got;
}
