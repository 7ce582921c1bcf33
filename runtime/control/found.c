// found.c: see found.h. A run lives while its lock is held and the process that its control.json names is there. The
// lock is tried only where that process lives, so that nobody who is just beginning finds it taken by us.
#include "runtime/control/found.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "runtime/base/clock.h"

#define NAMES_MOST  4096                    // bytes of control.json
#define STARTING_NS (2 * VERL_S)

// --- one directory ------------------------------------------------------------------------------------------------

// A file of the run directory that is this user's, at most `size` - 1 bytes. -1 (errno is 0 where it is not to be
// believed): there is none.
static int
s_read(const char *directory, const char *name, char *text, size_t size, struct stat *ret_status)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    ssize_t got = -1;
    errno = 0;
    if (fstat(fd, ret_status) == 0 && S_ISREG(ret_status->st_mode) && ret_status->st_uid == getuid())
        got = read(fd, text, size - 1);
    close(fd);
    if (got < 0 || (size_t) got == size - 1)
        return -1;
    text[got] = 0;
    return 0;
}

static bool
s_address(const json_t *names, const char *key, char address[VERL_CONTROL_BYTES])
{
    char beginning[64];
    const char *text = json_string_value(json_object_get(names, key));
    snprintf(beginning, sizeof beginning, "ipc://@verl-%u-", (unsigned) getuid());
    if (!text || strlen(text) >= VERL_CONTROL_BYTES || strncmp(text, beginning, strlen(beginning)) != 0)
        return false;
    memcpy(address, text, strlen(text) + 1);
    return true;
}

static int
s_read_names(verl_found_t *found, verl_error_t *error)
{
    char text[NAMES_MOST];
    struct stat status;
    if (s_read(found->directory, VERL_CONTROL_FILE, text, sizeof text, &status)) {
        if (errno == ENOENT)
            return -1;
        if (errno)
            return verl_error_errno(error, "cannot read %s/" VERL_CONTROL_FILE, found->directory);
        return verl_error_set(error, "%s/" VERL_CONTROL_FILE " is no file that a run of this user wrote",
                              found->directory);
    }
    found->since = (int64_t) status.st_mtim.tv_sec * VERL_S + status.st_mtim.tv_nsec;
    json_t *names = json_loads(text, 0, NULL);
    json_int_t pid = json_integer_value(json_object_get(names, "pid"));
    bool right = pid > 0 && pid <= INT_MAX && s_address(names, "watch", found->watch) &&
                 s_address(names, "change", found->change);
    json_decref(names);
    found->pid = (pid_t) pid;
    return right ? 0 : verl_error_set(error, "%s/" VERL_CONTROL_FILE " is not what a run of this user writes: its "
                                      "sockets cannot be known", found->directory);
}

static bool
s_locked(const char *directory)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/lock", directory);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return locked;
}

// 0: it lives, and can be spoken to. The sentence stays empty where the directory has no control.json.
static int
s_try(verl_found_t *found, const char *directory, verl_error_t *error)
{
    *found = (verl_found_t) { .pid_fd = -1 };
    if ((size_t) snprintf(found->directory, sizeof found->directory, "%s", directory) >= sizeof found->directory)
        return verl_error_set(error, "the name of the run directory is too long");
    if (s_read_names(found, error))
        return -1;
    found->pid_fd = (int) syscall(SYS_pidfd_open, found->pid, 0);
    if (found->pid_fd >= 0 && s_locked(directory))
        return 0;
    verl_found_done(found);
    return verl_error_set(error, "the run in %s was killed: nothing of it lives any more (verl-run --resume goes on "
                          "from its last checkpoint)", directory);
}

void
verl_found_done(verl_found_t *found)
{
    if (found->pid_fd >= 0)
        close(found->pid_fd);
    found->pid_fd = -1;
}

int
verl_found_again(verl_found_t *found)
{
    verl_found_t now = { .pid_fd = -1 };
    verl_error_t ignored = { "" };
    memcpy(now.directory, found->directory, sizeof now.directory);
    if (s_read_names(&now, &ignored) || now.pid != found->pid)
        return -1;
    bool same = strcmp(now.watch, found->watch) == 0 && strcmp(now.change, found->change) == 0;
    memcpy(found->watch, now.watch, sizeof found->watch);
    memcpy(found->change, now.change, sizeof found->change);
    return !same;
}

// Has a run begun there that cannot be spoken to yet?
static bool
s_starting(const char *directory)
{
    char text[64];
    struct stat status;
    if (s_read(directory, "lock", text, sizeof text, &status))
        return false;
    long pid = strtol(text, NULL, 10);
    return pid > 0 && pid <= INT_MAX && kill((pid_t) pid, 0) == 0;
}

static int
s_named(verl_found_t *found, const char *directory, verl_error_t *error)
{
    struct stat status;
    char topology[PATH_MAX + 32];
    int64_t until = verl_now() + STARTING_NS;
    while (s_try(found, directory, error)) {
        if (error->text[0])
            return -1;
        if (!s_starting(directory) || verl_now() > until) {
            snprintf(topology, sizeof topology, "%s/topology.toml", directory);
            if (stat(directory, &status))
                return verl_error_errno(error, "there is no run in %s", directory);
            if (access(topology, F_OK) == 0)
                return verl_error_set(error, "the run in %s has ended", directory);
            return verl_error_set(error, "%s holds no run: name the directory of one that lives", directory);
        }
        usleep(10000);
    }
    return 0;
}

// --- all of them --------------------------------------------------------------------------------------------------

static void
s_newer(verl_found_t *best, const char *directory)
{
    verl_found_t found;
    verl_error_t ignored = { "" };
    if (s_try(&found, directory, &ignored))
        return;
    if (best->pid_fd >= 0 && found.since <= best->since) {
        verl_found_done(&found);
        return;
    }
    verl_found_done(best);
    *best = found;
}

static void
s_in_folder(verl_found_t *best, const char *folder)
{
    char directory[PATH_MAX];
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (entry->d_name[0] != '.' &&
            (size_t) snprintf(directory, sizeof directory, "%s/%s", folder, entry->d_name) < sizeof directory)
            s_newer(best, directory);
    if (entries)
        closedir(entries);
}

// A process that holds DIR/lock open.
static void
s_of_process(verl_found_t *best, const char *pid)
{
    char folder[300], path[600], target[PATH_MAX];
    snprintf(folder, sizeof folder, "/proc/%.20s/fd", pid);
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        snprintf(path, sizeof path, "%s/%.255s", folder, entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length < 6 || memcmp(target + length - 5, "/lock", 5) != 0)
            continue;
        target[length - 5] = 0;
        s_newer(best, target);
    }
    if (entries)
        closedir(entries);
}

static bool
s_is_verl_run(const char *pid)
{
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/%.20s/comm", pid);
    FILE *file = fopen(path, "re");
    bool is = file && fgets(name, sizeof name, file) && strcmp(name, "verl-run\n") == 0;
    if (file)
        fclose(file);
    return is;
}

static void
s_of_processes(verl_found_t *best)
{
    DIR *entries = opendir("/proc");
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (strtol(entry->d_name, NULL, 10) > 0 && s_is_verl_run(entry->d_name))
            s_of_process(best, entry->d_name);
    if (entries)
        closedir(entries);
}

int
verl_found_open(verl_found_t *found, const char *directory, verl_error_t *error)
{
    *found = (verl_found_t) { .pid_fd = -1 };
    if (!directory)
        directory = getenv("VERL_RUN_DIR");
    if (directory && *directory)
        return s_named(found, directory, error);
    s_in_folder(found, "runs");
    s_of_processes(found);
    return found->pid_fd >= 0 ? 0 : verl_error_set(error, "no run of this user lives: start one with verl-run, or name "
                                                   "its directory with --run");
}
