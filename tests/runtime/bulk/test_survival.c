// The node itself is killed: what the others have mapped stays, what they ask for is refused at once, nothing is left.
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "runtime/bulk/arena.h"
#include "runtime/bulk/channel.h"
#include "runtime/bulk/server.h"

#define MIB ((size_t) 1 << 20)

// A node in a process of its own, which ends with the test; its clients' ends come back over a socket.
static pid_t
s_start_node(verl_arena_t **ret, int count)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    pid_t node = fork();
    if (node == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        verl_bulk_server_t *server = verl_bulk_server_new(0, NULL);
        for (int i = 0; i < count; i++) {
            int fd = verl_bulk_server_add(server, (uint64_t) i + 1, NULL);
            if (fd < 0 || verl_channel_send(pair[1], "x", 1, fd))
                _exit(1);
            close(fd);
        }
        for (;;)
            pause();
    }
    close(pair[1]);
    for (int i = 0; i < count; i++) {
        char byte;
        int fd = -1;
        for (int k = 0; k < 5000 && verl_channel_receive(pair[0], &byte, 1, &fd) < 0; k++)
            usleep(1000);
        verl_error_t error = {0};
        ret[i] = verl_arena_new(fd, &error);
        cr_assert(ret[i], "%s", error.text);
    }
    close(pair[0]);
    return node;
}

static int
s_entries(const char *path)
{
    DIR *directory = opendir(path);
    int count = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        count += strstr(entry->d_name, "verl") != NULL;
    if (directory)
        closedir(directory);
    return count;
}

Test(survival, of_the_nodes_death)
{
    verl_arena_t *arenas[2];
    int before = s_entries("/dev/shm");
    pid_t node = s_start_node(arenas, 2);
    verl_slabs_t slabs = verl_arena_slabs(arenas[1]);
    verl_block_t block, more;
    verl_error_t error = {0};
    cr_assert_eq(verl_arena_take(arenas[0], MIB, &block, &error), 0, "%s", error.text);
    memset(block.data, 'a', MIB);
    uint64_t bytes;
    const char *view = slabs.map(slabs.context, block.slab, &bytes, &error);
    cr_assert(view, "%s", error.text);
    cr_assert_eq(s_entries("/dev/shm"), before, "slabs have no names");
    cr_assert_eq(kill(node, SIGKILL), 0);
    cr_assert_eq(waitpid(node, NULL, 0), node);
    memset(block.data, 'b', MIB);
    cr_assert(view[block.offset] == 'b' && view[block.offset + MIB - 1] == 'b');
    cr_assert_eq(verl_arena_take(arenas[0], MIB, &more, &error), 0, "what it has it can still divide");
    verl_arena_give(arenas[0], &more);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    cr_assert_eq(verl_arena_take(arenas[0], 64 * MIB, &more, &error), -1);
    cr_assert_str_eq(error.text, "the node that owns the shared memory is gone");
    error.text[0] = 0;
    cr_assert_null(slabs.map(slabs.context, 77, &bytes, &error));
    cr_assert_str_eq(error.text, "the node that owns the shared memory is gone");
    clock_gettime(CLOCK_MONOTONIC, &to);
    cr_assert(to.tv_sec - from.tv_sec < 2, "it was waited for");
    verl_arena_tend(arenas[0]);
    verl_arena_give(arenas[0], &block);
    slabs.release(slabs.context, block.slab);
    verl_arena_destroy(&arenas[0]);
    verl_arena_destroy(&arenas[1]);
    cr_assert_eq(s_entries("/dev/shm"), before);
}

Test(survival, of_a_node_that_hangs)
{
    verl_arena_t *arenas[1];
    pid_t node = s_start_node(arenas, 1);
    int status = 0;
    cr_assert_eq(kill(node, SIGSTOP), 0);
    cr_assert(waitpid(node, &status, WUNTRACED) == node && WIFSTOPPED(status)); // all its threads
    verl_block_t block;
    verl_error_t error = {0};
    cr_assert_eq(verl_arena_take(arenas[0], MIB, &block, &error), -1);
    cr_assert_str_eq(error.text, "the node that owns the shared memory did not answer within 5 s");
    error.text[0] = 0;
    cr_assert_eq(verl_arena_take(arenas[0], MIB, &block, &error), -1, "and is not asked again");
    cr_assert_eq(kill(node, SIGKILL), 0);
    waitpid(node, NULL, 0);
    verl_arena_destroy(&arenas[0]);
}
