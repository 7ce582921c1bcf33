// rundir.c: see rundir.h.
#include "tools/rundir.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int
s_make_parents(const char *path, verl_error_t *error)
{
    char parent[4000];
    snprintf(parent, sizeof parent, "%s", path);
    for (char *slash = strchr(parent + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(parent, 0777) && errno != EEXIST)
            return verl_error_errno(error, "cannot make %s", parent);
        *slash = '/';
    }
    return 0;
}

// runs/<name>-<time>, and -2, -3 … where two runs begin in one second.
static int
s_make_named(char *path, size_t size, const char *run_name, verl_error_t *error)
{
    char stamp[32];
    time_t now = time(NULL);
    struct tm local;
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", localtime_r(&now, &local));
    if (mkdir("runs", 0777) && errno != EEXIST)
        return verl_error_errno(error, "cannot make the folder runs here");
    for (int i = 1; i < 1000; i++) {
        if (i == 1)
            snprintf(path, size, "runs/%s-%s", run_name, stamp);
        else
            snprintf(path, size, "runs/%s-%s-%d", run_name, stamp, i);
        if (mkdir(path, 0700) == 0)
            return 0;
        if (errno != EEXIST)
            break;
    }
    return verl_error_errno(error, "cannot make %s", path);
}

// What is to be done about a run that lives there: `again` where it was to be resumed.
static int
s_refuse_living(const verl_rundir_t *rundir, bool again, verl_error_t *error)
{
    char pid[32] = "";
    ssize_t got = pread(rundir->lock_fd, pid, sizeof pid - 1, 0);
    long process = got > 0 ? strtol(pid, NULL, 10) : 0;
    if (!again || process <= 0)
        return verl_error_set(error, "a run lives in %s: name another --run-dir", rundir->path);
    return verl_error_set(error, "the run in %s lives (process %ld): there is nothing to resume; `kill -INT %ld` ends it "
                          "as Ctrl-C does", rundir->path, process, process);
}

static int
s_lock(verl_rundir_t *rundir, bool again, verl_error_t *error)
{
    char path[4200], pid[32];
    struct stat status;
    if (stat(rundir->path, &status))
        return verl_error_errno(error, "cannot use %s", rundir->path);
    rundir->device = status.st_dev;
    rundir->inode = status.st_ino;
    snprintf(path, sizeof path, "%s/lock", rundir->path);
    rundir->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (rundir->lock_fd < 0)
        return verl_error_errno(error, "cannot write %s", path);
    if (flock(rundir->lock_fd, LOCK_EX | LOCK_NB))
        return s_refuse_living(rundir, again, error);
    int length = snprintf(pid, sizeof pid, "%d\n", getpid());
    if (ftruncate(rundir->lock_fd, 0) || write(rundir->lock_fd, pid, (size_t) length) != length)
        return verl_error_errno(error, "cannot write %s", path);
    return 0;
}

// Does it hold a run, or what is left of one?
static bool
s_holds_run(const verl_rundir_t *rundir)
{
    char metrics[4200], topology[4200];
    snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", rundir->path);
    snprintf(topology, sizeof topology, "%s/topology.toml", rundir->path);
    return access(metrics, F_OK) == 0 || access(topology, F_OK) == 0;
}

static bool
s_is_empty(const char *path)
{
    bool empty = true;
    DIR *entries = opendir(path);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        empty &= strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (entries)
        closedir(entries);
    return entries && empty;
}

// One with other things in it is for others too: what of it may be seen stays theirs to say.
static int
s_own(const char *path, const struct stat *status, verl_error_t *error)
{
    if (status->st_uid != geteuid() || (status->st_mode & 07777) == 0700 || !s_is_empty(path))
        return 0;
    if (chmod(path, 0700) == 0 || errno == EPERM || errno == EOPNOTSUPP)
        return 0;                           // a file system may have no modes
    return verl_error_errno(error, "cannot keep %s from other users", path);
}

int
verl_rundir_reopen(verl_rundir_t *rundir, const char *path, verl_error_t *error)
{
    char absolute[PATH_MAX], topology[4200];
    *rundir = (verl_rundir_t) { .lock_fd = -1 };
    if (!realpath(path, absolute) || strlen(absolute) >= sizeof rundir->path)
        return verl_error_errno(error, "cannot go on in %s", path);
    memcpy(rundir->path, absolute, strlen(absolute) + 1);
    snprintf(topology, sizeof topology, "%s/topology.toml", rundir->path);
    if (access(topology, F_OK))
        return verl_error_set(error, "%s holds no run: --resume names the directory of one", path);
    return s_lock(rundir, true, error);
}

int
verl_rundir_open(verl_rundir_t *rundir, const char *path, const char *run_name, verl_error_t *error)
{
    char named[4000], absolute[PATH_MAX];
    *rundir = (verl_rundir_t) { .lock_fd = -1 };
    if (!path) {
        if (s_make_named(named, sizeof named, run_name, error))
            return -1;
        path = named;
        rundir->made = true;
    } else {
        if (s_make_parents(path, error))
            return -1;
        rundir->made = mkdir(path, 0700) == 0;
        if (!rundir->made && errno != EEXIST)
            return verl_error_errno(error, "cannot make %s", path);
    }
    if (!realpath(path, absolute) || strlen(absolute) >= sizeof rundir->path)
        return verl_error_errno(error, "cannot use %s", path);
    struct stat status;
    if (stat(absolute, &status))
        return verl_error_errno(error, "cannot use %s", path);
    if (!S_ISDIR(status.st_mode))
        return verl_error_set(error, "%s is no directory: name another --run-dir", path);
    memcpy(rundir->path, absolute, strlen(absolute) + 1);
    if (s_holds_run(rundir))
        return verl_error_set(error, "%s holds a run already: name another --run-dir", rundir->path);
    if (!rundir->made && s_own(rundir->path, &status, error))
        return -1;
    return s_lock(rundir, false, error);
}

int
verl_rundir_check(const verl_rundir_t *rundir, verl_error_t *error)
{
    struct stat there;
    if (stat(rundir->path, &there) == 0 && rundir->inode == there.st_ino && rundir->device == there.st_dev)
        return 0;
    return verl_error_set(error, "the directory of the run, %s, was removed while the run went on: its metrics, logs and "
                          "checkpoints are lost", rundir->path);
}

void
verl_rundir_close(verl_rundir_t *rundir)
{
    if (rundir->lock_fd >= 0)
        close(rundir->lock_fd);
    rundir->lock_fd = -1;
}
