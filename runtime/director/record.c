// record.c: see record.h.
#include "runtime/director/record.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct verl_record {
    char *directory;
    int   metrics_fd, log_fd;
};

static int
s_open(const char *directory, const char *name, verl_error_t *error)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : verl_error_errno(error, "cannot write %s", path);
}

static int
s_make(const char *directory, const char *name, verl_error_t *error)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return mkdir(path, 0700) && errno != EEXIST ? verl_error_errno(error, "cannot make %s", path) : 0;
}

verl_record_t *
verl_record_new(const char *directory, verl_error_t *error)
{
    verl_record_t *self = calloc(1, sizeof *self);
    if (!self || !(self->directory = strdup(directory))) {
        free(self);
        verl_error_set(error, "out of memory");
        return NULL;
    }
    self->log_fd = -1;
    self->metrics_fd = s_open(directory, "metrics.jsonl", error);
    if (self->metrics_fd < 0 || (self->log_fd = s_open(directory, "run.log", error)) < 0 ||
        s_make(directory, "logs", error) || s_make(directory, "checkpoints", error))
        verl_record_destroy(&self);
    return self;
}

void
verl_record_destroy(verl_record_t **record_p)
{
    verl_record_t *self = *record_p;
    if (!self)
        return;
    *record_p = NULL;
    if (self->metrics_fd >= 0)
        close(self->metrics_fd);
    if (self->log_fd >= 0)
        close(self->log_fd);
    free(self->directory);
    free(self);
}

// --- lines --------------------------------------------------------------------------------------------------------

// In one write. What a full disk cut off is taken away again.
static int
s_write_line(int fd, const json_t *line)
{
    char *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (!text) {
        errno = ENOMEM;
        return -1;
    }
    size_t size = strlen(text);
    text[size] = '\n';                      // where the terminating zero was
    ssize_t written = write(fd, text, size + 1);
    int number = errno;
    free(text);
    if (written == (ssize_t) size + 1)
        return 0;
    off_t end = lseek(fd, 0, SEEK_END);
    if (written > 0 && end >= written && ftruncate(fd, end - written))
        return -1;
    errno = written < 0 ? number : ENOSPC;
    return -1;
}

int
verl_record_metrics(verl_record_t *self, const json_t *line, verl_error_t *error)
{
    return s_write_line(self->metrics_fd, line)
               ? verl_error_errno(error, "cannot write %s/metrics.jsonl", self->directory) : 0;
}

static json_t *
s_event(const char *event, json_t *fields)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    json_t *line = json_object();
    json_object_set_new(line, "t", json_real((double) now.tv_sec + (double) now.tv_nsec / 1e9));
    json_object_set_new(line, "event", json_string(event));
    if (fields)
        json_object_update(line, fields);
    json_decref(fields);
    return line;
}

void
verl_record_event(verl_record_t *self, const char *event, json_t *fields)
{
    json_t *line = s_event(event, fields);
    s_write_line(self->log_fd, line);
    json_decref(line);
}

int
verl_record_commit(verl_record_t *self, const char *event, json_t *fields, verl_error_t *error)
{
    off_t end = lseek(self->log_fd, 0, SEEK_END);
    if (!fields)
        return verl_error_set(error, "no memory for a line of %s/run.log", self->directory);
    json_t *line = s_event(event, fields);
    bool written = end >= 0 && s_write_line(self->log_fd, line) == 0;
    json_decref(line);
    if (written && fsync(self->log_fd) == 0)
        return 0;
    int number = errno;
    if (written && ftruncate(self->log_fd, end))
        return verl_error_errno(error, "cannot take a line back from %s/run.log", self->directory);
    errno = number;
    return verl_error_errno(error, "cannot write %s/run.log", self->directory);
}

static int
s_sync_path(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void) info;
    (void) walk;
    int fd = open(path, (type == FTW_DP || type == FTW_D ? O_DIRECTORY : 0) | O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int failed = fsync(fd);
    close(fd);
    return failed;
}

static int
s_sync_directory(const char *path)
{
    return s_sync_path(path, NULL, FTW_D, NULL);
}

// Writes a file beside its place and renames it.
static int
s_write_whole(const char *path, const char *text, size_t size, verl_error_t *error)
{
    char beside[4300];
    snprintf(beside, sizeof beside, "%s.tmp", path);
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t done = 0;
    while (fd >= 0 && done < size) {
        ssize_t more = write(fd, text + done, size - done);
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            break;
        done += (size_t) more;
    }
    bool bad = fd < 0 || done < size || fsync(fd);
    if (fd >= 0 && close(fd))
        bad = true;
    if (!bad && rename(beside, path) == 0)
        return 0;
    verl_error_errno(error, "cannot write %s", path);
    unlink(beside);
    return -1;
}

int
verl_record_topology(verl_record_t *self, int64_t revision, const char *text, size_t size, verl_error_t *error)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/topology-%lld.toml", self->directory, (long long) revision);
    if (s_write_whole(path, text, size, error))
        return -1;
    if (s_sync_directory(self->directory) == 0)
        return 0;
    verl_error_errno(error, "cannot write %s", path);
    unlink(path);
    return -1;
}

void
verl_record_drop_topology(verl_record_t *self, int64_t revision)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/topology-%lld.toml", self->directory, (long long) revision);
    unlink(path);
}

// Where the lines that stay end.
static size_t
s_kept(const char *text, size_t size, int64_t first)
{
    size_t kept = 0;
    while (kept < size) {
        const char *end = memchr(text + kept, '\n', size - kept);
        json_t *line = end ? json_loadb(text + kept, (size_t) (end - text) - kept, 0, NULL) : NULL;
        const json_t *step = json_object_get(line, "step");
        bool stays = json_is_integer(step) && json_integer_value(step) < first;
        json_decref(line);
        if (!stays)
            break;
        kept = (size_t) (end - text) + 1;
    }
    return kept;
}

int
verl_record_cut(verl_record_t *self, int64_t first, verl_error_t *error)
{
    char path[4200];
    struct stat info;
    snprintf(path, sizeof path, "%s/metrics.jsonl", self->directory);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    char *text = fd >= 0 && fstat(fd, &info) == 0 ? malloc((size_t) info.st_size + 1) : NULL;
    ssize_t got = text ? pread(fd, text, (size_t) info.st_size, 0) : -1;
    bool bad = got < 0 || ftruncate(fd, (off_t) s_kept(text, (size_t) got, first));
    int number = errno;
    free(text);
    if (fd >= 0)
        close(fd);
    errno = number;
    return bad ? verl_error_errno(error, "cannot cut %s", path) : 0;
}

// --- checkpoints --------------------------------------------------------------------------------------------------

int
verl_record_begin_checkpoint(verl_record_t *self, int64_t step, verl_error_t *error)
{
    char name[64];
    snprintf(name, sizeof name, "checkpoints/step-%lld.tmp", (long long) step);
    return s_make(self->directory, name, error);
}

static int
s_remove_path(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void) info;
    (void) type;
    (void) walk;
    return remove(path);
}

// Renames `from` to `path`. A directory that is there already changes places with it before it is removed.
static int
s_put(const char *from, const char *path)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, path, RENAME_EXCHANGE) == 0)
        return nftw(from, s_remove_path, 16, FTW_DEPTH | FTW_PHYS);
    if (errno != ENOENT)                    // a file system that cannot exchange
        nftw(path, s_remove_path, 16, FTW_DEPTH | FTW_PHYS);
    return rename(from, path);
}

void
verl_record_drop_handover(verl_record_t *self, int64_t revision)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/handover-%lld", self->directory, (long long) revision);
    nftw(path, s_remove_path, 16, FTW_DEPTH | FTW_PHYS);
}

static int
s_compare_steps(const void *a, const void *b)
{
    long long x = *(const long long *) a, y = *(const long long *) b;
    return (x > y) - (x < y);
}

// Removes step-N, which is step-N.tmp from the first moment on: half of a checkpoint never goes by its name.
static void
s_remove_step(const verl_record_t *self, long long step)
{
    char path[4096], doomed[4096];
    snprintf(path, sizeof path, "%s/checkpoints/step-%lld", self->directory, step);
    snprintf(doomed, sizeof doomed, "%s/checkpoints/step-%lld.tmp", self->directory, step);
    if (rename(path, doomed) == 0)
        nftw(doomed, s_remove_path, 16, FTW_DEPTH | FTW_PHYS);
}

// All but the last `keep`.
static void
s_prune(const verl_record_t *self, int64_t keep)
{
    char path[4096];
    long long steps[4096];
    size_t count = 0;
    snprintf(path, sizeof path, "%s/checkpoints", self->directory);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory)) && count < 4096;) {
        int end = 0;
        if (sscanf(entry->d_name, "step-%lld%n", &steps[count], &end) == 1 && !entry->d_name[end])
            count++;
    }
    if (directory)
        closedir(directory);
    qsort(steps, count, sizeof *steps, s_compare_steps);
    for (size_t i = 0; keep > 0 && i + (size_t) keep < count; i++)
        s_remove_step(self, steps[i]);
}

int
verl_record_end_checkpoint(verl_record_t *self, int64_t step, json_t *manifest, int64_t keep, char *path,
                           size_t path_size, verl_error_t *error)
{
    char from[4096], file[4200], parent[4096];
    snprintf(parent, sizeof parent, "%s/checkpoints", self->directory);
    snprintf(from, sizeof from, "%s/checkpoints/step-%lld.tmp", self->directory, (long long) step);
    snprintf(file, sizeof file, "%s/manifest.json", from);
    snprintf(path, path_size, "%s/checkpoints/step-%lld", self->directory, (long long) step);
    int failed = json_dump_file(manifest, file, JSON_INDENT(2));
    json_decref(manifest);
    if (failed || nftw(from, s_sync_path, 16, FTW_DEPTH | FTW_PHYS) || s_put(from, path) || s_sync_directory(parent))
        return verl_error_errno(error, "cannot write the checkpoint %s", path);
    s_prune(self, keep);
    return 0;
}

// What is called by a number between `before` and `after` in a directory of the run.
static void
s_drop_all(const verl_record_t *self, const char *place, const char *before, const char *after)
{
    char path[4096], name[256], doomed[4500];
    snprintf(path, sizeof path, "%s/%s", self->directory, place);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        const char *digits = entry->d_name + strlen(before);
        if (strncmp(entry->d_name, before, strlen(before)) != 0)
            continue;
        snprintf(name, sizeof name, "%s%lld%s", before, strtoll(digits, NULL, 10), after);
        snprintf(doomed, sizeof doomed, "%s/%s", path, name);
        if (strcmp(entry->d_name, name) == 0)
            nftw(doomed, s_remove_path, 16, FTW_DEPTH | FTW_PHYS);
    }
    if (directory)
        closedir(directory);
}

void
verl_record_drop_unfinished(verl_record_t *self)
{
    s_drop_all(self, "checkpoints", "step-", ".tmp");
    s_drop_all(self, ".", "handover-", "");
}
