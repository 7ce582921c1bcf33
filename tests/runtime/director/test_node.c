// test_node.c: what cannot be started leaves nothing behind: no process, no descriptor.
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/director/node.h"

static verl_plan_actor_t s_actor = { .name = (char *) "a", .kind_name = (char *) "none", .replicas = 1 };

typedef struct place {
    char folder[64], program[128], logs[128], log[160];
} place_t;

// A run directory, and a program that stays until it is killed, whatever its arguments are.
static void
s_make(place_t *place, bool logs)
{
    *place = (place_t) { .folder = "/tmp/verl-test-XXXXXX" };
    cr_assert(mkdtemp(place->folder));
    snprintf(place->logs, sizeof place->logs, "%s/logs", place->folder);
    snprintf(place->log, sizeof place->log, "%s/a.log", place->logs);
    snprintf(place->program, sizeof place->program, "%s/program", place->folder);
    FILE *file = fopen(place->program, "we");
    cr_assert(file);
    fprintf(file, "#!/bin/sh\nexec sleep 1000\n");
    fclose(file);
    cr_assert(chmod(place->program, 0700) == 0 && (!logs || mkdir(place->logs, 0700) == 0));
}

static void
s_remove(const place_t *place)
{
    unlink(place->log);
    rmdir(place->logs);
    unlink(place->program);
    cr_expect_eq(rmdir(place->folder), 0);
}

static int
s_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void
s_cannot_start(const place_t *place, int epoll_fd, const char *why)
{
    verl_error_t error = { "" };
    verl_death_t death;
    verl_node_t *node = verl_node_new("0123456789abcdef", place->folder, place->program, NULL, epoll_fd, &error);
    cr_assert(node, "%s", error.text);
    int before = s_descriptors();
    cr_expect_null(verl_node_start(node, &s_actor, 0, 2, &error));
    cr_expect(strstr(error.text, why), "%s", error.text);
    cr_expect_eq(verl_node_alive(node), 0);
    cr_expect_null(verl_node_reap(node, &death));
    cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1, "a process is left");
    cr_expect_eq(errno, ECHILD);
    cr_expect_eq(s_descriptors(), before, "%d descriptors were open, and now %d", before, s_descriptors());
    verl_node_destroy(&node);
}

Test(node, an_actor_that_cannot_be_watched_does_not_run)
{
    place_t place;
    s_make(&place, true);
    s_cannot_start(&place, -1, "cannot watch actor a");
    s_remove(&place);
}

Test(node, an_actor_without_a_place_for_its_log_does_not_begin)
{
    place_t place;
    s_make(&place, false);
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s_cannot_start(&place, epoll_fd, "cannot write");
    close(epoll_fd);
    s_remove(&place);
}
